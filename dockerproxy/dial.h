/* Connecting to the engine, in the master. [libevent] */
#ifndef DOCKERPROXY_DIAL_H
#define DOCKERPROXY_DIAL_H

#include <stdint.h>

#include "dockerproxy/resolve.h"

struct dial;
struct event_base;

/* fd: connected, non-blocking, close-on-exec, the callee's; or -1 and error is an errno value. */
typedef void (*dial_cb)(int fd, int error, void *arg);

/*
 * Calls cb exactly once: before it returns when the outcome is known at once (a unix socket, usually), and then returns
 * NULL; otherwise later from the loop, within timeout_ms, unless cancelled. The addresses are tried in turn and borrowed.
 */
struct dial *dial_start(struct event_base *base, const struct engine_addrs *to, int64_t timeout_ms, dial_cb cb,
	void *arg);
void dial_cancel(struct dial *dial); /* NULL is fine */

#endif
