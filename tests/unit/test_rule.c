/* The allowlist: what an entry allows, what it never allows, and what no list may hold. */
#include "egressd/rule.h"

#include "tests/unit/unit.h"

static const struct ports connect_ports = { 2, { 443, 80 } };

static struct rules *parsed(const char *text)
{
	struct err err = ERR_INIT;
	struct rules *rules = rules_parse(slice_str(text), &err);

	UNIT_CHECK(rules != NULL, "%s: %s", text, err.text);
	return rules;
}

static void test_matching(void)
{
	static const struct {
		const char *list, *host;
		uint16_t port;
		enum reason want;
		const char *rule;
	} cases[] = {
		{ "", "example.com", 443, REASON_HOST_DENIED, NULL },
		{ " ,, \n", "example.com", 443, REASON_HOST_DENIED, NULL },
		{ "example.com", "example.com", 443, REASON_OK, "example.com" },
		{ "example.com", "example.com", 80, REASON_OK, "example.com" },
		{ "example.com", "example.com", 8443, REASON_PORT_DENIED, "example.com" },
		{ "example.com", "www.example.com", 443, REASON_HOST_DENIED, NULL },
		{ "example.com", "notexample.com", 443, REASON_HOST_DENIED, NULL },
		{ "example.com", "example.com.evil.test", 443, REASON_HOST_DENIED, NULL },
		{ "example.com", "com", 443, REASON_HOST_DENIED, NULL },
		{ "EXAMPLE.COM.", "example.com", 443, REASON_OK, "example.com" },
		{ "*.example.com", "example.com", 443, REASON_HOST_DENIED, NULL },
		{ "*.example.com", "a.example.com", 443, REASON_OK, "*.example.com" },
		{ "*.example.com", "a.b.c.example.com", 443, REASON_OK, "*.example.com" },
		{ "*.example.com", "notexample.com", 443, REASON_HOST_DENIED, NULL },
		{ "*.example.com", "a.notexample.com", 443, REASON_HOST_DENIED, NULL },
		{ "*.example.com", "example.com.evil.test", 443, REASON_HOST_DENIED, NULL },
		{ "*.example.com example.com", "example.com", 443, REASON_OK, "example.com" },
		{ "example.com:8443", "example.com", 8443, REASON_OK, "example.com:8443" },
		{ "example.com:8443", "example.com", 443, REASON_PORT_DENIED, "example.com:8443" },
		{ "example.com:8443,example.com", "example.com", 443, REASON_OK, "example.com" },
		{ "example.com:8443,example.com", "example.com", 8443, REASON_OK, "example.com:8443" },
		{ "*.example.com:22", "git.example.com", 22, REASON_OK, "*.example.com:22" },
		{ "*.example.com:22", "git.example.com", 443, REASON_PORT_DENIED, "*.example.com:22" },
		{ "*.example.com:22 a.example.com", "a.example.com", 443, REASON_OK, "a.example.com" },
		{ "*.example.com:22 *.b.example.com", "a.b.example.com", 443, REASON_OK, "*.b.example.com" },
		{ "localhost:24001", "localhost", 24001, REASON_OK, "localhost:24001" },
		{ "b.test,a.test\tc.test\nd.test", "d.test", 443, REASON_OK, "d.test" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rules *rules = parsed(cases[i].list);
		const struct rule *which = NULL;
		struct host host;
		CU_ASSERT_EQUAL_FATAL(host_parse(slice_str(cases[i].host), &host), REASON_OK);
		enum reason r = rules_match(rules, &host, cases[i].port, &connect_ports, &which);
		UNIT_CHECK(r == cases[i].want, "[%s] %s:%u gives %s", cases[i].list, cases[i].host,
			(unsigned)cases[i].port, reason_id(r));
		UNIT_CHECK((which == NULL) == (cases[i].rule == NULL)
			&& (which == NULL || strcmp(which->text, cases[i].rule) == 0), "[%s] %s", cases[i].list,
			cases[i].host);
		rules_free(rules);
	}
}

static void test_refused_entries(void)
{
	static const struct {
		const char *entry, *says;
	} cases[] = {
		{ "*", "star" }, { "*.", "plain spelling" }, { "*.com", "two labels" }, { "a.*.com", "star" },
		{ "*example.com", "star" }, { "**.example.com", "star" }, { "127.0.0.1", "name a host" },
		{ "10.0.0.0/8", "plain spelling" }, { "[::1]", "name a host" }, { "http://example.com", "port" },
		{ "b\xc3\xbc" "cher.example", "xn--" }, { "example.com:0", "port" }, { "example.com:99999", "port" },
		{ "example.com:1-9", "port" }, { "u@example.com", "plain spelling" }, { "*.1", "name a host" },
		{ "udp://example.com:53", "plain spelling" }, { "example.com:53/udp", "port" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;
		struct rules *rules = rules_parse(slice_str(cases[i].entry), &err);
		UNIT_CHECK(rules == NULL, "%s", cases[i].entry);
		UNIT_CHECK(err.text[0] != '\0', "%s", cases[i].entry);
		UNIT_CHECK(strstr(err.text, cases[i].says) != NULL, "%s: %s", cases[i].entry, err.text);
		rules_free(rules);
	}
}

static void count_note(const struct rule *rule, const char *note, void *arg)
{
	unsigned *n = arg;

	CU_ASSERT_PTR_NOT_NULL(rule);
	CU_ASSERT(strlen(note) > 10);
	(*n)++;
}

static void test_notes(void)
{
	static const struct {
		const char *list;
		unsigned notes;
	} cases[] = {
		{ "example.com", 0 }, { "*.example.com", 1 }, { "*.example.com example.com", 0 },
		{ "*.github.io github.io", 1 }, { "*.s3.amazonaws.com s3.amazonaws.com", 1 }, { "dns.google", 1 },
		{ "user.github.io", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rules *rules = parsed(cases[i].list);
		unsigned n = 0;
		rules_notes(rules, count_note, &n);
		UNIT_CHECK(n == cases[i].notes, "[%s] has %u notes", cases[i].list, n);
		rules_free(rules);
	}
}

static void test_ports(void)
{
	struct ports ports;
	struct err err = ERR_INIT;

	CU_ASSERT_EQUAL(ports_parse(SLICE_LIT("443, 80 8080,443"), &ports, &err), 0);
	CU_ASSERT_EQUAL(ports.n, 3);
	CU_ASSERT(ports_has(&ports, 8080));
	CU_ASSERT(!ports_has(&ports, 22));
	CU_ASSERT_EQUAL(ports_parse(SLICE_LIT(""), &ports, &err), 0);
	CU_ASSERT(!ports_has(&ports, 443));
	CU_ASSERT_EQUAL(ports_parse(SLICE_LIT("1-1024"), &ports, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "range"));
	CU_ASSERT_EQUAL(ports_parse(SLICE_LIT("443,https"), &ports, &err), -1);
}

static void test_large_list(void)
{
	struct err err = ERR_INIT;
	struct rules *rules = rules_new();
	const struct rule *which;
	struct host host;
	char name[64];

	for (int i = 0; i < RULES_MAX; i++) {
		snprintf(name, sizeof(name), "h%d.example.com", i);
		CU_ASSERT_EQUAL_FATAL(rules_add(rules, slice_str(name), &err), 0);
	}
	CU_ASSERT_EQUAL(rules_add(rules, SLICE_LIT("one.too.many"), &err), -1);
	rules_seal(rules);
	CU_ASSERT_EQUAL(host_parse(SLICE_LIT("h19999.example.com"), &host), REASON_OK);
	CU_ASSERT_EQUAL(rules_match(rules, &host, 443, &connect_ports, &which), REASON_OK);
	CU_ASSERT_EQUAL(host_parse(SLICE_LIT("h20000.example.com"), &host), REASON_OK);
	CU_ASSERT_EQUAL(rules_match(rules, &host, 443, &connect_ports, &which), REASON_HOST_DENIED);
	rules_free(rules);
}

static const struct unit_test tests[] = {
	{ "matching", test_matching },
	{ "refused_entries", test_refused_entries },
	{ "notes", test_notes },
	{ "ports", test_ports },
	{ "large_list", test_large_list },
};

UNIT_MAIN("rule", tests)
