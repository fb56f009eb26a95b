/* The strict JSON reader: every fault with its place, values, names, and the tree's life. */
#include "unit.h"

#include <stdlib.h>

#include "libgate/json.h"

#define LIT(s) slice_make((s), sizeof(s) - 1)

struct fault_case {
	struct slice text;
	enum json_fault fault;
	size_t offset;
	const char *pointer;
};

static const struct fault_case fault_cases[] = {
	{ { "", 0 }, JSON_FAULT_END, 0, "" },
	{ { "  ", 2 }, JSON_FAULT_END, 2, "" },
	{ { "{", 1 }, JSON_FAULT_END, 1, "" },
	{ { "{\"a\"", 4 }, JSON_FAULT_END, 4, "/a" },
	{ { "[1", 2 }, JSON_FAULT_END, 2, "/0" },
	{ { "\"a", 2 }, JSON_FAULT_END, 2, "" },
	{ { "\"\\", 2 }, JSON_FAULT_END, 2, "" },
	{ { "\"\\u12", 5 }, JSON_FAULT_END, 5, "" },
	{ { "tru", 3 }, JSON_FAULT_END, 3, "" },
	{ { "-", 1 }, JSON_FAULT_END, 1, "" },
	{ { "1.", 2 }, JSON_FAULT_END, 2, "" },
	{ { "1e+", 3 }, JSON_FAULT_END, 3, "" },
	{ { "trux", 4 }, JSON_FAULT_SYNTAX, 3, "" },
	{ { "nul\0", 4 }, JSON_FAULT_NUL, 3, "" },
	{ { "{1:2}", 5 }, JSON_FAULT_SYNTAX, 1, "" },
	{ { "{\"a\":1,}", 8 }, JSON_FAULT_SYNTAX, 7, "" },
	{ { "[1,]", 4 }, JSON_FAULT_SYNTAX, 3, "/1" },
	{ { "[1 2]", 5 }, JSON_FAULT_SYNTAX, 3, "/0" },
	{ { "{\"a\":1 \"b\":2}", 13 }, JSON_FAULT_SYNTAX, 7, "/a" },
	{ { "'a'", 3 }, JSON_FAULT_SYNTAX, 0, "" },
	{ { "\xef\xbb\xbf{}", 5 }, JSON_FAULT_SYNTAX, 0, "" },
	{ { "/**/1", 5 }, JSON_FAULT_SYNTAX, 0, "" },
	{ { "+1", 2 }, JSON_FAULT_SYNTAX, 0, "" },
	{ { "\f1", 2 }, JSON_FAULT_SYNTAX, 0, "" },
	{ { "1 1", 3 }, JSON_FAULT_TRAILING, 2, "" },
	{ { "{}}", 3 }, JSON_FAULT_TRAILING, 2, "" },
	{ { "{}]", 3 }, JSON_FAULT_TRAILING, 2, "" },
	{ { "{}\0", 3 }, JSON_FAULT_NUL, 2, "" },
	{ { "\"\xc0\xaf\"", 4 }, JSON_FAULT_UTF8, 1, "" },
	{ { "\"\xed\xa0\x80\"", 5 }, JSON_FAULT_UTF8, 1, "" },
	{ { "\"a\xf4\x90\x80\x80\"", 7 }, JSON_FAULT_UTF8, 2, "" },
	{ { "{\"\xff\":1}", 7 }, JSON_FAULT_UTF8, 2, "" },
	{ { "\"\\\xff\"", 4 }, JSON_FAULT_UTF8, 2, "" },
	{ { "\"a\0b\"", 5 }, JSON_FAULT_NUL, 2, "" },
	{ { "[\"\\u0000\"]", 10 }, JSON_FAULT_NUL, 2, "/0" },
	{ { "{\"a\\u0000\":1}", 13 }, JSON_FAULT_NUL, 3, "" },
	{ { "{\"a\":{\"b\":\"\\u0000\"}}", 20 }, JSON_FAULT_NUL, 11, "/a/b" },
	{ { "\"\n\"", 3 }, JSON_FAULT_CONTROL, 1, "" },
	{ { "\"\x1f\"", 3 }, JSON_FAULT_CONTROL, 1, "" },
	{ { "\"\\\x01\"", 4 }, JSON_FAULT_CONTROL, 2, "" },
	{ { "\"\\x41\"", 6 }, JSON_FAULT_ESCAPE, 1, "" },
	{ { "\"\\U0041\"", 8 }, JSON_FAULT_ESCAPE, 1, "" },
	{ { "\"\\u00g0\"", 8 }, JSON_FAULT_ESCAPE, 1, "" },
	{ { "\"\\u00\"", 6 }, JSON_FAULT_ESCAPE, 1, "" },
	{ { "\"\\u00\" ", 7 }, JSON_FAULT_ESCAPE, 1, "" },
	{ { "\"\\ud800\"", 8 }, JSON_FAULT_SURROGATE, 1, "" },
	{ { "\"\\udc00\"", 8 }, JSON_FAULT_SURROGATE, 1, "" },
	{ { "\"\\ud800\\u0041\"", 14 }, JSON_FAULT_SURROGATE, 1, "" },
	{ { "\"\\ud800\\n\"", 10 }, JSON_FAULT_SURROGATE, 1, "" },
	{ { "{\"a\":1,\"a\":2}", 13 }, JSON_FAULT_DUPLICATE, 7, "/a" },
	{ { "{\"a\":1,\"\\u0061\":2}", 18 }, JSON_FAULT_DUPLICATE, 7, "/a" },
	{ { "[{\"x\":{\"/\":1,\"/\":2}}]", 21 }, JSON_FAULT_DUPLICATE, 13, "/0/x/~1" },
	{ { "{\"\":1,\"\":2}", 11 }, JSON_FAULT_DUPLICATE, 6, "/" },
	{ { "01", 2 }, JSON_FAULT_NUMBER, 1, "" },
	{ { "-01", 3 }, JSON_FAULT_NUMBER, 2, "" },
	{ { "-a", 2 }, JSON_FAULT_NUMBER, 1, "" },
	{ { "1.x", 3 }, JSON_FAULT_NUMBER, 2, "" },
	{ { "1ex", 3 }, JSON_FAULT_NUMBER, 2, "" },
};

