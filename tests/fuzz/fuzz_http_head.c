/*
 * Heads of requests and responses. Input: flags, cut position (two bytes), then the head.
 * Properties: the outcome does not depend on where the bytes are cut; what is accepted lies within the head and is
 * accepted again, with the same meaning, when it is written by the writer.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "libgate/http1.h"

static void check_span(const struct http_head *h, struct http_span s)
{
	FUZZ_CHECK(s.off <= h->length && s.len <= h->length - s.off);
}

static void check_same(const struct http_head *a, enum http_result ra, const struct http_head *b, enum http_result rb)
{
	FUZZ_CHECK(ra == rb && a->reason == b->reason && a->length == b->length);
	if (ra != HTTP_DONE)
		return;
	FUZZ_CHECK(a->nfields == b->nfields && a->status == b->status && a->method == b->method);
	FUZZ_CHECK(a->framing == b->framing && a->content_length == b->content_length && a->keep_alive == b->keep_alive);
	FUZZ_CHECK(memcmp(a->fields, b->fields, a->nfields * sizeof(a->fields[0])) == 0);
}

static void check_accepted(struct http_head *h, const char *p)
{
	check_span(h, h->target);
	check_span(h, h->method_text);
	check_span(h, h->reason_phrase);
	FUZZ_CHECK(h->length >= 4 && memcmp(p + h->length - 4, "\r\n\r\n", 4) == 0);
	for (unsigned i = 0; i < h->nfields; i++) {
		struct slice value = http_span(p, h->fields[i].value);

		check_span(h, h->fields[i].name);
		check_span(h, h->fields[i].value);
		FUZZ_CHECK(http_is_token(http_span(p, h->fields[i].name)));
		FUZZ_CHECK(memchr(value.p, '\n', value.len) == NULL && memchr(value.p, '\r', value.len) == NULL);
		FUZZ_CHECK(memchr(value.p, '\0', value.len) == NULL);
	}
	/* No two ways to frame a request. */
	FUZZ_CHECK((h->flags & HTTP_RESPONSE) != 0 || !(h->te_chunked && h->has_content_length));
	FUZZ_CHECK(h->count[HTTP_F_CONTENT_LENGTH] <= 1);
}

static void check_rewritten(const struct http_head *h, const char *p)
{
	struct http_head again;
	struct buf b;

	buf_init(&b, 4 * HTTP_MAX_HEAD);
	FUZZ_CHECK(http_put_request_line(&b, http_span(p, h->method_text), http_span(p, h->target)) == 0);
	for (unsigned i = 0; i < h->nfields; i++) {
		struct slice name = http_span(p, h->fields[i].name);
		char text[HTTP_MAX_HEAD + 1];

		memcpy(text, name.p, name.len);
		text[name.len] = '\0';
		FUZZ_CHECK(http_put_field(&b, text, http_span(p, h->fields[i].value)) == 0);
	}
	FUZZ_CHECK(http_put_end(&b) == 0);
	http_head_init(&again, h->flags, HTTP_MAX_HEAD);
	/* "name: value" may be a byte longer than "name:value": a head near the limit may pass it. */
	if (buf_len(&b) <= HTTP_MAX_HEAD && h->minor == 1) {
		FUZZ_CHECK(http_head_read(&again, buf_head(&b), buf_len(&b)) == HTTP_DONE);
		FUZZ_CHECK(again.nfields == h->nfields && again.framing == h->framing);
		FUZZ_CHECK(again.content_length == h->content_length && again.keep_alive == h->keep_alive);
		FUZZ_CHECK(again.upgrade == h->upgrade && again.expect_continue == h->expect_continue);
	}
	buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum http_method methods[] = { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_CONNECT };
	struct http_head whole, cut, slow;

	if (size < 3)
		return 0;
	unsigned flags = data[0] & 15;
	size_t max = (data[0] & 16) != 0 ? HTTP_MAX_HEAD : 64;
	size_t at = (size_t)(data[1] << 8 | data[2]);
	const char *p = (const char *)data + 3;
	size -= 3;
	at = size > 0 ? at % (size + 1) : 0;

	http_head_init(&whole, flags, max);
	http_head_init(&cut, flags, max);
	http_head_init(&slow, flags, max);
	enum http_result r = http_head_read(&whole, p, size);
	enum http_result first = http_head_read(&cut, p, at);
	check_same(&whole, r, &cut, first == HTTP_MORE ? http_head_read(&cut, p, size) : first);
	first = HTTP_MORE;
	for (size_t n = 0; n <= size && first == HTTP_MORE; n++)
		first = http_head_read(&slow, p, n);
	check_same(&whole, r, &slow, first);
	FUZZ_CHECK((r == HTTP_BAD) == (whole.reason != HTTP_OK));
	if (r != HTTP_DONE)
		return 0;
	check_accepted(&whole, p);
	if ((flags & HTTP_RESPONSE) == 0) {
		check_rewritten(&whole, p);
		return 0;
	}
	r = http_response_framing(&whole, methods[data[1] & 3]);
	FUZZ_CHECK(r == HTTP_DONE || (r == HTTP_BAD && whole.reason != HTTP_OK));
	FUZZ_CHECK(r == HTTP_BAD || whole.framing != HTTP_BODY_EOF || !whole.keep_alive);
	return 0;
}
