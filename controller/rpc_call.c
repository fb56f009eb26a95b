/* What becomes of a running call: its result, its error and its notifications, as messages to the client that asked. */
#include "controller/rpc_impl.h"

#include "controller/kind.h"
#include "controller/method.h"

/* message is NULL when it was a notification. */
static void answer(struct call *call, struct json_object *message)
{
	struct rpc *r = call->owner_arg;
	struct batch *b = call->batch;

	TAILQ_REMOVE(&r->calls, call, link);
	r->ncalls--;
	call_free(call);
	rpc_answer(r, b, message);
	heap_freed(&r->controller->heap);
	if (r->shutdown != NULL && r->ncalls == 1 && TAILQ_FIRST(&r->calls) == r->shutdown)
		call_result(r->shutdown, jnew());
	rpc_update_reading(r);
	rpc_check_end(r);
}

void rpc_let_go(struct call *call)
{
	struct json_object *message = call->answer;

	call->answer = NULL;
	call->held = false;
	answer(call, message);
}

/*
 * Ends a call. Answers of any length may be there at once, and to a client that does not keep up they are not even written: it
 * takes its time over one of them, and the others stay what they were.
 */
static void call_over(struct call *call, struct json_object *message)
{
	struct rpc *r = call->owner_arg;
	bool sends = call->batch != NULL ? call->batch->pending == 1 : message != NULL;

	if (!r->congested || !sends || call->method == NULL || call->method->at_once) {
		answer(call, message);
		return;
	}
	call->held = true;
	call->answer = message;
	call->cancel = NULL;
	call->drained = NULL;
	call->input = NULL;
	call->resize = NULL;
}

static void on_result(struct call *call, struct json_object *result)
{
	struct rpc *r = call->owner_arg;
	struct json_object *o = NULL;
	bool last = call == r->shutdown;

	if (call->id != NULL) {
		o = rpc_message();
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
		o = rpc_message();
		jset(o, "id", json_object_get(call->id));
		jset(o, "error", rpc_error(kind_rpc_code(kind), err->text, kind_id(kind), data));
	} else {
		json_object_put(data);
	}
	call_over(call, o);
}

static void on_notify(struct call *call, const char *method, struct json_object *params)
{
	struct json_object *o = rpc_message();

	jset_cstr(o, "method", method);
	jset(o, "params", params);
	rpc_send(call->owner_arg, o);
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

struct call *rpc_find_call(struct rpc *r, const struct json_node *id)
{
	struct call *call;

	TAILQ_FOREACH (call, &r->calls, link)
		if (same_id(call->id, id))
			return call;
	return NULL;
}

static struct call *on_find(struct call *call, const struct json_node *id)
{
	return rpc_find_call(call->owner_arg, id);
}

const struct call_owner rpc_calls = {
	.result = on_result,
	.error = on_error,
	.notify = on_notify,
	.congested = is_congested,
	.find = on_find,
};