static void each_fault(void)
{
	struct json_doc *doc = json_doc_new();
	bool seen[JSON_FAULT_COUNT] = { false };

	CU_ASSERT_FATAL(doc != NULL);
	for (size_t i = 0; i < ARRAY_SIZE(fault_cases); i++) {
		const struct fault_case *c = &fault_cases[i];
		/* a copy of exactly that size, so that a sanitizer sees a read behind it */
		char *copy = malloc(c->text.len == 0 ? 1 : c->text.len);
		enum json_fault fault;
		struct buf pointer;
		size_t offset;

		CU_ASSERT_FATAL(copy != NULL);
		memcpy(copy, c->text.p, c->text.len);
		buf_init(&pointer, 4096);
		CU_ASSERT(json_parse(doc, slice_make(copy, c->text.len), JSON_STRICT, &fault, &offset) == NULL);
		CU_ASSERT(json_put_fault_pointer(&pointer, doc) == 0);
		UNIT_CHECK(fault == c->fault && offset == c->offset, "case %zu: %s at %zu", i, json_fault_id(fault), offset);
		UNIT_CHECK(slice_is(buf_slice(&pointer), c->pointer), "case %zu: pointer %.*s", i,
			SLICE_ARG(buf_slice(&pointer)));
		seen[fault] = true;
		buf_release(&pointer);
		free(copy);
	}
	/* the rest need sizes of their own: depth below, size and memory cannot be had here */
	for (int f = JSON_OK + 1; f < JSON_FAULT_COUNT; f++)
		if (f != JSON_FAULT_DEPTH && f != JSON_FAULT_SIZE && f != JSON_FAULT_MEMORY)
			UNIT_CHECK(seen[f], "no case for %s", json_fault_id((enum json_fault)f));
	json_doc_free(doc);
}

