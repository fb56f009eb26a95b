/*
 * The worker's end of the line to the master. [libevent]
 *
 * A confined worker can neither open a file nor make or connect a socket. What it needs of that kind the master does, and
 * hands the descriptor over: connections to the engine on request, the audit log after its rotation. When the master is
 * gone the worker drains.
 */
#ifndef DOCKERPROXY_LINK_H
#define DOCKERPROXY_LINK_H

#include <stdbool.h>

#include "libgate/util.h"

struct event_base;
struct link;
struct link_dial;

struct link_handlers {
	/*
	 * Take no new connections, close idle ones, end when the last one ended. bounded: within timeouts.drain (the
	 * program stops); otherwise for as long as it takes (a reload: newer workers serve). Each kind is told at most once,
	 * the bounded one possibly after the other.
	 */
	void (*drain)(bool bounded, void *arg);
	/* The descriptor that the audit log is to use from now on; passes to the callee. */
	void (*audit)(int fd, void *arg);
};

/* Takes over fd. NULL on lack of memory: fd then stays the caller's. */
struct link *link_new(struct event_base *base, int fd, const struct link_handlers *handlers, void *arg) MUSTCHECK;
void link_free(struct link *link); /* outstanding dials are dropped without a call */

void link_ready(struct link *link); /* once: the worker serves */

void link_audit_lost(struct link *link); /* asks for handlers.audit; at most once a second is passed on */

/* fd: connected, non-blocking, close-on-exec, the callee's; or -1 and error is an errno value (ETIMEDOUT, ECONNREFUSED …). */
typedef void (*link_connect_cb)(int fd, int error, void *arg);

/* Asks for a connection to the engine. cb is called later, from the loop, exactly once unless cancelled. NULL: out of
 * memory, or the master is gone. */
struct link_dial *link_connect(struct link *link, link_connect_cb cb, void *arg) MUSTCHECK;
void link_cancel(struct link_dial *dial);

#endif
