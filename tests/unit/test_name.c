/* Names that clients may give, and those they may not. */
#include "controller/name.h"

#include "tests/unit/unit.h"

struct name_case {
	const char *text;
	bool ok;
};

static void run(const char *what, int (*check)(struct slice, struct err *), const struct name_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err err = ERR_INIT;
		bool ok = check(slice_str(cases[i].text), &err) == 0;

		UNIT_CHECK(ok == cases[i].ok, "%s \"%s\": %s", what, cases[i].text, ok ? "accepted" : err.text);
		UNIT_CHECK(ok || err.text[0] != '\0', "%s \"%s\" has no message", what, cases[i].text);
	}
}

static int check_image(struct slice s, struct err *err)
{
	bool tagged;

	return name_check_image(s, &tagged, err);
}

static void test_sandbox(void)
{
	static const struct name_case cases[] = {
		{ "cap-1", true }, { "cap-a.b_c-D", true }, { "cap-", false }, { "cap", false }, { "", false }, { "Cap-1", false },
		{ "cap-a/b", false }, { "cap-a b", false }, { "cap-a\n", false }, { "cap-\xc3\xa9", false }, { "xcap-1", false },
		{ "cap-a-egress", false }, { "cap-egress-a", true }, { "cap-..", true }, { "cap-a%2e", false },
		{ "cap-123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456", true },
		{ "cap-1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567", false },
	};
	struct err err = ERR_INIT;

	run("sandbox", name_check_sandbox, cases, ARRAY_SIZE(cases));
	CU_ASSERT(name_check_sandbox(slice_make("cap-a\0b", 7), &err) != 0);
}

static void test_tag(void)
{
	static const struct name_case cases[] = {
		{ "a", true }, { "A-b_9", true }, { "", false }, { "a/b", false }, { "a.b", false }, { "a b", false },
		{ "1234567890123456789012345678901234567890123456789012345678901234", true },
		{ "12345678901234567890123456789012345678901234567890123456789012345", false },
	};

	run("tag", name_check_tag, cases, ARRAY_SIZE(cases));
}

static void test_host(void)
{
	static const struct name_case cases[] = {
		{ "example.com", true }, { "*.example.com", true }, { "example.com:8443", true }, { "*.example.com:443", true },
		{ "localhost", true }, { "a_b.example", true }, { "xn--bcher-kva.example", true }, { "1.2.3.4", false },
		{ "1.2.3.4:80", false }, { "::1", false }, { "[::1]:80", false }, { "127.1", false }, { "0x7f.1", false },
		{ "2130706433", false }, { "b\xc3\xbc" "cher.example", false }, { "*", false }, { "*.*.example", false },
		{ "a*.example", false }, { "", false }, { "example.com:0", false }, { "example.com:65536", false },
		{ "example.com:", false }, { "example.com:80x", false }, { "http://example.com", false }, { "-a.example", false },
		{ "a..b", false }, { "a.b.", false }, { "a/b", false }, { "a,b", false }, { "a b", false },
	};

	run("host", name_check_allow_host, cases, ARRAY_SIZE(cases));
}

static void test_image(void)
{
	static const char digest[] = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	static const struct name_case cases[] = {
		{ "a", true }, { "capybara-sandbox:latest", true }, { "registry.example:5000/a/b_c:1.2", true },
		{ "localhost/a", true }, { "a/b/c", true }, { "", false }, { "A", false }, { "a:", false }, { "a:-x", false },
		{ "/a", false }, { "a/", false }, { "a//b", false }, { "a b", false }, { "a?x", false }, { "a&tag=b", false },
		{ "a@sha256:12", false }, { "a@md5:00", false }, { "\xc3\xa9", false }, { "-a", false }, { "a\nb", false },
		{ "registry.example:x/a", false },
	};
	bool tagged = false;
	struct err err = ERR_INIT;
	char text[128];

	run("image", check_image, cases, ARRAY_SIZE(cases));
	snprintf(text, sizeof(text), "a/b%s", digest);
	CU_ASSERT(name_check_image(slice_str(text), &tagged, &err) == 0 && tagged);
	CU_ASSERT(name_check_image(slice_str("r.example:5000/a"), &tagged, &err) == 0 && !tagged);
	CU_ASSERT(name_check_image(slice_str("r.example:5000/a:b"), &tagged, &err) == 0 && tagged);
}

static void test_path(void)
{
	static const struct name_case cases[] = {
		{ "/", true }, { "/a b\nc", true }, { "/\xff", true }, { "", false }, { "a", false }, { "./a", false }, { "~", false },
	};
	struct err err = ERR_INIT;

	run("path", name_check_path, cases, ARRAY_SIZE(cases));
	CU_ASSERT(name_check_path(slice_make("/a\0b", 4), &err) != 0);
}

static void test_label(void)
{
	static const struct name_case cases[] = {
		{ "dev.capybara.x", true }, { "dev.capybara.run-1_a.b", true }, { "dev.capybara.", false }, { "traefik.enable", false },
		{ "dev.capybara.X", false }, { "dev.capybara.sandbox", false }, { "dev.capybara.sandbox.name", false }, { "", false },
	};

	run("label", name_check_label, cases, ARRAY_SIZE(cases));
}

static const struct unit_test tests[] = {
	{ "sandbox", test_sandbox },
	{ "tag", test_tag },
	{ "host", test_host },
	{ "image", test_image },
	{ "path", test_path },
	{ "label", test_label },
};

UNIT_MAIN("name", tests)