static void depth(void)
{
	struct json_doc *doc = json_doc_new();
	char text[2 * JSON_MAX_DEPTH + 2];
	enum json_fault fault;
	size_t offset;

	memset(text, '[', JSON_MAX_DEPTH + 1);
	memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
	CU_ASSERT(json_parse(doc, slice_make(text, sizeof(text)), JSON_STRICT, &fault, &offset) == NULL);
	CU_ASSERT(fault == JSON_FAULT_DEPTH && offset == JSON_MAX_DEPTH);
	CU_ASSERT(json_parse(doc, slice_make(text + 1, sizeof(text) - 2), JSON_STRICT, &fault, &offset) != NULL);
	json_doc_free(doc);
}

/* Escaped NUL where it is taken: raw it is none, and two keys are one only when they are equal behind it, too. */
static void nuls(void)
{
	struct json_doc *doc = json_doc_new();
	const struct json_node *root;
	enum json_fault fault;
	size_t offset;

	root = json_parse(doc, SLICE_LIT("{\"a\\u0000b\":\"\\u0000\",\"a\\u0000c\":1}"), JSON_NULS, &fault, &offset);
	CU_ASSERT_FATAL(root != NULL);
	CU_ASSERT(root->child->key.len == 3 && memcmp(root->child->key.p, "a\0b", 3) == 0);
	CU_ASSERT(root->child->text.len == 1 && root->child->text.p[0] == '\0');
	CU_ASSERT(json_parse(doc, SLICE_LIT("{\"a\\u0000\":1,\"a\\u0000\":1}"), JSON_NULS, &fault, &offset) == NULL);
	CU_ASSERT(fault == JSON_FAULT_DUPLICATE);
	CU_ASSERT(json_parse(doc, SLICE_LIT("\"a\0b\""), JSON_NULS, &fault, &offset) == NULL);
	CU_ASSERT(fault == JSON_FAULT_NUL);
	json_doc_free(doc);
}

static void numbers(void)
{
	static const struct {
		const char *text;
		enum json_type type;
		int64_t value;
	} cases[] = {
		{ "0", JSON_INT, 0 },
		{ "-0", JSON_REAL, 0 },
		{ "9223372036854775807", JSON_INT, INT64_MAX },
		{ "9223372036854775808", JSON_REAL, 0 },
		{ "-9223372036854775808", JSON_INT, INT64_MIN },
		{ "-9223372036854775809", JSON_REAL, 0 },
		{ "99999999999999999999999999", JSON_REAL, 0 },
		{ "1.0", JSON_REAL, 0 },
		{ "1e2", JSON_REAL, 0 },
		{ "1E-2", JSON_REAL, 0 },
		{ "0.5e+10", JSON_REAL, 0 },
	};
	struct json_doc *doc = json_doc_new();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum json_fault fault;
		size_t offset;
		struct slice text = slice_str(cases[i].text);
		const struct json_node *n = json_parse(doc, text, JSON_STRICT, &fault, &offset);

		CU_ASSERT_FATAL(n != NULL);
		UNIT_CHECK(n->type == cases[i].type, "%.*s", SLICE_ARG(text));
		UNIT_CHECK(slice_eq(n->digits, text), "%.*s", SLICE_ARG(text));
		UNIT_CHECK(n->type != JSON_INT || n->integer == cases[i].value, "%.*s", SLICE_ARG(text));
	}
	json_doc_free(doc);
}

