/*
 * Commands and files by one engine exec each, with the scripts of script.h in place of the runner. [libevent]
 *
 * One backend serves one container as one user. It does not start a container that is not running: such an operation
 * ends as a start failure with EBUSY, and its owner decides.
 */
#ifndef CONTROLLER_ENGINE_EXEC_H
#define CONTROLLER_ENGINE_EXEC_H

#include "controller/channel.h"
#include "controller/engine.h"
#include "controller/exec_backend.h"

#define SANDBOX_USER "1000:1000"

struct exec_backend *engine_exec_new(struct engine *e, struct channel_set *channels, const char *container,
	const char *user) MUSTCHECK;

/* True when no operation is open: it may be freed without ending any. */
bool engine_exec_idle(const struct exec_backend *b);

#endif
