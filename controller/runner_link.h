/*
 * Starts the runner in a container by an engine exec and finds out what became of it when it falls silent. [libevent]
 *
 * The backend is the runner's. One that meets a container that is not running, or none, fails with EBUSY or ENXIO, as
 * engine_exec does.
 */
#ifndef CONTROLLER_RUNNER_LINK_H
#define CONTROLLER_RUNNER_LINK_H

#include "controller/channel.h"
#include "controller/engine.h"
#include "controller/exec_backend.h"

/* recover: operations wait in a container that is paused; make it run again. */
struct exec_backend *runner_link_new(struct engine *e, struct channel_set *channels, const char *container,
	void (*recover)(void *arg), void *arg) MUSTCHECK;

#endif
