/* Heads: each reason, each framing, and the same outcome wherever the bytes are split. */
#include "libgate/http1.h"

#include "tests/unit/unit.h"

struct row {
	const char *name;
	unsigned flags;
	struct slice in;
	enum http_reason reason; /* HTTP_OK: HTTP_DONE */
	size_t rest; /* bytes behind the head */
};

#define OK(name, flags, text) { name, flags, SLICE_LIT(text), HTTP_OK, 0 }
#define BAD(name, flags, sym, text) { name, flags, SLICE_LIT(text), HTTP_REASON_##sym, 0 }
#define REQ HTTP_REQUEST
#define RESP HTTP_RESPONSE
#define LENIENT (HTTP_RESPONSE | HTTP_LENIENT_RESPONSE | HTTP_TE_ANY_CASE)
#define G "GET / HTTP/1.1\r\nHost: d\r\n"
#define P "POST / HTTP/1.1\r\nHost: d\r\n"
#define R "HTTP/1.1 200 OK\r\n"

static const struct row rows[] = {
	/* request line */
	OK("plain", REQ, G "\r\n"),
	OK("other-method", REQ, "FROB / HTTP/1.1\r\nHost: d\r\n\r\n"),
	OK("http10", REQ, "GET / HTTP/1.0\r\nHost: d\r\n\r\n"),
	OK("http10-no-host", REQ, "GET / HTTP/1.0\r\n\r\n"),
	OK("asterisk", REQ, "OPTIONS * HTTP/1.1\r\nHost: d\r\n\r\n"),
	{ "body-follows", REQ, SLICE_LIT(P "Content-Length: 3\r\n\r\nabc"), HTTP_OK, 3 },
	{ "next-follows", REQ, SLICE_LIT(G "\r\nGET / HTTP/1.1\r\n"), HTTP_OK, 16 },
	BAD("empty-line", REQ, EMPTY_LINE, "\r\n" G "\r\n"),
	BAD("lone-lf-first", REQ, BARE_LF, "\n" G "\r\n"),
	BAD("no-target", REQ, REQUEST_LINE, "GET\r\n"),
	BAD("http09", REQ, REQUEST_LINE, "GET /\r\n"),
	BAD("empty-target", REQ, REQUEST_LINE, "GET  HTTP/1.1\r\n"),
	BAD("two-spaces-version", REQ, REQUEST_LINE, "GET /  HTTP/1.1\r\n"),
	BAD("space-in-target", REQ, REQUEST_LINE, "GET /a /b HTTP/1.1\r\n"),
	BAD("space-after-version", REQ, REQUEST_LINE, "GET / HTTP/1.1 \r\n"),
	BAD("version-lower", REQ, REQUEST_LINE, "GET / http/1.1\r\n"),
	BAD("version-word", REQ, REQUEST_LINE, "GET / HTTQ/1.1\r\n"),
	BAD("version-11", REQ, REQUEST_LINE, "GET / HTTP/1.11\r\n"),
	BAD("version-01", REQ, REQUEST_LINE, "GET / HTTP/01.1\r\n"),
	BAD("version-comma", REQ, REQUEST_LINE, "GET / HTTP/1,1\r\n"),
	BAD("version-2", REQ, VERSION, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	BAD("version-12", REQ, VERSION, "GET / HTTP/1.2\r\n"),
	BAD("version-09", REQ, VERSION, "GET / HTTP/0.9\r\n"),
	BAD("method-leading-space", REQ, METHOD, " GET / HTTP/1.1\r\n"),
	BAD("method-tab", REQ, METHOD, "GET\t/ HTTP/1.1\r\n"),
	BAD("method-8bit", REQ, METHOD, "G\xc9T / HTTP/1.1\r\n"),
	BAD("method-colon", REQ, METHOD, "GET: / HTTP/1.1\r\n"),
	BAD("method-tls-hello", REQ, METHOD, "\x16\x03\x01"),
	BAD("method-json", REQ, METHOD, "{"),
	BAD("method-json-lf", REQ, METHOD, "{\n"),
	BAD("method-cr", REQ, BARE_CR, "GE\rT"),
	BAD("method-lf", REQ, BARE_LF, "GE\nT"),
	BAD("method-nul", REQ, METHOD, "GE\0"),
	BAD("target-tab", REQ, TARGET, "GET /\tx HTTP/1.1\r\n"),
	BAD("target-8bit", REQ, TARGET, "GET /\xc3\xa9 HTTP/1.1\r\n"),
	BAD("target-del", REQ, TARGET, "GET /\x7f"),
	BAD("target-nul", REQ, TARGET, "GET /\0"),
	BAD("request-line-nul", REQ, REQUEST_LINE, "GET / HT\0"),
	/* lines */
	BAD("bare-lf-request-line", REQ, BARE_LF, "GET / HTTP/1.1\n"),
	BAD("bare-lf-field", REQ, BARE_LF, G "X: a\n"),
	BAD("bare-lf-end", REQ, BARE_LF, G "\n"),
	BAD("bare-cr-request-line", REQ, BARE_CR, "GET / HTTP/1.1\rH"),
	BAD("bare-cr-value", REQ, BARE_CR, G "X: a\rb"),
	BAD("cr-cr-lf", REQ, BARE_CR, G "X: a\r\r\n"),
	BAD("cr-at-end", REQ, BARE_CR, G "\rX"),
	BAD("nul-in-value", REQ, CONTROL, G "X: a\0"),
	BAD("vt-before-value", REQ, CONTROL, P "Transfer-Encoding:\x0b" "chunked\r\n"),
	BAD("esc-in-value", REQ, CONTROL, G "X: \x1b[0m\r\n"),
	BAD("del-in-value", REQ, CONTROL, G "X: \x7f"),
	BAD("nul-in-name", REQ, CONTROL, G "X\0: a"),
	OK("tab-and-8bit-in-value", REQ, G "X:\ta\tb \xc3\xa9\t\r\n\r\n"),
	OK("empty-value", REQ, G "X:\r\nY: \t \r\n\r\n"),
	BAD("fold", REQ, OBS_FOLD, G "X: a\r\n b\r\n"),
	BAD("fold-tab", REQ, OBS_FOLD, G "X: a\r\n\tb\r\n"),
	BAD("fold-first", REQ, OBS_FOLD, "GET / HTTP/1.1\r\n Host: d\r\n"),
	BAD("space-before-colon", REQ, FIELD_NAME, P "Content-Length : 3\r\n"),
	BAD("tab-before-colon", REQ, FIELD_NAME, P "Transfer-Encoding\t: chunked\r\n"),
	BAD("no-colon", REQ, FIELD_NAME, G "garbage\r\n"),
	BAD("empty-name", REQ, FIELD_NAME, G ": x\r\n"),
	BAD("name-8bit", REQ, FIELD_NAME, G "X\xe9: x\r\n"),
	BAD("name-slash", REQ, FIELD_NAME, G "X/Y: x\r\n"),
	/* Host */
	OK("host-port", REQ, "GET / HTTP/1.1\r\nHost: example.com:2375\r\n\r\n"),
	OK("host-empty", REQ, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
	OK("host-v6", REQ, "GET / HTTP/1.1\r\nHost: [::1]:2375\r\n\r\n"),
	OK("host-escaped", REQ, "GET / HTTP/1.1\r\nHost: %2Fvar%2Frun%2Fdocker.sock\r\n\r\n"),
	OK("host-any-case", REQ, "GET / HTTP/1.1\r\nhOST: d\r\n\r\n"),
	OK("host-optional", HTTP_HOST_OPTIONAL, "CONNECT a:443 HTTP/1.1\r\n\r\n"),
	BAD("host-missing", REQ, HOST, "GET / HTTP/1.1\r\n\r\n"),
	BAD("host-twice", REQ, HOST, G "Host: d\r\n"),
	BAD("host-twice-10", REQ, HOST, "GET / HTTP/1.0\r\nHost: d\r\nHost: d\r\n"),
	BAD("host-list", REQ, HOST, "GET / HTTP/1.1\r\nHost: a, b\r\n"),
	BAD("host-comma", REQ, HOST, "GET / HTTP/1.1\r\nHost: a,b\r\n"),
	BAD("host-path", REQ, HOST, "GET / HTTP/1.1\r\nHost: a/b\r\n"),
	BAD("host-user", REQ, HOST, "GET / HTTP/1.1\r\nHost: u@a\r\n"),
	BAD("host-port-word", REQ, HOST, "GET / HTTP/1.1\r\nHost: a:http\r\n"),
	BAD("host-two-ports", REQ, HOST, "GET / HTTP/1.1\r\nHost: a:1:2\r\n"),
	BAD("host-only-port", REQ, HOST, "GET / HTTP/1.1\r\nHost: :80\r\n"),
	BAD("host-v6-open", REQ, HOST, "GET / HTTP/1.1\r\nHost: [::1\r\n"),
	BAD("host-v6-empty", REQ, HOST, "GET / HTTP/1.1\r\nHost: []\r\n"),
	BAD("host-v6-tail", REQ, HOST, "GET / HTTP/1.1\r\nHost: [::1]x\r\n"),
	BAD("host-twice-optional", HTTP_HOST_OPTIONAL, HOST, G "Host: e\r\n"),
	/* Content-Length */
	OK("length-zero", REQ, P "Content-Length: 0\r\n\r\n"),
	OK("length-max", REQ, P "Content-Length: 9223372036854775807\r\n\r\n"),
	BAD("length-over-max", REQ, LENGTH, P "Content-Length: 9223372036854775808\r\n"),
	BAD("length-20-digits", REQ, LENGTH, P "Content-Length: 18446744073709551617\r\n"),
	BAD("length-20-zeros", REQ, LENGTH, P "Content-Length: 00000000000000000003\r\n"),
	BAD("length-plus", REQ, LENGTH, P "Content-Length: +3\r\n"),
	BAD("length-minus", REQ, LENGTH, P "Content-Length: -3\r\n"),
	BAD("length-hex", REQ, LENGTH, P "Content-Length: 0x3\r\n"),
	BAD("length-float", REQ, LENGTH, P "Content-Length: 3.0\r\n"),
	BAD("length-space", REQ, LENGTH, P "Content-Length: 3 3\r\n"),
	BAD("length-list", REQ, LENGTH, P "Content-Length: 3, 3\r\n"),
	BAD("length-empty", REQ, LENGTH, P "Content-Length:\r\n"),
	BAD("length-twice-equal", REQ, LENGTH_TWICE, P "Content-Length: 3\r\nContent-Length: 3\r\n"),
	BAD("length-twice", REQ, LENGTH_TWICE, P "Content-Length: 0\r\nCONTENT-LENGTH: 3\r\n"),
	/* Transfer-Encoding */
	OK("chunked", REQ, P "Transfer-Encoding: chunked\r\n\r\n"),
	OK("chunked-any-case", HTTP_TE_ANY_CASE, P "Transfer-Encoding: Chunked\r\n\r\n"),
	BAD("chunked-case", REQ, CODING, P "Transfer-Encoding: Chunked\r\n"),
	BAD("chunked-list", REQ, CODING, P "Transfer-Encoding: gzip, chunked\r\n"),
	BAD("chunked-identity", REQ, CODING, P "Transfer-Encoding: identity\r\n"),
	BAD("chunked-prefix", REQ, CODING, P "Transfer-Encoding: xchunked\r\n"),
	BAD("chunked-quoted", REQ, CODING, P "Transfer-Encoding: \"chunked\"\r\n"),
	BAD("chunked-param", REQ, CODING, P "Transfer-Encoding: chunked;q=1\r\n"),
	BAD("chunked-empty", REQ, CODING, P "Transfer-Encoding:\r\n"),
	BAD("chunked-comma", REQ, CODING, P "Transfer-Encoding: chunked,\r\n"),
	BAD("chunked-twice", REQ, CODING, P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
	BAD("chunked-10", REQ, CODING_10, "POST / HTTP/1.0\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("length-and-chunked", REQ, LENGTH_AND_CODING, P "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
	BAD("chunked-and-length", REQ, LENGTH_AND_CODING, P "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
	BAD("trailer", REQ, TRAILER, P "Trailer: X-Sum\r\n"),
	/* Expect, Connection, Upgrade */
	OK("expect", REQ, P "Expect: 100-Continue\r\n\r\n"),
	BAD("expect-other", REQ, EXPECT, P "Expect: 200-ok\r\n"),
	BAD("expect-empty", REQ, EXPECT, P "Expect:\r\n"),
	BAD("expect-twice", REQ, EXPECT, P "Expect: 100-continue\r\nExpect: 100-continue\r\n"),
	OK("connection-list", REQ, G "Connection: TE, , Keep-Alive,\r\n\r\n"),
	OK("connection-empty", REQ, G "Connection:\r\n\r\n"),
	BAD("connection-length", REQ, CONNECTION, G "Connection: close, Content-Length\r\n"),
	BAD("connection-coding", REQ, CONNECTION, G "Connection: transfer-encoding\r\n"),
	BAD("connection-host", REQ, CONNECTION, G "Connection: host\r\n"),
	BAD("connection-malformed", REQ, CONNECTION, G "Connection: clo se\r\n"),
	BAD("connection-quoted", REQ, CONNECTION, G "Connection: \"close\"\r\n"),
	BAD("upgrade-twice", REQ, UPGRADE, G "Upgrade: tcp\r\nUpgrade: h2c\r\n"),
	/* responses */
	OK("response", RESP, R "\r\n"),
	OK("response-no-phrase", RESP, "HTTP/1.0 404 \r\n\r\n"),
	OK("response-8bit-phrase", RESP, "HTTP/1.1 500 d\xe9j\xe0 vu\r\n\r\n"),
	OK("response-te-cl", RESP, R "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"),
	OK("response-te-other", RESP, R "Transfer-Encoding: gzip\r\n\r\n"),
	OK("response-trailer", RESP, R "Trailer: X\r\nExpect: x\r\nHost: a,b\r\n\r\n"),
	OK("lenient-no-space", LENIENT, "HTTP/1.1 200\r\n\r\n"),
	BAD("status-no-space", RESP, STATUS_LINE, "HTTP/1.1 200\r\n"),
	BAD("status-two-digits", RESP, STATUS_LINE, "HTTP/1.1 20 OK\r\n"),
	BAD("status-four-digits", RESP, STATUS_LINE, "HTTP/1.1 2000 OK\r\n"),
	BAD("status-word", RESP, STATUS_LINE, "HTTP/1.1 2x0 OK\r\n"),
	BAD("status-600", RESP, STATUS_LINE, "HTTP/1.1 600 OK\r\n"),
	BAD("status-099", RESP, STATUS_LINE, "HTTP/1.1 099 OK\r\n"),
	BAD("status-version", RESP, STATUS_LINE, "HTTP/2.0 200 OK\r\n"),
	BAD("status-icy", RESP, STATUS_LINE, "ICY 200 OK\r\n"),
	BAD("status-short", RESP, STATUS_LINE, "HTTP/1.1\r\n"),
	BAD("status-control", RESP, STATUS_LINE, "HTTP/1.1 200 O\0"),
	BAD("response-empty-line", RESP, EMPTY_LINE, "\r\n"),
	BAD("response-length", RESP, LENGTH, R "Content-Length: 1x\r\n"),
	BAD("response-length-twice", RESP, LENGTH_TWICE, R "Content-Length: 1\r\nContent-Length: 1\r\n"),
	BAD("response-fold", LENIENT, OBS_FOLD, R "X: a\r\n b\r\n"),
	BAD("response-connection", RESP, CONNECTION, R "Connection: content-length\r\n"),
};

static enum http_result read_split(struct http_head *h, const struct row *row, size_t at)
{
	/* An exact copy each time: AddressSanitizer sees a read past the bytes that have arrived. */
	enum http_result r = HTTP_MORE;
	size_t cuts[2] = { at, row->in.len };

	http_head_init(h, row->flags, HTTP_MAX_HEAD);
	for (size_t i = 0; i < 2 && r == HTTP_MORE; i++) {
		auto_free char *copy = malloc(cuts[i] > 0 ? cuts[i] : 1);

		memcpy(copy, row->in.p, cuts[i]);
		r = http_head_read(h, copy, cuts[i]);
	}
	return r;
}

static void outcomes(void)
{
	struct http_head h;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];

		for (size_t at = 0; at <= row->in.len; at++) {
			enum http_result r = read_split(&h, row, at);

			UNIT_CHECK(r == (row->reason == HTTP_OK ? HTTP_DONE : HTTP_BAD), "%s split at %zu", row->name, at);
			UNIT_CHECK(h.reason == row->reason, "%s split at %zu: %s", row->name, at, http_reason_id(h.reason));
			if (row->reason == HTTP_OK)
				UNIT_CHECK(h.length == row->in.len - row->rest, "%s split at %zu", row->name, at);
			/* Asked again, it says the same. */
			UNIT_CHECK(http_head_read(&h, row->in.p, row->in.len) == r, "%s split at %zu", row->name, at);
		}
	}
}

/* A head that is cut anywhere before its end is incomplete, and a fault is not reported before its line shows it. */
static void prefixes(void)
{
	struct http_head h;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];

		if (row->reason != HTTP_OK)
			continue;
		for (size_t n = 0; n < row->in.len - row->rest; n++) {
			http_head_init(&h, row->flags, HTTP_MAX_HEAD);
			UNIT_CHECK(http_head_read(&h, row->in.p, n) == HTTP_MORE, "%s cut at %zu", row->name, n);
		}
	}
}

/* Every byte by itself: the slowest client gets the same answer. */
static void byte_by_byte(void)
{
	struct http_head h;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum http_result r = HTTP_MORE;

		http_head_init(&h, rows[i].flags, HTTP_MAX_HEAD);
		for (size_t n = 1; n <= rows[i].in.len && r == HTTP_MORE; n++)
			r = http_head_read(&h, rows[i].in.p, n);
		UNIT_CHECK(h.reason == rows[i].reason, "%s: %s", rows[i].name, http_reason_id(h.reason));
	}
}

