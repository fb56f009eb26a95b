/* What a message asks: of a method, of the connection itself, or both many times over in a batch. */
#include "controller/rpc_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "controller/discover.h"
#include "controller/method.h"
#include "controller/request_id.h"

#define CALLS_MAX 1024
#define BATCH_MAX 256

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
	struct call *other = rpc_find_call(r, json_get(call->params, "id"));

	if (other != NULL && other != call && other->cancel != NULL)
		other->cancel(other);
	call_result(call, jnew());
}

static void do_shutdown(struct rpc *r, struct call *call)
{
	r->shutdown = call;
	rpc_kill_calls(r);
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
	if (n == NULL)
		return true;
	if (n->type == JSON_INT)
		*id = json_object_new_int64(n->integer);
	else if (n->type == JSON_STRING)
		*id = json_object_new_string_len(n->text.len > 0 ? n->text.p : "", (int)n->text.len);
	return *id != NULL;
}

/* What keeps the message from being a request at all, or NULL. Told even when it names no id. */
static const char *malformed(struct rpc *r, struct call *call, struct slice *name)
{
	struct slice version;

	if (call->root->type != JSON_OBJECT || !json_get_string(call->root, "jsonrpc", &version) ||
		!slice_is(version, "2.0"))
		return "not a JSON-RPC 2.0 request: an object with \"jsonrpc\": \"2.0\" is needed";
	if (!read_id(json_get(call->root, "id"), &call->id))
		return "an id is a string or an integer; a notification has none";
	if (!json_get_string(call->root, "method", name))
		return "method is needed, and is a string";
	if (call->id != NULL && rpc_find_call(r, json_get(call->root, "id")) != NULL)
		return "a request with this id is still running";
	return NULL;
}

static const struct own_method *find_own(struct slice name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(own_methods); i++)
		if (slice_is(name, own_methods[i].name))
			return &own_methods[i];
	return NULL;
}

/* What a client says of itself by parameters that a row has none for (initialize) is nobody's fault. */
static bool params_fit(struct call *call, const struct own_method *own, struct slice name, struct err *err)
{
	const struct method *m = own != NULL ? discover_own(name) : call->method;

	return (own != NULL && m->params[0].name == NULL) || method_check(m, call->params, err) == 0;
}

/* 0, or the code of what keeps the request from being run. */
static int refuse(struct rpc *r, struct call *call, const struct own_method *own, struct slice name, struct err *err)
{
	int code = 0;

	if (r->shutdown != NULL || r->input_ended) {
		code = RPC_INVALID_REQUEST;
		err_set(err, EINVAL, "shutting down");
	} else if (own == NULL && call->method == NULL) {
		code = RPC_NO_METHOD;
		err_set(err, EINVAL, "there is no method \"%.*s\"", name.len < 60 ? (int)name.len : 60, name.p);
	} else if (!params_fit(call, own, name, err)) {
		code = RPC_INVALID_PARAMS;
	} else if (own == NULL && !call->method->at_once && r->ncalls >= CALLS_MAX) {
		code = RPC_INVALID_REQUEST;
		err_set(err, EINVAL, "too many requests are running");
	}
	return code;
}

static void dispatch(struct rpc *r, struct call *call, struct batch *b)
{
	struct slice name = { NULL, 0 };
	struct err err = ERR_INIT;
	const struct own_method *own = NULL;
	const char *wrong;
	int code;

	call->batch = b;
	call->params = json_get(call->root, "params");
	wrong = malformed(r, call, &name);
	if (wrong != NULL) {
		code = RPC_INVALID_REQUEST;
		err_set(&err, EINVAL, "%s", wrong);
	} else {
		own = find_own(name);
		call->method = own == NULL ? method_find(name) : NULL;
		code = refuse(r, call, own, name, &err);
	}
	if (code != 0) {
		struct json_object *id = json_object_get(call->id);
		call_free(call);
		if (id != NULL || wrong != NULL)
			rpc_answer_error(r, b, id, code, err.text);
		else
			rpc_answer(r, b, NULL);
		return;
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
		rpc_answer_error(r, NULL, NULL, RPC_INVALID_REQUEST,
			list->count == 0 ? "an empty batch" : "the batch is too long");
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
			json_put(&text, n) == 0 ? call_new(r->controller, &rpc_calls, r, buf_slice(&text), &fault) : NULL;
		buf_release(&text);
		if (call != NULL)
			dispatch(r, call, b);
		else
			rpc_answer_error(r, b, NULL, RPC_INVALID_REQUEST, "a member of the batch is too large");
	}
	call_free(whole);
}

/* What is JSON has an id, whatever keeps it from being taken: who sent it waits for an answer under that. */
static struct json_object *id_of_unparsed(struct slice message, enum json_fault fault)
{
	struct json_object *id = NULL;
	struct slice value;
	size_t offset;

	if (!request_id_survives(fault) || !request_id_find(message, &value))
		return NULL;
	struct json_doc *doc = json_doc_new();
	if (doc == NULL)
		abort();
	const struct json_node *node = json_parse(doc, value, JSON_STRICT, &fault, &offset);
	if (node != NULL && !read_id(node, &id))
		id = NULL;
	json_doc_free(doc);
	return id;
}

void rpc_take_message(struct rpc *r, struct slice message)
{
	enum json_fault fault = JSON_OK;
	struct call *call;
	char text[160];

	if (message.len == 0)
		return;
	r->taking = true;
	call = call_new(r->controller, &rpc_calls, r, message, &fault);
	if (call == NULL) {
		snprintf(text, sizeof(text), "%s (%s)", json_fault_text(fault), json_fault_id(fault));
		struct json_object *id = id_of_unparsed(message, fault);
		rpc_answer_error(r, NULL, id, id != NULL ? RPC_INVALID_REQUEST : RPC_PARSE, text);
	} else if (call->root->type == JSON_ARRAY) {
		take_batch(r, call);
	} else {
		dispatch(r, call, NULL);
	}
	r->taking = false;
	rpc_check_end(r);
}
