/* Reads the head of a request or response, strictly, from wherever the bytes were split. */
#include "libgate/http1.h"

#include "libgate/http1_class.h"
#include "libgate/http1_field.h"

#define LENGTH_DIGITS 19 /* as many as INT64_MAX has */

/* Members of Connection, in http_head.connection. */
enum { NAMES_CLOSE = 1 << 0, NAMES_KEEP_ALIVE = 1 << 1, NAMES_UPGRADE = 1 << 2 };

void http_head_init(struct http_head *h, unsigned flags, size_t max)
{
	/* The fields beyond nfields are never read: clearing them would cost more than reading a short head. */
	memset(h, 0, offsetof(struct http_head, fields));
	memset(h->first, 0, sizeof(h->first));
	memset(h->count, 0, sizeof(h->count));
	h->flags = flags;
	h->max = max < HTTP_MAX_HEAD ? max : HTTP_MAX_HEAD;
	h->method = HTTP_OTHER;
}

static enum http_result bad(struct http_head *h, enum http_reason reason)
{
	h->reason = reason;
	return HTTP_BAD;
}

static struct http_span span(size_t from, size_t to)
{
	return (struct http_span){ (uint16_t)from, (uint16_t)(to - from) };
}

static bool all(struct slice s, unsigned classes)
{
	for (size_t i = 0; i < s.len; i++)
		if (!http_is(s.p[i], classes))
			return false;
	return true;
}

/* --- start line ----------------------------------------------------------------------------------------------- */

static enum http_method method_of(struct slice s)
{
	switch (s.len) {
	case 3:
		return slice_is(s, "GET") ? HTTP_GET : slice_is(s, "PUT") ? HTTP_PUT : HTTP_OTHER;
	case 4:
		return slice_is(s, "POST") ? HTTP_POST : slice_is(s, "HEAD") ? HTTP_HEAD : HTTP_OTHER;
	case 5:
		return slice_is(s, "PATCH") ? HTTP_PATCH : slice_is(s, "TRACE") ? HTTP_TRACE : HTTP_OTHER;
	case 6:
		return slice_is(s, "DELETE") ? HTTP_DELETE : HTTP_OTHER;
	case 7:
		return slice_is(s, "OPTIONS") ? HTTP_OPTIONS : slice_is(s, "CONNECT") ? HTTP_CONNECT : HTTP_OTHER;
	default:
		return HTTP_OTHER;
	}
}

/* "HTTP/1.0" or "HTTP/1.1"; *other when it is some further version of HTTP. */
static bool version(struct slice s, uint8_t *minor, bool *other)
{
	bool any = s.len == 8 && memcmp(s.p, "HTTP/", 5) == 0 && http_is(s.p[5], HTTP_C_DIGIT) && s.p[6] == '.' &&
		http_is(s.p[7], HTTP_C_DIGIT);
	bool ours = any && s.p[5] == '1' && s.p[7] <= '1';

	*other = any && !ours;
	if (ours)
		*minor = (uint8_t)(s.p[7] - '0');
	return ours;
}

static enum http_result request_line(struct http_head *h, const char *p, size_t end)
{
	const char *sp = memchr(p, ' ', end);
	size_t method_end = sp != NULL ? (size_t)(sp - p) : end;
	struct slice method = slice_make(p, method_end);
	bool other;

	if (sp == NULL)
		return bad(h, HTTP_REASON_REQUEST_LINE);
	size_t target = method_end + 1;
	sp = memchr(p + target, ' ', end - target);
	size_t target_end = sp != NULL ? (size_t)(sp - p) : end;
	if (!all(slice_make(p + target, target_end - target), HTTP_C_VISIBLE))
		return bad(h, HTTP_REASON_TARGET);
	if (sp == NULL || target_end == target)
		return bad(h, HTTP_REASON_REQUEST_LINE);
	if (!version(slice_make(p + target_end + 1, end - target_end - 1), &h->minor, &other))
		return bad(h, other ? HTTP_REASON_VERSION : HTTP_REASON_REQUEST_LINE);
	h->method = method_of(method);
	h->method_text = span(0, method_end);
	h->target = span(target, target_end);
	return HTTP_MORE;
}

static enum http_result status_line(struct http_head *h, const char *p, size_t end)
{
	bool lenient = (h->flags & HTTP_LENIENT_RESPONSE) != 0;
	bool other;

