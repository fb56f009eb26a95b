/* list and inspect. */
#include "controller/method.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "controller/inventory.h"
#include "controller/name.h"
#include "controller/spec.h"
#include "controller/survey.h"
#include "controller/tcp_target.h"

#define LIST_PATH "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22dev.capybara.sandbox%3D1%22%5D%7D"

#define SANDBOX_PROPERTIES \
	"\"name\":{\"type\":\"string\"},\"state\":{\"enum\":[\"creating\",\"running\",\"suspended\",\"paused\",\"gone\"]}," \
	"\"runtime\":{\"type\":\"string\"},\"egress\":{\"enum\":[\"none\",\"open\",\"allowlist\"]}," \
	"\"createdAt\":{\"type\":\"string\"},\"image\":{\"type\":\"string\"}"

/* Containers of ours whose role is the sandbox itself: the name that they carry is then their own. */
static bool is_sandbox(const struct json_node *container, struct slice *name)
{
	const struct json_node *labels = json_get(container, "Labels");
	const struct json_node *names = json_get(container, "Names");
	struct slice role;
	struct err err = ERR_INIT;

	/* What no method takes for a name is none of ours, whatever its labels say. */
	if (!json_get_string(labels, LABEL_NAME, name) || name_check_sandbox(*name, &err) != 0)
		return false;
	if (json_get_string(labels, LABEL_ROLE, &role) && !slice_is(role, "sandbox"))
		return false;
	for (const struct json_node *n = names != NULL ? names->child : NULL; n != NULL; n = n->next)
		if (n->type == JSON_STRING && n->text.len == name->len + 1 && slice_eq(slice_skip(n->text, 1), *name))
			return true;
	return false;
}

static void add_created(struct json_object *o, const struct json_node *container)
{
	int64_t created = 0;
	char text[32];
	struct tm tm;

	if (!json_get_int(container, "Created", &created))
		return;
	time_t when = (time_t)created;
	if (gmtime_r(&when, &tm) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		jset_cstr(o, "createdAt", text);
}

static void on_listed(const struct engine_reply *reply, void *arg)
{
	struct call *call = arg;
	struct slice name, text;
	enum container_state state;

	if (reply->status != 200) {
		call_error(call, &reply->err, NULL);
		return;
	}
	if (reply->json == NULL || reply->json->type != JSON_ARRAY) {
		call_fail(call, EPROTO, "the engine's list of containers is none");
		return;
	}
	struct json_object *result = jnew();
	struct json_object *list = jarr(result, "sandboxes");
	for (const struct json_node *c = reply->json->child; c != NULL; c = c->next) {
		const struct json_node *labels = json_get(c, "Labels");

		if (!is_sandbox(c, &name))
			continue;
		struct json_object *o = jnew();
		jset_str(o, "name", name);
		state = CONTAINER_ABSENT;
		if (json_get_string(c, "State", &text))
			container_state_from_name(text, &state);
		jset_cstr(o, "state", inventory_state_name(state));
		if (json_get_string(json_get(c, "HostConfig"), "Runtime", &text) ||
			json_get_string(labels, LABEL_RUNTIME, &text))
			jset_str(o, "runtime", text);
		if (json_get_string(labels, LABEL_EGRESS, &text))
			jset_str(o, "egress", text);
		if (json_get_string(c, "Image", &text))
			jset_str(o, "image", text);
		add_created(o, c);
		jadd(list, o);
	}
	call_result(call, result);
}

static void start_list(struct call *call)
{
	engine_call(call->controller->engine, "GET", LIST_PATH, NULL, call->controller->engine_timeout_ms, on_listed, call);
}

static void on_surveyed(struct survey_result *r, const struct err *err, void *arg)
{
	struct call *call = arg;
	struct slice name;

	if (err != NULL) {
		call_error(call, err, NULL);
		return;
	}
	json_get_string(call->params, "id", &name);
	if (r->inventory.sandbox.state == CONTAINER_ABSENT) {
		call_fail(call, ENXIO, "there is no sandbox %.*s", SLICE_ARG(name));
		return;
	}
	struct json_object *o = STEAL(r->details);
	jset_str(o, "name", name);
	jset_cstr(o, "state", inventory_state_name(r->inventory.sandbox.state));
	jset_cstr(o, "egress", egress_name(r->spec.egress));
	jset_int(o, "maxCommandSeconds", r->spec.max_command_seconds);
	if (r->spec.egress == EGRESS_ALLOWLIST) {
		struct json_object *hosts = jarr(o, "allowHosts");
		char *save = NULL;
		auto_free char *list = mem_strdup(r->spec.allow_hosts);
		for (char *h = strtok_r(list, ",", &save); h != NULL; h = strtok_r(NULL, ",", &save))
			jadd_cstr(hosts, h);
		if (r->spec.tcp_targets != NULL) {
			struct json_object *targets = jarr(o, "tcpTargets");
			const char *rest = r->spec.tcp_targets;
			struct tcp_target t;
			while (tcp_target_next(&rest, &t)) {
				auto_free char *text = mem_dup(t.text);
				jadd_cstr(targets, text);
			}
		}
		jset_cstr(o, "egressProxyState", inventory_state_name(r->inventory.egress.state));
		jset_bool(o, "network", r->inventory.network[0] != '\0');
	}
	call_result(call, o);
}

static void start_inspect(struct call *call)
{
	struct slice name;

	if (call_sandbox_name(call, "id", &name) != 0)
		return;
	auto_free char *text = mem_dup(name);
	survey_start(call->controller->engine, text, call->controller->engine_timeout_ms, on_surveyed, call);
}

const struct method method_list = {
	.name = "list",
	.start = start_list,
	.help = "All sandboxes that the engine knows by their label, whoever made them.",
	.result =
		"{\"type\":\"object\",\"required\":[\"sandboxes\"],\"properties\":{\"sandboxes\":{\"type\":\"array\","
		"\"items\":{\"type\":\"object\",\"required\":[\"name\",\"state\"],\"properties\":{" SANDBOX_PROPERTIES "}}}}}",
	.params = { { 0 } },
};

const struct method method_inspect = {
	.name = "inspect",
	.start = start_inspect,
	.help = "One sandbox: its state, limits and parts.",
	.result =
		"{\"type\":\"object\",\"required\":[\"name\",\"state\"],\"properties\":{" SANDBOX_PROPERTIES ","
		"\"maxCommandSeconds\":{\"type\":\"integer\"},\"allowHosts\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
		"\"tcpTargets\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
		"\"egressProxyState\":{\"type\":\"string\"},\"network\":{\"type\":\"boolean\"},\"memoryMb\":{\"type\":\"integer\"},"
		"\"cpu\":{\"type\":\"number\"},\"startedAt\":{\"type\":\"string\"}}}",
	.params = { { "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" } },
};
