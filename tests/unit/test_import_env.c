/* Variables of the HAProxy-based socket proxy: what each opens, as the policy made of them judges it. */
#include "unit.h"

#include "dockerproxy/import_env.h"
#include "dockerproxy/verdict.h"

struct pairs {
	const char *const *list; /* name, value, name, value, NULL */
};

static const char *lookup(const char *name, void *arg)
{
	const struct pairs *p = arg;

	for (const char *const *v = p->list; *v != NULL; v += 2)
		if (strcmp(v[0], name) == 0)
			return v[1];
	return NULL;
}

static struct policy *translate(const char *const *list, struct err *err)
{
	struct pairs p = { list };
	struct policy *policy = NULL;
	struct buf text;

	buf_init(&text, 1 << 20);
	if (import_env(lookup, &p, &text, err) == 0)
		policy = policy_load(buf_slice(&text), "imported", err);
	buf_release(&text);
	return policy;
}

static enum decision judge(const struct policy *p, const char *method, const char *target, const char *body,
	struct buf *canonical)
{
	struct verdict_request req = {
		.method = slice_str(method),
		.target = slice_str(target),
		.content_type = SLICE_LIT("application/json"),
		.has_length = body != NULL,
		.length = body == NULL ? 0 : strlen(body),
	};
	enum decision d;
	struct verdict v;

	verdict_init(&v);
	d = verdict_head(&v, p, &req, 0);
	if (d == DECISION_NEED_BODY)
		d = verdict_body(&v, p, slice_str(body));
	if (canonical != NULL)
		CU_ASSERT(buf_put_slice(canonical, buf_slice(&v.target)) == 0);
	verdict_release(&v);
	return d;
}

static const struct {
	const char *env[9];
	const char *method, *target, *body;
	bool allow;
} cases[] = {
	{ { NULL }, "GET", "/_ping", NULL, true },
	{ { NULL }, "HEAD", "/_ping", NULL, true },
	{ { NULL }, "GET", "/v1.41/events?since=1", NULL, true },
	{ { "EVENTS", "0", NULL }, "GET", "/v1.41/events", NULL, false },
	{ { NULL }, "GET", "/v1.41/containers/json", NULL, false },
	{ { "CONTAINERS", "1", NULL }, "GET", "/v1.41/containers/json?all=1", NULL, true },
	{ { "CONTAINERS", "1", NULL }, "GET", "/v1.41/containers/x/json", NULL, true },
	{ { "CONTAINERS", "1", NULL }, "GET", "/v1.41/containers/x/archive?path=/", NULL, false },
	{ { "CONTAINERS", "1", NULL }, "GET", "/v1.41/containers/x%2f..%2fy/json", NULL, false },
	{ { "CONTAINERS", "1", NULL }, "POST", "/v1.41/containers/x/start", NULL, false },
	{ { "CONTAINERS", "1", NULL }, "DELETE", "/v1.41/containers/x", NULL, false },
	{ { "POST", "1", NULL }, "POST", "/v1.41/containers/x/start", NULL, false },
	{ { "CONTAINERS", "1", "POST", "1", NULL }, "POST", "/v1.41/containers/x/start", NULL, true },
	{ { "CONTAINERS", "1", "POST", "1", NULL }, "DELETE", "/v1.41/containers/x?force=1", NULL, true },
	{ { "CONTAINERS", "1", "POST", "1", NULL }, "POST", "/v1.41/containers/create?name=x", "{\"Image\":\"a\"}", true },
	{ { "CONTAINERS", "1", "POST", "1", NULL }, "POST", "/v1.41/containers/create", "{\"a\":1,\"a\":2}", false },
	{ { "CONTAINERS", "1", "POST", "1", NULL }, "POST", "/v1.41/images/create?fromImage=a", NULL, false },
	{ { "CONTAINERS", "1", "POST", "1", NULL }, "POST", "/v1.41/exec/x/start", "{}", false },
	{ { "EXEC", "1", "POST", "1", NULL }, "POST", "/v1.41/exec/x/start", "{}", true },
	{ { "CONTAINERS", "1", "ALLOW_START", "1", NULL }, "POST", "/v1.41/containers/x/start", NULL, true },
	{ { "ALLOW_RESTARTS", "true", NULL }, "POST", "/v1.41/containers/x/restart?t=1", NULL, true },
	{ { "ALLOW_RESTARTS", "1", NULL }, "POST", "/v1.41/containers/x/kill", NULL, true },
	{ { "ALLOW_RESTARTS", "1", NULL }, "POST", "/v1.41/containers/x/start", NULL, false },
	{ { "ALLOW_STOP", "1", NULL }, "POST", "/v1.41/containers/x/stop", NULL, true },
	{ { "IMAGES", "yes", NULL }, "GET", "/v1.41/images/a/b:1/json", NULL, true },
	{ { "IMAGES", "1", "POST", "1", NULL }, "DELETE", "/v1.41/images/a/b:1", NULL, true },
	{ { "SECRETS", "", NULL }, "GET", "/v1.41/secrets", NULL, false },
	{ { "SECRETS", "1", NULL }, "GET", "/v1.41/secrets", NULL, true },
	{ { "BUILD", "1", "POST", "1", NULL }, "POST", "/v1.41/build", NULL, false },
	/* variables of newer releases, which close what their section and POST would open */
	{ { "CONTAINERS", "1", "POST", "1", "DELETE", "0", NULL }, "DELETE", "/v1.41/containers/x", NULL, false },
	{ { "CONTAINERS", "1", "POST", "1", "DELETE", "0", NULL }, "POST", "/v1.41/containers/x/start", NULL, true },
	{ { "CONTAINERS", "1", "DELETE", "1", NULL }, "DELETE", "/v1.41/containers/x", NULL, true },
	{ { "CONTAINERS", "1", "DELETE", "1", NULL }, "POST", "/v1.41/containers/x/start", NULL, false },
	{ { "IMAGES", "0", "DELETE", "1", NULL }, "DELETE", "/v1.41/images/a", NULL, false },
	{ { "CONTAINERS", "1", "POST", "1", "ALLOW_EXEC", "0", NULL }, "POST", "/v1.41/containers/x/exec", "{}", false },
	{ { "CONTAINERS", "1", "POST", "1", "ALLOW_EXEC", "1", NULL }, "POST", "/v1.41/containers/x/exec", "{}", true },
	{ { "CONTAINERS", "1", "ALLOW_EXEC", "1", NULL }, "POST", "/v1.41/containers/x/exec", "{}", false },
	{ { "CONTAINERS", "1", "POST", "1", "ALLOW_KILL", "0", NULL }, "POST", "/v1.41/containers/x/kill", NULL, false },
	{ { "ALLOW_RESTARTS", "1", "ALLOW_KILL", "0", NULL }, "POST", "/v1.41/containers/x/kill", NULL, false },
	{ { "ALLOW_RESTARTS", "1", "ALLOW_KILL", "0", NULL }, "POST", "/v1.41/containers/x/restart", NULL, true },
	{ { "CONTAINERS", "1", "POST", "1", "ALLOW_ATTACH", "0", NULL }, "POST", "/v1.41/containers/x/attach", NULL,
		false },
	{ { "CONTAINERS", "1", "ALLOW_LOGS", "", NULL }, "GET", "/v1.41/containers/x/logs?stdout=1", NULL, false },
	{ { "CONTAINERS", "1", NULL }, "GET", "/v1.41/containers/x/logs?stdout=1", NULL, true },
};

