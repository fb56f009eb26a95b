/* Field names that framing depends on, and what stands in comma-separated values. */
#include "libgate/http1_field.h"

#include "libgate/http1_class.h"

/*
 * name, a token, against a lower-case one of the same length. No tchar but a letter becomes one by |0x20, and '-' stays.
 */
static inline bool same(struct slice name, const char *lower, size_t len)
{
	unsigned char differ = 0;

	for (size_t i = 0; i < len; i++)
		differ |= (unsigned char)((name.p[i] | 0x20) ^ lower[i]);
	return differ == 0;
}

#define SAME(name, lit) same((name), (lit), sizeof(lit) - 1)

/* By length first: a name is compared with one or two candidates, not with all. */
enum http_field_name http_field_name(struct slice name)
{
	switch (name.len) {
	case 2:
		return SAME(name, "te") ? HTTP_F_TE : HTTP_F_OTHER;
	case 4:
		return SAME(name, "host") ? HTTP_F_HOST : HTTP_F_OTHER;
	case 6:
		return SAME(name, "expect") ? HTTP_F_EXPECT : HTTP_F_OTHER;
	case 7:
		return SAME(name, "upgrade") ? HTTP_F_UPGRADE : SAME(name, "trailer") ? HTTP_F_TRAILER : HTTP_F_OTHER;
	case 10:
		return SAME(name, "connection") ? HTTP_F_CONNECTION
			: SAME(name, "keep-alive")  ? HTTP_F_KEEP_ALIVE
										: HTTP_F_OTHER;
	case 12:
		return SAME(name, "content-type") ? HTTP_F_CONTENT_TYPE : HTTP_F_OTHER;
	case 14:
		return SAME(name, "content-length") ? HTTP_F_CONTENT_LENGTH : HTTP_F_OTHER;
	case 15:
		return SAME(name, "x-registry-auth") ? HTTP_F_X_REGISTRY_AUTH : HTTP_F_OTHER;
	case 16:
		return SAME(name, "content-encoding") ? HTTP_F_CONTENT_ENCODING
			: SAME(name, "proxy-connection")  ? HTTP_F_PROXY_CONNECTION
											  : HTTP_F_OTHER;
	case 17:
		return SAME(name, "transfer-encoding") ? HTTP_F_TRANSFER_ENCODING : HTTP_F_OTHER;
	case 18:
		return SAME(name, "proxy-authenticate") ? HTTP_F_PROXY_AUTHENTICATE : HTTP_F_OTHER;
	case 19:
		return SAME(name, "proxy-authorization") ? HTTP_F_PROXY_AUTHORIZATION : HTTP_F_OTHER;
	default:
		return HTTP_F_OTHER;
	}
}

static bool is_ows(char c)
{
	return c == ' ' || c == '\t';
}

struct slice http_trim(struct slice s)
{
	while (s.len > 0 && is_ows(s.p[0]))
		s = slice_skip(s, 1);
	while (s.len > 0 && is_ows(s.p[s.len - 1]))
		s.len--;
	return s;
}

bool http_list_next(struct slice *rest, struct slice *member)
{
	while (rest->len > 0) {
		const char *comma = memchr(rest->p, ',', rest->len);
		size_t n = comma != NULL ? (size_t)(comma - rest->p) : rest->len;

		*member = http_trim(slice_make(rest->p, n));
		*rest = slice_skip(*rest, comma != NULL ? n + 1 : n);
		if (member->len > 0)
			return true;
	}
	return false;
}

bool http_list_has(struct slice value, struct slice token)
{
	struct slice member;

	while (http_list_next(&value, &member))
		if (slice_case_eq(member, token))
			return true;
	return false;
}

bool http_is_token(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!http_is(s.p[i], HTTP_C_TOKEN))
			return false;
	return s.len > 0;
}

struct slice http_field_value(const struct http_head *h, const char *p, enum http_field_name id)
{
	if (h->first[id] == 0)
		return slice_make(NULL, 0);
	return http_span(p, h->fields[h->first[id] - 1].value);
}

bool http_connection_names(const struct http_head *h, const char *p, struct slice token)
{
	if (h->first[HTTP_F_CONNECTION] == 0)
		return false;
	for (unsigned i = h->first[HTTP_F_CONNECTION] - 1U; i < h->nfields; i++)
		if (h->fields[i].id == HTTP_F_CONNECTION && http_list_has(http_span(p, h->fields[i].value), token))
			return true;
	return false;
}
