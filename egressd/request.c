/* Which host, port and path a request head asks for. */
#include "egressd/request.h"

static enum reason connect_dest(const struct http_head *h, struct slice target, struct dest *dest)
{
	dest->connect = true;
	if (h->te_chunked || (h->has_content_length && h->content_length > 0))
		return REASON_CONNECT_BODY;
	return authority_parse(target, 0, &dest->host, &dest->port);
}

/* The length of the scheme in front of "://", 0 when there is none. */
static size_t scheme_length(struct slice target)
{
	size_t i = 0;

	while (i < target.len &&
		((slice_lower(target.p[i]) >= 'a' && slice_lower(target.p[i]) <= 'z') ||
			(i > 0 && ((target.p[i] >= '0' && target.p[i] <= '9') || strchr("+-.", target.p[i]) != NULL))))
		i++;
	return i > 0 && slice_starts(slice_skip(target, i), "://") ? i : 0;
}

static enum reason url_dest(struct slice target, struct dest *dest)
{
	size_t scheme = scheme_length(target), end = 0;
	struct slice rest;

	if (scheme == 0)
		return REASON_FORM;
	if (slice_case_is(slice_make(target.p, scheme), "https"))
		return REASON_HTTPS_URL;
	if (!slice_case_is(slice_make(target.p, scheme), "http"))
		return REASON_SCHEME;
	rest = slice_skip(target, scheme + 3);
	if (rest.len > 0 && memchr(rest.p, '#', rest.len) != NULL)
		return REASON_URL_SYNTAX;
	while (end < rest.len && rest.p[end] != '/' && rest.p[end] != '?')
		end++;
	dest->path = slice_skip(rest, end);
	/* Some parsers end the authority at a backslash: that it stands in none of the host's bytes is checked below. */
	return authority_parse(slice_make(rest.p, end), 80, &dest->host, &dest->port);
}

enum reason request_dest(const struct http_head *h, const char *p, struct dest *dest)
{
	struct slice target = http_span(p, h->target), method = http_span(p, h->method_text);

	dest->connect = false;
	dest->host.len = 0;
	dest->host.name[0] = '\0';
	dest->port = 0;
	dest->path = SLICE_LIT("");
	if (h->method == HTTP_CONNECT)
		return connect_dest(h, target, dest);
	if (h->method == HTTP_TRACE || slice_is(method, "TRACK"))
		return REASON_METHOD;
	return url_dest(target, dest);
}

int request_put_target(struct buf *b, const struct dest *dest)
{
	if (dest->path.len == 0 || dest->path.p[0] != '/')
		if (buf_putc(b, '/') != 0)
			return -1;
	return buf_put_slice(b, dest->path);
}

int request_put_host(struct buf *b, const struct dest *dest)
{
	if (buf_put_slice(b, host_slice(&dest->host)) != 0)
		return -1;
	return dest->port == 80 ? 0 : buf_putf(b, ":%u", (unsigned)dest->port);
}

struct slice request_named(const struct http_head *h, const char *p)
{
	struct slice target = http_span(p, h->target);
	size_t scheme = scheme_length(target), end = 0;

	if (h->method == HTTP_CONNECT || scheme == 0)
		return target;
	target = slice_skip(target, scheme + 3);
	while (end < target.len && strchr("/?#", target.p[end]) == NULL)
		end++;
	target.len = end;
	return target;
}
