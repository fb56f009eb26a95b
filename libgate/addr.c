/* Address text, the special-purpose table and CIDR blocks. */
#include "libgate/addr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum row_verdict { REFUSE, JUDGE_2, JUDGE_12 };

struct row {
	uint8_t len;
	uint8_t bits;
	uint8_t bytes[16];
	enum row_verdict verdict;
	const char *block;
	const char *class;
	const char *rfc;
	const char *hint;
};

#define HEXTET(h) (uint8_t)((h) >> 8), (uint8_t)((h)&0xff)

static const struct row rows[] = {
#define V4(a, b, c, d, bits, verdict, class, rfc, hint) \
	{ 4, bits, { a, b, c, d }, verdict, #a "." #b "." #c "." #d "/" #bits, class, rfc, hint },
#define V6(h0, h1, h2, h3, h4, h5, h6, h7, bits, text, verdict, class, rfc, hint) \
	{ 16, bits, { HEXTET(h0), HEXTET(h1), HEXTET(h2), HEXTET(h3), HEXTET(h4), HEXTET(h5), HEXTET(h6), HEXTET(h7) }, \
		verdict, text, class, rfc, hint },
#include "libgate/addr_block.def"
#undef V4
#undef V6
};

bool addr_parse(struct slice text, struct addr *out)
{
	char z[INET6_ADDRSTRLEN];
	bool v6;

	if (text.len == 0 || text.len >= sizeof(z) || memchr(text.p, '\0', text.len) != NULL)
		return false;
	memcpy(z, text.p, text.len);
	z[text.len] = '\0';
	v6 = memchr(z, ':', text.len) != NULL;
	memset(out, 0, sizeof(*out));
	/* inet_pton takes one spelling of IPv4 (four decimal numbers without leading zeros) and no zone. */
	if (inet_pton(v6 ? AF_INET6 : AF_INET, z, out->bytes) != 1)
		return false;
	out->len = v6 ? 16 : 4;
	return true;
}

void addr_format(const struct addr *a, char *out, size_t size)
{
	if (size == 0)
		return;
	if ((a->len != 4 && a->len != 16) ||
		inet_ntop(a->len == 4 ? AF_INET : AF_INET6, a->bytes, out, (socklen_t)size) == NULL)
		out[0] = '\0';
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static const struct row *find(const struct addr *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].len == a->len && prefix_equal(rows[i].bytes, a->bytes, rows[i].bits))
			return &rows[i];
	return NULL;
}

static void extract(const struct addr *a, enum row_verdict where, struct addr *v4)
{
	memset(v4, 0, sizeof(*v4));
	v4->len = 4;
	memcpy(v4->bytes, a->bytes + (where == JUDGE_2 ? 2 : 12), 4);
}

bool addr_embedded(const struct addr *a, struct addr *v4)
{
	const struct row *row = a->len == 16 ? find(a) : NULL;

	if (row == NULL || row->verdict == REFUSE)
		return false;
	extract(a, row->verdict, v4);
	return true;
}

/* An interface identifier of ISATAP (RFC 5214) under any prefix: a tunnel to the IPv4 address in its last bytes. */
static bool is_isatap(const struct addr *a)
{
	return (a->bytes[8] == 0x00 || a->bytes[8] == 0x02) && a->bytes[9] == 0x00 && a->bytes[10] == 0x5e &&
		a->bytes[11] == 0xfe;
}

static struct addr_verdict from_row(const struct row *row, bool refused)
{
	return (struct addr_verdict){ refused, row->block, row->class, row->rfc, NULL, row->hint };
}

struct addr_verdict addr_judge(const struct addr *a)
{
	const struct row *row;
	struct addr_verdict v;
	struct addr v4;

	if (a->len != 4 && a->len != 16)
		return (struct addr_verdict){ true, "none", "not-an-address", "RFC 4291", NULL, NULL };
	row = find(a);
	if (row != NULL && row->verdict == REFUSE)
		return from_row(row, true);
	if (row != NULL) {
		extract(a, row->verdict, &v4);
		v = addr_judge(&v4);
		if (!v.refused)
			v = from_row(row, false);
		v.via = row->class;
		return v;
	}
	if (a->len == 4)
		return (struct addr_verdict){ false, "public", "global", "RFC 6890", NULL, NULL };
	if ((a->bytes[0] & 0xe0) != 0x20) /* outside 2000::/3 nothing is public, whatever is assigned later */
		return (struct addr_verdict){ true, "outside 2000::/3", "reserved", "RFC 4291", NULL, NULL };
	if (is_isatap(a))
		return (struct addr_verdict){ true, "::5efe:0:0/96", "isatap", "RFC 5214", NULL, NULL };
	return (struct addr_verdict){ false, "2000::/3", "global", "RFC 4291", NULL, NULL };
}

bool cidr_parse(struct slice text, struct cidr *out)
{
	const char *slash = text.len > 0 ? memchr(text.p, '/', text.len) : NULL;
	struct slice number = SLICE_LIT("");
	struct cidr c;
	unsigned bits = 0, max;

	if (slash != NULL) {
		number = slice_skip(text, (size_t)(slash - text.p) + 1);
		text.len = (size_t)(slash - text.p);
	}
	if (!addr_parse(text, &c.addr))
		return false;
	max = c.addr.len * 8u;
	if (slash == NULL) {
		bits = max;
	} else {
		if (number.len == 0 || number.len > 3 || (number.len > 1 && number.p[0] == '0'))
			return false;
		for (size_t i = 0; i < number.len; i++) {
			if (number.p[i] < '0' || number.p[i] > '9')
				return false;
			bits = bits * 10 + (unsigned)(number.p[i] - '0');
		}
		if (bits > max)
			return false;
	}
	for (unsigned i = bits; i < max; i++)
		if (c.addr.bytes[i / 8] & (0x80 >> (i % 8)))
			return false;
	c.bits = (uint8_t)bits;
	*out = c;
	return true;
}

bool cidr_has(const struct cidr *c, const struct addr *a)
{
	struct addr v4;

	if (c->addr.len == a->len && prefix_equal(c->addr.bytes, a->bytes, c->bits))
		return true;
	return c->addr.len == 4 && addr_embedded(a, &v4) && prefix_equal(c->addr.bytes, v4.bytes, c->bits);
}

void cidr_format(const struct cidr *c, char *out, size_t size)
{
	size_t n;

	addr_format(&c->addr, out, size);
	n = strlen(out);
	snprintf(out + n, size - n, "/%u", (unsigned)c->bits);
}
