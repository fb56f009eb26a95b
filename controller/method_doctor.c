/* doctor: checks what a deployment needs, and says how to mend what is missing. */
#include "controller/method.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "controller/doctor.h"
#include "controller/reach.h"
#include "controller/runner.h"
#include "conf/policy_builtin.h"
#include "libgate/sha256.h"

#define CLOCK_OFF_SECONDS 5
#define CLOCK_WRONG_SECONDS 300 /* half of what reconcile takes for young */

struct doctor {
	struct call *call;
	unsigned at; /* row being asked */
	struct json_object *checks;
	struct json_object *result;
	unsigned failed;
	bool answers; /* the endpoint does */
};

enum grade { GRADE_OK, GRADE_WARN, GRADE_FAIL };

static const char *const grade_names[] = { "ok", "warn", "fail" };

static void report(struct doctor *d, const char *check, enum grade grade, const char *mend, const char *fmt, ...)
	PRINTF(5, 6);

static void report(struct doctor *d, const char *check, enum grade grade, const char *mend, const char *fmt, ...)
{
	struct json_object *o = jnew();
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	jset_cstr(o, "check", check);
	jset_cstr(o, "status", grade_names[grade]);
	jset_cstr(o, "text", text);
	if (grade != GRADE_OK)
		jset_cstr(o, "mend", mend);
	d->failed += grade == GRADE_FAIL;
	jadd(d->checks, o);
}

static const struct config *config_of(const struct doctor *d)
{
	return d->call->controller->config;
}

/* --- what each answer means -------------------------------------------------------------------------------------- */

static void judge_api(struct doctor *d, const struct engine_reply *r)
{
	unsigned used = engine_api_minor(d->call->controller->engine);
	struct slice newest = SLICE_LIT("?");

	json_get_string(r->json, "ApiVersion", &newest);
	report(d, "api", GRADE_OK, NULL, "1.%u is spoken; the engine's newest is %.*s", used, SLICE_ARG(newest));
}

/* Limits of time are kept by monotonic clocks; the ages that reconcile judges are not. */
static void judge_clock(struct doctor *d, const struct engine_reply *r)
{
	static const char mend[] =
		"have both hosts keep their time by NTP; until then reconcile misjudges what is in the making";
	int64_t off = (int64_t)r->date - (int64_t)time(NULL), size = off < 0 ? -off : off;

	if (r->date == 0)
		report(d, "clock", GRADE_WARN, "look at what stands between here and the engine",
			"the engine's answers have no Date");
	else if (size > CLOCK_OFF_SECONDS)
		report(d, "clock", size > CLOCK_WRONG_SECONDS ? GRADE_FAIL : GRADE_WARN, mend,
			"the engine's clock is %lld s %s ours", (long long)size, off < 0 ? "behind" : "ahead of");
	else
		report(d, "clock", GRADE_OK, NULL, "the engine's clock agrees with ours");
}

static bool judge_version(struct doctor *d, const struct engine_reply *r)
{
	struct slice version = SLICE_LIT("?");

	if (r->status != 200) {
		report(d, "endpoint", GRADE_FAIL,
			r->err.code == EPROTO ? "use an engine of release 20.10 (API 1.41) or later"
								  : "start dockerproxy, and compare the endpoint with its listen",
			"%s", r->err.text);
		return false;
	}
	json_get_string(r->json, "Version", &version);
	report(d, "endpoint", GRADE_OK, NULL, "%s answers: engine %.*s", config_of(d)->endpoint, SLICE_ARG(version));
	judge_api(d, r);
	judge_clock(d, r);
	return true;
}

/* A policy of one's own is nobody's fault: which one it is, is said and not graded. */
static void judge_digest(struct doctor *d, const char *told)
{
	static const char refused[] = "what the policy does not name is refused (GET /info)";
	char ours[sizeof("sha256:") + SHA256_HEX_SIZE] = "sha256:";

	sha256_hex(slice_make(policy_builtin_text, policy_builtin_size), ours + strlen(ours));
	if (told[0] == '\0')
		report(d, "policy", GRADE_WARN, "look at what stands between here and the engine: dockerproxy tells its policy",
			"%s, by something that does not say which policy that is", refused);
	else if (strcmp(told, ours) == 0)
		report(d, "policy", GRADE_OK, NULL, "%s; it is this release's, %s", refused, told);
	else
		report(d, "policy", GRADE_OK, NULL, "%s; it is %s, not this release's (%s)", refused, told, ours);
}

