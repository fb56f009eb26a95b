/* Serves one JSON-RPC client. */
#include "controller/rpc.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "config.h"
#include "controller/call.h"
#include "controller/discover.h"
#include "controller/framing.h"
#include "controller/json_out.h"
#include "controller/kind.h"
#include "controller/method.h"
#include "libgate/log.h"

#define OUT_MAX ((size_t)128 << 20)
#define CONGESTED ((size_t)1 << 20) /* commands hold back beyond this */
#define STOP_READING ((size_t)4 << 20)
#define CALLS_MAX 1024
#define READ_SIZE 65536
#define PIPE_SIZE (1 << 20)
#define BATCH_MAX 256

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
	struct event *close_event; /* reports closed() from the loop */
	struct framing framing;
	struct buf in_buf;
	struct buf out_buf;
	struct call_list calls;
	unsigned ncalls;
	bool input_ended, output_failed, congested, reported;
	struct call *shutdown; /* answered when the rest has ended */
	int64_t grace_ms;
	void (*closed)(void *arg);
	void *arg;
};

static const struct call_owner owner;

static void update_reading(struct rpc *r);

/* --- output ------------------------------------------------------------------------------------------------------ */

static void check_end(struct rpc *r)
{
	struct timeval now = { 0, 0 };

	if (r->input_ended && r->ncalls == 0 && (buf_len(&r->out_buf) == 0 || r->output_failed) && !r->reported) {
		r->reported = true;
		event_add(r->close_event, &now);
	}
}

static void kill_calls(struct rpc *r)
{
	struct call *call, *next;

	TAILQ_FOREACH_SAFE (call, &r->calls, link, next)
		if (call->cancel != NULL)
			call->cancel(call);
}

static void output_failed(struct rpc *r)
{
	r->output_failed = true;
	buf_release(&r->out_buf);
	event_del(r->write_event);
	rpc_end(r);
	kill_calls(r);
	check_end(r);
}

static ssize_t write_some(struct rpc *r)
{
	if (r->out_is_socket)
		return send(r->out, buf_head(&r->out_buf), buf_len(&r->out_buf), MSG_NOSIGNAL | MSG_DONTWAIT);
	return write(r->out, buf_head(&r->out_buf), buf_len(&r->out_buf));
}

static void flush(struct rpc *r)
{
	while (buf_len(&r->out_buf) > 0) {
		ssize_t n = write_some(r);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			event_add(r->write_event, NULL);
			break;
		}
		if (n < 0) {
			output_failed(r);
			return;
		}
		buf_consume(&r->out_buf, (size_t)n);
	}
	buf_trim(&r->out_buf);
	if (r->congested && buf_len(&r->out_buf) < CONGESTED / 2) {
		struct call *call, *next;

		r->congested = false;
		TAILQ_FOREACH_SAFE (call, &r->calls, link, next)
			if (call->drained != NULL)
				call->drained(call);
	}
	update_reading(r);
	check_end(r);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	flush(arg);
}

/* A line is written in place; a Content-Length head has to know what follows it. */
static int put_message(struct rpc *r, struct json_object *o)
{
	struct buf text;

	if (r->framing.mode != FRAMING_HEADS)
		return json_out_put(&r->out_buf, o) != 0 ? -1 : buf_putc(&r->out_buf, '\n');
	buf_init(&text, OUT_MAX);
	int done = json_out_put(&text, o) != 0 ? -1 : framing_put(FRAMING_HEADS, &r->out_buf, buf_slice(&text));
	buf_release(&text);
	return done;
}

static void send_json(struct rpc *r, struct json_object *message)
{
	auto_json struct json_object *o = message;

	if (r->output_failed)
		return;
	if (put_message(r, o) != 0) {
		log_warn("a client that does not read its answers is dropped: %zu bytes wait", buf_len(&r->out_buf));
		output_failed(r);
		return;
	}
	if (buf_len(&r->out_buf) > CONGESTED)
		r->congested = true;
	flush(r);
}

static struct json_object *message_new(void)
{
	struct json_object *o = jnew();

	jset_cstr(o, "jsonrpc", "2.0");
	return o;
}

static struct json_object *error_object(int code, const char *text, const char *kind, struct json_object *data)
{
	struct json_object *e = jnew();

	jset_int(e, "code", code);
	jset_cstr(e, "message", text);
	if (data == NULL)
		data = jnew();
	jset_cstr(data, "kind", kind);
	jset(e, "data", data);
	return e;
}

static void batch_add(struct rpc *r, struct batch *b, struct json_object *answer)
{
	if (answer != NULL)
		jadd(b->answers, answer);
	if (--b->pending > 0)
		return;
	if (json_object_array_length(b->answers) > 0)
		send_json(r, b->answers);
	else
		json_object_put(b->answers);
	free(b);
}

