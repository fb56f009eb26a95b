/* The special-purpose table: a vector for every row, both sides of every edge, text and CIDR blocks. */
#include "libgate/addr.h"

#include "tests/unit/unit.h"

struct row {
	unsigned len;
	unsigned bits;
	const char *text;
	const char *class;
};

#define V4(a, b, c, d, bits, verdict, class, rfc, hint) { 4, bits, #a "." #b "." #c "." #d "/" #bits, class },
#define V6(h0, h1, h2, h3, h4, h5, h6, h7, bits, text, verdict, class, rfc, hint) { 16, bits, text, class },
static const struct row rows[] = {
#include "libgate/addr_block.def"
};
#undef V4
#undef V6

static const char *const refused[] = {
	"0.0.0.0", "0.1.2.3", "0.255.255.255", "10.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.0", "100.64.0.1",
	"100.127.255.255", "100.100.100.200", "127.0.0.0", "127.0.0.1", "127.0.0.11", "127.255.255.254",
	"127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.255.255", "172.16.0.0",
	"172.16.0.1", "172.31.255.255", "192.0.0.0", "192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.10",
	"192.0.0.170", "192.0.0.171", "192.0.0.255", "192.0.2.0", "192.0.2.1", "192.0.2.255", "192.31.196.0",
	"192.31.196.1", "192.31.196.255", "192.52.193.0", "192.52.193.1", "192.52.193.255", "192.88.99.0",
	"192.88.99.1", "192.88.99.2", "192.88.99.255", "192.168.0.0", "192.168.0.1", "192.168.255.255",
	"192.175.48.0", "192.175.48.1", "192.175.48.255", "198.18.0.0", "198.18.0.1", "198.19.255.255",
	"198.51.100.0", "198.51.100.1", "198.51.100.255", "203.0.113.0", "203.0.113.1", "203.0.113.255", "224.0.0.0",
	"224.0.0.1", "232.0.0.1", "233.252.0.1", "239.255.255.250", "239.255.255.255", "240.0.0.0", "240.0.0.1",
	"255.255.255.254", "255.255.255.255",
	"::", "::1", "::2", "::7f00:1", "::808:808", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
	"::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8", "::fffe:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
	"64:ff9b::a00:1", "64:ff9b::1:808:808", "64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "64:ff9b:1:7f00:0:100::",
	"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "100::", "100::1",
	"100:0:0:1::1", "100:0:0:2::1", "1ff:ffff::", "200::1", "3ff:ffff::", "400::1", "7ff::1", "800::1", "fff::1",
	"1000::1", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::", "2001::1", "2001:1::1", "2001:1::2",
	"2001:1::3", "2001:1::4", "2001:2::1", "2001:2:0:ffff::1", "2001:3::1", "2001:4:112::1", "2001:10::1",
	"2001:1f:ffff::1", "2001:20::1", "2001:2f:ffff::1", "2001:30::1", "2001:3f:ffff::1",
	"2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::", "2001:db8::1",
	"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:a00:1::",
	"2002:c0a8:101::1", "2620:4f:8000::", "2620:4f:8000::1", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "3ffe::",
	"3ffe::1", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff::1",
	"3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "4000::1", "5f00::1", "5eff:ffff::1", "6000::1",
	"8000::1", "a000::1", "c000::1", "e000::1", "f000::1", "f800::1", "fbff:ffff::1", "fc00::1",
	"fd00:ec2::254", "fd20:ce::254", "fdff:ffff::1", "fe00::1", "fe7f:ffff::1", "fe80::1", "febf:ffff::1",
	"fec0::1", "feff:ffff::1", "ff00::", "ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	"2606:4700::5efe:10.0.0.1", "2606:4700::5efe:8.8.8.8", "2606:4700::200:5efe:8.8.8.8",
};

static const char *const allowed[] = {
	"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
	"128.0.0.0", "168.63.129.16", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
	"191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0", "192.31.195.255", "192.31.197.0",
	"192.52.192.255", "192.52.194.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
	"192.175.47.255", "192.175.49.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0",
	"203.0.112.255", "203.0.114.0", "223.255.255.255",
	"2000::", "2000::1", "2000:ffff::1", "2001:200::", "2001:200::1", "2001:db7:ffff::1", "2001:db9::1",
	"2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2620:4f:7fff::1", "2620:4f:8001::1", "2a00::1",
	"3ffd::1", "3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::1",
	"3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8",
	"2606:4700::5eff:8.8.8.8", "2606:4700::100:5efe:8.8.8.8",
};