static void strings(void)
{
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	const struct json_node *n = json_parse(doc,
		LIT("[\"\", \"plain\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u00e9\\u20ac\\ud83d\\ude00\", \"\xe4\xbd\xa0\", \"\\u0001\"]"),
		JSON_STRICT, &fault, &offset);
	static const char *const texts[] = {
		"",
		"plain",
		"\"\\/\b\f\n\r\t",
		"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		"\xe4\xbd\xa0",
		"\x01",
	};
	size_t i = 0;

	CU_ASSERT_FATAL(n != NULL && n->count == ARRAY_SIZE(texts));
	for (const struct json_node *s = n->child; s != NULL; s = s->next, i++)
		UNIT_CHECK(s->type == JSON_STRING && slice_is(s->text, texts[i]), "string %zu", i);
	json_doc_free(doc);
}

static void keys(void)
{
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	const struct json_node *n = json_parse(doc, LIT("{\"a\":1,\"\\u0062\":2,\"\xc5\xbf\":3,\"\\u212a\":4,\"c\\nd\":5}"),
		JSON_STRICT, &fault, &offset);
	static const unsigned flags[] = {
		0,
		JSON_KEY_ESCAPED,
		JSON_KEY_NON_ASCII,
		JSON_KEY_ESCAPED | JSON_KEY_NON_ASCII,
		JSON_KEY_ESCAPED,
	};
	size_t i = 0;
	int64_t v;

	CU_ASSERT_FATAL(n != NULL);
	for (const struct json_node *m = n->child; m != NULL; m = m->next, i++) {
		UNIT_CHECK(m->key_flags == flags[i], "key %zu", i);
		UNIT_CHECK(m->key_hash == json_key_hash(m->key), "key %zu", i);
	}
	CU_ASSERT(json_get_int(n, "b", &v) && v == 2);
	CU_ASSERT(json_get_int(n, "c\nd", &v) && v == 5);
	CU_ASSERT(!json_get_int(n, "B", &v));
	CU_ASSERT(json_get(NULL, "a") == NULL && json_get(n->child, "a") == NULL);
	json_doc_free(doc);
}

/* A repeated name among many, first, last and in the middle, and none among as many. */
static void many_members(void)
{
	static const unsigned sizes[] = { 2, 8, 9, 16, 17, 100, 5000 };
	struct json_doc *doc = json_doc_new();

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
		for (unsigned twice = 0; twice <= 2; twice++) {
			enum json_fault fault;
			struct buf b;
			size_t offset;
			bool ok;

			buf_init(&b, 1 << 20);
			CU_ASSERT(buf_putc(&b, '{') == 0);
			for (unsigned i = 0; i < sizes[s]; i++)
				CU_ASSERT(buf_putf(&b, "\"key%u\":%u,", i, i) == 0);
			CU_ASSERT(buf_putf(&b, "\"key%u\":0}", twice == 0 ? sizes[s] : twice == 1 ? 0 : sizes[s] / 2) == 0);
			ok = json_parse(doc, buf_slice(&b), JSON_STRICT, &fault, &offset) != NULL;
			UNIT_CHECK(ok == (twice == 0), "%u members, %u", sizes[s], twice);
			UNIT_CHECK(ok || fault == JSON_FAULT_DUPLICATE, "%u members, %u", sizes[s], twice);
			buf_release(&b);
		}
	json_doc_free(doc);
}

