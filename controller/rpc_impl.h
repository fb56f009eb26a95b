/*
 * What the parts of a JSON-RPC connection share: rpc.c reads and ends it, rpc_request.c takes its messages, rpc_call.c is the
 * owner of its calls, rpc_send.c is the way out. [libevent]
 *
 * The connection owns its calls, which own their ids and texts; a batch lives until the last of its answers is there and
 * owns those. A message that is handed on to be sent is the callee's. Whatever sends may find that the client is gone: then
 * commands are told to end, and calls may be over when it returns. The connection itself is freed only after closed().
 */
#ifndef CONTROLLER_RPC_IMPL_H
#define CONTROLLER_RPC_IMPL_H

#include <event2/event.h>

#include "controller/call.h"
#include "controller/framing.h"
#include "controller/rpc.h"
#include "libgate/buf.h"

/* Bytes that wait for a client: one answer at its longest (two streams of 64 MiB in base64), and little beside it. */
#define RPC_OUT_MAX ((size_t)192 << 20)

enum rpc_code {
	RPC_PARSE = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_NO_METHOD = -32601,
	RPC_INVALID_PARAMS = -32602,
};

/* Answers to a batch are one array, sent when the last is there. */
struct batch {
	unsigned pending;
	struct json_object *answers;
};

struct rpc {
	struct controller *controller;
	int in, out;
	bool out_is_socket;
	struct event *read_event;
	struct event *write_event;
	struct event *grace; /* commands are killed when it runs out */
	struct event *stall; /* after the end of input: the client takes nothing of what waits for it */
	int stall_seconds;
	struct event *close_event; /* reports closed() from the loop */
	struct framing framing;
	struct buf in_buf;
	struct buf out_buf;
	struct call_list calls;
	unsigned ncalls;
	bool input_ended, output_failed, congested, reported;
	bool draining; /* what was held back is being sent */
	bool taking; /* a message is being taken: its batch, if it is one, is not whole yet */
	struct call *shutdown; /* answered when the rest has ended */
	int64_t grace_ms;
	const struct rpc_events *events;
	void *arg;
};

/* rpc.c */
void rpc_update_reading(struct rpc *r); /* reads on, or not, as the state is now */
void rpc_check_end(struct rpc *r); /* reports the end when nothing is left to do */
void rpc_watch_stall(struct rpc *r); /* the client has taken some of its answers, or now is the time to count from */
void rpc_drop_output(struct rpc *r); /* rpc_send.c: the client is gone, or as good as that */
void rpc_kill_calls(struct rpc *r); /* those that can be cancelled */

/* rpc_request.c: one message, which is not kept; an empty one is passed over. */
void rpc_take_message(struct rpc *r, struct slice message);

/* rpc_call.c */
extern const struct call_owner rpc_calls; /* owner_arg is the connection */
struct call *rpc_find_call(struct rpc *r, const struct json_node *id); /* NULL: none is running under this id */
void rpc_let_go(struct call *call); /* a held one */

/* rpc_send.c. b: the batch that was asked in; NULL: none. */
struct json_object *rpc_message(void); /* with the version alone */
struct json_object *rpc_error(int code, const char *text, const char *kind, struct json_object *data);
void rpc_send(struct rpc *r, struct json_object *message);
void rpc_answer(struct rpc *r, struct batch *b, struct json_object *message); /* NULL: a notification has none */
void rpc_answer_error(struct rpc *r, struct batch *b, struct json_object *id, int code, const char *text);
void rpc_on_writable(evutil_socket_t fd, short what, void *arg);

#endif