/* Each reason that a head can have is shown by some row above or by limits(); body reasons have their own test. */
static void every_reason(void)
{
	static const enum http_reason elsewhere[] = { HTTP_REASON_HEAD_SIZE, HTTP_REASON_FIELD_COUNT,
		HTTP_REASON_CHUNK_SIZE, HTTP_REASON_CHUNK_EXTENSION, HTTP_REASON_CHUNK_END, HTTP_REASON_BODY_SIZE };
	bool seen[HTTP_REASON_COUNT] = { [HTTP_OK] = true };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		seen[rows[i].reason] = true;
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		seen[elsewhere[i]] = true;
	for (int r = 0; r < HTTP_REASON_COUNT; r++) {
		UNIT_CHECK(seen[r], "%s", http_reason_id((enum http_reason)r));
		UNIT_CHECK(strncmp(http_reason_id((enum http_reason)r), r == HTTP_OK ? "ok" : "http-", 2) == 0, "%d", r);
		UNIT_CHECK(http_reason_status((enum http_reason)r) >= (r == HTTP_OK ? 200 : 400), "%d", r);
		UNIT_CHECK(strlen(http_reason_text((enum http_reason)r)) > 0 || r == HTTP_OK, "%d", r);
	}
}

static enum http_result read_buf(struct http_head *h, const struct buf *b, size_t max)
{
	http_head_init(h, HTTP_REQUEST, max);
	return http_head_read(h, b->data + b->start, buf_len(b));
}

