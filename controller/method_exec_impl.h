/*
 * What the parts of exec share: method_exec.c is the course of a command, method_exec_request.c reads what is asked,
 * method_exec_input.c and method_exec_output.c are its streams, method_exec_kill.c ends it early, method_exec_result.c says
 * how it ended. [libevent]
 *
 * A command belongs to its call until method_exec_fail() or its result, which free it before they end the call; it stands
 * in its sandbox's list all that time and holds the sandbox. argv, tag and cwd borrow from the call's text. The operation
 * belongs to the backend, and is gone once on_done() was called.
 */
#ifndef CONTROLLER_METHOD_EXEC_IMPL_H
#define CONTROLLER_METHOD_EXEC_IMPL_H

#include <event2/event.h>

#include "controller/call.h"
#include "controller/ensure.h"
#include "libgate/buf.h"

#define ARGV_MAX 1024
#define ENV_MAX 256

struct stream {
	struct buf captured; /* with stream: what the client has no room for */
	char partial[4]; /* of a character, streamed with the next chunk */
	size_t npartial;
};

struct command {
	TAILQ_ENTRY(command) link; /* the sandbox's */
	struct call *call;
	struct sandbox *sandbox;
	struct ensure *ensure;
	struct exec_op *op;
	struct exec_backend *backend;
	struct event *timer;
	/* the request */
	struct slice argv[ARGV_MAX];
	struct slice env[ENV_MAX];
	char *env_text[ENV_MAX];
	struct exec_request request;
	char id[48];
	bool as_root;
	bool stream;
	bool keep_input; /* open for execInput */
	char *input; /* bytes to send first */
	size_t ninput, input_sent;
	/* its course */
	struct refusals refusals;
	bool timed_out, aborted, killing;
	bool restarted; /* the sandbox was, to end it */
	struct restart *restart; /* under way */
	bool overrun; /* more output came than was asked for */
	bool marked; /* a kill by tag or of all was meant for it */
	bool input_closed;
	struct buf later; /* execInput before there was room */
	struct stream streams[EXEC_STREAMS];
	size_t unconsumed;
	bool ended; /* as `end` says, which is told when the client has taken the output before it */
	struct exec_outcome end;
	char end_text[ERR_TEXT_MAX];
	uint64_t seq;
	int64_t began_ms;
};

/* method_exec.c: frees the command and ends the call. data is the callee's, or NULL. */
void method_exec_fail(struct command *c, int code, const char *text, struct json_object *data);

/* method_exec_request.c; -1: a parameter is wrong, and err names it. */
int method_exec_read(struct command *c, const struct json_node *p, struct err *err) MUSTCHECK;

/* method_exec_input.c; the middle two are a call's input and resize. */
void method_exec_on_room(size_t bytes, void *arg);
int method_exec_take_input(struct call *call, struct slice data, bool close, struct err *err);
int method_exec_take_size(struct call *call, uint16_t rows, uint16_t cols, struct err *err);

/* method_exec_output.c */
extern const char *const method_exec_streams[EXEC_STREAMS];
void method_exec_on_output(enum exec_stream stream, struct slice data, void *arg);
bool method_exec_keeps_output(const struct command *c); /* to be told when the client has room: before the end is */
void method_exec_flush(struct command *c, unsigned stream); /* no more output comes */
void method_exec_on_drained(struct call *call);

/* method_exec.c: the command has ended. */
void method_exec_over(struct command *c, const struct exec_outcome *o);

/* method_exec_kill.c */
void method_exec_arm(struct command *c, int64_t ms, event_callback_fn fn); /* the command's one timer */
void method_exec_on_timeout(evutil_socket_t fd, short what, void *arg);
void method_exec_abort(struct call *call);
/* true: a restart is under way, and what the loss of the command means is told when that has ended. */
bool method_exec_await_restart(struct command *c, const struct exec_outcome *o);
void method_exec_leave_restart(struct command *c);

/* method_exec_result.c */
struct json_object *method_exec_result(struct command *c, const struct exec_outcome *o); /* the caller's */
/* A start that failed by the command's own fault is told as a shell tells it: o becomes such an end. false: it is none. */
bool method_exec_shell_status(struct command *c, struct exec_outcome *o);

#endif
