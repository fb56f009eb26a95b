/* learn: what a log opens in the proposed policy, and what it never opens. */
#include "unit.h"

#include "dockerproxy/learn.h"
#include "dockerproxy/verdict.h"

#define DENIED(method, target, at) \
	"{\"decision\":\"would_deny\",\"request\":\"r\",\"method\":\"" method "\",\"target\":\"" target "\",\"at\":\"" at \
	"\",\"reason\":\"x\"}"

static const char *const lines[] = {
	"{\"decision\":\"allow\",\"method\":\"GET\",\"target\":\"/_ping\"}",
	DENIED("GET", "/v1.41/info", "endpoint"),
	DENIED("GET", "/v1.41/containers/kernel/json?size=1", "path.id"),
	DENIED("GET", "/v1.41/containers/cap-x/json?size=0", "query.size"),
	DENIED("POST", "/v1.41/containers/create?name=cap-x&platform=linux", "query.platform"),
	DENIED("POST", "/v1.41/containers/create?name=cap-x", "/HostConfig/Privileged"),
	DENIED("POST", "/v1.41/containers/create?name=cap-x", ""),
	DENIED("GET", "/v1.41/images/a/b:1/history", "endpoint"),
	DENIED("POST", "/v1.41/containers/x/update", "endpoint"),
	DENIED("GET", "/odd/path-1", "endpoint"),
	DENIED("GET", "/odd/pa%41th", "endpoint"),
	DENIED("GET", "/odd/*/path", "endpoint"),
	DENIED("TRACE", "/v1.41/info", "method"),
	DENIED("GET", "/v1.41/../x", "path"),
	DENIED("GET", "/v1.41/volumes?x=\\n*/", "query"),
	"{\"decision\":\"deny\",\"method\":\"GET\",\"target\":\"/v1.41/swarm\"}",
	"{\"event\":\"close\"}",
	"not json",
	"",
};

static const struct {
	const char *method, *target, *body;
	bool allow;
} cases[] = {
	{ "GET", "/_ping", NULL, true },
	{ "GET", "/v1.44/info", NULL, true },
	{ "GET", "/v1.41/containers/kernel/json", NULL, true },
	{ "GET", "/v1.41/containers/cap-y/json?size=1", NULL, true },
	{ "GET", "/v1.41/containers/other/json", NULL, false },
	{ "GET", "/v1.41/containers/cap-y/json?size=2", NULL, false },
	{ "POST", "/v1.41/containers/cap-y/start", NULL, false }, /* never used */
	{ "GET", "/v1.41/images/a/b:1/history", NULL, true },
	{ "GET", "/v1.41/images/other/history", NULL, false },
	{ "POST", "/v1.41/containers/x/update", "{}", false },
	{ "GET", "/odd/path-1", NULL, true },
	{ "GET", "/v1.41/swarm", NULL, false },
	{ "POST", "/v1.41/containers/create?name=cap-x&platform=linux",
		"{\"Image\":\"a\",\"Labels\":{\"dev.capybara.sandbox\":\"1\"},\"HostConfig\":{\"CapDrop\":[\"ALL\"],\"SecurityOpt\":"
		"[\"no-new-privileges\"],\"ReadonlyRootfs\":true,\"PidsLimit\":1,\"Memory\":4194304,\"NetworkMode\":\"none\"}}",
		true },
	{ "POST", "/v1.41/containers/create?name=cap-x",
		"{\"Image\":\"a\",\"Labels\":{\"dev.capybara.sandbox\":\"1\"},\"HostConfig\":{\"CapDrop\":[\"ALL\"],\"SecurityOpt\":"
		"[\"no-new-privileges\"],\"ReadonlyRootfs\":true,\"PidsLimit\":1,\"Memory\":4194304,\"NetworkMode\":\"none\","
		"\"Privileged\":true}}",
		false },
};