static void limits(void)
{
	struct http_head h;
	struct buf b;

	/* A head of exactly the limit is read, one byte more is not; what lies behind the limit makes no difference. */
	buf_init(&b, 40000);
	CU_ASSERT_EQUAL(buf_puts(&b, G "X: "), 0);
	while (buf_len(&b) < HTTP_MAX_HEAD - 4)
		CU_ASSERT_EQUAL_FATAL(buf_putc(&b, 'a'), 0);
	CU_ASSERT_EQUAL(buf_puts(&b, "\r\n\r\n"), 0);
	CU_ASSERT_EQUAL(read_buf(&h, &b, HTTP_MAX_HEAD), HTTP_DONE);
	CU_ASSERT_EQUAL(h.length, HTTP_MAX_HEAD);
	CU_ASSERT_EQUAL(read_buf(&h, &b, SIZE_MAX), HTTP_DONE);
	for (size_t max = 1; max < HTTP_MAX_HEAD; max += max < 64 ? 1 : 997) {
		UNIT_CHECK(read_buf(&h, &b, max) == HTTP_BAD && h.reason == HTTP_REASON_HEAD_SIZE, "max %zu", max);
		http_head_init(&h, HTTP_REQUEST, max);
		UNIT_CHECK(http_head_read(&h, b.data, max - 1) == HTTP_MORE, "max %zu", max);
		UNIT_CHECK(http_head_read(&h, b.data, max) == HTTP_BAD && h.reason == HTTP_REASON_HEAD_SIZE, "max %zu", max);
	}
	/* A fault behind the limit is not seen, wherever the bytes are cut. */
	buf_clear(&b);
	CU_ASSERT_EQUAL(buf_puts(&b, G "X: aaaaaaaaaaaa\r\nY\n"), 0);
	CU_ASSERT_EQUAL(read_buf(&h, &b, 40), HTTP_BAD);
	CU_ASSERT_EQUAL(h.reason, HTTP_REASON_HEAD_SIZE);

	buf_clear(&b);
	CU_ASSERT_EQUAL(buf_puts(&b, G), 0);
	for (unsigned i = 1; i < HTTP_MAX_FIELDS; i++)
		CU_ASSERT_EQUAL(buf_puts(&b, "X: a\r\n"), 0);
	CU_ASSERT_EQUAL(buf_puts(&b, "\r\n"), 0);
	CU_ASSERT_EQUAL(read_buf(&h, &b, HTTP_MAX_HEAD), HTTP_DONE);
	CU_ASSERT_EQUAL(h.nfields, HTTP_MAX_FIELDS);
	b.end -= 2;
	CU_ASSERT_EQUAL(buf_puts(&b, "Y: b\r\n"), 0);
	CU_ASSERT_EQUAL(read_buf(&h, &b, HTTP_MAX_HEAD), HTTP_BAD);
	CU_ASSERT_EQUAL(h.reason, HTTP_REASON_FIELD_COUNT);
	buf_release(&b);
}

