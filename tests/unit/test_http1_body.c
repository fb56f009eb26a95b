/* Bodies: each framing and each reason, wherever the bytes are split. */
#include "libgate/http1.h"

#include "tests/unit/unit.h"

struct row {
	const char *name;
	enum http_framing framing;
	uint64_t length, max;
	struct slice in;
	const char *body; /* decoded */
	enum http_result result; /* after all of in */
	enum http_reason reason;
	size_t rest; /* bytes behind the body */
};

#define CHUNKED HTTP_BODY_CHUNKED, 0
#define REFUSE(sym) HTTP_BAD, HTTP_REASON_##sym, 0
#define ALL UINT64_MAX

static const struct row rows[] = {
	{ "none", HTTP_BODY_NONE, 0, ALL, SLICE_LIT("GET"), "", HTTP_DONE, HTTP_OK, 3 },
	{ "length", HTTP_BODY_LENGTH, 5, 5, SLICE_LIT("helloGET"), "hello", HTTP_DONE, HTTP_OK, 3 },
	{ "length-zero", HTTP_BODY_LENGTH, 0, 0, SLICE_LIT("G"), "", HTTP_DONE, HTTP_OK, 1 },
	{ "length-short", HTTP_BODY_LENGTH, 5, 5, SLICE_LIT("hell"), "hell", HTTP_MORE, HTTP_OK, 0 },
	{ "length-over", HTTP_BODY_LENGTH, 6, 5, SLICE_LIT("hello!"), "", REFUSE(BODY_SIZE) },
	{ "eof", HTTP_BODY_EOF, 0, 5, SLICE_LIT("hello"), "hello", HTTP_MORE, HTTP_OK, 0 },
	{ "chunked", CHUNKED, ALL, SLICE_LIT("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET"), "hello!", HTTP_DONE, HTTP_OK, 3 },
	{ "chunked-empty", CHUNKED, 0, SLICE_LIT("0\r\n\r\n"), "", HTTP_DONE, HTTP_OK, 0 },
	{ "chunked-hex", CHUNKED, ALL, SLICE_LIT("0a\r\n0123456789\r\n0B\r\n0123456789a\r\n000\r\n\r\n"),
		"01234567890123456789a", HTTP_DONE, HTTP_OK, 0 },
	{ "chunked-crlf-inside", CHUNKED, ALL, SLICE_LIT("4\r\n\r\n0\r\r\n0\r\n\r\n"), "\r\n0\r", HTTP_DONE, HTTP_OK, 0 },
	{ "chunked-exact-max", CHUNKED, 4, SLICE_LIT("2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"), "abcd", HTTP_DONE, HTTP_OK, 0 },
	{ "chunked-over-max", CHUNKED, 3, SLICE_LIT("2\r\nab\r\n2\r"), "ab", REFUSE(BODY_SIZE) },
	{ "chunked-huge", CHUNKED, 3, SLICE_LIT("FFFFFFFFFFFFFFF\r"), "", REFUSE(BODY_SIZE) },
	{ "size-15-digits", CHUNKED, ALL, SLICE_LIT("000000000000001\r\na\r\n0\r\n\r\n"), "a", HTTP_DONE, HTTP_OK, 0 },
	{ "size-16-digits", CHUNKED, ALL, SLICE_LIT("0000000000000001"), "", REFUSE(CHUNK_SIZE) },
	{ "size-overflow", CHUNKED, ALL, SLICE_LIT("FFFFFFFFFFFFFFFFF"), "", REFUSE(CHUNK_SIZE) },
	{ "size-0x", CHUNKED, ALL, SLICE_LIT("0x"), "", REFUSE(CHUNK_SIZE) },
	{ "size-plus", CHUNKED, ALL, SLICE_LIT("+"), "", REFUSE(CHUNK_SIZE) },
	{ "size-minus", CHUNKED, ALL, SLICE_LIT("-"), "", REFUSE(CHUNK_SIZE) },
	{ "size-space", CHUNKED, ALL, SLICE_LIT(" "), "", REFUSE(CHUNK_SIZE) },
	{ "size-space-after", CHUNKED, ALL, SLICE_LIT("5 "), "", REFUSE(CHUNK_SIZE) },
	{ "size-tab-after", CHUNKED, ALL, SLICE_LIT("5\t"), "", REFUSE(CHUNK_SIZE) },
	{ "size-empty", CHUNKED, ALL, SLICE_LIT("\r"), "", REFUSE(CHUNK_SIZE) },
	{ "size-underscore", CHUNKED, ALL, SLICE_LIT("1_"), "", REFUSE(CHUNK_SIZE) },
	{ "size-nul", CHUNKED, ALL, SLICE_LIT("5\0"), "", REFUSE(CHUNK_SIZE) },
	{ "extension", CHUNKED, ALL, SLICE_LIT("5;"), "", REFUSE(CHUNK_EXTENSION) },
	{ "extension-last", CHUNKED, ALL, SLICE_LIT("1\r\na\r\n0;"), "a", REFUSE(CHUNK_EXTENSION) },
	{ "size-bare-lf", CHUNKED, ALL, SLICE_LIT("5\n"), "", REFUSE(BARE_LF) },
	{ "size-bare-cr", CHUNKED, ALL, SLICE_LIT("5\rh"), "", REFUSE(BARE_CR) },
	{ "chunk-too-long", CHUNKED, ALL, SLICE_LIT("2\r\nabc"), "ab", REFUSE(CHUNK_END) },
	{ "chunk-end-lf", CHUNKED, ALL, SLICE_LIT("2\r\nab\n"), "ab", REFUSE(CHUNK_END) },
	{ "chunk-end-cr", CHUNKED, ALL, SLICE_LIT("2\r\nab\r0"), "ab", REFUSE(CHUNK_END) },
	{ "trailer", CHUNKED, ALL, SLICE_LIT("0\r\nX"), "", REFUSE(TRAILER) },
	{ "trailer-fold", CHUNKED, ALL, SLICE_LIT("0\r\n "), "", REFUSE(TRAILER) },
	{ "last-bare-lf", CHUNKED, ALL, SLICE_LIT("0\r\n\n"), "", REFUSE(BARE_LF) },
	{ "last-bare-cr", CHUNKED, ALL, SLICE_LIT("0\r\n\rX"), "", REFUSE(BARE_CR) },
	{ "cut-in-chunk", CHUNKED, ALL, SLICE_LIT("5\r\nhel"), "hel", HTTP_MORE, HTTP_OK, 0 },
	{ "cut-before-last", CHUNKED, ALL, SLICE_LIT("1\r\na\r\n"), "a", HTTP_MORE, HTTP_OK, 0 },
	{ "cut-in-end", CHUNKED, ALL, SLICE_LIT("1\r\na\r\n0\r\n\r"), "a", HTTP_MORE, HTTP_OK, 0 },
};