/* Names that all fall on one place of the hash table must neither hide a repetition nor be taken for one. */
static void colliding_members(void)
{
	enum { N = 300 };
	struct json_doc *doc = json_doc_new();
	struct buf clean, repeated;
	enum json_fault fault;
	size_t offset;
	unsigned found = 0;
	char first[32] = "";

	buf_init(&clean, 1 << 20);
	buf_init(&repeated, 1 << 20);
	CU_ASSERT(buf_putc(&clean, '{') == 0);
	for (unsigned i = 0; found < N; i++) {
		char key[32];

		snprintf(key, sizeof(key), "k%u", i);
		if ((json_key_hash(slice_str(key)) & 0x3ff) != 7)
			continue;
		if (found++ == 0)
			snprintf(first, sizeof(first), "%s", key);
		CU_ASSERT(buf_putf(&clean, "\"%s\":1%s", key, found < N ? "," : "") == 0);
	}
	CU_ASSERT(buf_put_slice(&repeated, buf_slice(&clean)) == 0 && buf_putf(&repeated, ",\"%s\":1}", first) == 0);
	CU_ASSERT(buf_putc(&clean, '}') == 0);
	CU_ASSERT(json_parse(doc, buf_slice(&clean), JSON_STRICT, &fault, &offset) != NULL);
	CU_ASSERT(json_parse(doc, buf_slice(&repeated), JSON_STRICT, &fault, &offset) == NULL);
	CU_ASSERT(fault == JSON_FAULT_DUPLICATE && offset == buf_len(&clean));
	buf_release(&clean);
	buf_release(&repeated);
	json_doc_free(doc);
}

static void comments(void)
{
	static const struct {
		const char *text;
		bool ok;
	} cases[] = {
		{ "// a\n1", true },
		{ "/* a */1/* b */", true },
		{ "{/**/\"a\"/**/:/**/1/**/,//\n\"b\":2}", true },
		{ "[//]\n]", true },
		{ "1//", true },
		{ "\"//\"", true },
		{ "/*/1", false },
		{ "/* a", false },
		{ "1/", false },
		{ "1/x", false },
		{ "# a\n1", false },
	};
	struct json_doc *doc = json_doc_new();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum json_fault fault;
		size_t offset;

		UNIT_CHECK((json_parse(doc, slice_str(cases[i].text), JSON_COMMENTS, &fault, &offset) != NULL) == cases[i].ok,
			"%s", cases[i].text);
	}
	json_doc_free(doc);
}

static void writing(void)
{
	static const char text[] =
		"{\"a\":[1,-0,1.50,1e3,true,false,null],\"\xc3\xa9\\u0001\\\"\":\"\\u0007\\n/\",\"o\":{},\"l\":[]}";
	struct json_doc *doc = json_doc_new();
	struct buf b, again;
	enum json_fault fault;
	size_t offset;
	const struct json_node *n = json_parse(doc, LIT(text), JSON_STRICT, &fault, &offset);

	CU_ASSERT_FATAL(n != NULL);
	buf_init(&b, 4096);
	buf_init(&again, 4096);
	CU_ASSERT(json_put(&b, n) == 0);
	n = json_parse(doc, buf_slice(&b), JSON_STRICT, &fault, &offset);
	CU_ASSERT_FATAL(n != NULL);
	CU_ASSERT(json_put(&again, n) == 0);
	CU_ASSERT(slice_eq(buf_slice(&b), buf_slice(&again)));
	CU_ASSERT(slice_starts(buf_slice(&b), "{\"a\":[1,-0,1.50,1e3,true,false,null],\"\xc3\xa9\\u0001\\\"\":"));
	buf_clear(&b);
	CU_ASSERT(json_pointer_push(&b, SLICE_LIT("a/b~c")) == 0 && json_pointer_push(&b, SLICE_LIT("")) == 0);
	CU_ASSERT(slice_is(buf_slice(&b), "/a~1b~0c/"));
	buf_release(&b);
	buf_release(&again);
	json_doc_free(doc);
}