static bool span_is(const char *p, struct http_span s, const char *text)
{
	return slice_is(http_span(p, s), text);
}

static void request_parts(void)
{
	static const char in[] = "POST /v1.41/x?a=b HTTP/1.1\r\nHost: d\r\ncontent-TYPE: \t application/json \t\r\n"
		"X-Other:1\r\nContent-Length: 12\r\nConnection: keep-alive, Upgrade\r\nUpgrade: tcp\r\n"
		"Expect: 100-continue\r\nX-Registry-Auth: e30=\r\n\r\n";
	struct http_head h;

	http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
	CU_ASSERT_EQUAL_FATAL(http_head_read(&h, in, strlen(in)), HTTP_DONE);
	CU_ASSERT_EQUAL(h.method, HTTP_POST);
	CU_ASSERT(span_is(in, h.method_text, "POST"));
	CU_ASSERT(span_is(in, h.target, "/v1.41/x?a=b"));
	CU_ASSERT_EQUAL(h.minor, 1);
	CU_ASSERT(h.keep_alive && h.upgrade && h.expect_continue && h.has_content_length && !h.te_chunked);
	CU_ASSERT_EQUAL(h.framing, HTTP_BODY_LENGTH);
	CU_ASSERT_EQUAL(h.content_length, 12);
	CU_ASSERT_EQUAL(h.nfields, 8);
	CU_ASSERT(slice_is(http_field_value(&h, in, HTTP_F_CONTENT_TYPE), "application/json"));
	CU_ASSERT(slice_is(http_field_value(&h, in, HTTP_F_X_REGISTRY_AUTH), "e30="));
	CU_ASSERT_PTR_NULL(http_field_value(&h, in, HTTP_F_TE).p);
	CU_ASSERT(span_is(in, h.fields[2].name, "X-Other") && span_is(in, h.fields[2].value, "1"));
	CU_ASSERT_EQUAL(h.fields[2].id, HTTP_F_OTHER);
	CU_ASSERT(http_connection_names(&h, in, SLICE_LIT("upgrade")));
	CU_ASSERT_FALSE(http_connection_names(&h, in, SLICE_LIT("close")));
}