static bool judge_policy(struct doctor *d, const struct engine_reply *r)
{
	if (r->status == 0 && r->err.code == EACCES)
		judge_digest(d, r->policy);
	else if (r->status != 0)
		report(d, "policy", GRADE_FAIL, "point the endpoint at dockerproxy, never at the engine's own socket",
			"the engine answers GET /info itself: there is no policy in front of it");
	else
		report(d, "policy", GRADE_WARN, "look at dockerproxy's log", "GET /info: %s", r->err.text);
	return true;
}

static bool judge_image(struct doctor *d, const struct engine_reply *r, const char *check, const char *image)
{
	if (r->status == 200)
		report(d, check, GRADE_OK, NULL, "%s is on the engine", image);
	else if (r->status == 404)
		report(d, check, GRADE_WARN, "pull or load it ahead: the first create waits for it otherwise",
			"%s is not on the engine", image);
	else
		report(d, check, GRADE_FAIL, "look at dockerproxy's log", "%s", r->err.text);
	return true;
}

static bool judge_sandbox_image(struct doctor *d, const struct engine_reply *r)
{
	const struct json_node *labels = json_get(json_get(r->json, "Config"), "Labels");
	struct slice version = SLICE_LIT("");
	bool runner = json_get_string(labels, RUNNER_LABEL, &version) && slice_is(version, RUNNER_LABEL_VERSION);

	if (r->status == 200 && !runner && config_of(d)->exec_mode != EXEC_MODE_ENGINE)
		report(d, "runner", config_of(d)->exec_mode == EXEC_MODE_RUNNER ? GRADE_FAIL : GRADE_WARN,
			"make the image by image/build, or set execMode to engine", "%s has no runner of this version: %s",
			config_of(d)->image,
			config_of(d)->exec_mode == EXEC_MODE_RUNNER ? "no command can run" : "each command takes an engine exec");
	else if (r->status == 200 && runner)
		report(d, "runner", GRADE_OK, NULL, "%s holds it", config_of(d)->image);
	return judge_image(d, r, "image", config_of(d)->image);
}

static bool judge_egress_image(struct doctor *d, const struct engine_reply *r)
{
	return judge_image(d, r, "egress image", config_of(d)->egress_image);
}

static bool judge_network(struct doctor *d, const struct engine_reply *r)
{
	const char *name = config_of(d)->network;
	struct slice icc;

	if (r->status == 404)
		report(d, "network", GRADE_OK, NULL, "%s is not there yet; the first create makes it", name);
	else if (engine_says_ambiguous(r))
		report(d, "network", GRADE_FAIL, "create or resume a sandbox: all but one are removed, unless they are in use",
			"%s", r->err.text);
	else if (r->status != 200)
		report(d, "network", GRADE_FAIL, "look at dockerproxy's log", "%s", r->err.text);
	else if (!json_get_string(json_get(r->json, "Options"), "com.docker.network.bridge.enable_icc", &icc) ||
		!slice_is(icc, "false"))
		report(d, "network", GRADE_FAIL, "remove the network while no sandbox runs; the controller makes it anew",
			"containers on %s can reach each other: it was made without enable_icc=false", name);
	else
		report(d, "network", GRADE_OK, NULL, "%s keeps its containers apart", name);
	return true;
}

/* A create that is meant to fail at its image: the engine judges the runtime before it looks for that. */
static bool judge_runtime(struct doctor *d, const struct engine_reply *r)
{
	const char *runtime = runtime_name(config_of(d)->runtime);

	if (r->status == 404)
		report(d, "runtime", GRADE_OK, NULL, "%s is accepted by the engine", runtime);
	else if (r->status == 400)
		report(d, "runtime", GRADE_FAIL, "register it in the engine's daemon.json, or set runtime to runc", "%s: %s",
			runtime, r->err.text);
	else
		report(d, "runtime", GRADE_WARN, "look at dockerproxy's log", "%s", r->err.text);
	return true;
}

/* --- what is asked ----------------------------------------------------------------------------------------------- */

static char *path_image(const struct config *c)
{
	return mem_printf("/images/%s/json", c->image);
}

static char *path_egress_image(const struct config *c)
{
	return mem_printf("/images/%s/json", c->egress_image);
}

static char *path_network(const struct config *c)
{
	return mem_printf("/networks/%s", c->network);
}

