/* The one parse of host names, ports and authorities. */
#include "egressd/host.h"

#include "libgate/addr.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The rule of the URL standard: such a last label makes the whole host an IPv4 address in some notation. */
static bool number_like(struct slice label)
{
	size_t i = 0;

	while (i < label.len && is_digit(label.p[i]))
		i++;
	if (i == label.len)
		return true;
	if (label.len < 2 || label.p[0] != '0' || (label.p[1] != 'x' && label.p[1] != 'X'))
		return false;
	for (i = 2; i < label.len; i++)
		if (!is_hex(label.p[i]))
			return false;
	return true;
}

static enum reason bracketed(struct slice text)
{
	struct addr a;

	if (text.len < 2 || text.p[text.len - 1] != ']' || !addr_parse(slice_make(text.p + 1, text.len - 2), &a))
		return REASON_HOST_SYNTAX;
	return a.len == 16 ? REASON_IP_LITERAL : REASON_HOST_SYNTAX;
}

static enum reason check_bytes(struct slice text)
{
	enum reason r = REASON_OK;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.p[i];
		if ((unsigned char)c >= 0x80)
			return REASON_HOST_NON_ASCII;
		if (!is_alpha(c) && !is_digit(c) && c != '-' && c != '_' && c != '.')
			r = REASON_HOST_SYNTAX;
	}
	return r;
}

static bool check_label(struct slice label)
{
	return label.len >= 1 && label.len <= 63 && label.p[0] != '-' && label.p[label.len - 1] != '-';
}

enum reason host_parse(struct slice text, struct host *out)
{
	struct slice label;
	size_t start = 0;
	enum reason r;

	if (text.len > 0 && text.p[0] == '[')
		return bracketed(text);
	r = check_bytes(text);
	if (r != REASON_OK)
		return r;
	if (text.len > 0 && text.p[text.len - 1] == '.')
		text.len--;
	if (text.len == 0 || text.len > HOST_MAX)
		return REASON_HOST_SYNTAX;
	for (size_t i = 0; i <= text.len; i++) {
		if (i < text.len && text.p[i] != '.')
			continue;
		label = slice_make(text.p + start, i - start);
		if (!check_label(label))
			return REASON_HOST_SYNTAX;
		start = i + 1;
	}
	if (number_like(label))
		return REASON_IP_LITERAL;
	for (size_t i = 0; i < text.len; i++)
		out->name[i] = slice_lower(text.p[i]);
	out->name[text.len] = '\0';
	out->len = (uint8_t)text.len;
	return REASON_OK;
}

bool port_parse(struct slice text, uint16_t *out)
{
	uint32_t n = 0;

	if (text.len == 0 || text.len > 5 || text.p[0] == '0')
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (!is_digit(text.p[i]))
			return false;
		n = n * 10 + (uint32_t)(text.p[i] - '0');
	}
	if (n > 65535)
		return false;
	*out = (uint16_t)n;
	return true;
}

/* Where the port's colon stands; text.len when there is none. */
static size_t find_colon(struct slice text)
{
	size_t i = 0;

	if (text.len > 0 && text.p[0] == '[')
		while (i < text.len && text.p[i] != ']')
			i++;
	while (i < text.len && text.p[i] != ':')
		i++;
	return i;
}

enum reason authority_parse(struct slice text, uint16_t dflt, struct host *host, uint16_t *port)
{
	size_t colon = find_colon(text);
	struct slice number = slice_skip(text, colon + 1);
	enum reason r;

	if (text.len > 0 && memchr(text.p, '@', text.len) != NULL)
		return REASON_USERINFO;
	/* An unbracketed IPv6 address is not a host with a strange port. */
	if (number.len > 0 && memchr(number.p, ':', number.len) != NULL)
		return REASON_HOST_SYNTAX;
	r = host_parse(slice_make(text.p, colon), host);
	if (r != REASON_OK && r != REASON_IP_LITERAL)
		return r;
	if (colon == text.len && dflt != 0)
		*port = dflt;
	else if (colon == text.len || !port_parse(number, port))
		return REASON_PORT_SYNTAX;
	return r;
}
