/* Bytes as JSON: whole characters and base64. A.lifecycle.8 */
#include "controller/text.h"

#include "controller/base64.h"
#include "controller/json_out.h"
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
	static const char *const wrong[] = { "Zg", "Zg=", "Zg===", "Z===", "====", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n", "Zm-_", "=Zg=",
		"\xff\xff\xff\xff", "Zm9vZ\x80==" };
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

/* Text is examined eight bytes at a time: a byte that is none of UTF-8 is found wherever it stands. */
static void test_bad_byte_anywhere(void)
{
	char text[40];

	for (size_t at = 0; at < sizeof(text); at++) {
		memset(text, 'x', sizeof(text));
		CU_ASSERT(text_is_utf8(slice_make(text, sizeof(text))));
		text[at] = (char)0xff;
		UNIT_CHECK(!text_is_utf8(slice_make(text, sizeof(text))), "at %zu", at);
		UNIT_CHECK(text_is_utf8(slice_make(text, at)), "before %zu", at);
	}
}

/* A long run, of every length modulo 3 and every byte, against what the strict decoder makes of it. */
static void test_base64_long(void)
{
	char plain[1000];
	size_t len;

	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (char)(i * 7 + i / 256);
	for (size_t n = sizeof(plain) - 6; n <= sizeof(plain); n++) {
		auto_free char *encoded = base64_encode(slice_make(plain, n), &len);
		UNIT_CHECK(len == BASE64_LEN(n), "%zu bytes become %zu", n, len);
		auto_free char *again = base64_decode(slice_make(encoded, len), &len);
		UNIT_CHECK(again != NULL && len == n && memcmp(again, plain, n) == 0, "%zu bytes do not come back", n);
	}
}

/* What goes to a client is what json-c says of the same document, byte for byte, lazily encoded members too. */
static void test_json_out(void)
{
	static const char *const texts[] = { "", "plain", "quote \" backslash \\ slash / tab \t line \n",
		"\x01\x1f", "\xc3\xa9\xe2\x82\xac" };
	auto_json struct json_object *o = jnew();
	struct buf b;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		jset_cstr(o, texts[i], texts[i]);
	jset_int(o, "int", INT64_MIN);
	jset_bool(o, "bool", true);
	jset_cstr(o, "null", NULL);
	jset(o, "double", json_object_new_double(0.5));
	jadd(jarr(o, "list"), jnew());
	jadd_cstr(json_object_object_get(o, "list"), "x");
	text_set(o, "text", SLICE_LIT("plain"), false);
	text_set(o, "bytes", slice_make("\xff\0\xfe", 3), true);
	text_set(o, "none", SLICE_LIT(""), true);
	buf_init(&b, 4096);
	CU_ASSERT_EQUAL(json_out_put(&b, o), 0);
	const char *expected = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	UNIT_CHECK(slice_is(buf_slice(&b), expected), "%.*s", (int)buf_len(&b), buf_head(&b));
	CU_ASSERT_PTR_NOT_NULL(strstr(expected, "\"bytes\":\"/wD+\",\"none\":\"\""));
	buf_release(&b);
	for (size_t max = 0; max < strlen(expected); max++) {
		buf_init(&b, max);
		CU_ASSERT_EQUAL(json_out_put(&b, o), -1);
		CU_ASSERT_EQUAL(buf_len(&b), 0);
		buf_release(&b);
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
	{ "base64-long", test_base64_long },
	{ "json-out", test_json_out },
	{ "bad-byte-anywhere", test_bad_byte_anywhere },
	{ "printable", test_printable },
};

UNIT_MAIN("text", tests)
