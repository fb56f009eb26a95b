/*
 * One invocation of a method, whoever asked for it: a client of serve, or the command line. [libevent]
 *
 * A call ends with exactly one call_result() or call_error(), from the loop; it is gone after that. What it has to say in
 * between goes through call_notify(), or for a command's raw bytes through the owner's output().
 */
#ifndef CONTROLLER_CALL_H
#define CONTROLLER_CALL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "controller/controller.h"
#include "controller/mem.h"
#include "libgate/err.h"
#include "libgate/json.h"

struct batch;
struct call;
struct method;

struct call_owner {
	/* result and data are the owner's. data: further members of the error's data; or NULL. */
	void (*result)(struct call *call, struct json_object *result);
	void (*error)(struct call *call, const struct err *err, struct json_object *data);
	void (*notify)(struct call *call, const char *method, struct json_object *params);
	/* The client does not keep up: output is held back until drained(). NULL: never. */
	bool (*congested)(const struct call *call);
	/* Takes output as bytes instead of having it captured or notified; NULL: does not. */
	void (*output)(struct call *call, enum exec_stream stream, struct slice data);
	/* Another running call of the same client, by its request id; NULL: none. */
	struct call *(*find)(struct call *call, const struct json_node *id);
};

struct call {
	TAILQ_ENTRY(call) link; /* the owner's */
	struct controller *controller;
	const struct call_owner *owner;
	void *owner_arg;
	const struct method *method;
	struct json_object *id; /* NULL: a notification, or the command line */
	char *text; /* of the request; root and params borrow from it */
	struct json_doc *doc;
	const struct json_node *root; /* the whole text */
	const struct json_node *params; /* an object, or NULL */
	/* While the method can do it; NULL otherwise. */
	void (*cancel)(struct call *call);
	void (*drained)(struct call *call);
	int (*input)(struct call *call, struct slice data, bool close, struct err *err);
	int (*resize)(struct call *call, uint16_t rows, uint16_t cols, struct err *err);
	/* Command line: bytes of input that can be taken now. */
	void (*room)(struct call *call, size_t bytes);
	void *state;
	struct batch *batch; /* the owner's: the batch that the request came in */
	bool to_cancel; /* the owner's: it is among those that it is cancelling */
	bool to_drain; /* the owner's: it is among those whose output goes on */
	bool held; /* the owner's: it is over, and its answer waits until the client keeps up */
	struct json_object *answer; /* held; NULL: it has none */
};

TAILQ_HEAD(call_list, call);

/* A call with a copy of text, parsed; its root are the params until the owner says better. NULL: not strict JSON. */
struct call *call_new(struct controller *c, const struct call_owner *owner, void *owner_arg, struct slice text,
	enum json_fault *fault) MUSTCHECK;
void call_free(struct call *call);

void call_result(struct call *call, struct json_object *result);
void call_error(struct call *call, const struct err *err, struct json_object *data);
void call_fail(struct call *call, int code, const char *fmt, ...) PRINTF(3, 4);
bool call_congested(const struct call *call);
void call_notify(struct call *call, const char *method, struct json_object *params);

/* The sandbox that parameter `key` names, checked; -1 with the call ended. */
int call_sandbox_name(struct call *call, const char *key, struct slice *name) MUSTCHECK;

#endif
