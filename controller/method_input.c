/* execInput and execResize: what reaches a command that runs already, by the request that started it. */
#include "controller/method.h"

#include <errno.h>

#include "controller/text.h"

static struct call *find_target(struct call *call)
{
	const struct json_node *id = json_get(call->params, "requestId");
	struct call *other = call->owner->find != NULL ? call->owner->find(call, id) : NULL;

	if (other == NULL || other->input == NULL) {
		call_fail(call, EINVAL, "no exec of this connection runs under that requestId");
		return NULL;
	}
	return other;
}

static void start_exec_input(struct call *call)
{
	struct slice data = SLICE_LIT(""), encoding = { NULL, 0 };
	struct call *other = find_target(call);
	struct err err = ERR_INIT;
	bool close = false;
	size_t len;

	if (other == NULL)
		return;
	json_get_string(call->params, "data", &data);
	json_get_string(call->params, "encoding", &encoding);
	json_get_bool(call->params, "close", &close);
	auto_free char *bytes = text_bytes(data, encoding, &len);
	if (bytes == NULL) {
		call_fail(call, EINVAL, "execInput: data is not base64");
		return;
	}
	if (other->input(other, slice_make(bytes, len), close, &err) != 0) {
		call_error(call, &err, NULL);
		return;
	}
	struct json_object *o = jnew();
	jset_int(o, "written", (int64_t)len);
	call_result(call, o);
}

static void start_exec_resize(struct call *call)
{
	struct call *other = find_target(call);
	struct err err = ERR_INIT;
	int64_t rows = 0, cols = 0;

	if (other == NULL)
		return;
	json_get_int(call->params, "rows", &rows);
	json_get_int(call->params, "cols", &cols);
	if (rows < 1 || rows > 10000 || cols < 1 || cols > 10000) {
		call_fail(call, EINVAL, "execResize: rows and cols are from 1 to 10000");
		return;
	}
	if (other->resize(other, (uint16_t)rows, (uint16_t)cols, &err) != 0)
		call_error(call, &err, NULL);
	else
		call_result(call, jnew());
}

const struct method method_exec_input = {
	.name = "execInput",
	.at_once = true,
	.start = start_exec_input,
	.help = "Gives a running exec of the same connection more input, or ends its input.",
	.result = "{\"type\":\"object\",\"properties\":{\"written\":{\"type\":\"integer\"}}}",
	.params = {
		{ "requestId", PARAM_REQUEST_ID, PARAM_REQUIRED, "the id of the exec request" },
		{ "data", PARAM_STRING, 0, "bytes; at most 1 MiB waits until the command reads" },
		{ "encoding", PARAM_ENCODING, 0, "of data" },
		{ "close", PARAM_BOOLEAN, 0, "end of input after data" },
	},
};

const struct method method_exec_resize = {
	.name = "execResize",
	.at_once = true,
	.start = start_exec_resize,
	.help = "Changes the size of a running exec's terminal.",
	.result = "{\"type\":\"object\"}",
	.params = {
		{ "requestId", PARAM_REQUEST_ID, PARAM_REQUIRED, "the id of the exec request" },
		{ "rows", PARAM_CELLS, PARAM_REQUIRED, "1 to 10000" },
		{ "cols", PARAM_CELLS, PARAM_REQUIRED, "1 to 10000" },
	},
};
