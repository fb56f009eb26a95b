/* Reads one DNS answer message and keeps the addresses of the name that was asked for. */
#include "libgate/dns_answer.h"

#include <string.h>

#define TYPE_CNAME 5
#define CLASS_IN 1
#define HEADER 12
#define POINTERS_MAX 64 /* jumps in one name; each goes strictly backwards */

struct message {
	const uint8_t *p;
	size_t len;
};

struct record {
	struct host owner;
	uint16_t type;
	uint16_t class;
	uint32_t ttl;
	size_t data;
	uint16_t data_len;
};

static unsigned u16(const struct message *m, size_t at)
{
	return (unsigned)m->p[at] << 8 | m->p[at + 1];
}

/*
 * The name at *at, folded to lower case; *at moves behind it. A name with a byte that no host has gets an unequal spelling
 * (len 0): it can belong to nobody's question.
 */
static bool read_name(const struct message *m, size_t *at, struct host *out)
{
	size_t pos = *at, limit = m->len, n = 0;
	bool jumped = false, odd = false;
	int jumps = 0;

	for (;;) {
		if (pos >= limit)
			return false;
		unsigned c = m->p[pos];
		if (c == 0)
			break;
		if ((c & 0xc0) == 0xc0) {
			if (pos + 2 > limit || ++jumps > POINTERS_MAX)
				return false;
			size_t to = u16(m, pos) & 0x3fff;
			if (!jumped)
				*at = pos + 2;
			if (to >= pos)
				return false;
			jumped = true;
			limit = m->len;
			pos = to;
			continue;
		}
		if (c > 63 || pos + 1 + c > limit || n + c + 1 > HOST_MAX + 1)
			return false;
		if (n > 0)
			out->name[n++] = '.';
		for (unsigned i = 0; i < c; i++) {
			char b = slice_lower((char)m->p[pos + 1 + i]);
			odd = odd || !((b >= 'a' && b <= 'z') || (b >= '0' && b <= '9') || b == '-' || b == '_');
			if (n < HOST_MAX)
				out->name[n++] = b;
			else
				return false;
		}
		pos += 1 + c;
	}
	if (!jumped)
		*at = pos + 1;
	if (odd)
		n = 0;
	out->name[n] = '\0';
	out->len = (uint8_t)n;
	return true;
}

static bool read_record(const struct message *m, size_t *at, struct record *r)
{
	if (!read_name(m, at, &r->owner) || *at + 10 > m->len)
		return false;
	r->type = (uint16_t)u16(m, *at);
	r->class = (uint16_t)u16(m, *at + 2);
	r->ttl = (uint32_t)u16(m, *at + 4) << 16 | u16(m, *at + 6);
	r->data_len = (uint16_t)u16(m, *at + 8);
	r->data = *at + 10;
	if (r->data + r->data_len > m->len)
		return false;
	*at = r->data + r->data_len;
	if (r->ttl > INT32_MAX) /* RFC 2181 section 8 */
		r->ttl = 0;
	return true;
}

static bool same_host(const struct host *a, const struct host *b)
{
	return a->len > 0 && a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

/* The header and the question; DNS_OK with *at at the first answer record. */
static enum dns_result read_question(const struct message *m, const struct host *name, uint16_t type, size_t *at)
{
	struct host asked;
	unsigned rcode;

	if (m->len < HEADER)
		return DNS_MALFORMED;
	if ((m->p[2] & 0x80) == 0 || (m->p[2] & 0x78) != 0 || u16(m, 4) != 1) /* a response, opcode 0, one question */
		return DNS_MALFORMED;
	*at = HEADER;
	if (!read_name(m, at, &asked) || *at + 4 > m->len || !same_host(&asked, name) || u16(m, *at) != type ||
		u16(m, *at + 2) != CLASS_IN)
		return DNS_MALFORMED;
	*at += 4;
	rcode = m->p[3] & 0x0f;
	if (rcode == 3)
		return DNS_NXDOMAIN;
	if (rcode != 0)
		return DNS_FAILED;
	if ((m->p[2] & 0x02) != 0) /* truncated, and the question over TCP did not help */
		return DNS_FAILED;
	return DNS_OK;
}

/* The alias of `name`, if the message has one; records may stand in any order. */
static enum dns_result find_alias(const struct message *m, size_t at, unsigned count, const struct host *name,
	struct host *alias, uint32_t *ttl, bool *found)
{
	struct record r;

	*found = false;
	for (unsigned i = 0; i < count; i++) {
		if (!read_record(m, &at, &r))
			return DNS_MALFORMED;
		if (r.type != TYPE_CNAME || r.class != CLASS_IN || !same_host(&r.owner, name) || *found)
			continue;
		size_t data = r.data;
		if (!read_name(m, &data, alias) || data != r.data + r.data_len)
			return DNS_MALFORMED;
		*found = true;
		if (r.ttl < *ttl)
			*ttl = r.ttl;
	}
	return DNS_OK;
}

static enum dns_result collect(const struct message *m, size_t at, unsigned count, const struct host *name,
	uint16_t type, uint32_t *ttl, struct answer *out)
{
	uint16_t size = type == DNS_TYPE_A ? 4 : 16;
	struct record r;

	for (unsigned i = 0; i < count; i++) {
		if (!read_record(m, &at, &r))
			return DNS_MALFORMED;
		if (r.type != type || r.class != CLASS_IN || !same_host(&r.owner, name))
			continue;
		if (r.data_len != size)
			return DNS_MALFORMED;
		if (out->n == ANSWER_ADDRS_MAX)
			return DNS_TOO_MANY;
		struct addr *a = &out->addrs[out->n++];
		memset(a, 0, sizeof(*a));
		a->len = (uint8_t)size;
		memcpy(a->bytes, m->p + r.data, size);
		if (r.ttl < *ttl)
			*ttl = r.ttl;
	}
	return DNS_OK;
}

enum dns_result answer_read(const void *message, size_t len, const struct host *name, uint16_t type, struct answer *out)
{
	const struct message m = { message, len };
	struct host current = *name, alias;
	uint32_t ttl = UINT32_MAX;
	unsigned count, before = out->n;
	size_t at = 0;
	bool found = true;
	enum dns_result r = read_question(&m, name, type, &at);

	if (r != DNS_OK)
		return r;
	count = u16(&m, 6);
	if (count > ANSWER_RECORDS_MAX)
		return DNS_TOO_MANY;
	for (int i = 0; i < ANSWER_ALIASES_MAX && found; i++) {
		r = find_alias(&m, at, count, &current, &alias, &ttl, &found);
		if (r != DNS_OK)
			return r;
		if (found)
			current = alias;
	}
	if (found) /* a loop, or a chain that nobody has */
		return DNS_MALFORMED;
	r = collect(&m, at, count, &current, type, &ttl, out);
	if (r == DNS_OK && out->n > before && ttl < out->ttl)
		out->ttl = ttl;
	return r;
}