static struct addr parsed(const char *text)
{
	struct addr a = { 0, { 0 } };

	UNIT_CHECK(addr_parse(slice_str(text), &a), "%s", text);
	return a;
}

static void test_refused(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct addr a = parsed(refused[i]);
		UNIT_CHECK(addr_judge(&a).refused, "%s", refused[i]);
	}
}

static void test_allowed(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
		struct addr a = parsed(allowed[i]);
		struct addr_verdict v = addr_judge(&a);
		UNIT_CHECK(!v.refused, "%s (%s)", allowed[i], v.block);
	}
}

/* The text of a row is its bytes, and no row is out of reach behind a wider one. */
static void test_rows_are_well_formed(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cidr c;
		if (!UNIT_CHECK(cidr_parse(slice_str(rows[i].text), &c), "%s", rows[i].text))
			continue;
		UNIT_CHECK(c.addr.len == rows[i].len && c.bits == rows[i].bits, "%s", rows[i].text);
		for (size_t j = 0; j < i; j++) {
			struct cidr before;
			UNIT_CHECK(cidr_parse(slice_str(rows[j].text), &before) && !(before.addr.len == c.addr.len
				&& before.bits <= c.bits && cidr_has(&before, &c.addr)), "%s hides %s", rows[j].text,
				rows[i].text);
		}
	}
}

/* The next address or the one before, by carrying from the last byte; round at both ends. */
static void step(struct addr *a, int by)
{
	unsigned i = a->len;

	while (i-- > 0) {
		bool carries = a->bytes[i] == (by > 0 ? 0xff : 0);
		a->bytes[i] = (uint8_t)(a->bytes[i] + by);
		if (!carries)
			return;
	}
}

/* The first and the last address of each row are in it, or in a narrower one; the neighbours on both sides are not. */
static void test_edges(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cidr c;
		if (!UNIT_CHECK(cidr_parse(slice_str(rows[i].text), &c), "%s", rows[i].text))
			continue;
		struct addr first = c.addr, last = c.addr, before, after;
		for (unsigned bit = c.bits; bit < 8u * c.addr.len; bit++)
			last.bytes[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
		before = first;
		after = last;
		step(&before, -1);
		step(&after, 1);
		UNIT_CHECK(cidr_has(&c, &first) && cidr_has(&c, &last), "%s", rows[i].text);
		UNIT_CHECK(strcmp(addr_judge(&after).block, rows[i].text) != 0, "after %s", rows[i].text);
		UNIT_CHECK(strcmp(addr_judge(&before).block, rows[i].text) != 0, "before %s", rows[i].text);
		struct addr ends[] = { first, last };
		for (size_t e = 0; e < ARRAY_SIZE(ends); e++) {
			struct addr_verdict v = addr_judge(&ends[e]);
			bool narrower = v.via != NULL;
			for (size_t j = 0; j < i; j++)
				narrower = narrower || strcmp(v.block, rows[j].text) == 0;
			UNIT_CHECK(narrower || strcmp(v.block, rows[i].text) == 0, "%s end of %s in %s", e == 0 ? "first" : "last",
				rows[i].text, v.block);
		}
	}
}

