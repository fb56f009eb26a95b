/*
 * Starts an exec with a hijacked connection: POST /exec/ID/start with Upgrade, on a connection of its own. [libevent]
 *
 * The result is the connected socket after the 101, with the bytes that were read beyond the head, or the engine's
 * refusal. Until the request was sent nothing has started; after that, without an answer, whether it has is unknown.
 */
#ifndef CONTROLLER_HIJACK_H
#define CONTROLLER_HIJACK_H

#include "controller/engine.h"

struct hijack;

struct hijack_result {
	int fd; /* non-blocking, the callback's; -1 when refused or failed */
	struct slice early; /* bytes of the stream that came with the head */
	bool maybe_started; /* with fd -1 */
	int status; /* with fd -1: of the engine's own answer, 0 otherwise */
	struct err err; /* with fd -1 */
};

typedef void (*hijack_cb)(const struct hijack_result *result, void *arg);

/* timeout_ms is for the connection, and again for the answer to begin and go on. The engine's version must be negotiated. */
struct hijack *hijack_exec(struct engine *e, const char *exec_id, bool tty, int64_t timeout_ms, hijack_cb cb,
	void *arg);
void hijack_cancel(struct hijack *h);

#endif
