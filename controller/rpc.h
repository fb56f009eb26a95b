/*
 * JSON-RPC 2.0 on one connection. [libevent]
 *
 * Requests run at once and are answered as they end. A client that does not read its answers is not read from either, its
 * commands' output waits in the sandbox, and each answer for those before it; others do not notice. At the end of input
 * running commands get a moment to end by themselves and are killed then; lifecycle operations are finished. A client that
 * takes none of its answers for a minute after that is dropped. The sandboxes stay.
 */
#ifndef CONTROLLER_RPC_H
#define CONTROLLER_RPC_H

#include "controller/controller.h"

struct rpc;

struct rpc_events {
	void (*ended)(void *arg); /* nothing more is read, and what runs comes to its end; may be NULL */
	void (*closed)(void *arg); /* from the loop, once, after that */
};

/* in and out may be the same descriptor; both become the connection's. */
struct rpc *rpc_new(struct controller *c, int in, int out, int64_t grace_ms, const struct rpc_events *events,
	void *arg);
/* As if the input had ended. */
void rpc_end(struct rpc *r);
/* After its end: a client that does not read is waited for only seconds now, not a minute. */
void rpc_hurry(struct rpc *r);
void rpc_free(struct rpc *r);

#endif