static void field_names(void)
{
	static const struct {
		const char *name;
		enum http_field_name id;
	} names[] = {
		{ "TE", HTTP_F_TE },
		{ "Content-Encoding", HTTP_F_CONTENT_ENCODING },
		{ "Keep-Alive", HTTP_F_KEEP_ALIVE },
		{ "Proxy-Connection", HTTP_F_PROXY_CONNECTION },
		{ "Proxy-Authorization", HTTP_F_PROXY_AUTHORIZATION },
		{ "Proxy-Authenticate", HTTP_F_PROXY_AUTHENTICATE },
		{ "X-Registry-Auth", HTTP_F_X_REGISTRY_AUTH },
		{ "Upgrade", HTTP_F_UPGRADE },
		{ "Content_Length", HTTP_F_OTHER },
		{ "Content-Lengths", HTTP_F_OTHER },
		{ "Hosts", HTTP_F_OTHER },
		{ "Transfer-Encodin", HTTP_F_OTHER },
	};
	struct http_head h;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char in[200];
		int n = snprintf(in, sizeof(in), "%s%s: x\r\n%s: y\r\n\r\n", G, names[i].name, "Z");

		http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
		CU_ASSERT_EQUAL_FATAL(http_head_read(&h, in, (size_t)n), HTTP_DONE);
		UNIT_CHECK(h.fields[1].id == names[i].id, "%s", names[i].name);
		UNIT_CHECK(h.first[names[i].id] == 2 && h.count[names[i].id] >= 1, "%s", names[i].name);
	}
}

