/*
 * JSON-RPC 2.0 on one connection. [libevent]
 *
 * Requests run at once and are answered as they end. A client that does not read its answers is not read from either, and
 * its commands' output waits in the sandbox; others do not notice. At the end of input running commands get a moment to
 * end by themselves and are killed then; lifecycle operations are finished. The sandboxes stay.
 */
#ifndef CONTROLLER_RPC_H
#define CONTROLLER_RPC_H

#include "controller/controller.h"

struct rpc;

/* in and out may be the same descriptor; both become the connection's. closed() comes from the loop, once. */
struct rpc *rpc_new(struct controller *c, int in, int out, int64_t grace_ms, void (*closed)(void *arg), void *arg);
/* As if the input had ended. */
void rpc_end(struct rpc *r);
void rpc_free(struct rpc *r);

#endif
