/* create, suspend, resume, destroy and destroyByName. */
#include "controller/method.h"

#include <errno.h>

#include "controller/lifecycle.h"
#include "controller/name.h"
#include "controller/spec.h"

#define STATE_RESULT \
	"{\"type\":\"object\",\"required\":[\"state\"],\"properties\":{\"id\":{\"type\":\"string\"}," \
	"\"state\":{\"enum\":[\"creating\",\"running\",\"suspended\",\"paused\",\"gone\"]}}}"

struct lifecycle_call {
	struct call *call;
	const char *state; /* on success */
	char *id; /* told in the result */
	char *note;
};

static void on_pull(const char *image, const struct json_node *progress, void *arg)
{
	struct lifecycle_call *l = arg;
	struct json_object *o = jnew();
	struct slice text;
	int64_t n;

	jset_cstr(o, "sandbox", l->id);
	jset_cstr(o, "image", image);
	if (json_get_string(progress, "id", &text))
		jset_str(o, "layer", text);
	if (json_get_string(progress, "status", &text))
		jset_str(o, "status", text);
	if (json_get_int(json_get(progress, "progressDetail"), "current", &n))
		jset_int(o, "current", n);
	if (json_get_int(json_get(progress, "progressDetail"), "total", &n))
		jset_int(o, "total", n);
	call_notify(l->call, "pull/progress", o);
}

static void on_done(const struct err *err, void *arg)
{
	struct lifecycle_call *l = arg;
	struct call *call = l->call;
	struct json_object *o;

	if (err != NULL) {
		struct json_object *data = jnew();
		jset_cstr(data, "id", l->id);
		call_error(call, err, data);
	} else {
		o = jnew();
		jset_cstr(o, "id", l->id);
		jset_cstr(o, "state", l->state);
		if (l->note != NULL)
			jset_cstr(o, "note", l->note);
		call_result(call, o);
	}
	free(l->id);
	free(l->note);
	free(l);
}

static const struct lifecycle_events events = { on_pull, on_done };

static struct lifecycle_call *begin(struct call *call, struct slice id, const char *state)
{
	struct lifecycle_call *l = mem_zalloc(sizeof(*l));

	l->call = call;
	l->id = mem_dup(id);
	l->state = state;
	return l;
}

static void start_create(struct call *call)
{
	struct controller *c = call->controller;
	struct err err = ERR_INIT;
	struct spec spec;

	if (spec_from_params(&spec, call->params, c->config, c->spec_flags, &err) != 0) {
		call_error(call, &err, NULL);
		return;
	}
	struct lifecycle_call *l = begin(call, slice_str(spec.name), "running");
	if (spec.disk_unlimited)
		l->note = mem_strdup("diskMb bounds only /tmp: without a volumeDriver the workspace volume has no size limit");
	lifecycle_create(c, &spec, &events, l);
}

static void start_by_name(struct call *call, const char *key, const char *state,
	void (*op)(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg))
{
	struct slice name;

	if (call_sandbox_name(call, key, &name) == 0)
		op(call->controller, name, &events, begin(call, name, state));
}

static void start_suspend(struct call *call)
{
	start_by_name(call, "id", "suspended", lifecycle_suspend);
}

static void start_resume(struct call *call)
{
	start_by_name(call, "id", "running", lifecycle_resume);
}

static void start_destroy(struct call *call)
{
	start_by_name(call, "id", "gone", lifecycle_destroy);
}

static void start_destroy_by_name(struct call *call)
{
	start_by_name(call, "name", "gone", lifecycle_destroy);
}

const struct method method_create = {
	.name = "create",
	.start = start_create,
	.help = "Makes a sandbox and starts it. What has its name is removed first; what a failed create made is removed.",
	.result = STATE_RESULT,
	.params = {
		{ "name", PARAM_NAME, PARAM_REQUIRED, "cap- and letters, digits, _ . or -" },
		{ "image", PARAM_STRING, 0, "image reference; the deployment's image without it" },
		{ "limits", PARAM_LIMITS, 0, "take effect at creation only; egress is allowlist without it" },
		{ "labels", PARAM_STRING_MAP, 0, "further labels, dev.capybara.*" },
		{ "testOptions", PARAM_OBJECT, 0, "taken under serve --test-options only: labels, egressTestHosts" },
	},
};

const struct method method_suspend = {
	.name = "suspend",
	.start = start_suspend,
	.help = "Stops a sandbox and its egress proxy. Files stay on the volumes; processes and /tmp end.",
	.result = STATE_RESULT,
	.params = { { "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" } },
};

const struct method method_resume = {
	.name = "resume",
	.start = start_resume,
	.help = "Starts or unpauses a sandbox and makes its network and egress proxy anew where they are missing.",
	.result = STATE_RESULT,
	.params = { { "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" } },
};

const struct method method_destroy = {
	.name = "destroy",
	.start = start_destroy,
	.help =
		"Removes a sandbox with all that belongs to it and confirms that it is gone. What is missing counts as removed.",
	.result = STATE_RESULT,
	.params = { { "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" } },
};

const struct method method_destroy_by_name = {
	.name = "destroyByName",
	.start = start_destroy_by_name,
	.help = "destroy, for callers that know only the name.",
	.result = STATE_RESULT,
	.params = { { "name", PARAM_NAME, PARAM_REQUIRED, "the sandbox" } },
};
