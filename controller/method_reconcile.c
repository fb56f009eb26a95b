/* reconcile: finds by label what crashes left behind, and finishes or removes it. */
#include "controller/method.h"

#include <errno.h>
#include <time.h>

#include "controller/lifecycle.h"
#include "controller/remains_ask.h"
#include "controller/settle.h"
#include "libgate/log.h"

#define MIN_AGE_SECONDS 600 /* twice the time that a create may take */

struct reconcile {
	struct call *call;
	struct remains_list remains;
	struct remains *at; /* what is being worked on */
	struct json_object *result;
	struct json_object *report; /* of `at` */
	bool dry_run;
	bool outcomes; /* of commands, whatever it takes */
	int64_t min_age;
	struct slice only; /* p == NULL: all */
	unsigned failed;
	bool repairing; /* `at` */
};

static void work_on(struct reconcile *r);

static void finish(struct reconcile *r, const struct err *err)
{
	struct call *call = r->call;
	struct json_object *result = r->result;

	remains_release(&r->remains);
	free(r);
	if (err != NULL) {
		json_object_put(result);
		call_error(call, err, NULL);
	} else {
		call_result(call, result);
	}
}

static void fault(struct reconcile *r, const struct err *err)
{
	jset_cstr(r->report, "error", err->text);
	r->failed++;
}

static void next(struct reconcile *r)
{
	r->at = TAILQ_NEXT(r->at, link);
	work_on(r);
}

static void on_told(struct json_object *commands, const struct err *err, void *arg)
{
	struct reconcile *r = arg;

	if (err != NULL)
		fault(r, err);
	else
		jset(r->report, "commands", commands);
	next(r);
}

/* What became of commands whose answer was lost. A sandbox that does not run is started for it only when asked for. */
static void ask_outcomes(struct reconcile *r)
{
	bool running = r->at->sandbox && r->at->sandbox_state == CONTAINER_RUNNING;

	if (r->only.p != NULL && r->at->sandbox && (running || r->outcomes))
		settle_commands(r->call->controller, r->only, json_get(r->call->params, "commands"), on_told, r);
	else
		next(r);
}

static void on_settled(const struct err *err, void *arg)
{
	struct reconcile *r = arg;

	if (err != NULL && err->code == ESTALE) {
		/* Nothing is to be done any more: it was made, suspended or removed since it was listed. */
		log_info("reconcile: %s", err->text);
		jset_cstr(r->report, "action", remains_verdict_name(REMAINS_WHOLE));
		next(r);
		return;
	}
	jset_bool(r->report, "done", err == NULL);
	if (err != NULL)
		fault(r, err);
	if (err == NULL && r->repairing)
		ask_outcomes(r);
	else
		next(r);
}

static void describe(struct reconcile *r, enum remains_verdict verdict)
{
	const struct remains *m = r->at;
	static const char *const parts[] = { "sandbox", "egress", "network", "workspace", "skills" };
	const bool there[] = { m->sandbox, m->egress, m->network, m->workspace, m->skills };

	r->report = jnew();
	jset_cstr(r->report, "name", m->name);
	jset_cstr(r->report, "state", inventory_state_name(m->sandbox ? m->sandbox_state : CONTAINER_ABSENT));
	struct json_object *list = jarr(r->report, "parts");
	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++)
		if (there[i])
			jadd_cstr(list, parts[i]);
	jset_cstr(r->report, "action", remains_verdict_name(verdict));
	jadd(json_object_object_get(r->result, "sandboxes"), r->report);
}