/* An origin's body: extensions and trailers are read past, and nothing else is tolerated. */
static const struct row lenient[] = {
	{ "extras", CHUNKED, ALL, SLICE_LIT("5;a=\"b\"\r\nhello\r\n1 ;x\r\n!\r\n0;last\r\nX: y\r\nEtag: z\r\n\r\nGET"), "hello!",
		HTTP_DONE, HTTP_OK, 3 },
	{ "plain", CHUNKED, ALL, SLICE_LIT("1\r\na\r\n0\r\n\r\n"), "a", HTTP_DONE, HTTP_OK, 0 },
	{ "extension-lf", CHUNKED, ALL, SLICE_LIT("1;a\n"), "", REFUSE(BARE_LF) },
	{ "extension-cr", CHUNKED, ALL, SLICE_LIT("1;a\rb"), "", REFUSE(BARE_CR) },
	{ "extension-nul", CHUNKED, ALL, SLICE_LIT("1;\0"), "", REFUSE(CONTROL) },
	{ "size-word", CHUNKED, ALL, SLICE_LIT("1x"), "", REFUSE(CHUNK_SIZE) },
	{ "over-max", CHUNKED, 3, SLICE_LIT("4;a\r"), "", REFUSE(BODY_SIZE) },
	{ "trailer-lf", CHUNKED, ALL, SLICE_LIT("0\r\nX: y\n"), "", REFUSE(BARE_LF) },
	{ "trailer-cr", CHUNKED, ALL, SLICE_LIT("0\r\nX: y\rz"), "", REFUSE(BARE_CR) },
	{ "trailer-fold", CHUNKED, ALL, SLICE_LIT("0\r\nX: y\r\n z"), "", REFUSE(TRAILER) },
};

/* Reads p[0..len) to its end; returns the last result that is not HTTP_DATA. */
static enum http_result feed(struct http_body *b, const char *p, size_t len, size_t *used, struct buf *out)
{
	enum http_result r;

	*used = 0;
	do {
		struct slice data;
		size_t n;

		r = http_body_read(b, p + *used, len - *used, &n, &data);
		*used += n;
		if (r == HTTP_DATA) {
			CU_ASSERT(data.len > 0);
			CU_ASSERT_EQUAL(buf_put_slice(out, data), 0);
		}
	} while (r == HTTP_DATA);
	return r;
}

