/*
 * Connections to the engine, and one exchange (request and answer) on each at a time. [libevent]
 *
 * A finite exchange may reuse a connection that an earlier one left in good order; UPSTREAM_FRESH asks for a new one that is
 * never reused (hijacks). A reused connection that turns out to be dead before a byte of the answer came is replaced once,
 * for requests that may be repeated (GET, HEAD) or that were not sent at all; others fail with UPSTREAM_GONE.
 *
 * Lifetimes: upstream_start() returns an exchange that lives until end() or fail() was called, or the caller ended it with
 * upstream_abort() or upstream_take(). The callbacks may call either of these, and may start other exchanges.
 */
#ifndef DOCKERPROXY_UPSTREAM_H
#define DOCKERPROXY_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/http1.h"
#include "libgate/slice.h"
#include "libgate/util.h"

struct event_base;
struct upstream;
struct upstream_exchange;

/* How a connection comes to be. done() is called once, also from within dial(); fd is connected and non-blocking, or -1. */
typedef void (*upstream_dialled_cb)(int fd, int error, void *arg);
struct upstream_dialer {
	void (*dial)(void *self, upstream_dialled_cb done, void *arg);
	void *self;
	bool direct; /* a unix socket, the engine's own end: to send to one that was closed fails and delivers nothing */
};

enum upstream_fault {
	UPSTREAM_UNREACHABLE, /* no connection */
	UPSTREAM_GONE, /* closed before the answer was complete */
	UPSTREAM_MALFORMED, /* the answer is not HTTP as RFC 9112 wants it */
};

struct upstream_events {
	/* The final head: upstream_head() and upstream_head_bytes() are valid during the call. */
	void (*head)(void *arg);
	/* A run of body bytes, valid until the next flush(), end() or fail() returned. */
	void (*data)(void *arg, struct slice run);
	/* All that one read brought was handed out, and more will come. */
	void (*flush)(void *arg);
	/* The answer is complete; the exchange is gone. */
	void (*end)(void *arg);
	/* The exchange is gone. detail: for the log. */
	void (*fail)(void *arg, enum upstream_fault fault, const char *detail);
};

enum upstream_flags {
	UPSTREAM_FRESH = 1 << 0, /* a new connection, not kept afterwards */
	UPSTREAM_REPEATABLE = 1 << 1, /* the request may be sent twice */
};

/* head and body are borrowed until head(), end() or fail(). */
struct upstream_request {
	enum http_method method;
	struct slice head;
	struct slice body;
	unsigned flags;
};

struct upstream_stats {
	uint64_t connects;
	uint64_t reuses;
	uint64_t retries;
	uint64_t faults;
	uint64_t losses; /* connections that the engine ended or refused, idle ones too */
	unsigned active;
	unsigned idle;
};

struct upstream *upstream_new(struct event_base *base, const struct upstream_dialer *dialer,
	unsigned max_idle) MUSTCHECK;
void upstream_free(struct upstream *u); /* no exchange may be left */
void upstream_stats(const struct upstream *u, struct upstream_stats *out);
void upstream_drop_idle(struct upstream *u);
struct slice upstream_api_version(const struct upstream *u); /* as of the engine's last answer; empty: not known */

/* Calls back from the loop only, never before it returns. NULL: no memory; nothing will be called. */
struct upstream_exchange *upstream_start(struct upstream *u, const struct upstream_request *request,
	const struct upstream_events *events, void *arg) MUSTCHECK;
const struct http_head *upstream_head(const struct upstream_exchange *x);
const char *upstream_head_bytes(const struct upstream_exchange *x);
void upstream_pause(struct upstream_exchange *x); /* read no more until upstream_resume() */
void upstream_resume(struct upstream_exchange *x);
void upstream_abort(struct upstream_exchange *x); /* closes the connection; nothing is called any more */
/* For a tunnel, from head(): hands over the descriptor, and the bytes that came after the head (valid until the return
 * from head()). The exchange is gone. */
int upstream_take(struct upstream_exchange *x, struct slice *early) MUSTCHECK;

#endif
