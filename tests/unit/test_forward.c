/* Destinations of request heads, and the heads that go on: compared as whole texts. */
#include "egressd/forward.h"

#include "tests/unit/unit.h"

static bool read_head(struct http_head *h, unsigned flags, const char *text)
{
	http_head_init(h, flags, HTTP_MAX_HEAD);
	return http_head_read(h, text, strlen(text)) == HTTP_DONE;
}

static const unsigned request_flags = HTTP_REQUEST | HTTP_TE_ANY_CASE | HTTP_HOST_OPTIONAL;

static void test_destinations(void)
{
	static const struct {
		const char *line;
		enum reason want;
		const char *host;
		unsigned port;
		const char *target;
	} cases[] = {
		{ "CONNECT a.test:443 HTTP/1.1", REASON_OK, "a.test", 443, "/" },
		{ "CONNECT A.Test.:443 HTTP/1.0", REASON_OK, "a.test", 443, "/" },
		{ "CONNECT a.test HTTP/1.1", REASON_PORT_SYNTAX, NULL, 0, NULL },
		{ "GET http://a.test HTTP/1.1", REASON_OK, "a.test", 80, "/" },
		{ "GET HTTP://A.test:8080/x?y=http://b.test/ HTTP/1.1", REASON_OK, "a.test", 8080, "/x?y=http://b.test/" },
		{ "GET http://a.test?q HTTP/1.1", REASON_OK, "a.test", 80, "/?q" },
		{ "GET http://a.test:/ HTTP/1.1", REASON_PORT_SYNTAX, NULL, 0, NULL },
		{ "GET https://a.test/ HTTP/1.1", REASON_HTTPS_URL, NULL, 0, NULL },
		{ "GET ftp://a.test/ HTTP/1.1", REASON_SCHEME, NULL, 0, NULL },
		{ "GET /x HTTP/1.1", REASON_FORM, NULL, 0, NULL },
		{ "OPTIONS * HTTP/1.1", REASON_FORM, NULL, 0, NULL },
		{ "GET a.test:80 HTTP/1.1", REASON_FORM, NULL, 0, NULL },
		{ "GET http:a.test HTTP/1.1", REASON_FORM, NULL, 0, NULL },
		{ "GET ://a.test HTTP/1.1", REASON_FORM, NULL, 0, NULL },
		{ "GET http://u@a.test/ HTTP/1.1", REASON_USERINFO, NULL, 0, NULL },
		{ "GET http://a.test/#f HTTP/1.1", REASON_URL_SYNTAX, NULL, 0, NULL },
		{ "GET http://[::1]/ HTTP/1.1", REASON_IP_LITERAL, NULL, 0, NULL },
		{ "GET http://127.1/ HTTP/1.1", REASON_IP_LITERAL, NULL, 0, NULL },
		{ "GET http:/// HTTP/1.1", REASON_HOST_SYNTAX, NULL, 0, NULL },
		{ "TRACE http://a.test/ HTTP/1.1", REASON_METHOD, NULL, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct http_head h;
		char text[512];
		struct dest dest;
		struct buf out;
		snprintf(text, sizeof(text), "%s\r\nHost: other.test\r\n\r\n", cases[i].line);
		if (!UNIT_CHECK(read_head(&h, request_flags, text), "%s", cases[i].line))
			continue;
		enum reason r = request_dest(&h, text, &dest);
		UNIT_CHECK(r == cases[i].want, "%s gives %s", cases[i].line, reason_id(r));
		if (r != REASON_OK)
			continue;
		UNIT_CHECK(strcmp(dest.host.name, cases[i].host) == 0 && dest.port == cases[i].port, "%s", cases[i].line);
		buf_init(&out, 1024);
		UNIT_CHECK(request_put_target(&out, &dest) == 0 && slice_is(buf_slice(&out), cases[i].target), "%s",
			cases[i].line);
		buf_release(&out);
	}
}

#define LONG "X-Meta-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789"

static void test_requests(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "GET http://a.test/x HTTP/1.1\r\nHost: b.test\r\nAccept: */*\r\n\r\n",
			"GET /x HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\n\r\n" },
		{ "GET http://a.test:8080/ HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n" },
		{ "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nConnection: close, x-a\r\nConnection: X-B\r\nX-A: 1\r\nx-b: 2\r\nX-C: 3\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\nX-C: 3\r\n\r\n" },
		{ "POST http://a.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\nExpect: 100-continue\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n" },
		{ "POST http://a.test/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\nTE: trailers\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n" },
		{ "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\nSec-WebSocket-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" },
		{ "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" },
		{ "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nProxy-Authorization: x\r\nProxy-Connection: x\r\nKeep-Alive: 1\r\nAuthorization: y\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: y\r\n\r\n" },
		{ "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, " LONG "-B\r\n" LONG "-A: 1\r\n" LONG "-b: 2\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\n" LONG "-A: 1\r\n\r\n" },
		{ "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nPROXY-x: 1\r\nProxy-: 2\r\nProxyX: 3\r\nX-Proxy-Y: 4\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\nProxyX: 3\r\nX-Proxy-Y: 4\r\n\r\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct http_head h;
		struct dest dest;
		struct buf out;
		buf_init(&out, 4096);
		if (!UNIT_CHECK(read_head(&h, request_flags, cases[i].in), "%zu", i)
			|| !UNIT_CHECK(request_dest(&h, cases[i].in, &dest) == REASON_OK, "%zu", i))
			continue;
		UNIT_CHECK(forward_request(&out, &h, cases[i].in, &dest, forward_upgrades(&h, cases[i].in)) == 0
			&& slice_is(buf_slice(&out), cases[i].out), "%zu: %.*s", i, SLICE_ARG(buf_slice(&out)));
		buf_release(&out);
	}
}