static void persistence(void)
{
	static const struct {
		const char *head;
		bool keep, upgrade, expect;
	} heads[] = {
		{ G "\r\n", true, false, false },
		{ G "Connection: close\r\n\r\n", false, false, false },
		{ G "Connection: keep-alive\r\nConnection: foo, CLOSE\r\n\r\n", false, false, false },
		{ "GET / HTTP/1.0\r\n\r\n", false, false, false },
		{ "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, false, false },
		{ "GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n\r\n", false, false, false },
		{ G "Upgrade: tcp\r\n\r\n", true, false, false },
		{ G "Connection: upgrade\r\n\r\n", true, false, false },
		{ G "Connection: upgrade\r\nUpgrade: tcp\r\n\r\n", true, true, false },
		{ "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: tcp\r\nExpect: 100-continue\r\n\r\n", false, false, false },
		{ P "Expect: 100-continue\r\n\r\n", true, false, true },
	};
	struct http_head h;

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
		UNIT_CHECK(http_head_read(&h, heads[i].head, strlen(heads[i].head)) == HTTP_DONE, "head %zu", i);
		UNIT_CHECK(h.keep_alive == heads[i].keep, "head %zu", i);
		UNIT_CHECK(h.upgrade == heads[i].upgrade, "head %zu", i);
		UNIT_CHECK(h.expect_continue == heads[i].expect, "head %zu", i);
	}
}