static void work_on(struct reconcile *r)
{
	static const struct lifecycle_events events = { NULL, on_settled };

	for (; r->at != NULL; r->at = TAILQ_NEXT(r->at, link)) {
		struct slice name = slice_str(r->at->name);

		if (r->only.p != NULL && !slice_eq(r->only, name))
			continue;
		enum remains_verdict verdict = remains_judge(r->at, (int64_t)time(NULL), r->min_age);
		describe(r, verdict);
		if (r->dry_run)
			continue;
		r->repairing = verdict == REMAINS_REPAIR;
		if (verdict == REMAINS_REMOVE || verdict == REMAINS_REPAIR) {
			log_info("reconcile: %s %s", r->repairing ? "mending" : "removing what is left of", r->at->name);
			lifecycle_reconcile(r->call->controller, name, r->min_age, &events, r);
			return;
		}
		if (verdict == REMAINS_WHOLE && r->only.p != NULL) {
			ask_outcomes(r);
			return;
		}
	}
	jset_int(r->result, "failed", r->failed);
	finish(r, NULL);
}

static void on_remains(struct remains_list *list, const struct err *err, void *arg)
{
	struct reconcile *r = arg;

	if (err != NULL) {
		finish(r, err);
		return;
	}
	TAILQ_CONCAT(&r->remains, list, link);
	r->at = TAILQ_FIRST(&r->remains);
	work_on(r);
}

static void start_reconcile(struct call *call)
{
	const struct json_node *commands = json_get(call->params, "commands");
	struct slice only = { NULL, 0 };

	if (json_get(call->params, "id") != NULL && call_sandbox_name(call, "id", &only) != 0)
		return;
	if (commands != NULL && commands->count > SETTLE_MAX) {
		call_fail(call, EINVAL, "reconcile: commands holds at most %d", SETTLE_MAX);
		return;
	}
	struct reconcile *r = mem_zalloc(sizeof(*r));

	r->call = call;
	r->min_age = MIN_AGE_SECONDS;
	TAILQ_INIT(&r->remains);
	json_get_bool(call->params, "dryRun", &r->dry_run);
	json_get_bool(call->params, "outcomes", &r->outcomes);
	json_get_int(call->params, "minAgeSeconds", &r->min_age);
	r->only = only;
	r->result = jnew();
	jarr(r->result, "sandboxes");
	remains_ask(call->controller->engine, call->controller->engine_timeout_ms, on_remains, r);
}

const struct method method_reconcile = {
	.name = "reconcile",
	.start = start_reconcile,
	.help = "Finds by label what crashes left behind, on any controller's account: mends what runs incomplete, removes parts "
		"without a sandbox, and settles commands whose outcome was unknown.",
	.result = "{\"type\":\"object\",\"required\":[\"sandboxes\",\"failed\"],\"properties\":{\"failed\":{\"type\":\"integer\"},"
		"\"sandboxes\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"name\",\"state\",\"action\"],"
		"\"properties\":{\"name\":{\"type\":\"string\"},\"state\":{\"type\":\"string\"},"
		"\"action\":{\"enum\":[\"none\",\"repair\",\"remove\",\"wait\"]},\"done\":{\"type\":\"boolean\"},"
		"\"error\":{\"type\":\"string\"},\"parts\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
		"\"commands\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"execId\",\"state\"],\"properties\":{"
		"\"execId\":{\"type\":\"string\"},\"tag\":{\"type\":\"string\"},"
		"\"state\":{\"enum\":[\"exited\",\"signaled\",\"timeout\",\"killed\",\"failed\",\"running\",\"lost\"]},"
		"\"exitCode\":{\"type\":[\"integer\",\"null\"]},\"signal\":{\"type\":[\"string\",\"null\"]},"
		"\"oomKilled\":{\"type\":\"boolean\"},\"endedAt\":{\"type\":\"integer\"}}}}}}}}}",
	.params = {
		{ "id", PARAM_NAME, 0, "only this one; tells also what became of its commands whose answer was lost" },
		{ "outcomes", PARAM_BOOLEAN, 0, "with id: a sandbox that does not run is started to ask it for them" },
		{ "commands", PARAM_STRINGS, 0, "with id: execId of commands that must be in the answer; lost when nothing is known" },
		{ "dryRun", PARAM_BOOLEAN, 0, "say what would be done" },
		{ "minAgeSeconds", PARAM_INTEGER, 0, "what is younger may be in the making; 600 without it" },
	},
};