	/* The SP in front of an empty reason phrase is often left out by origins that are not engines. */
	if (end < 12 || p[8] != ' ' || !(end > 12 ? p[12] == ' ' : lenient) || !all(slice_make(p + 9, 3), HTTP_C_DIGIT) ||
		p[9] < '1' || p[9] > '5' || !version(slice_make(p, 8), &h->minor, &other))
		return bad(h, HTTP_REASON_STATUS_LINE);
	h->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
	h->reason_phrase = end > 12 ? span(13, end) : span(12, 12);
	return HTTP_MORE;
}

/* A control byte of the start line, behind the method, is reported as what it spoils. */
static enum http_reason start_line_control(const struct http_head *h, const char *p)
{
	const char *sp = memchr(p, ' ', h->scanned);

	if ((h->flags & HTTP_RESPONSE) != 0 || sp == NULL)
		return HTTP_REASON_STATUS_LINE;
	size_t target = (size_t)(sp - p) + 1;
	return memchr(p + target, ' ', h->scanned - target) == NULL ? HTTP_REASON_TARGET : HTTP_REASON_REQUEST_LINE;
}

/*
 * What has come of the method, before its line is whole: bytes that are no HTTP at all need not wait for an end of line
 * that may never come. CR and LF are left to those who judge lines.
 */
static bool method_plausible(const char *p, size_t len)
{
	size_t i = 0;

	while (i < len && http_is(p[i], HTTP_C_TOKEN))
		i++;
	return i == len || p[i] == '\r' || p[i] == '\n' || (p[i] == ' ' && i > 0);
}

/* --- fields --------------------------------------------------------------------------------------------------- */

static enum http_result content_length(struct http_head *h, struct slice value)
{
	uint64_t n = 0;

	if (h->count[HTTP_F_CONTENT_LENGTH] > 1)
		return bad(h, HTTP_REASON_LENGTH_TWICE);
	if (value.len == 0 || value.len > LENGTH_DIGITS || !all(value, HTTP_C_DIGIT))
		return bad(h, HTTP_REASON_LENGTH);
	/* 19 digits stay below UINT64_MAX. */
	for (size_t i = 0; i < value.len; i++)
		n = n * 10 + (uint64_t)(value.p[i] - '0');
	if (n > INT64_MAX)
		return bad(h, HTTP_REASON_LENGTH);
	h->has_content_length = true;
	h->content_length = n;
	return HTTP_MORE;
}

static enum http_result transfer_encoding(struct http_head *h, struct slice value)
{
	h->te_chunked = h->count[HTTP_F_TRANSFER_ENCODING] == 1 &&
		((h->flags & HTTP_TE_ANY_CASE) != 0 ? slice_case_is(value, "chunked") : slice_is(value, "chunked"));
	/* What a response may carry depends on the request: http_response_framing() decides. */
	if (!h->te_chunked && (h->flags & HTTP_RESPONSE) == 0)
		return bad(h, HTTP_REASON_CODING);
	return HTTP_MORE;
}

/* Host = uri-host [ ":" port ]; empty where the target has no authority (RFC 9110 section 7.2). */
static bool host_ok(struct slice value)
{
	size_t i = 0;

	if (value.len > 0 && value.p[0] == '[') {
		for (i = 1; i < value.len && (http_is(value.p[i], HTTP_C_HEX) || value.p[i] == ':' || value.p[i] == '.'); i++)
			;
		if (i == 1 || i == value.len || value.p[i] != ']')
			return false;
		i++;
	} else {
		while (i < value.len && http_is(value.p[i], HTTP_C_HOST))
			i++;
	}
	if (i == value.len)
		return true;
	struct slice port = slice_skip(value, i + 1);
	return value.p[i] == ':' && i > 0 && port.len <= 5 && all(port, HTTP_C_DIGIT);
}

static enum http_result connection(struct http_head *h, struct slice value)
{
	struct slice member;

	while (http_list_next(&value, &member)) {
		if (!http_is_token(member))
			return bad(h, HTTP_REASON_CONNECTION);
		switch (http_field_name(member)) {
		case HTTP_F_HOST:
		case HTTP_F_CONTENT_LENGTH:
		case HTTP_F_TRANSFER_ENCODING:
			return bad(h, HTTP_REASON_CONNECTION);
		case HTTP_F_KEEP_ALIVE:
			h->connection |= NAMES_KEEP_ALIVE;
			break;
		case HTTP_F_UPGRADE:
			h->connection |= NAMES_UPGRADE;
			break;
		case HTTP_F_OTHER:
			if (slice_case_is(member, "close"))
				h->connection |= NAMES_CLOSE;
			break;
		case HTTP_F_CONTENT_TYPE:
		case HTTP_F_CONTENT_ENCODING:
		case HTTP_F_CONNECTION:
		case HTTP_F_EXPECT:
		case HTTP_F_TRAILER:
		case HTTP_F_TE:
		case HTTP_F_PROXY_CONNECTION:
		case HTTP_F_PROXY_AUTHORIZATION:
		case HTTP_F_PROXY_AUTHENTICATE:
		case HTTP_F_X_REGISTRY_AUTH:
		case HTTP_F_COUNT:
			break;
		}
	}
	return HTTP_MORE;
}