static void methods(void)
{
	for (int m = HTTP_GET; m <= HTTP_OTHER; m++) {
		struct http_head h;
		char in[64];
		const char *name = m == HTTP_OTHER ? "get" : http_method_name((enum http_method)m);
		int n = snprintf(in, sizeof(in), "%s / HTTP/1.1\r\nHost: d\r\n\r\n", name);

		http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
		UNIT_CHECK(http_head_read(&h, in, (size_t)n) == HTTP_DONE, "%s", name);
		UNIT_CHECK((int)h.method == m, "%s", name);
	}
}

static void response_framing(void)
{
	static const struct {
		const char *name, *head;
		unsigned flags;
		enum http_method method;
		enum http_reason reason;
		enum http_framing framing;
		uint64_t length;
		bool keep;
	} cases[] = {
		{ "length", R "Content-Length: 7\r\n\r\n", RESP, HTTP_GET, HTTP_OK, HTTP_BODY_LENGTH, 7, true },
		{ "length-0", R "Content-Length: 0\r\n\r\n", RESP, HTTP_GET, HTTP_OK, HTTP_BODY_LENGTH, 0, true },
		{ "chunked", R "Transfer-Encoding: chunked\r\n\r\n", RESP, HTTP_GET, HTTP_OK, HTTP_BODY_CHUNKED, 0, true },
		{ "eof", R "\r\n", RESP, HTTP_GET, HTTP_OK, HTTP_BODY_EOF, 0, false },
		{ "eof-10", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", RESP, HTTP_GET, HTTP_OK, HTTP_BODY_EOF, 0, false },
		{ "head-length", R "Content-Length: 7\r\n\r\n", RESP, HTTP_HEAD, HTTP_OK, HTTP_BODY_NONE, 7, true },
		{ "head-chunked", R "Transfer-Encoding: chunked\r\n\r\n", RESP, HTTP_HEAD, HTTP_OK, HTTP_BODY_NONE, 0, true },
		{ "head-none", R "\r\n", RESP, HTTP_HEAD, HTTP_OK, HTTP_BODY_NONE, 0, true },
		{ "204", "HTTP/1.1 204 No Content\r\n\r\n", RESP, HTTP_POST, HTTP_OK, HTTP_BODY_NONE, 0, true },
		{ "204-zero", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", RESP, HTTP_POST, HTTP_OK,
			HTTP_BODY_NONE, 0, true },
		{ "204-body", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", RESP, HTTP_POST, HTTP_OK,
			HTTP_BODY_NONE, 5, false },
		{ "204-chunked", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", RESP, HTTP_POST, HTTP_OK,
			HTTP_BODY_NONE, 0, false },
		{ "304-length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", RESP, HTTP_POST, HTTP_OK,
			HTTP_BODY_NONE, 7, true },
		{ "100", "HTTP/1.1 100 Continue\r\n\r\n", RESP, HTTP_POST, HTTP_OK, HTTP_BODY_NONE, 0, true },
		{ "101", "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n", RESP, HTTP_POST, HTTP_OK,
			HTTP_BODY_NONE, 0, true },
		{ "100-body", "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", RESP, HTTP_POST, HTTP_OK,
			HTTP_BODY_NONE, 5, false },
		{ "connect", R "Content-Length: 7\r\n\r\n", RESP, HTTP_CONNECT, HTTP_OK, HTTP_BODY_NONE, 7, true },
		{ "connect-refused", "HTTP/1.1 403 No\r\nContent-Length: 7\r\n\r\n", RESP, HTTP_CONNECT, HTTP_OK,
			HTTP_BODY_LENGTH, 7, true },
		{ "te-cl", R "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n", RESP, HTTP_GET,
			HTTP_REASON_LENGTH_AND_CODING, HTTP_BODY_NONE, 0, false },
		{ "te-cl-lenient", R "Content-Length: 7\r\nTransfer-Encoding: Chunked\r\n\r\n", LENIENT, HTTP_GET, HTTP_OK,
			HTTP_BODY_CHUNKED, 0, false },
		{ "te-other", R "Transfer-Encoding: gzip, chunked\r\n\r\n", RESP, HTTP_GET, HTTP_REASON_CODING,
			HTTP_BODY_NONE, 0, false },
		{ "te-case", R "Transfer-Encoding: CHUNKED\r\n\r\n", RESP, HTTP_GET, HTTP_REASON_CODING, HTTP_BODY_NONE, 0, false },
		{ "te-twice", R "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", LENIENT, HTTP_GET,
			HTTP_REASON_CODING, HTTP_BODY_NONE, 0, false },
		{ "te-10", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", LENIENT, HTTP_GET, HTTP_REASON_CODING_10,
			HTTP_BODY_NONE, 0, false },
		{ "close", R "Content-Length: 7\r\nConnection: close\r\n\r\n", RESP, HTTP_GET, HTTP_OK, HTTP_BODY_LENGTH, 7, false },
	};
	struct http_head h;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		http_head_init(&h, cases[i].flags, HTTP_MAX_HEAD);
		UNIT_CHECK(http_head_read(&h, cases[i].head, strlen(cases[i].head)) == HTTP_DONE, "%s", cases[i].name);
		enum http_result r = http_response_framing(&h, cases[i].method);
		UNIT_CHECK(r == (cases[i].reason == HTTP_OK ? HTTP_DONE : HTTP_BAD), "%s", cases[i].name);
		UNIT_CHECK(h.reason == cases[i].reason, "%s: %s", cases[i].name, http_reason_id(h.reason));
		if (r != HTTP_DONE)
			continue;
		UNIT_CHECK(h.framing == cases[i].framing, "%s", cases[i].name);
		UNIT_CHECK(h.content_length == cases[i].length, "%s", cases[i].name);
		UNIT_CHECK(h.keep_alive == cases[i].keep, "%s", cases[i].name);
	}
}

