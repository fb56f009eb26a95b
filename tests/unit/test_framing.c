/* JSON-RPC messages in a byte stream: lines and Content-Length heads, cut anywhere. */
#include "controller/framing.h"

#include "tests/unit/unit.h"

/* Feeds text in two parts; the messages found, joined by '|', and 'T' or 'B' for faults. */
static void run(const char *text, size_t len, size_t cut, char *out, size_t size)
{
	struct framing f;
	struct buf in;
	size_t n = 0;

	framing_init(&f);
	buf_init(&in, FRAMING_MAX + 1024);
	for (int part = 0; part < 2; part++) {
		const char *p = part == 0 ? text : text + cut;
		enum framing_result r;

		CU_ASSERT_FATAL(buf_put(&in, p, part == 0 ? cut : len - cut) == 0);
		do {
			struct slice message;
			size_t used;

			r = framing_next(&f, buf_slice(&in), &message, &used);
			if (r == FRAMING_MESSAGE)
				n += (size_t)snprintf(out + n, size - n, "%.*s|", SLICE_ARG(message));
			if (r == FRAMING_TOO_LONG || r == FRAMING_BROKEN)
				n += (size_t)snprintf(out + n, size - n, "%c", r == FRAMING_BROKEN ? 'B' : 'T');
			buf_consume(&in, used);
		} while (r != FRAMING_MORE && r != FRAMING_BROKEN);
	}
	buf_release(&in);
}

static void test_cut(void)
{
	static const struct {
		const char *text;
		const char *want;
	} cases[] = {
		{ "{}\n[1]\r\n\n{\"a\":1}\n", "{}|[1]||{\"a\":1}|" },
		{ "garbage\n{}\n", "garbage|{}|" },
		{ "Content-Length: 2\r\n\r\n{}Content-Type: x\r\ncontent-length:3\r\n\r\n[1]", "{}|[1]|" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t cut = 0; cut <= strlen(cases[i].text); cut++) {
			char out[256] = "";

			run(cases[i].text, strlen(cases[i].text), cut, out, sizeof(out));
			UNIT_CHECK(strcmp(out, cases[i].want) == 0, "case %zu cut %zu: %s", i, cut, out);
		}
}

static void test_broken(void)
{
	static const char *const heads[] = { "Content-Length: x\r\n\r\n", "Content-Type: a\r\n\r\n", "Content-Length: 0\r\n\r\n",
		"Content-Length: 99999999999\r\n\r\n", "Content-Length: 2\r\nContent-Length: 2\r\n\r\n" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		char out[64] = "";

		run(heads[i], strlen(heads[i]), 0, out, sizeof(out));
		UNIT_CHECK(strcmp(out, "B") == 0, "%s: %s", heads[i], out);
	}
}

static void test_limit(void)
{
	size_t n = FRAMING_MAX + 100;
	char *text = malloc(n + 8);
	char out[64] = "";

	CU_ASSERT_FATAL(text != NULL);
	memset(text, 'x', n);
	memcpy(text + n, "\n{}\n", 4);
	run(text, n + 4, n / 2, out, sizeof(out));
	CU_ASSERT_STRING_EQUAL(out, "T{}|");
	out[0] = '\0';
	run(text, n + 4, n - 1, out, sizeof(out));
	UNIT_CHECK(strcmp(out, "T|{}|") == 0, "told once, the rest is skipped: %s", out);
	free(text);
}

static void test_put(void)
{
	struct buf b;

	buf_init(&b, 256);
	CU_ASSERT(framing_put(FRAMING_LINES, &b, SLICE_LIT("{}")) == 0);
	CU_ASSERT(framing_put(FRAMING_HEADS, &b, SLICE_LIT("[]")) == 0);
	CU_ASSERT(slice_is(buf_slice(&b), "{}\nContent-Length: 2\r\n\r\n[]"));
	buf_release(&b);
}

static const struct unit_test tests[] = {
	{ "cut", test_cut },
	{ "broken", test_broken },
	{ "limit", test_limit },
	{ "put", test_put },
};

UNIT_MAIN("framing", tests)
