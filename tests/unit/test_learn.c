/* learn: what a log opens in the proposed policy, and what it never opens. */
#include "unit.h"

#include <stdarg.h>

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
	DENIED("GET", "/", "endpoint"),
	DENIED("GET", "/v1.41", "endpoint"),
	DENIED("GET", "/v1.41/images/docker.io%2Fa%2Fb/history", "endpoint"),
	DENIED("GET", "/v1.41/images/a%2FBig/json", "path.name"),
	DENIED("GET", "/v1.41/containers/k%65rnel/logs", "endpoint"),
	DENIED("DELETE", "/v1.41/containers/cap-x?link=0", "query.link"),
	DENIED("DELETE", "/v1.41/containers/cap-x?n%C3%A9=0", "query"),
	"{\"decision\":\"allow\",\"method\":\"POST\",\"target\":\"/v1.41/containers/cap-x/exec\"}",
	"{\"decision\":\"would_deny\",\"method\":\"GET\",\"target\":\"/cut\",\"at\":\"endpoint\",\"cut\":true}",
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
	{ "GET", "/v1.41/images/docker.io%2fa%2Fb/history", NULL, true },
	{ "GET", "/v1.41/images/a%2FBig/json", NULL, true },
	{ "GET", "/v1.41/images/a%2FBag/json", NULL, false },
	{ "DELETE", "/v1.41/containers/cap-x?link=false", NULL, true },
	{ "DELETE", "/v1.41/containers/cap-x?link=1", NULL, false }, /* 0 was asked for */
	{ "DELETE", "/v1.41/containers/cap-x?n%3F%3F=0", NULL, false },
	{ "GET", "/v1.41/containers/kernel/json?size=1", NULL, true },
	{ "GET", "/v1.41/containers/kernel/json?size=2", NULL, false },
	{ "DELETE", "/v1.41/containers/kernel", NULL, false },
	{ "POST", "/v1.41/containers/kernel/exec", "{\"Cmd\":[\"id\"],\"User\":\"1000\"}", false },
	{ "GET", "/cut", NULL, false },
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
	/* A look at one container was asked for: no row with an owner may take its id for one that is owned. */
	CU_ASSERT(learned != NULL && policy_container_name_ok(learned, SLICE_LIT("cap-x")));
	CU_ASSERT(learned != NULL && !policy_container_name_ok(learned, SLICE_LIT("kernel")));
	for (size_t i = 0; learned != NULL && i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(allows(learned, i) == cases[i].allow, "case %zu: %s %s", i, cases[i].method, cases[i].target);
	buf_release(&text);
	policy_free(learned);
	learn_free(l);
	policy_free(base);
}

/* What the base policy makes of the lines: the text of the proposal, and the proposal. */
static struct policy *learned_from(const struct policy *base, struct buf *text, void (*tell)(struct learn *l))
{
	struct err err = ERR_INIT;
	struct learn *l = learn_new(base, &err);
	struct policy *learned;

	CU_ASSERT_FATAL(l != NULL);
	tell(l);
	buf_init(text, 16 << 20);
	UNIT_CHECK(learn_print(l, text, &err) == 0, "%s", err.text);
	learned = policy_load(buf_slice(text), "learned", &err);
	UNIT_CHECK(learned != NULL, "%s", err.text);
	CU_ASSERT_FATAL(learned != NULL);
	CU_ASSERT(buf_putc(text, '\0') == 0);
	learn_free(l);
	return learned;
}

static void tell(struct learn *l, const char *fmt, ...)
{
	struct err err = ERR_INIT;
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	UNIT_CHECK(learn_line(l, slice_str(line), &err) == 0, "%s", err.text);
}

static void tell_values(struct learn *l)
{
	for (unsigned i = 0; i < 20; i++)
		tell(l, DENIED("GET", "/v1.41/networks/net%u", "path.name"), i);
	/* The first eight say nothing of the ninth. */
	for (unsigned i = 0; i < 8; i++)
		tell(l, DENIED("GET", "/v1.41/odd?size=%u", "endpoint"), i);
	tell(l, DENIED("GET", "/v1.41/odd?size=a:b", "endpoint"));
	for (unsigned i = 0; i < 9; i++)
		tell(l, DENIED("GET", "/v1.41/containers/other%u/json", "path.id"), i);
}