static void test_classes(void)
{
	static const struct {
		const char *address, *class, *block, *via;
	} cases[] = {
		{ "127.0.0.1", "loopback", "127.0.0.0/8", NULL },
		{ "0.0.0.0", "unspecified", "0.0.0.0/32", NULL },
		{ "0.0.0.1", "this-network", "0.0.0.0/8", NULL },
		{ "255.255.255.255", "broadcast", "255.255.255.255/32", NULL },
		{ "192.0.0.171", "nat64-discovery", "192.0.0.170/31", NULL },
		{ "192.0.0.11", "ietf-protocol", "192.0.0.0/24", NULL },
		{ "8.8.8.8", "global", "public", NULL },
		{ "::1", "loopback", "::1/128", NULL },
		{ "::ffff:127.0.0.1", "loopback", "127.0.0.0/8", "ipv4-mapped" },
		{ "64:ff9b::a9fe:a9fe", "link-local", "169.254.0.0/16", "nat64" },
		{ "2002:a00:1::", "private-use", "10.0.0.0/8", "6to4" },
		{ "64:ff9b::808:808", "nat64", "64:ff9b::/96", "nat64" },
		{ "2001::1", "teredo", "2001::/32", NULL },
		{ "2001:1::4", "ietf-protocol", "2001::/23", NULL },
		{ "2001:30::1", "drone-remote-id", "2001:30::/28", NULL },
		{ "100:0:0:1::1", "dummy", "100:0:0:1::/64", NULL },
		{ "5f00::1", "srv6-sids", "5f00::/16", NULL },
		{ "2606:4700::5efe:8.8.8.8", "isatap", "::5efe:0:0/96", NULL },
		{ "2606:4700::1111", "global", "2000::/3", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct addr a = parsed(cases[i].address);
		struct addr_verdict v = addr_judge(&a);
		UNIT_CHECK(strcmp(v.class, cases[i].class) == 0, "%s is %s", cases[i].address, v.class);
		UNIT_CHECK(strcmp(v.block, cases[i].block) == 0, "%s in %s", cases[i].address, v.block);
		UNIT_CHECK((v.via == NULL) == (cases[i].via == NULL)
			&& (v.via == NULL || strcmp(v.via, cases[i].via) == 0), "%s via", cases[i].address);
	}
}

static void test_no_family_is_refused(void)
{
	struct addr a = { 5, { 8, 8, 8, 8 } };

	CU_ASSERT(addr_judge(&a).refused);
}

static void test_text_has_one_spelling_of_ipv4(void)
{
	static const char *const bad[] = { "", "127.1", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.01", "2130706433", "1.2.3",
		"1.2.3.4.", "1.2.3.4.5", "256.1.1.1", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4/32", "[::1]", "::1%lo", "fe80::1%1",
		":::", "1::2::3", "12345::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "::1.2.3", "::ffff:1.2.3.04", "g::" };
	struct addr a;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		UNIT_CHECK(!addr_parse(slice_str(bad[i]), &a), "%s", bad[i]);
	CU_ASSERT(!addr_parse(slice_make("1.2.3.4\0", 8), &a));
	CU_ASSERT(!addr_parse(slice_make("1.2.3.4\0x", 9), &a));
}

static void test_format(void)
{
	static const char *const same[] = { "1.2.3.4", "::", "::1", "2001:db8::1", "2001:db8:0:1:1:1:1:1",
		"::ffff:1.2.3.4", "64:ff9b::808:808", "fe80::a:b" };
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		struct addr a = parsed(same[i]);
		addr_format(&a, text, sizeof(text));
		UNIT_CHECK(strcmp(text, same[i]) == 0, "%s gives %s", same[i], text);
	}
}

static void test_cidr(void)
{
	static const char *const bad[] = { "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/-1",
		"10.0.0.0/8/8", "/8", "::/129", "2001:db8::1/32", "10.0.0.0/8 ", "10.0.0/8", "x" };
	static const struct {
		const char *block, *address;
		bool has;
	} cases[] = {
		{ "10.0.0.0/8", "10.255.255.255", true }, { "10.0.0.0/8", "11.0.0.0", false },
		{ "0.0.0.0/0", "203.0.113.9", true }, { "1.2.3.4", "1.2.3.4", true }, { "1.2.3.4", "1.2.3.5", false },
		{ "168.63.129.16/32", "::ffff:168.63.129.16", true },
		{ "168.63.129.16/32", "64:ff9b::a83f:8110", true }, { "168.63.129.16/32", "2002:a83f:8110::1", true },
		{ "168.63.129.16/32", "2001:db8::a83f:8110", false }, { "2600::/12", "2606:4700::1", true },
		{ "2600::/12", "2610::1", false }, { "::/0", "2606:4700::1", true }, { "::/0", "1.2.3.4", false },
		{ "198.51.100.128/25", "198.51.100.200", true }, { "198.51.100.128/25", "198.51.100.127", false },
	};
	struct cidr c;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		UNIT_CHECK(!cidr_parse(slice_str(bad[i]), &c), "%s", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct addr a = parsed(cases[i].address);
		if (UNIT_CHECK(cidr_parse(slice_str(cases[i].block), &c), "%s", cases[i].block))
			UNIT_CHECK(cidr_has(&c, &a) == cases[i].has, "%s in %s", cases[i].address, cases[i].block);
	}
}

static const struct unit_test tests[] = {
	{ "refused", test_refused },
	{ "allowed", test_allowed },
	{ "rows_are_well_formed", test_rows_are_well_formed },
	{ "edges", test_edges },
	{ "classes", test_classes },
	{ "no_family_is_refused", test_no_family_is_refused },
	{ "text_has_one_spelling_of_ipv4", test_text_has_one_spelling_of_ipv4 },
	{ "format", test_format },
	{ "cidr", test_cidr },
};

UNIT_MAIN("addr", tests)
