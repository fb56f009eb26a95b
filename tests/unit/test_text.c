/* Bytes as JSON: whole characters and base64. A.lifecycle.8 */
#include "controller/text.h"

#include "controller/base64.h"
#include "tests/unit/unit.h"

static void test_partial(void)
{
	static const struct {
		const char *text;
		size_t partial;
	} cases[] = {
		{ "", 0 }, { "a", 0 }, { "\xc3", 1 }, { "a\xc3", 1 }, { "\xc3\xa9", 0 }, { "\xe2\x82", 2 }, { "\xe2", 1 },
		{ "\xe2\x82\xac", 0 }, { "\xf0\x9f\x98", 3 }, { "\xf0\x9f\x98\x80", 0 }, { "\xf0", 1 }, { "\x80\x80\x80", 0 },
		{ "\xff", 0 }, { "\xc0", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(text_partial(slice_str(cases[i].text)) == cases[i].partial, "case %zu", i);
}

/* A text of characters of every length, cut at each byte: what remains is always whole. */
static void test_every_cut(void)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xf0\x9f\x98\x80";

	for (size_t n = 0; n < sizeof(text); n++) {
		struct slice s = slice_make(text, n < sizeof(text) - 1 ? n : sizeof(text) - 1);

		s.len -= text_partial(s);
		UNIT_CHECK(text_is_utf8(s), "cut %zu", n);
	}
	CU_ASSERT(!text_is_utf8(slice_make("a\0b", 3)));
}

static void test_base64(void)
{
	static const struct {
		const char *plain, *encoded;
	} cases[] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" }, { "\xff\xfe", "//4=" },
	};
	static const char *const wrong[] = { "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm-_", "=Zg=" };
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *encoded = base64_encode(slice_str(cases[i].plain), &len);
		UNIT_CHECK(strcmp(encoded, cases[i].encoded) == 0 && len == strlen(encoded), "case %zu: %s", i, encoded);
		auto_free char *plain = base64_decode(slice_str(cases[i].encoded), &len);
		UNIT_CHECK(plain != NULL && len == strlen(cases[i].plain) && memcmp(plain, cases[i].plain, len) == 0, "case %zu", i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		auto_free char *plain = base64_decode(slice_str(wrong[i]), &len);
		UNIT_CHECK(plain == NULL, "\"%s\" was accepted", wrong[i]);
	}
}

static void test_printable(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },
		{ "a b~", "a b~" },
		{ "é€😀", "é€😀" },
		{ "\033[2J", "\\x1b[2J" },
		{ "a\nb\tc\r", "a\\x0ab\\x09c\\x0d" },
		{ "\x7f", "\\x7f" },
		{ "\xc2\x9b" "2J", "\\xc2\\x9b2J" }, /* C1: CSI in one character */
		{ "\xc2\xa0", "\xc2\xa0" },
		{ "\xe2\x80\xae" "gpj.exe", "\\xe2\\x80\\xaegpj.exe" },
		{ "\xe2\x81\xa6x", "\\xe2\\x81\\xa6x" },
		{ "\xe2\x80\x94", "\xe2\x80\x94" },
		{ "\xff\xe2\x82", "\\xff\\xe2\\x82" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *out = text_printable(slice_str(cases[i].in));
		UNIT_CHECK(strcmp(out, cases[i].out) == 0, "case %zu: %s", i, out);
	}
}

static const struct unit_test tests[] = {
	{ "partial", test_partial },
	{ "every-cut", test_every_cut },
	{ "base64", test_base64 },
	{ "printable", test_printable },
};

UNIT_MAIN("text", tests)