static void check(const struct row *row, bool is_lenient, size_t first, size_t second)
{
	size_t cuts[4] = { 0, first, second, row->in.len };
	enum http_result r = HTTP_MORE;
	struct http_body b;
	struct buf out;
	size_t total = 0;

	buf_init(&out, 1000);
	http_body_init(&b, row->framing, row->length, row->max);
	b.lenient = is_lenient;
	for (unsigned i = 0; i < 3 && r == HTTP_MORE; i++) {
		size_t len = cuts[i + 1] - cuts[i];
		auto_free char *copy = malloc(len > 0 ? len : 1);
		size_t used;

		memcpy(copy, row->in.p + cuts[i], len);
		r = feed(&b, copy, len, &used, &out);
		total += used;
		if (r == HTTP_MORE)
			UNIT_CHECK(used == len, "%s at %zu, %zu", row->name, first, second);
	}
	UNIT_CHECK(r == row->result, "%s at %zu, %zu", row->name, first, second);
	UNIT_CHECK(b.reason == row->reason, "%s at %zu, %zu: %s", row->name, first, second, http_reason_id(b.reason));
	UNIT_CHECK(slice_is(buf_slice(&out), row->body), "%s at %zu, %zu", row->name, first, second);
	UNIT_CHECK(b.total == strlen(row->body), "%s at %zu, %zu", row->name, first, second);
	if (r == HTTP_DONE)
		UNIT_CHECK(total == row->in.len - row->rest, "%s at %zu, %zu", row->name, first, second);
	buf_release(&out);
}

static void check_all(const struct row *table, size_t n, bool is_lenient)
{
	for (size_t i = 0; i < n; i++)
		for (size_t first = 0; first <= table[i].in.len; first++)
			for (size_t second = first; second <= table[i].in.len; second++)
				check(&table[i], is_lenient, first, second);
}

static void outcomes(void)
{
	check_all(rows, ARRAY_SIZE(rows), false);
}

static void lenient_outcomes(void)
{
	check_all(lenient, ARRAY_SIZE(lenient), true);
}

/* A refused body stays refused, a finished one finished. */
static void final(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_body b;
		struct buf out;
		size_t used;

		if (rows[i].result == HTTP_MORE)
			continue;
		buf_init(&out, 1000);
		http_body_init(&b, rows[i].framing, rows[i].length, rows[i].max);
		UNIT_CHECK(feed(&b, rows[i].in.p, rows[i].in.len, &used, &out) == rows[i].result, "%s", rows[i].name);
		UNIT_CHECK(feed(&b, "0\r\n\r\n", 5, &used, &out) == rows[i].result && used == 0, "%s", rows[i].name);
		buf_release(&out);
	}
}

static void eof_over_max(void)
{
	struct http_body b;
	struct slice data;
	size_t used;

	http_body_init(&b, HTTP_BODY_EOF, 0, 5);
	CU_ASSERT_EQUAL(http_body_read(&b, "hello", 5, &used, &data), HTTP_DATA);
	CU_ASSERT_EQUAL(http_body_read(&b, "", 0, &used, &data), HTTP_MORE);
	CU_ASSERT_EQUAL(http_body_read(&b, "!", 1, &used, &data), HTTP_BAD);
	CU_ASSERT_EQUAL(b.reason, HTTP_REASON_BODY_SIZE);
}

/* The largest length is counted down without overflow. */
static void large(void)
{
	static char block[65536];
	struct http_body b;
	struct slice data;
	size_t used;

	http_body_init(&b, HTTP_BODY_LENGTH, INT64_MAX, UINT64_MAX);
	for (int i = 0; i < 100; i++) {
		CU_ASSERT_EQUAL(http_body_read(&b, block, sizeof(block), &used, &data), HTTP_DATA);
		CU_ASSERT_EQUAL(used, sizeof(block));
	}
	CU_ASSERT_EQUAL(b.left, (uint64_t)INT64_MAX - 100 * sizeof(block));
}

/* What is read past has a bound for the whole body. */
static void lenient_bound(void)
{
	static const struct {
		const char *start;
		enum http_reason reason;
	} bounds[] = { { "1;", HTTP_REASON_CHUNK_EXTENSION }, { "0\r\nX:", HTTP_REASON_TRAILER } };

	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		enum http_result r = HTTP_MORE;
		struct http_body b;
		struct slice data;
		unsigned n = 0;
		size_t used;

		http_body_init(&b, HTTP_BODY_CHUNKED, 0, UINT64_MAX);
		b.lenient = true;
		CU_ASSERT_EQUAL(http_body_read(&b, bounds[i].start, strlen(bounds[i].start), &used, &data), HTTP_MORE);
		while (r == HTTP_MORE && n++ < 100000)
			r = http_body_read(&b, "a", 1, &used, &data);
		UNIT_CHECK(r == HTTP_BAD && b.reason == bounds[i].reason, "%s", bounds[i].start);
		UNIT_CHECK(n > 8000 && n < 9000, "%s", bounds[i].start);
	}
}

static const struct unit_test tests[] = {
	{ "outcomes", outcomes },
	{ "lenient-outcomes", lenient_outcomes },
	{ "final", final },
	{ "eof-over-max", eof_over_max },
	{ "large", large },
	{ "lenient-bound", lenient_bound },
};

UNIT_MAIN("http1_body", tests)
