/* What all methods do with the call they serve. */
#include "controller/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "controller/name.h"

struct call *call_new(struct controller *c, const struct call_owner *owner, void *owner_arg, struct slice text,
	enum json_fault *fault)
{
	struct call *call = mem_zalloc(sizeof(*call));
	size_t offset;

	call->controller = c;
	call->owner = owner;
	call->owner_arg = owner_arg;
	call->text = mem_dup(text);
	call->doc = json_doc_new();
	if (call->doc == NULL)
		abort();
	call->root = json_parse(call->doc, slice_make(call->text, text.len), JSON_STRICT, fault, &offset);
	call->params = call->root;
	if (call->root == NULL) {
		call_free(call);
		return NULL;
	}
	return call;
}

void call_free(struct call *call)
{
	json_doc_free(call->doc);
	json_object_put(call->id);
	free(call->text);
	free(call);
}

void call_result(struct call *call, struct json_object *result)
{
	call->owner->result(call, result);
}

void call_error(struct call *call, const struct err *err, struct json_object *data)
{
	call->owner->error(call, err, data);
}

void call_fail(struct call *call, int code, const char *fmt, ...)
{
	struct err err = ERR_INIT;
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(&err, code, "%s", text);
	call_error(call, &err, NULL);
}

bool call_congested(const struct call *call)
{
	return call->owner->congested != NULL && call->owner->congested(call);
}

void call_notify(struct call *call, const char *method, struct json_object *params)
{
	call->owner->notify(call, method, params);
}

int call_sandbox_name(struct call *call, const char *key, struct slice *name)
{
	struct err err = ERR_INIT;

	if (!json_get_string(call->params, key, name)) {
		call_fail(call, EINVAL, "%s is required", key);
		return -1;
	}
	if (name_check_sandbox(*name, &err) != 0) {
		call_error(call, &err, NULL);
		return -1;
	}
	return 0;
}