static void test_responses(void)
{
	static const struct {
		const char *in;
		struct forward_response how;
		const char *out;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nKeep-Alive: 1\r\nConnection: keep-alive, X-P\r\nX-P: 1\r\nX-Q: 2\r\n\r\n",
			{ false, false, false }, "HTTP/1.1 200 OK\r\nX-Q: 2\r\nContent-Length: 3\r\n\r\n" },
		{ "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", { true, false, false },
			"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n" },
		{ "HTTP/1.0 200 OK\r\n\r\n", { false, true, false }, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" },
		{ "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", { false, false, false }, "HTTP/1.1 204 No Content\r\n\r\n" },
		{ "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", { false, false, true },
			"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" },
		{ "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", { false, false, false },
			"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n" },
		{ "HTTP/1.1 200 OK\r\nProxy-Status: egressd; error=dns_error\r\nContent-Length: 0\r\n\r\n", { false, false, false },
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static struct http_head h;
		struct buf out;
		buf_init(&out, 4096);
		if (!UNIT_CHECK(read_head(&h, HTTP_RESPONSE | HTTP_LENIENT_RESPONSE, cases[i].in), "%zu", i))
			continue;
		UNIT_CHECK(http_response_framing(&h, HTTP_GET) == HTTP_DONE, "%zu", i);
		UNIT_CHECK(forward_response(&out, &h, cases[i].in, &cases[i].how) == 0
			&& slice_is(buf_slice(&out), cases[i].out), "%zu: %.*s", i, SLICE_ARG(buf_slice(&out)));
		buf_release(&out);
	}
}

/* An empty run would be the end of a chunked body. */
static void test_chunks(void)
{
	struct buf out;

	buf_init(&out, 64);
	CU_ASSERT_EQUAL(forward_chunk(&out, SLICE_LIT("")), 0);
	CU_ASSERT_EQUAL(forward_chunk(&out, SLICE_LIT("sixteen bytes...")), 0);
	CU_ASSERT_EQUAL(forward_last_chunk(&out), 0);
	CU_ASSERT(slice_is(buf_slice(&out), "10\r\nsixteen bytes...\r\n0\r\n\r\n"));
	buf_release(&out);
}

static const struct unit_test tests[] = {
	{ "destinations", test_destinations },
	{ "requests", test_requests },
	{ "responses", test_responses },
	{ "chunks", test_chunks },
};

UNIT_MAIN("forward", tests)