/* What is copied because nothing in it needs an escape, and what is escaped byte by byte: one spelling. */
static void writing_plain(void)
{
	struct json_doc *doc = json_doc_new();
	struct buf in, out, slow;
	enum json_fault fault;
	size_t offset;

	buf_init(&in, 4096);
	buf_init(&out, 4096);
	buf_init(&slow, 4096);
	for (unsigned at = 0; at < 20; at++) {
		for (unsigned c = 1; c < 0x180; c++) {
			const struct json_node *n;
			char escape[16], text[64];

			/* from 0x100 on: as an escape */
			snprintf(escape, sizeof(escape), c >= 0x100 ? "\\u%04x" : c >= 0x80 ? "\xc2%c" : "%c", c >= 0x100 ? c - 0xff : c);
			snprintf(text, sizeof(text), "%.*s%s%.*s", (int)at, "aaaaaaaaaaaaaaaaaaaa", escape, (int)(20 - at),
				"bbbbbbbbbbbbbbbbbbbb");
			buf_clear(&in);
			buf_clear(&out);
			buf_clear(&slow);
			CU_ASSERT(buf_putf(&in, "{\"%s\":\"%s\"}", text, text) == 0);
			n = json_parse(doc, buf_slice(&in), JSON_STRICT, &fault, &offset);
			if (n == NULL)
				continue;
			CU_ASSERT(json_put(&out, n) == 0);
			CU_ASSERT(buf_putc(&slow, '{') == 0 && json_put_string(&slow, n->child->key) == 0 && buf_putc(&slow, ':') == 0 &&
				json_put_string(&slow, n->child->text) == 0 && buf_putc(&slow, '}') == 0);
			UNIT_CHECK(slice_eq(buf_slice(&out), buf_slice(&slow)), "byte %x at %u", c, at);
			UNIT_CHECK(n->child->plain_text == n->child->plain_key, "byte %x at %u", c, at);
			UNIT_CHECK(n->child->plain_text == (c >= 0x20 && c < 0x7f && c != '"' && c != '\\'), "byte %x at %u", c, at);
		}
	}
	buf_release(&in);
	buf_release(&out);
	buf_release(&slow);
	json_doc_free(doc);
}

static void position(void)
{
	struct slice text = LIT("ab\ncd\n\ne");
	unsigned line, column;

	json_position(text, 0, &line, &column);
	CU_ASSERT(line == 1 && column == 1);
	json_position(text, 4, &line, &column);
	CU_ASSERT(line == 2 && column == 2);
	json_position(text, 7, &line, &column);
	CU_ASSERT(line == 4 && column == 1);
	json_position(text, 1000, &line, &column);
	CU_ASSERT(line == 4 && column == 2);
}

/* One document is used again after a large one and after a fault. */
static void reuse(void)
{
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	struct buf b;

	buf_init(&b, 1 << 22);
	CU_ASSERT(buf_putc(&b, '[') == 0);
	for (unsigned i = 0; i < 40000; i++)
		CU_ASSERT(buf_puts(&b, "\"\\u0041\",") == 0);
	CU_ASSERT(buf_puts(&b, "1]") == 0);
	for (unsigned i = 0; i < 3; i++) {
		const struct json_node *n = json_parse(doc, buf_slice(&b), JSON_STRICT, &fault, &offset);

		CU_ASSERT_FATAL(n != NULL && n->count == 40001);
		CU_ASSERT(json_parse(doc, LIT("{\"a\":"), JSON_STRICT, &fault, &offset) == NULL);
		n = json_parse(doc, LIT("{\"a\":\"\\u0041\"}"), JSON_STRICT, &fault, &offset);
		CU_ASSERT_FATAL(n != NULL);
		CU_ASSERT(slice_is(n->child->text, "A"));
	}
	buf_release(&b);
	json_doc_free(doc);
}

static const struct unit_test tests[] = {
	{ "faults", each_fault },
	{ "depth", depth },
	{ "nuls", nuls },
	{ "numbers", numbers },
	{ "strings", strings },
	{ "keys", keys },
	{ "many-members", many_members },
	{ "colliding-members", colliding_members },
	{ "comments", comments },
	{ "writing", writing },
	{ "writing-plain", writing_plain },
	{ "position", position },
	{ "reuse", reuse },
};

UNIT_MAIN("json", tests)
