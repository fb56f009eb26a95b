/* DNS answers: whose addresses they are, aliases, limits, and messages that do not parse. */
#include "libgate/dns_answer.h"

#include "tests/unit/unit.h"

struct message {
	uint8_t p[16384];
	size_t n;
	unsigned count;
};

static void put_number(struct message *m, size_t width, uint32_t value)
{
	while (width-- > 0)
		m->p[m->n++] = (uint8_t)(value >> (8 * width));
}

static void put_name(struct message *m, const char *name)
{
	while (*name != '\0') {
		size_t n = strcspn(name, ".");
		put_number(m, 1, (uint32_t)n);
		memcpy(m->p + m->n, name, n);
		m->n += n;
		name += n + (name[n] == '.');
	}
	put_number(m, 1, 0);
}

static void begin(struct message *m, const char *name, uint16_t type, unsigned flags)
{
	m->n = 0;
	m->count = 0;
	put_number(m, 2, 0x1234);
	put_number(m, 2, flags);
	put_number(m, 2, 1);
	put_number(m, 2, 0);
	put_number(m, 4, 0);
	put_name(m, name);
	put_number(m, 2, type);
	put_number(m, 2, 1);
}

static void put_record(struct message *m, const char *owner, uint16_t type, uint32_t ttl, const void *data, size_t len)
{
	put_name(m, owner);
	put_number(m, 2, type);
	put_number(m, 2, 1);
	put_number(m, 4, ttl);
	put_number(m, 2, (uint32_t)len);
	memcpy(m->p + m->n, data, len);
	m->n += len;
	m->count++;
	m->p[6] = (uint8_t)(m->count >> 8);
	m->p[7] = (uint8_t)m->count;
}

static void put_alias(struct message *m, const char *owner, const char *target, uint32_t ttl)
{
	struct message name = { .n = 0 };

	put_name(&name, target);
	put_record(m, owner, 5, ttl, name.p, name.n);
}

static enum dns_result read_it(const struct message *m, uint16_t type, struct answer *out)
{
	struct host host;

	CU_ASSERT_FATAL(host_take(&host, SLICE_LIT("allowed.test")));
	return answer_read(m->p, m->n, &host, type, out);
}

static const uint8_t v4[] = { 11, 22, 33, 44 };
static const uint8_t v6[16] = { 0x26, 0x06, [15] = 1 };

static void test_both_families_add_up(void)
{
	struct message m;
	struct answer a;

	answer_init(&a);
	begin(&m, "ALLOWED.Test", DNS_TYPE_A, 0x8180);
	put_record(&m, "Allowed.TEST", DNS_TYPE_A, 60, v4, 4);
	put_record(&m, "allowed.test", DNS_TYPE_A, 30, v4, 4);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_OK);
	begin(&m, "allowed.test", DNS_TYPE_AAAA, 0x8180);
	put_record(&m, "allowed.test", DNS_TYPE_AAAA, 90, v6, 16);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_AAAA, &a), DNS_OK);
	CU_ASSERT_EQUAL(a.n, 3);
	CU_ASSERT_EQUAL(a.ttl, 30);
	CU_ASSERT_EQUAL(a.addrs[2].len, 16);
}

static void test_other_records_are_no_answer(void)
{
	struct message m;
	struct answer a;

	answer_init(&a);
	begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
	put_record(&m, "evil.test", DNS_TYPE_A, 60, v4, 4);
	put_record(&m, "allowed.test", DNS_TYPE_AAAA, 60, v6, 16);
	put_record(&m, "allowed.test", 16, 60, "\3txt", 4);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_OK);
	CU_ASSERT_EQUAL(a.n, 0);
}

static void test_aliases_in_any_order(void)
{
	struct message m;
	struct answer a;

	answer_init(&a);
	begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
	put_record(&m, "c.cdn.test", DNS_TYPE_A, 60, v4, 4);
	put_alias(&m, "b.cdn.test", "c.cdn.test", 10);
	put_alias(&m, "allowed.test", "b.cdn.test", 20);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_OK);
	CU_ASSERT_EQUAL(a.n, 1);
	CU_ASSERT_EQUAL(a.ttl, 10);
}