static const struct question {
	const char *method;
	const char *path;
	char *(*make_path)(const struct config *c);
	char *(*make_body)(const struct config *c);
	bool (*judge)(struct doctor *d, const struct engine_reply *r); /* false: nothing else can be asked */
} questions[] = {
	{ "GET", "/version", NULL, NULL, judge_version },
	{ "GET", "/info", NULL, NULL, judge_policy },
	{ "GET", NULL, path_image, NULL, judge_sandbox_image },
	{ "GET", NULL, path_egress_image, NULL, judge_egress_image },
	{ "GET", NULL, path_network, NULL, judge_network },
	{ "POST", "/containers/create?name=cap-doctor", NULL, doctor_runtime_body, judge_runtime },
};

/* What the configuration itself gives away. */
static void check_configuration(struct doctor *d)
{
	const struct config *c = config_of(d);

	if (!config_is_local(c))
		report(d, "exposure", GRADE_WARN, "use a unix socket, loopback, or a network that no sandbox is on",
			"the endpoint %s is not local: make sure that no sandbox and no other host can reach it", c->endpoint);
	else
		report(d, "exposure", GRADE_OK, NULL, "the endpoint is local");
	if (c->allow_open_egress)
		report(d, "open egress", GRADE_WARN, "unset allowOpenEgress unless it is needed",
			"allowOpenEgress is on: sandboxes may reach whatever this host reaches");
}

static void finish(struct doctor *d)
{
	struct call *call = d->call;
	struct json_object *result = d->result;

	jset_bool(result, "healthy", d->failed == 0);
	free(d);
	call_result(call, result);
}

static void on_reach(enum reach r, const char *sandbox, const char *where, void *arg)
{
	static const char mend[] =
		"have dockerproxy listen on a unix socket or on loopback, and keep sandboxes off its network";
	struct doctor *d = arg;

	switch (r) {
	case REACH_NONE:
		report(d, "reach", GRADE_OK, NULL, "%s cannot reach the proxy", sandbox);
		break;
	case REACH_OPEN:
		report(d, "reach", GRADE_FAIL, mend,
			"%s reaches the proxy at %s port %u: whoever runs there commands the engine", sandbox, where,
			(unsigned)config_of(d)->port);
		break;
	case REACH_UNIX:
		report(d, "reach", GRADE_OK, NULL, "no sandbox can reach a unix socket of the host");
		break;
	case REACH_NOBODY:
		report(d, "reach", GRADE_WARN, "ask again while a sandbox runs",
			"no sandbox runs: whether one could reach the proxy was not tried");
		break;
	case REACH_UNKNOWN:
		report(d, "reach", GRADE_WARN, "look at dockerproxy's log", "could not be tried: %s", where);
		break;
	}
	finish(d);
}

static void ask(struct doctor *d);

static void on_answer(const struct engine_reply *reply, void *arg)
{
	struct doctor *d = arg;

	if (questions[d->at++].judge(d, reply))
		d->answers = true;
	else
		d->at = ARRAY_SIZE(questions);
	ask(d);
}

static void ask(struct doctor *d)
{
	struct controller *c = d->call->controller;

	if (d->at == ARRAY_SIZE(questions)) {
		if (d->answers)
			reach_probe(c, on_reach, d);
		else
			finish(d);
		return;
	}
	const struct question *q = &questions[d->at];
	auto_free char *path = q->make_path != NULL ? q->make_path(c->config) : mem_strdup(q->path);
	auto_free char *body = q->make_body != NULL ? q->make_body(c->config) : NULL;
	engine_call(c->engine, q->method, path, body, c->engine_timeout_ms < 30000 ? c->engine_timeout_ms : 30000,
		on_answer, d);
}

static void start_doctor(struct call *call)
{
	struct doctor *d = mem_zalloc(sizeof(*d));

	d->call = call;
	d->result = jnew();
	d->checks = jarr(d->result, "checks");
	check_configuration(d);
	ask(d);
}

const struct method method_doctor = {
	.name = "doctor",
	.start = start_doctor,
	.help = "Checks endpoint, policy, API version, images, runtime and network, and says how to mend each.",
	.result =
		"{\"type\":\"object\",\"required\":[\"healthy\",\"checks\"],\"properties\":{\"healthy\":{\"type\":\"boolean\"},"
		"\"checks\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"check\",\"status\",\"text\"],"
		"\"properties\":{\"check\":{\"type\":\"string\"},\"status\":{\"enum\":[\"ok\",\"warn\",\"fail\"]},"
		"\"text\":{\"type\":\"string\"},\"mend\":{\"type\":\"string\"}}}}}}",
	.params = { { 0 } },
};