/* What one field alone, or together with those before it, says of the framing. */
static enum http_result judge_field(struct http_head *h, enum http_field_name id, struct slice value)
{
	bool request = (h->flags & HTTP_RESPONSE) == 0;
	enum http_result r = HTTP_MORE;

	switch (id) {
	case HTTP_F_HOST:
		if (request && (h->count[id] > 1 || !host_ok(value)))
			return bad(h, HTTP_REASON_HOST);
		break;
	case HTTP_F_CONTENT_LENGTH:
		r = content_length(h, value);
		break;
	case HTTP_F_TRANSFER_ENCODING:
		r = transfer_encoding(h, value);
		break;
	case HTTP_F_CONNECTION:
		r = connection(h, value);
		break;
	case HTTP_F_UPGRADE:
		if (h->count[id] > 1)
			return bad(h, HTTP_REASON_UPGRADE);
		break;
	case HTTP_F_EXPECT:
		if (request && (h->count[id] > 1 || !slice_case_is(value, "100-continue")))
			return bad(h, HTTP_REASON_EXPECT);
		break;
	case HTTP_F_TRAILER:
		if (request)
			return bad(h, HTTP_REASON_TRAILER);
		break;
	case HTTP_F_OTHER:
	case HTTP_F_CONTENT_TYPE:
	case HTTP_F_CONTENT_ENCODING:
	case HTTP_F_TE:
	case HTTP_F_KEEP_ALIVE:
	case HTTP_F_PROXY_CONNECTION:
	case HTTP_F_PROXY_AUTHORIZATION:
	case HTTP_F_PROXY_AUTHENTICATE:
	case HTTP_F_X_REGISTRY_AUTH:
	case HTTP_F_COUNT:
		break;
	}
	if (r == HTTP_MORE && request && h->has_content_length && h->count[HTTP_F_TRANSFER_ENCODING] > 0)
		return bad(h, HTTP_REASON_LENGTH_AND_CODING);
	return r;
}

/* p[from..to) is a line, without its CR LF. */
static enum http_result field_line(struct http_head *h, const char *p, size_t from, size_t to)
{
	size_t colon = from;

	if (p[from] == ' ' || p[from] == '\t')
		return bad(h, HTTP_REASON_OBS_FOLD);
	while (colon < to && http_is(p[colon], HTTP_C_TOKEN))
		colon++;
	if (colon == from || colon == to || p[colon] != ':')
		return bad(h, HTTP_REASON_FIELD_NAME);
	if (h->nfields == HTTP_MAX_FIELDS)
		return bad(h, HTTP_REASON_FIELD_COUNT);
	enum http_field_name id = http_field_name(slice_make(p + from, colon - from));
	struct slice value = http_trim(slice_make(p + colon + 1, to - colon - 1));
	size_t at = (size_t)(value.p - p);

	h->fields[h->nfields++] = (struct http_field){ span(from, colon), span(at, at + value.len), id };
	h->count[id]++;
	if (h->first[id] == 0)
		h->first[id] = (uint8_t)h->nfields;
	return id == HTTP_F_OTHER ? HTTP_MORE : judge_field(h, id, value);
}

/* --- end of head ---------------------------------------------------------------------------------------------- */

static enum http_result finish(struct http_head *h, size_t length)
{
	h->keep_alive = (h->connection & NAMES_CLOSE) == 0 && (h->minor > 0 || (h->connection & NAMES_KEEP_ALIVE) != 0);
	/* RFC 9110: a server ignores Upgrade (7.8) and 100-continue (10.1.1) in HTTP/1.0. */
	h->upgrade = h->minor > 0 && (h->connection & NAMES_UPGRADE) != 0 && h->count[HTTP_F_UPGRADE] == 1;
	h->expect_continue = h->minor > 0 && h->count[HTTP_F_EXPECT] == 1 && (h->flags & HTTP_RESPONSE) == 0;
	if ((h->flags & HTTP_RESPONSE) == 0) {
		if (h->count[HTTP_F_HOST] == 0 && h->minor > 0 && (h->flags & HTTP_HOST_OPTIONAL) == 0)
			return bad(h, HTTP_REASON_HOST);
		if (h->te_chunked && h->minor == 0)
			return bad(h, HTTP_REASON_CODING_10);
		h->framing = h->te_chunked ? HTTP_BODY_CHUNKED : h->has_content_length ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	}
	h->length = length;
	return HTTP_DONE;
}