/* More values than are named become a pattern; none is lost, and none widens more than it must. */
static void many_values(void)
{
	struct err err = ERR_INIT;
	struct policy *base = policy_builtin(&err);
	struct policy *learned;
	struct buf text;

	CU_ASSERT_FATAL(base != NULL);
	learned = learned_from(base, &text, tell_values);
	CU_ASSERT(strstr(buf_head(&text), "^[A-Za-z0-9_.-]{1,255}$") != NULL);
	CU_ASSERT(strstr(buf_head(&text),
				  "\"size\": { \"type\": \"string\", \"pattern\": \"^[A-Za-z0-9_.:/@-]{1,255}$\"") != NULL);
	CU_ASSERT(strstr(buf_head(&text), "// 9 requests, with more values than are named here: WIDER") != NULL);
	/* Foreign containers are opened by name or not at all. */
	CU_ASSERT(strstr(buf_head(&text), "\"path\": \"/containers/other7/json\"") != NULL);
	CU_ASSERT(strstr(buf_head(&text), "containers beyond the 8 that have a row of their own") != NULL);
	CU_ASSERT(!policy_container_name_ok(learned, SLICE_LIT("other8")));
	buf_release(&text);
	policy_free(learned);
	policy_free(base);
}

static void tell_too_much(struct learn *l)
{
	for (unsigned i = 0; i < 300; i++)
		tell(l, DENIED("POST", "/v1.41/containers/create?name=cap-x", "/F%u"), i);
	for (unsigned i = 0; i < 1100; i++)
		tell(l, DENIED("GET", "/odd%u", "endpoint"), i);
	tell(l, DENIED("GET", "/v1.41/info", "endpoint")); /* beyond the limit */
	tell(l, "{\"decision\":\"allow\",\"method\":\"GET\",\"target\":\"/_ping\"}");
	for (unsigned len = 250; len < 260; len++)
		tell(l, DENIED("PUT", "/%0*u/a", "endpoint"), (int)len, 0);
}

/* A client that floods the log takes nothing from the others' rows, and the proposal still loads. */
static void too_much(void)
{
	struct err err = ERR_INIT;
	struct policy *base = policy_builtin(&err);
	struct policy *learned;
	struct buf text;

	CU_ASSERT_FATAL(base != NULL);
	learned = learned_from(base, &text, tell_too_much);
	CU_ASSERT(strstr(buf_head(&text), "NOT opened: body /F199 was refused 1 times") != NULL);
	CU_ASSERT(strstr(buf_head(&text), "NOT opened: 100 parameters or fields more") != NULL);
	CU_ASSERT(strstr(buf_head(&text), "NOT opened: 104 requests of more than 1000 endpoints") != NULL);
	CU_ASSERT(strstr(buf_head(&text), "\"/_ping\"") != NULL);
	buf_release(&text);
	policy_free(learned);
	policy_free(base);
}

static void tell_first(struct learn *l)
{
	tell(l, DENIED("GET", "/one", "endpoint"));
	tell(l, DENIED("GET", "/two", "endpoint"));
}

static void tell_second(struct learn *l)
{
	tell(l, "{\"decision\":\"allow\",\"method\":\"GET\",\"target\":\"/one\"}");
	tell(l, "{\"decision\":\"allow\",\"method\":\"GET\",\"target\":\"/two\"}");
	tell(l, DENIED("GET", "/three", "endpoint"));
}

/* A proposal can be the base of the next one. */
static void again(void)
{
	struct err err = ERR_INIT;
	struct policy *base = policy_builtin(&err);
	struct policy *first, *second;
	struct buf text, more;

	CU_ASSERT_FATAL(base != NULL);
	first = learned_from(base, &text, tell_first);
	second = learned_from(first, &more, tell_second);
	CU_ASSERT(strstr(buf_head(&more), "\"learned.0\"") != NULL && strstr(buf_head(&more), "\"learned.1\"") != NULL);
	CU_ASSERT(strstr(buf_head(&more), "\"learned.2\"") != NULL);
	buf_release(&text);
	buf_release(&more);
	policy_free(second);
	policy_free(first);
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
	{ "too-much", too_much },
	{ "again", again },
	{ "nothing", nothing },
};

UNIT_MAIN("learn", tests)
