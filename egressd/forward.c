/* Rewrites request and response heads for the next hop. */
#include "egressd/forward.h"

/*
 * Fields of one hop that the reader does not tell apart; the others are HTTP_F_*. Whatever begins with Proxy- was said to
 * this proxy, or would be taken for its own word: a Proxy-Status in an answer is always ours.
 */
static bool hop_name(struct slice name)
{
	static const char proxy[] = "Proxy-";

	return slice_case_is(name, "HTTP2-Settings") ||
		(name.len >= sizeof(proxy) - 1 && slice_case_is(slice_make(name.p, sizeof(proxy) - 1), proxy));
}

/* Does the field stay behind, whatever Connection names? */
static bool one_hop(enum http_field_name id)
{
	switch (id) {
	case HTTP_F_CONNECTION:
	case HTTP_F_KEEP_ALIVE:
	case HTTP_F_PROXY_CONNECTION:
	case HTTP_F_PROXY_AUTHORIZATION:
	case HTTP_F_PROXY_AUTHENTICATE:
	case HTTP_F_TE:
	case HTTP_F_TRAILER:
	case HTTP_F_TRANSFER_ENCODING: /* framing is written anew */
	case HTTP_F_CONTENT_LENGTH:
	case HTTP_F_UPGRADE:
	case HTTP_F_EXPECT:
		return true;
	case HTTP_F_OTHER:
	case HTTP_F_HOST:
	case HTTP_F_CONTENT_TYPE:
	case HTTP_F_CONTENT_ENCODING:
	case HTTP_F_X_REGISTRY_AUTH:
	case HTTP_F_COUNT:
		return false;
	}
	return true;
}

static int put_field(struct buf *out, struct slice name, struct slice value)
{
	return buf_put_slice(out, name) != 0 || buf_puts(out, ": ") != 0 || buf_put_slice(out, value) != 0 ||
			buf_puts(out, "\r\n") != 0
		? -1
		: 0;
}

static int put_end_to_end(struct buf *out, const struct http_head *h, const char *p, bool request)
{
	for (unsigned i = 0; i < h->nfields; i++) {
		const struct http_field *f = &h->fields[i];
		struct slice name = http_span(p, f->name);
		if (one_hop(f->id) || (request && f->id == HTTP_F_HOST) || hop_name(name) || http_connection_names(h, p, name))
			continue;
		if (put_field(out, name, http_span(p, f->value)) != 0)
			return -1;
	}
	return 0;
}

bool forward_upgrades(const struct http_head *h, const char *p)
{
	return h->upgrade && h->method == HTTP_GET && h->framing == HTTP_BODY_NONE && h->minor >= 1 &&
		slice_case_is(http_field_value(h, p, HTTP_F_UPGRADE), "websocket");
}

static int put_upgrade(struct buf *out, struct slice protocol)
{
	return http_put_field(out, "Connection", SLICE_LIT("Upgrade")) != 0 || http_put_field(out, "Upgrade", protocol) != 0
		? -1
		: 0;
}

static int put_framing(struct buf *out, const struct http_head *h, bool chunked)
{
	if (chunked)
		return http_put_field(out, "Transfer-Encoding", SLICE_LIT("chunked"));
	return h->has_content_length ? http_put_field_u64(out, "Content-Length", h->content_length) : 0;
}

int forward_request(struct buf *out, const struct http_head *h, const char *p, const struct dest *dest, bool upgrade)
{
	struct slice method = http_span(p, h->method_text);

	if (!http_is_token(method) || buf_put_slice(out, method) != 0 || buf_putc(out, ' ') != 0 ||
		request_put_target(out, dest) != 0 || buf_puts(out, " HTTP/1.1\r\nHost: ") != 0 ||
		request_put_host(out, dest) != 0 || buf_puts(out, "\r\n") != 0)
		return -1;
	if (put_end_to_end(out, h, p, true) != 0 || put_framing(out, h, h->framing == HTTP_BODY_CHUNKED) != 0)
		return -1;
	if (h->expect_continue && http_put_field(out, "Expect", SLICE_LIT("100-continue")) != 0)
		return -1;
	if (upgrade && put_upgrade(out, http_field_value(h, p, HTTP_F_UPGRADE)) != 0)
		return -1;
	return http_put_end(out);
}

static int put_status(struct buf *out, const struct http_head *h, const char *p)
{
	struct slice phrase = http_span(p, h->reason_phrase);

	if (buf_putf(out, "HTTP/1.1 %d ", h->status) != 0)
		return -1;
	return buf_put_slice(out, phrase) != 0 || buf_puts(out, "\r\n") != 0 ? -1 : 0;
}

int forward_response(struct buf *out, const struct http_head *h, const char *p, const struct forward_response *how)
{
	if (put_status(out, h, p) != 0 || put_end_to_end(out, h, p, false) != 0)
		return -1;
	/* 1xx and 204 have no body and no framing, whatever the origin said. */
	if (h->status >= 200 && h->status != 204 && put_framing(out, h, how->chunked) != 0)
		return -1;
	if (how->upgrade && put_upgrade(out, http_field_value(h, p, HTTP_F_UPGRADE)) != 0)
		return -1;
	if (how->close && http_put_field(out, "Connection", SLICE_LIT("close")) != 0)
		return -1;
	return http_put_end(out);
}

int forward_chunk(struct buf *out, struct slice data)
{
	if (data.len == 0) /* would end the body */
		return 0;
	return buf_putf(out, "%zx\r\n", data.len) != 0 || buf_put_slice(out, data) != 0 || buf_puts(out, "\r\n") != 0 ? -1
																												  : 0;
}

int forward_last_chunk(struct buf *out)
{
	return buf_puts(out, "0\r\n\r\n");
}