/* A whole line p[h->line..end): HTTP_MORE to go on. */
static enum http_result line(struct http_head *h, const char *p, size_t end)
{
	bool start = h->line == 0;

	if (end == h->line)
		return start ? bad(h, HTTP_REASON_EMPTY_LINE) : finish(h, end + 2);
	if (!start)
		return field_line(h, p, h->line, end);
	return (h->flags & HTTP_RESPONSE) != 0 ? status_line(h, p, end) : request_line(h, p, end);
}

#define EACH(byte) (UINT64_MAX / 255 * (byte))

/* Is any of eight bytes below 0x20, or DEL? */
static bool has_control(uint64_t eight)
{
	uint64_t low = (eight - EACH(0x20)) & ~eight;
	uint64_t del = ((eight ^ EACH(0x7f)) - EACH(1)) & ~(eight ^ EACH(0x7f));

	return ((low | del) & EACH(0x80)) != 0;
}

/* The first byte at or behind `at` that is no field content. */
static size_t skip_text(const char *p, size_t at, size_t end)
{
	for (;;) {
		uint64_t eight;

		while (end - at >= sizeof(eight)) {
			memcpy(&eight, p + at, sizeof(eight));
			if (has_control(eight))
				break;
			at += sizeof(eight);
		}
		/* A HTAB looks like a control byte above: bytes decide. */
		size_t stop = end - at < sizeof(eight) ? end : at + sizeof(eight);
		while (at < stop && http_is(p[at], HTTP_C_TEXT))
			at++;
		if (at < stop || at == end)
			return at;
	}
}

enum http_result http_head_read(struct http_head *h, const char *p, size_t len)
{
	/* Bytes beyond the ceiling are not looked at, so that the outcome does not depend on how much arrived at once. */
	size_t end = len < h->max ? len : h->max;

	if (h->reason != HTTP_OK)
		return HTTP_BAD;
	if (h->length > 0)
		return HTTP_DONE;
	if (h->line == 0 && (h->flags & HTTP_RESPONSE) == 0 && !method_plausible(p, end))
		return bad(h, HTTP_REASON_METHOD);
	for (;;) {
		size_t at = skip_text(p, h->scanned, end);

		h->scanned = at;
		if (at == end || (p[at] == '\r' && at + 1 == end))
			return end < h->max ? HTTP_MORE : bad(h, HTTP_REASON_HEAD_SIZE);
		if (p[at] == '\n')
			return bad(h, HTTP_REASON_BARE_LF);
		if (p[at] != '\r')
			return bad(h, h->line == 0 ? start_line_control(h, p) : HTTP_REASON_CONTROL);
		if (p[at + 1] != '\n')
			return bad(h, HTTP_REASON_BARE_CR);
		enum http_result r = line(h, p, at);
		if (r != HTTP_MORE)
			return r;
		h->line = h->scanned = at + 2;
	}
}

/* --- framing of a response ------------------------------------------------------------------------------------ */

enum http_result http_response_framing(struct http_head *h, enum http_method request_method)
{
	bool coded = h->count[HTTP_F_TRANSFER_ENCODING] > 0;
	bool bodiless = h->status < 200 || h->status == 204;

	if (bodiless || h->status == 304 || request_method == HTTP_HEAD ||
		(request_method == HTTP_CONNECT && h->status < 300)) {
		h->framing = HTTP_BODY_NONE;
		/* A peer that promises a body here may send one: what follows must not be read as the next response. */
		if (bodiless && (coded || h->content_length > 0))
			h->keep_alive = false;
		return HTTP_DONE;
	}
	if (coded) {
		if (!h->te_chunked)
			return bad(h, HTTP_REASON_CODING);
		if (h->minor == 0)
			return bad(h, HTTP_REASON_CODING_10);
		if (h->has_content_length) {
			if ((h->flags & HTTP_LENIENT_RESPONSE) == 0)
				return bad(h, HTTP_REASON_LENGTH_AND_CODING);
			h->has_content_length = false;
			h->content_length = 0;
			h->keep_alive = false;
		}
		h->framing = HTTP_BODY_CHUNKED;
	} else if (h->has_content_length) {
		h->framing = HTTP_BODY_LENGTH;
	} else {
		h->framing = HTTP_BODY_EOF;
		h->keep_alive = false;
	}
	return HTTP_DONE;
}
