/* Writing heads: exact bytes, refused values, whole lines or none at the ceiling. */
#include "libgate/http1.h"

#include "tests/unit/unit.h"

static void request(void)
{
	static const char want[] = "POST /v1.41/x?a=b HTTP/1.1\r\nHost: docker\r\nContent-Length: 18446744073709551615\r\n"
		"X:  a\r\n\r\n";
	struct buf b;

	buf_init(&b, sizeof(want) - 1);
	CU_ASSERT_EQUAL(http_put_request_line(&b, slice_str("POST"), slice_str("/v1.41/x?a=b")), 0);
	CU_ASSERT_EQUAL(http_put_field(&b, "Host", slice_str("docker")), 0);
	CU_ASSERT_EQUAL(http_put_field_u64(&b, "Content-Length", UINT64_MAX), 0);
	CU_ASSERT_EQUAL(http_put_field(&b, "X", slice_str(" a")), 0);
	CU_ASSERT_EQUAL(http_put_end(&b), 0);
	CU_ASSERT(slice_is(buf_slice(&b), want));
	CU_ASSERT_EQUAL(http_put_end(&b), -1);
	buf_release(&b);
}

static void status(void)
{
	struct buf b;

	buf_init(&b, 1000);
	CU_ASSERT_EQUAL(http_put_status_line(&b, 404, NULL), 0);
	CU_ASSERT_EQUAL(http_put_status_line(&b, 200, "Connection established"), 0);
	CU_ASSERT_EQUAL(http_put_status_line(&b, 599, ""), 0);
	CU_ASSERT(slice_is(buf_slice(&b),
		"HTTP/1.1 404 Not Found\r\nHTTP/1.1 200 Connection established\r\nHTTP/1.1 599 \r\n"));
	CU_ASSERT_EQUAL(http_put_status_line(&b, 99, "x"), -1);
	CU_ASSERT_EQUAL(http_put_status_line(&b, 600, "x"), -1);
	CU_ASSERT_EQUAL(http_put_status_line(&b, 200, "a\r\nX: y"), -1);
	CU_ASSERT_EQUAL(buf_len(&b), 24 + 37 + 15);
	CU_ASSERT_STRING_EQUAL(http_status_text(418), "Unknown");
	CU_ASSERT_STRING_EQUAL(http_status_text(101), "Switching Protocols");
	buf_release(&b);
}

/* Every byte in every place where it could break a line or a word. */
static void refused(void)
{
	struct buf b;

	buf_init(&b, 100000);
	for (int c = 0; c < 256; c++) {
		char text[3] = { 'a', (char)c, 'b' };
		char name[4] = { 'a', (char)c, 'b', '\0' };
		struct slice s = slice_make(text, 3);
		bool control = (c < 0x20 && c != '\t') || c == 0x7f;

		UNIT_CHECK((http_put_field(&b, "X", s) == 0) == !control, "value byte 0x%02x", c);
		UNIT_CHECK((http_put_request_line(&b, slice_str("GET"), s) == 0) == (c > 0x20 && c < 0x7f), "target byte 0x%02x", c);
		UNIT_CHECK((http_put_request_line(&b, s, slice_str("/")) == 0) == http_is_token(s), "method byte 0x%02x", c);
		if (c != 0)
			UNIT_CHECK((http_put_field_u64(&b, name, 1) == 0) == http_is_token(s), "name byte 0x%02x", c);
	}
	CU_ASSERT_EQUAL(http_put_request_line(&b, slice_str(""), slice_str("/")), -1);
	CU_ASSERT_EQUAL(http_put_request_line(&b, slice_str("GET"), slice_str("")), -1);
	CU_ASSERT_EQUAL(http_put_field(&b, "", slice_str("x")), -1);
	buf_release(&b);
}

static void ceiling(void)
{
	for (size_t max = 0; max < 60; max++) {
		struct buf b;

		buf_init(&b, max);
		bool line = http_put_request_line(&b, slice_str("GET"), slice_str("/_ping")) == 0;
		UNIT_CHECK(line == (max >= 21), "max %zu", max);
		UNIT_CHECK(buf_len(&b) == (line ? 21U : 0U), "max %zu", max);
		size_t before = buf_len(&b);
		bool field = http_put_field(&b, "Host", slice_str("docker")) == 0;
		UNIT_CHECK(buf_len(&b) == before + (field ? 14U : 0U), "max %zu", max);
		before = buf_len(&b);
		field = http_put_field_u64(&b, "Content-Length", 12) == 0;
		UNIT_CHECK(buf_len(&b) == before + (field ? 20U : 0U), "max %zu", max);
		before = buf_len(&b);
		field = http_put_status_line(&b, 200, NULL) == 0;
		UNIT_CHECK(buf_len(&b) == before + (field ? 17U : 0U), "max %zu", max);
		buf_release(&b);
	}
}

static const struct unit_test tests[] = {
	{ "request", request },
	{ "status", status },
	{ "refused", refused },
	{ "ceiling", ceiling },
};

UNIT_MAIN("http1_write", tests)