static void status_and_phrase(void)
{
	static const char in[] = "HTTP/1.0 404 Not  Found\r\n\r\n";
	struct http_head h;

	http_head_init(&h, HTTP_RESPONSE, HTTP_MAX_HEAD);
	CU_ASSERT_EQUAL(http_head_read(&h, in, strlen(in)), HTTP_DONE);
	CU_ASSERT_EQUAL(h.status, 404);
	CU_ASSERT_EQUAL(h.minor, 0);
	CU_ASSERT(span_is(in, h.reason_phrase, "Not  Found"));
	http_head_init(&h, LENIENT, HTTP_MAX_HEAD);
	CU_ASSERT_EQUAL(http_head_read(&h, "HTTP/1.1 204\r\n\r\n", 16), HTTP_DONE);
	CU_ASSERT_EQUAL(h.status, 204);
	CU_ASSERT_EQUAL(h.reason_phrase.len, 0);
}

static void lists(void)
{
	static const struct {
		const char *value, *token;
		bool has;
	} cases[] = {
		{ "a, b ,\tc", "b", true },
		{ "a, b ,\tc", "C", true },
		{ "ab", "a", false },
		{ "", "a", false },
		{ ",,a", "a", true },
		{ "a b", "b", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(http_list_has(slice_str(cases[i].value), slice_str(cases[i].token)) == cases[i].has, "%s", cases[i].value);
}

/* The token class against the grammar's own list, byte by byte. */
static void token_class(void)
{
	for (int c = 0; c < 256; c++) {
		char byte = (char)c;
		bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
		bool token = alnum || (c > 0 && c < 128 && strchr("!#$%&'*+-.^_`|~", c) != NULL);

		UNIT_CHECK(http_is_token(slice_make(&byte, 1)) == token, "byte 0x%02x", c);
	}
	CU_ASSERT_FALSE(http_is_token(slice_make("", 0)));
}

/* Every byte, at every place of a value that is long enough to be looked at in words. */
static void value_bytes(void)
{
	static const char head[] = G "X: abcdefghijklmnopqrstuvwxyz\r\n\r\n";
	size_t from = strlen(G "X: a"), to = strlen(head) - 5; /* white space at the ends is no part of the value */

	for (int c = 0; c < 256; c++) {
		enum http_reason want = c == '\r' ? HTTP_REASON_BARE_CR : c == '\n' ? HTTP_REASON_BARE_LF :
			(c < 0x20 && c != '\t') || c == 0x7f ? HTTP_REASON_CONTROL : HTTP_OK;

		for (size_t at = from; at < to; at++) {
			char in[sizeof(head)];
			struct http_head h;

			memcpy(in, head, sizeof(head));
			in[at] = (char)c;
			http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
			enum http_result r = http_head_read(&h, in, sizeof(head) - 1);
			UNIT_CHECK(r == (want == HTTP_OK ? HTTP_DONE : HTTP_BAD), "byte 0x%02x at %zu", c, at);
			UNIT_CHECK(h.reason == want, "byte 0x%02x at %zu: %s", c, at, http_reason_id(h.reason));
		}
	}
}

static const struct unit_test tests[] = {
	{ "outcomes", outcomes },
	{ "prefixes", prefixes },
	{ "byte-by-byte", byte_by_byte },
	{ "every-reason", every_reason },
	{ "limits", limits },
	{ "request-parts", request_parts },
	{ "field-names", field_names },
	{ "persistence", persistence },
	{ "methods", methods },
	{ "response-framing", response_framing },
	{ "status-and-phrase", status_and_phrase },
	{ "lists", lists },
	{ "token-class", token_class },
	{ "value-bytes", value_bytes },
};

UNIT_MAIN("http1_head", tests)
