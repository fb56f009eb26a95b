/* The buffer: ceiling, consuming, growth, formatting and JSON escapes. */
#include "libgate/buf.h"

#include "tests/unit/unit.h"

static bool holds(const struct buf *b, const char *text)
{
	return slice_is(buf_slice(b), text);
}

static void empty(void)
{
	struct buf b;

	buf_init(&b, 10);
	CU_ASSERT_EQUAL(buf_len(&b), 0);
	CU_ASSERT_PTR_NOT_NULL(buf_slice(&b).p);
	CU_ASSERT_PTR_NULL(b.data);
	CU_ASSERT_EQUAL(buf_put(&b, NULL, 0), 0);
	CU_ASSERT_PTR_NULL(b.data);
	buf_release(&b);
}

static void ceiling(void)
{
	struct buf b;

	buf_init(&b, 10);
	CU_ASSERT_EQUAL(buf_puts(&b, "12345678"), 0);
	CU_ASSERT_EQUAL(buf_puts(&b, "abc"), -1);
	CU_ASSERT(holds(&b, "12345678"));
	CU_ASSERT_EQUAL(buf_puts(&b, "ab"), 0);
	CU_ASSERT_EQUAL(buf_putc(&b, 'c'), -1);
	CU_ASSERT(holds(&b, "12345678ab"));
	CU_ASSERT_PTR_NULL(buf_reserve(&b, 1));
	CU_ASSERT_PTR_NULL(buf_reserve(&b, SIZE_MAX));
	buf_consume(&b, 4);
	CU_ASSERT_EQUAL(buf_puts(&b, "wxyz"), 0);
	CU_ASSERT(holds(&b, "5678abwxyz"));
	CU_ASSERT(b.cap <= 10);
	buf_release(&b);
	CU_ASSERT_EQUAL(b.max, 10);
}

static void zero_ceiling(void)
{
	struct buf b;

	buf_init(&b, 0);
	CU_ASSERT_EQUAL(buf_putc(&b, 'a'), -1);
	CU_ASSERT_EQUAL(buf_putf(&b, "%s", ""), 0);
	CU_ASSERT_EQUAL(buf_len(&b), 0);
	buf_release(&b);
}

/* A queue that is written at one end and read at the other keeps its order and does not grow without need. */
static void queue(void)
{
	struct buf b;
	unsigned put = 0, got = 0;

	buf_init(&b, 4096);
	for (unsigned round = 0; round < 5000; round++) {
		for (unsigned i = 0; i < round % 7; i++) {
			CU_ASSERT_EQUAL_FATAL(buf_putc(&b, (char)(put & 0x7f)), 0);
			put++;
		}
		for (unsigned i = 0; i < round % 5 && buf_len(&b) > 0; i++) {
			CU_ASSERT_EQUAL_FATAL(*buf_head(&b), (char)(got & 0x7f));
			buf_consume(&b, 1);
			got++;
		}
		if (buf_len(&b) > 200)
			while (buf_len(&b) > 0) {
				CU_ASSERT_EQUAL_FATAL(*buf_head(&b), (char)(got & 0x7f));
				buf_consume(&b, 1);
				got++;
			}
	}
	CU_ASSERT(b.cap <= 1024);
	CU_ASSERT(put > 10000);
	buf_release(&b);
}

static void reserve_commit(void)
{
	struct buf b;

	buf_init(&b, 100000);
	for (unsigned i = 0; i < 100; i++) {
		char *p = buf_reserve(&b, 1000);
		CU_ASSERT_PTR_NOT_NULL_FATAL(p);
		memset(p, 'a' + (int)(i % 26), 1000);
		buf_commit(&b, 500);
		CU_ASSERT(b.start <= b.end && b.end <= b.cap && b.cap <= b.max);
	}
	CU_ASSERT_EQUAL(buf_len(&b), 50000);
	CU_ASSERT_EQUAL(buf_head(&b)[49999], 'a' + 99 % 26);
	buf_release(&b);
}

static void trim(void)
{
	struct buf b;

	buf_init(&b, 100);
	CU_ASSERT_EQUAL(buf_puts(&b, "x"), 0);
	buf_trim(&b);
	CU_ASSERT(holds(&b, "x"));
	buf_consume(&b, 1);
	buf_trim(&b);
	CU_ASSERT_PTR_NULL(b.data);
	CU_ASSERT_EQUAL(buf_puts(&b, "y"), 0);
	buf_clear(&b);
	CU_ASSERT_EQUAL(buf_len(&b), 0);
	CU_ASSERT_PTR_NOT_NULL(b.data);
	buf_release(&b);
}

static void formatted(void)
{
	struct buf b;

	buf_init(&b, 8);
	CU_ASSERT_EQUAL(buf_putf(&b, "%d-%s", 12, "abcde"), 0); /* fills the ceiling exactly */
	CU_ASSERT(holds(&b, "12-abcde"));
	CU_ASSERT_EQUAL(buf_putf(&b, "%c", 'x'), -1);
	CU_ASSERT(holds(&b, "12-abcde"));
	buf_release(&b);
}