static bool allows(const struct policy *p, size_t i)
{
	struct verdict_request req = {
		.method = slice_str(cases[i].method),
		.target = slice_str(cases[i].target),
		.content_type = SLICE_LIT("application/json"),
		.has_length = cases[i].body != NULL,
		.length = cases[i].body == NULL ? 0 : strlen(cases[i].body),
	};
	enum decision d;
	struct verdict v;

	verdict_init(&v);
	d = verdict_head(&v, p, &req, 0);
	if (d == DECISION_NEED_BODY)
		d = verdict_body(&v, p, slice_str(cases[i].body));
	verdict_release(&v);
	return d == DECISION_ALLOW;
}

static void proposal(void)
{
	struct err err = ERR_INIT;
	struct policy *base = policy_builtin(&err);
	struct policy *learned;
	struct learn *l;
	struct buf text;

	CU_ASSERT_FATAL(base != NULL);
	l = learn_new(base, &err);
	CU_ASSERT_FATAL(l != NULL);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		CU_ASSERT(learn_line(l, slice_str(lines[i]), &err) == 0);
	buf_init(&text, 1 << 20);
	CU_ASSERT(learn_print(l, &text, &err) == 0);
	CU_ASSERT(buf_putc(&text, '\0') == 0);
	CU_ASSERT(strstr(buf_head(&text), "NOT opened: body /HostConfig/Privileged was refused 1 times (x)") != NULL);
	CU_ASSERT(strstr(buf_head(&text), "the first: r GET /v1.41/info") != NULL);
	text.end--;
	learned = policy_load(buf_slice(&text), "learned", &err);
	UNIT_CHECK(learned != NULL, "%s", err.text);
	for (size_t i = 0; learned != NULL && i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(allows(learned, i) == cases[i].allow, "case %zu: %s %s", i, cases[i].method, cases[i].target);
	buf_release(&text);
	policy_free(learned);
	learn_free(l);
	policy_free(base);
}

/* More values than are named become a pattern; none is lost, and none widens more than it must. */
static void many_values(void)
{
	struct err err = ERR_INIT;
	struct policy *base = policy_builtin(&err);
	struct policy *learned;
	struct learn *l;
	struct buf text;

	CU_ASSERT_FATAL(base != NULL);
	l = learn_new(base, &err);
	CU_ASSERT_FATAL(l != NULL);
	for (unsigned i = 0; i < 20; i++) {
		char line[256];

		snprintf(line, sizeof(line), DENIED("GET", "/v1.41/networks/net%u", "path.name"), i);
		CU_ASSERT(learn_line(l, slice_str(line), &err) == 0);
	}
	buf_init(&text, 1 << 20);
	CU_ASSERT(learn_print(l, &text, &err) == 0);
	learned = policy_load(buf_slice(&text), "learned", &err);
	UNIT_CHECK(learned != NULL, "%s", err.text);
	CU_ASSERT(strstr(buf_head(&text), "^[A-Za-z0-9_.-]{1,255}$") != NULL);
	buf_release(&text);
	policy_free(learned);
	learn_free(l);
	policy_free(base);
}

static void nothing(void)
{
	struct err err = ERR_INIT;
	struct policy *base = policy_builtin(&err);
	struct learn *l = learn_new(base, &err);
	struct buf text;

	CU_ASSERT_FATAL(l != NULL);
	buf_init(&text, 1 << 20);
	CU_ASSERT(learn_line(l, SLICE_LIT("{\"decision\":\"deny\",\"method\":\"GET\",\"target\":\"/info\"}"), &err) == 0);
	CU_ASSERT(learn_print(l, &text, &err) < 0);
	CU_ASSERT(strstr(err.text, "no line of 1") != NULL);
	buf_release(&text);
	learn_free(l);
	policy_free(base);
}

static const struct unit_test tests[] = {
	{ "proposal", proposal },
	{ "many-values", many_values },
	{ "nothing", nothing },
};

UNIT_MAIN("learn", tests)
