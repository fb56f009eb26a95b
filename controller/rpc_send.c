/* What leaves a connection: messages, the answers of a batch, and a client that reads slowly or not at all. */
#include "controller/rpc_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/json_out.h"
#include "controller/kind.h"
#include "libgate/log.h"

#define CONGESTED ((size_t)1 << 20) /* commands hold back beyond this */

static struct call *next_to_drain(struct rpc *r)
{
	struct call *call;

	TAILQ_FOREACH (call, &r->calls, link)
		if (call->to_drain)
			return call;
	return NULL;
}

static void drain_round(struct rpc *r)
{
	struct call *call;

	while (!r->congested && (call = next_to_drain(r)) != NULL) {
		call->to_drain = false;
		if (call->held)
			rpc_let_go(call);
		else if (call->drained != NULL)
			call->drained(call);
	}
}

/*
 * Lets go on what was held back, until there is too much of it again: each of them may end others, and what it says may find the
 * client gone.
 */
static void drain(struct rpc *r)
{
	struct call *call;
	bool failed;

	if (r->draining)
		return;
	r->draining = true;
	drain_round(r); /* who had no turn in the last one */
	do {
		failed = r->output_failed;
		if (!r->congested)
			TAILQ_FOREACH (call, &r->calls, link)
				call->to_drain = true;
		drain_round(r);
	} while (!failed && r->output_failed); /* what was held back again before that goes, too */
	r->draining = false;
}

void rpc_drop_output(struct rpc *r)
{
	r->output_failed = true;
	buf_release(&r->out_buf);
	event_del(r->write_event);
	rpc_end(r);
	rpc_kill_calls(r);
	r->congested = false;
	drain(r);
	rpc_check_end(r);
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
			rpc_drop_output(r);
			return;
		}
		buf_consume(&r->out_buf, (size_t)n);
		rpc_watch_stall(r);
	}
	buf_trim(&r->out_buf);
	heap_freed(&r->controller->heap);
	if (r->congested && buf_len(&r->out_buf) < CONGESTED / 2) {
		r->congested = false;
		drain(r);
	}
	rpc_update_reading(r);
	rpc_check_end(r);
}

void rpc_on_writable(evutil_socket_t fd, short what, void *arg)
{
	flush(arg);
}

/* A line is written in place; a Content-Length head has to know what follows it. */
static int put_message(struct rpc *r, struct json_object *o)
{
	size_t before = buf_len(&r->out_buf);
	struct buf text;
	int done;

	if (r->framing.mode != FRAMING_HEADS) {
		done = json_out_put(&r->out_buf, o) != 0 ? -1 : buf_putc(&r->out_buf, '\n');
	} else {
		buf_init(&text, RPC_OUT_MAX);
		done = json_out_put(&text, o) != 0 ? -1 : framing_put(FRAMING_HEADS, &r->out_buf, buf_slice(&text));
		buf_release(&text);
	}
	if (done != 0)
		r->out_buf.end = r->out_buf.start + before;
	return done;
}

/* In place of an answer that is longer than any may be; of a batch's answers, in place of each. */
static struct json_object *too_long(struct json_object *o)
{
	struct json_object *short_one;

	if (json_object_is_type(o, json_type_array)) {
		short_one = json_object_new_array();
		for (size_t i = 0; i < json_object_array_length(o); i++)
			jadd(short_one, too_long(json_object_array_get_idx(o, i)));
		return short_one;
	}
	short_one = rpc_message();
	jset(short_one, "id", json_object_get(json_object_object_get(o, "id")));
	jset(short_one, "error",
		rpc_error(kind_rpc_code(KIND_LIMIT),
			"the answer is longer than one message may be: ask for less, or for fewer things in one batch",
			kind_id(KIND_LIMIT), NULL));
	return short_one;
}

void rpc_send(struct rpc *r, struct json_object *message)
{
	auto_json struct json_object *o = message;
	auto_json struct json_object *instead = NULL;
	int done;

	if (r->output_failed)
		return;
	done = put_message(r, o);
	if (done != 0 && json_object_object_get(o, "method") == NULL) {
		instead = too_long(o);
		done = put_message(r, instead);
	}
	if (done != 0) {
		log_warn("a client that does not read its answers is dropped: %zu bytes wait", buf_len(&r->out_buf));
		rpc_drop_output(r);
		return;
	}
	if (buf_len(&r->out_buf) > CONGESTED)
		r->congested = true;
	flush(r);
}

struct json_object *rpc_message(void)
{
	struct json_object *o = jnew();

	jset_cstr(o, "jsonrpc", "2.0");
	return o;
}

struct json_object *rpc_error(int code, const char *text, const char *kind, struct json_object *data)
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
		rpc_send(r, b->answers);
	else
		json_object_put(b->answers);
	free(b);
}

void rpc_answer(struct rpc *r, struct batch *b, struct json_object *message)
{
	if (b != NULL)
		batch_add(r, b, message);
	else if (message != NULL)
		rpc_send(r, message);
}

void rpc_answer_error(struct rpc *r, struct batch *b, struct json_object *id, int code, const char *text)
{
	struct json_object *o = rpc_message();

	jset(o, "id", id);
	jset(o, "error", rpc_error(code, text, kind_id(KIND_INVALID), NULL));
	rpc_answer(r, b, o);
}