static void test_alias_loops_end(void)
{
	struct message m;
	struct answer a;

	answer_init(&a);
	begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
	put_alias(&m, "allowed.test", "allowed.test", 10);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_MALFORMED);
}

static void test_limits(void)
{
	static struct message m;
	struct answer a;

	answer_init(&a);
	begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
	for (int i = 0; i < ANSWER_ADDRS_MAX; i++)
		put_record(&m, "allowed.test", DNS_TYPE_A, 60, v4, 4);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_OK);
	CU_ASSERT_EQUAL(a.n, ANSWER_ADDRS_MAX);
	put_record(&m, "allowed.test", DNS_TYPE_A, 60, v4, 4);
	answer_init(&a);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_TOO_MANY);
}

static void test_headers(void)
{
	static const struct {
		unsigned flags;
		enum dns_result want;
	} cases[] = {
		{ 0x8180, DNS_OK }, { 0x8183, DNS_NXDOMAIN }, { 0x8182, DNS_FAILED },
		{ 0x8185, DNS_FAILED }, { 0x8380, DNS_FAILED }, { 0x0180, DNS_MALFORMED },
		{ 0x8980, DNS_MALFORMED },
	};
	struct message m;
	struct answer a;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		answer_init(&a);
		begin(&m, "allowed.test", DNS_TYPE_A, cases[i].flags);
		UNIT_CHECK(read_it(&m, DNS_TYPE_A, &a) == cases[i].want, "%04x", cases[i].flags);
	}
	begin(&m, "evil.test", DNS_TYPE_A, 0x8180);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_MALFORMED);
	begin(&m, "allowed.test", DNS_TYPE_AAAA, 0x8180);
	CU_ASSERT_EQUAL(read_it(&m, DNS_TYPE_A, &a), DNS_MALFORMED);
}

static void test_every_cut_is_malformed(void)
{
	struct message m;
	struct answer a;

	begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
	put_alias(&m, "allowed.test", "b.test", 10);
	put_record(&m, "b.test", DNS_TYPE_A, 60, v4, 4);
	for (size_t n = m.n; n-- > 0;) {
		m.n = n;
		answer_init(&a);
		UNIT_CHECK(read_it(&m, DNS_TYPE_A, &a) == DNS_MALFORMED, "%zu bytes", n);
	}
}

static void test_addresses_of_a_wrong_size(void)
{
	struct message m;
	struct answer a;

	for (size_t n = 0; n <= 16; n++) {
		answer_init(&a);
		begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
		put_record(&m, "allowed.test", DNS_TYPE_A, 60, v6, n);
		UNIT_CHECK(read_it(&m, DNS_TYPE_A, &a) == (n == 4 ? DNS_OK : DNS_MALFORMED), "%zu", n);
	}
}

static void test_pointers_go_backwards(void)
{
	struct message m;
	struct answer a;

	for (unsigned to = 0; to < 64; to++) {
		begin(&m, "allowed.test", DNS_TYPE_A, 0x8180);
		m.p[7] = 1;
		size_t at = m.n;
		put_number(&m, 2, 0xc000 | to);
		put_number(&m, 2, 1);
		put_number(&m, 2, 1);
		put_number(&m, 4, 60);
		put_number(&m, 2, 4);
		put_number(&m, 4, 0x0b16212c);
		answer_init(&a);
		enum dns_result r = read_it(&m, DNS_TYPE_A, &a);
		UNIT_CHECK(to != 12 || (r == DNS_OK && a.n == 1), "the question's name: %s", dns_result_text(r));
		UNIT_CHECK(to < at || r == DNS_MALFORMED, "to %u: %s", to, dns_result_text(r));
	}
}

static const struct unit_test tests[] = {
	{ "both_families_add_up", test_both_families_add_up },
	{ "other_records_are_no_answer", test_other_records_are_no_answer },
	{ "aliases_in_any_order", test_aliases_in_any_order },
	{ "alias_loops_end", test_alias_loops_end },
	{ "limits", test_limits },
	{ "headers", test_headers },
	{ "every_cut_is_malformed", test_every_cut_is_malformed },
	{ "addresses_of_a_wrong_size", test_addresses_of_a_wrong_size },
	{ "pointers_go_backwards", test_pointers_go_backwards },
};

UNIT_MAIN("answer", tests)