static void answer(struct rpc *r, struct batch *b, struct json_object *message)
{
	if (b != NULL)
		batch_add(r, b, message);
	else if (message != NULL)
		send_json(r, message);
}

static void answer_error(struct rpc *r, struct batch *b, struct json_object *id, int code, const char *text)
{
	struct json_object *o = message_new();

	jset(o, "id", id);
	jset(o, "error", error_object(code, text, kind_id(KIND_INVALID), NULL));
	answer(r, b, o);
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

/* Ends a call; message is NULL when it was a notification. */
static void call_over(struct call *call, struct json_object *message)
{
	struct rpc *r = call->owner_arg;
	struct batch *b = call->batch;

	TAILQ_REMOVE(&r->calls, call, link);
	r->ncalls--;
	call_free(call);
	answer(r, b, message);
	if (r->shutdown != NULL && r->ncalls == 1 && TAILQ_FIRST(&r->calls) == r->shutdown)
		call_result(r->shutdown, jnew());
	update_reading(r);
	check_end(r);
}

static void on_result(struct call *call, struct json_object *result)
{
	struct rpc *r = call->owner_arg;
	struct json_object *o = NULL;
	bool last = call == r->shutdown;

	if (call->id != NULL) {
		o = message_new();
		jset(o, "id", json_object_get(call->id));
		jset(o, "result", result);
	} else {
		json_object_put(result);
	}
	if (last)
		r->shutdown = NULL;
	call_over(call, o);
	if (last)
		rpc_end(r);
}

static void on_error(struct call *call, const struct err *err, struct json_object *data)
{
	struct json_object *o = NULL;
	enum kind kind = kind_of(err->code);

	if (call->id != NULL) {
		o = message_new();
		jset(o, "id", json_object_get(call->id));
		jset(o, "error", error_object(kind_rpc_code(kind), err->text, kind_id(kind), data));
	} else {
		json_object_put(data);
	}
	call_over(call, o);
}

static void on_notify(struct call *call, const char *method, struct json_object *params)
{
	struct json_object *o = message_new();

	jset_cstr(o, "method", method);
	jset(o, "params", params);
	send_json(call->owner_arg, o);
}

static bool is_congested(const struct call *call)
{
	const struct rpc *r = call->owner_arg;

	return r->congested;
}

static bool same_id(const struct json_object *a, const struct json_node *b)
{
	if (a == NULL || b == NULL)
		return false;
	if (b->type == JSON_STRING)
		return json_object_is_type(a, json_type_string) &&
			slice_eq(slice_make(json_object_get_string((struct json_object *)a), (size_t)json_object_get_string_len(a)),
				b->text);
	return b->type == JSON_INT && json_object_is_type(a, json_type_int) && json_object_get_int64(a) == b->integer;
}

static struct call *find_call(struct rpc *r, const struct json_node *id)
{
	struct call *call;

	TAILQ_FOREACH (call, &r->calls, link)
		if (same_id(call->id, id))
			return call;
	return NULL;
}

static struct call *on_find(struct call *call, const struct json_node *id)
{
	return find_call(call->owner_arg, id);
}

static const struct call_owner owner = {
	.result = on_result,
	.error = on_error,
	.notify = on_notify,
	.congested = is_congested,
	.find = on_find,
};

/* --- what the connection itself answers -------------------------------------------------------------------------- */

static void do_initialize(struct rpc *r, struct call *call)
{
	struct json_object *o = jnew();

	jset_cstr(o, "protocol", "sandbox@1");
	struct json_object *server = jobj(o, "server");
	jset_cstr(server, "name", "sandbox-controller");
	jset_cstr(server, "version", PACKAGE_VERSION);
	struct json_object *capabilities = jobj(o, "capabilities");
	static const char *const able[] = { "concurrentExec", "killTagged", "streamingOutput", "streamingInput", "tty",
		"cancel", "batch", "autoStart" };
	for (unsigned i = 0; i < ARRAY_SIZE(able); i++)
		jset_bool(capabilities, able[i], true);
	struct json_object *limits = jobj(o, "limits");
	jset_int(limits, "maxMessageBytes", (int64_t)FRAMING_MAX);
	jset_int(limits, "maxConcurrentRequests", CALLS_MAX);
	jset_int(limits, "maxBatch", BATCH_MAX);
	call_result(call, o);
}

static void do_discover(struct rpc *r, struct call *call)
{
	call_result(call, discover_document());
}

static void do_cancel(struct rpc *r, struct call *call)
{
	struct call *other = find_call(r, json_get(call->params, "id"));

	if (other != NULL && other != call && other->cancel != NULL)
		other->cancel(other);
	call_result(call, jnew());
}

static void do_shutdown(struct rpc *r, struct call *call)
{
	r->shutdown = call;
	kill_calls(r);
	event_del(r->read_event);
	if (r->ncalls == 1)
		call_result(call, jnew());
}

static const struct own_method {
	const char *name;
	void (*run)(struct rpc *r, struct call *call);
} own_methods[] = {
	{ "initialize", do_initialize },
	{ "rpc.discover", do_discover },
	{ "$/cancelRequest", do_cancel },
	{ "shutdown", do_shutdown },
};

/* --- requests ---------------------------------------------------------------------------------------------------- */

static bool read_id(const struct json_node *n, struct json_object **id)
{
	*id = NULL;
	if (n == NULL || n->type == JSON_NULL)
		return true;
	if (n->type == JSON_INT)
		*id = json_object_new_int64(n->integer);
	else if (n->type == JSON_STRING)
		*id = json_object_new_string_len(n->text.len > 0 ? n->text.p : "", (int)n->text.len);
	return *id != NULL;
}

static void dispatch(struct rpc *r, struct call *call, struct batch *b)
{
	struct slice version, name;
	struct err err = ERR_INIT;
	const char *wrong = NULL;
	const struct own_method *own = NULL;

	call->batch = b;
	call->params = json_get(call->root, "params");
	if (call->root->type != JSON_OBJECT || !json_get_string(call->root, "jsonrpc", &version) ||
		!slice_is(version, "2.0"))
		wrong = "not a JSON-RPC 2.0 request: an object with \"jsonrpc\": \"2.0\" is needed";
	else if (!read_id(json_get(call->root, "id"), &call->id))
		wrong = "an id is a string or an integer";
	else if (!json_get_string(call->root, "method", &name))
		wrong = "method is needed, and is a string";
	else if (call->id != NULL && find_call(r, json_get(call->root, "id")) != NULL)
		wrong = "a request with this id is still running";
	else if (r->ncalls >= CALLS_MAX || r->shutdown != NULL)
		wrong = r->shutdown != NULL ? "shutting down" : "too many requests are running";
	if (wrong != NULL) {
		struct json_object *id = json_object_get(call->id);
		call_free(call);
		answer_error(r, b, id, RPC_INVALID_REQUEST, wrong);
		return;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(own_methods) && own == NULL; i++)
		if (slice_is(name, own_methods[i].name))
			own = &own_methods[i];
	if (own == NULL) {
		int code = 0;

		call->method = method_find(name);
		if (call->method == NULL) {
			code = RPC_NO_METHOD;
			err_set(&err, EINVAL, "there is no method \"%.*s\"", name.len < 60 ? (int)name.len : 60, name.p);
		} else if (method_check(call->method, call->params, &err) != 0) {
			code = RPC_INVALID_PARAMS;
		}
		if (code != 0) {
			struct json_object *id = json_object_get(call->id);
			call_free(call);
			if (id != NULL)
				answer_error(r, b, id, code, err.text);
			else
				answer(r, b, NULL);
			return;
		}
	}
	TAILQ_INSERT_TAIL(&r->calls, call, link);
	r->ncalls++;
	if (own != NULL)
		own->run(r, call);
	else
		call->method->start(call);
}

static void take_batch(struct rpc *r, struct call *whole)
{
	const struct json_node *list = whole->root;
	struct batch *b;

	if (list->count == 0 || list->count > BATCH_MAX) {
		answer_error(r, NULL, NULL, RPC_INVALID_REQUEST, list->count == 0 ? "an empty batch" : "the batch is too long");
		call_free(whole);
		return;
	}
	b = mem_zalloc(sizeof(*b));
	b->answers = json_object_new_array();
	b->pending = list->count;
	for (const struct json_node *n = list->child; n != NULL; n = n->next) {
		struct buf text;
		enum json_fault fault;

		buf_init(&text, FRAMING_MAX * 2);
		struct call *call =
			json_put(&text, n) == 0 ? call_new(r->controller, &owner, r, buf_slice(&text), &fault) : NULL;
		buf_release(&text);
		if (call != NULL)
			dispatch(r, call, b);
		else
			answer_error(r, b, NULL, RPC_INVALID_REQUEST, "a member of the batch is too large");
	}
	call_free(whole);
}

static void take_message(struct rpc *r, struct slice message)
{
	enum json_fault fault = JSON_OK;
	struct call *call;
	char text[160];

	if (message.len == 0)
		return;
	call = call_new(r->controller, &owner, r, message, &fault);
	if (call == NULL) {
		snprintf(text, sizeof(text), "%s (%s)", json_fault_text(fault), json_fault_id(fault));
		answer_error(r, NULL, NULL, RPC_PARSE, text);
	} else if (call->root->type == JSON_ARRAY) {
		take_batch(r, call);
	} else {
		dispatch(r, call, NULL);
	}
}

static void take_input(struct rpc *r)
{
	struct slice message;
	size_t used;

	for (;;) {
		switch (framing_next(&r->framing, buf_slice(&r->in_buf), &message, &used)) {
		case FRAMING_MORE:
			buf_consume(&r->in_buf, used);
			buf_trim(&r->in_buf);
			return;
		case FRAMING_MESSAGE:
			take_message(r, message);
			buf_consume(&r->in_buf, used);
			break;
		case FRAMING_TOO_LONG:
			buf_consume(&r->in_buf, used);
			answer_error(r, NULL, NULL, RPC_INVALID_REQUEST, "the message is longer than limits.maxMessageBytes");
			break;
		case FRAMING_BROKEN:
			buf_clear(&r->in_buf);
			answer_error(r, NULL, NULL, RPC_PARSE, "not a Content-Length head; the connection ends");
			rpc_end(r);
			return;
		}
		if (r->output_failed || r->reported)
			return;
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rpc *r = arg;
	char *room = buf_reserve(&r->in_buf, READ_SIZE);

	if (room == NULL) {
		log_error("a request is larger than the input buffer; the connection ends");
		rpc_end(r);
		return;
	}
	ssize_t n = read(r->in, room, READ_SIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		rpc_end(r);
		return;
	}
	buf_commit(&r->in_buf, (size_t)n);
	take_input(r);
	update_reading(r);
}

static void update_reading(struct rpc *r)
{
	bool want = !r->input_ended && r->shutdown == NULL && buf_len(&r->out_buf) < STOP_READING;

	if (want && !event_pending(r->read_event, EV_READ, NULL))
		event_add(r->read_event, NULL);
	else if (!want)
		event_del(r->read_event);
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static void on_grace_over(evutil_socket_t fd, short what, void *arg)
{
	kill_calls(arg);
}

static void on_close(evutil_socket_t fd, short what, void *arg)
{
	struct rpc *r = arg;

	r->closed(r->arg);
}

void rpc_end(struct rpc *r)
{
	struct timeval tv = { r->grace_ms / 1000, (r->grace_ms % 1000) * 1000 };

	if (r->input_ended)
		return;
	r->input_ended = true;
	event_del(r->read_event);
	if (r->ncalls > 0)
		event_add(r->grace, &tv);
	check_end(r);
}

/* A pipe is opened anew: non-blocking then is our end of it alone, and not what others share. */
static int own_output(int fd, bool is_socket)
{
	char path[32];
	struct stat st;

	if (is_socket || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return fd;
	(void)fcntl(own, F_SETPIPE_SZ, PIPE_SIZE); /* fewer turns with large answers; no harm without */
	return own;
}

struct rpc *rpc_new(struct controller *c, int in, int out, int64_t grace_ms, void (*closed)(void *arg), void *arg)
{
	struct rpc *r = mem_zalloc(sizeof(*r));
	struct stat st;

	r->controller = c;
	r->in = in;
	r->out_is_socket = fstat(out, &st) == 0 && S_ISSOCK(st.st_mode);
	r->out = own_output(out, r->out_is_socket);
	r->grace_ms = grace_ms;
	r->closed = closed;
	r->arg = arg;
	framing_init(&r->framing);
	buf_init(&r->in_buf, FRAMING_MAX + READ_SIZE * 2);
	buf_init(&r->out_buf, OUT_MAX);
	TAILQ_INIT(&r->calls);
	r->read_event = event_new(c->base, in, EV_READ | EV_PERSIST, on_readable, r);
	r->write_event = event_new(c->base, r->out, EV_WRITE, on_writable, r);
	r->grace = evtimer_new(c->base, on_grace_over, r);
	r->close_event = evtimer_new(c->base, on_close, r);
	if (r->read_event == NULL || r->write_event == NULL || r->grace == NULL || r->close_event == NULL ||
		event_add(r->read_event, NULL) != 0)
		abort();
	return r;
}

void rpc_free(struct rpc *r)
{
	event_free(r->read_event);
	event_free(r->write_event);
	event_free(r->grace);
	event_free(r->close_event);
	close(r->in);
	if (r->out != r->in)
		close(r->out);
	buf_release(&r->in_buf);
	buf_release(&r->out_buf);
	free(r);
}