static void decimal(void)
{
	static const struct {
		uint64_t v;
		const char *text;
	} rows[] = { { 0, "0" }, { 9, "9" }, { 10, "10" }, { 4294967296, "4294967296" }, { UINT64_MAX, "18446744073709551615" } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf b;

		buf_init(&b, 20);
		CU_ASSERT_EQUAL(buf_put_u64(&b, rows[i].v), 0);
		UNIT_CHECK(holds(&b, rows[i].text), "%s", rows[i].text);
		buf_release(&b);
	}
}

static void json(void)
{
	static const struct {
		struct slice in;
		const char *out;
	} rows[] = {
		{ SLICE_LIT(""), "" },
		{ SLICE_LIT("plain /~ text"), "plain /~ text" },
		{ SLICE_LIT("a\"b\\c"), "a\\\"b\\\\c" },
		{ SLICE_LIT("\n\r\t\b\f\0\x1b\x7f"), "\\n\\r\\t\\u0008\\u000c\\u0000\\u001b\\u007f" },
		{ SLICE_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb3"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xb3" },
		{ SLICE_LIT("\xc2\x85|\xc2\x9b|\xc2\xa0"), "\\u0085|\\u009b|\xc2\xa0" },
		{ SLICE_LIT("\xff"), "\\u00ff" },
		{ SLICE_LIT("\xc0\xaf"), "\\u00c0\\u00af" }, /* overlong */
		{ SLICE_LIT("\xe0\x80\xaf"), "\\u00e0\\u0080\\u00af" },
		{ SLICE_LIT("\xed\xa0\x80"), "\\u00ed\\u00a0\\u0080" }, /* surrogate */
		{ SLICE_LIT("\xf4\x90\x80\x80"), "\\u00f4\\u0090\\u0080\\u0080" }, /* above U+10FFFF */
		{ SLICE_LIT("\xf0\x9f\x90"), "\\u00f0\\u009f\\u0090" }, /* cut short */
		{ SLICE_LIT("\xe2\x82"), "\\u00e2\\u0082" },
		{ SLICE_LIT("\xc2"), "\\u00c2" },
		{ SLICE_LIT("\x80z"), "\\u0080z" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct buf b;
		size_t need = strlen(rows[i].out);

		buf_init(&b, need + 1);
		CU_ASSERT_EQUAL(buf_putc(&b, '|'), 0);
		CU_ASSERT_EQUAL(buf_put_json(&b, rows[i].in), 0);
		UNIT_CHECK(slice_is(slice_skip(buf_slice(&b), 1), rows[i].out), "row %zu", i);
		buf_release(&b);
		if (need == 0)
			continue;
		/* One byte too little: refused whole, what stood before stays. */
		buf_init(&b, need);
		CU_ASSERT_EQUAL(buf_putc(&b, '|'), 0);
		UNIT_CHECK(buf_put_json(&b, rows[i].in) == -1, "row %zu", i);
		UNIT_CHECK(holds(&b, "|"), "row %zu", i);
		buf_release(&b);
	}
}

/* Every byte, at every place of a run that is long enough to be looked at in words: as when it stands alone. */
static void json_places(void)
{
	static const char run[] = "abcdefghijklmnopqrstuvwxyz";

	for (int c = 0; c < 256; c++) {
		char alone = (char)c;
		struct buf want;

		buf_init(&want, 16);
		CU_ASSERT_EQUAL(buf_put_json(&want, slice_make(&alone, 1)), 0);
		for (size_t at = 0; at < sizeof(run) - 1; at++) {
			char text[sizeof(run)];
			struct buf b;

			memcpy(text, run, sizeof(text));
			text[at] = alone;
			buf_init(&b, 64);
			CU_ASSERT_EQUAL(buf_put_json(&b, slice_make(text, sizeof(run) - 1)), 0);
			struct slice got = buf_slice(&b);
			UNIT_CHECK(got.len == sizeof(run) - 2 + buf_len(&want), "byte 0x%02x at %zu", c, at);
			UNIT_CHECK(memcmp(got.p, run, at) == 0, "byte 0x%02x at %zu", c, at);
			UNIT_CHECK(slice_eq(slice_make(got.p + at, buf_len(&want)), buf_slice(&want)), "byte 0x%02x at %zu", c, at);
			UNIT_CHECK(memcmp(got.p + at + buf_len(&want), run + at + 1, sizeof(run) - 2 - at) == 0, "byte 0x%02x at %zu", c, at);
			buf_release(&b);
		}
		buf_release(&want);
	}
}

static const struct unit_test tests[] = {
	{ "empty", empty },
	{ "ceiling", ceiling },
	{ "zero-ceiling", zero_ceiling },
	{ "queue", queue },
	{ "reserve-commit", reserve_commit },
	{ "trim", trim },
	{ "formatted", formatted },
	{ "decimal", decimal },
	{ "json", json },
	{ "json-places", json_places },
};

UNIT_MAIN("buf", tests)