static void endpoints(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;
		struct policy *p = translate(cases[i].env, &err);

		UNIT_CHECK(p != NULL, "case %zu: %s", i, err.text);
		if (p != NULL)
			UNIT_CHECK((judge(p, cases[i].method, cases[i].target, cases[i].body, NULL) == DECISION_ALLOW) ==
					cases[i].allow,
				"case %zu: %s %s", i, cases[i].method, cases[i].target);
		policy_free(p);
	}
}

/* Names of parameters are the client's here: none may become two on its way. */
static void names_stay_names(void)
{
	static const char *const env[] = { "CONTAINERS", "1", "IMAGES", "1", NULL };
	struct err err = ERR_INIT;
	struct policy *p = translate(env, &err);
	struct buf target;

	CU_ASSERT_FATAL(p != NULL);
	buf_init(&target, 4096);
	CU_ASSERT(judge(p, "GET", "/v1.41/containers/json?a%26b%3Dc%23%20=1%262", NULL, &target) == DECISION_ALLOW);
	UNIT_CHECK(slice_is(buf_slice(&target), "/v1.41/containers/json?a%26b%3Dc%23%20=1%262"), "%.*s",
		SLICE_ARG(buf_slice(&target)));
	buf_clear(&target);
	CU_ASSERT(judge(p, "GET", "/v1.41/images/a%2Fb%3A1/json", NULL, &target) == DECISION_ALLOW);
	UNIT_CHECK(slice_is(buf_slice(&target), "/v1.41/images/a/b:1/json"), "%.*s", SLICE_ARG(buf_slice(&target)));
	CU_ASSERT(judge(p, "GET", "/v1.41/images/a%2F..%2F..%2Fcontainers%2Fx/json", NULL, NULL) == DECISION_DENY);
	CU_ASSERT(judge(p, "GET", "/v1.41/images/a%2F%2Fx/json", NULL, NULL) == DECISION_DENY);
	CU_ASSERT(judge(p, "GET", "/v1.41/images/a%2F/json", NULL, NULL) == DECISION_DENY);
	CU_ASSERT(judge(p, "GET", "/v1.41/images/a%2F./json", NULL, NULL) == DECISION_DENY);
	buf_release(&target);
	policy_free(p);
}

static void faults(void)
{
	static const char *const unclear[] = { "CONTAINERS", "maybe", NULL };
	static const char *const nothing[] = { "PING", "0", "VERSION", "0", "EVENTS", "0", NULL };
	struct err err = ERR_INIT;

	CU_ASSERT(translate(unclear, &err) == NULL);
	CU_ASSERT_STRING_EQUAL(err.text, "CONTAINERS is neither 0 nor 1");
	CU_ASSERT(translate(nothing, &err) == NULL);
	CU_ASSERT(strstr(err.text, "no endpoint") != NULL);
	CU_ASSERT(import_env_knows("POST") && import_env_knows("ALLOW_START") && import_env_knows("LOG_LEVEL"));
	CU_ASSERT(import_env_knows("DELETE") && import_env_knows("ALLOW_EXEC") && import_env_knows("ALLOW_EXPORT"));
	CU_ASSERT(!import_env_knows("POSTS"));
}

static const struct unit_test tests[] = {
	{ "endpoints", endpoints },
	{ "names-stay-names", names_stay_names },
	{ "faults", faults },
};

UNIT_MAIN("import-env", tests)
