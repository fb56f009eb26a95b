/* Which addresses may be connected to: the order of the checks, all or none, and what leads back to this host. */
#include "egressd/guard.h"

#include <sys/resource.h>

#include "tests/unit/unit.h"

static struct addr parsed(const char *text)
{
	struct addr a = { 0, { 0 } };

	UNIT_CHECK(addr_parse(slice_str(text), &a), "%s", text);
	return a;
}

static struct guard make(struct cidr_list *refuse)
{
	struct guard g;
	struct addr gateway = parsed("11.9.9.1"), resolvers[] = { parsed("11.9.9.53"), parsed("2a00::53") };

	refuse->n = 2;
	CU_ASSERT_FATAL(cidr_parse(SLICE_LIT("168.63.129.16/32"), &refuse->cidr[0]));
	CU_ASSERT_FATAL(cidr_parse(SLICE_LIT("2a01:1::/32"), &refuse->cidr[1]));
	guard_init(&g, refuse);
	guard_know_gateway(&g, &gateway);
	guard_know_resolvers(&g, resolvers, ARRAY_SIZE(resolvers));
	guard_know_port(&g, 3128);
	return g;
}

static void test_one_address(void)
{
	static const struct {
		const char *address;
		enum reason reason;
		enum reason exempt;
	} rows[] = {
		{ "8.8.8.8", REASON_OK, REASON_OK },
		{ "2a00:1450::1", REASON_OK, REASON_OK },
		{ "10.0.0.1", REASON_ADDRESS_REFUSED, REASON_OK },
		{ "127.0.0.1", REASON_ADDRESS_REFUSED, REASON_ADDRESS_OWN }, /* exempt, but its own listener */
		{ "::1", REASON_ADDRESS_REFUSED, REASON_ADDRESS_OWN },
		{ "::ffff:127.0.0.1", REASON_ADDRESS_REFUSED, REASON_ADDRESS_OWN },
		{ "fe80::1", REASON_ADDRESS_REFUSED, REASON_OK },
		{ "168.63.129.16", REASON_ADDRESS_LISTED, REASON_OK },
		{ "::ffff:168.63.129.16", REASON_ADDRESS_LISTED, REASON_OK },
		{ "64:ff9b::168.63.129.16", REASON_ADDRESS_LISTED, REASON_OK },
		{ "2002:a83f:8110::1", REASON_ADDRESS_LISTED, REASON_OK },
		{ "2a01:1:2:3::4", REASON_ADDRESS_LISTED, REASON_OK },
		{ "11.9.9.1", REASON_ADDRESS_OWN, REASON_OK },
		{ "64:ff9b::11.9.9.1", REASON_ADDRESS_OWN, REASON_OK },
		{ "11.9.9.53", REASON_ADDRESS_OWN, REASON_OK },
		{ "2a00::53", REASON_ADDRESS_OWN, REASON_OK },
	};
	struct cidr_list refuse;
	struct guard g = make(&refuse);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct addr a = parsed(rows[i].address);
		struct guard_fault f = guard_check(&g, &a, 1, 3128, false);
		UNIT_CHECK(f.reason == rows[i].reason, "%s: %s", rows[i].address, reason_id(f.reason));
		f = guard_check(&g, &a, 1, 3128, true);
		UNIT_CHECK(f.reason == rows[i].exempt, "exempt %s: %s", rows[i].address, reason_id(f.reason));
		f = guard_check(&g, &a, 1, 443, true);
		UNIT_CHECK(f.reason == REASON_OK, "exempt %s port 443: %s", rows[i].address, reason_id(f.reason));
	}
}

/* The bad one at every place of the list. */
static void test_one_bad_refuses_all(void)
{
	struct cidr_list refuse;
	struct guard g = make(&refuse);
	struct addr all[40];

	for (size_t bad = 0; bad < ARRAY_SIZE(all); bad++) {
		for (size_t i = 0; i < ARRAY_SIZE(all); i++)
			all[i] = i == bad ? parsed("169.254.169.254") : parsed(i % 2 ? "8.8.8.8" : "2a00:1450::1");
		struct guard_fault f = guard_check(&g, all, ARRAY_SIZE(all), 443, false);
		UNIT_CHECK(f.reason == REASON_ADDRESS_REFUSED && addr_equal(&f.addr, &all[bad]), "place %zu", bad);
	}
}

static void test_resolvers_are_replaced_and_gateways_stay(void)
{
	struct cidr_list refuse;
	struct guard g = make(&refuse);
	struct addr fresh = parsed("11.7.7.53"), old = parsed("11.9.9.53"), gateway = parsed("11.9.9.1");

	for (unsigned i = 0; i < 100; i++)
		guard_know_resolvers(&g, &fresh, 1);
	CU_ASSERT(guard_check(&g, &fresh, 1, 443, false).reason == REASON_ADDRESS_OWN);
	CU_ASSERT(guard_check(&g, &old, 1, 443, false).reason == REASON_OK);
	CU_ASSERT(guard_check(&g, &gateway, 1, 443, false).reason == REASON_ADDRESS_OWN);
}

static void test_bounds(void)
{
	struct cidr_list refuse;
	struct guard g = make(&refuse);
	struct addr many[2 * GUARD_KNOWN_MAX], more = parsed("11.8.0.1");

	for (unsigned i = 0; i < ARRAY_SIZE(many); i++) {
		many[i] = parsed("11.8.0.0");
		many[i].bytes[3] = (uint8_t)i;
		guard_know_gateway(&g, &more);
		guard_know_port(&g, (uint16_t)(1 + i));
	}
	for (unsigned i = 0; i < 1000; i++)
		guard_know_port(&g, 9);
	guard_know_resolvers(&g, many, ARRAY_SIZE(many));
	CU_ASSERT(g.ngateways == GUARD_KNOWN_MAX && g.nknown <= ARRAY_SIZE(g.known) && g.nports <= ARRAY_SIZE(g.ports));
}

/* Whether an address is an own one cannot be told without a descriptor: it is not connected to. */
static void test_no_descriptor(void)
{
	struct cidr_list refuse;
	struct guard g = make(&refuse);
	struct addr a = parsed("8.8.8.8"), private = parsed("10.0.0.1");
	struct rlimit before, none;

	CU_ASSERT_FATAL(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = (struct rlimit){ 0, before.rlim_max };
	CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &none) == 0);
	enum reason public = guard_check(&g, &a, 1, 443, false).reason, exempt = guard_check(&g, &a, 1, 3128, true).reason;
	enum reason refused = guard_check(&g, &private, 1, 443, false).reason;
	CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CU_ASSERT(public == REASON_INTERNAL && exempt == REASON_INTERNAL && refused == REASON_ADDRESS_REFUSED);
}

/* What may be said of a connection that stands, when lists were replaced. */
static void test_without_the_kernel(void)
{
	static const struct {
		const char *address;
		bool refused;
	} rows[] = {
		{ "8.8.8.8", false },
		{ "127.0.0.1", true },
		{ "168.63.129.16", true },
		{ "64:ff9b::168.63.129.16", true },
		{ "11.9.9.1", true },
		{ "2a00::53", true },
	};
	struct cidr_list refuse;
	struct guard g = make(&refuse);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct addr a = parsed(rows[i].address);
		UNIT_CHECK(guard_refuses(&g, &a) == rows[i].refused, "%s", rows[i].address);
	}
}

static void test_explanations(void)
{
	struct cidr_list refuse;
	struct guard g = make(&refuse);
	char text[256];
	struct addr a = parsed("64:ff9b::a00:1");
	struct guard_fault f = guard_check(&g, &a, 1, 443, false);

	guard_explain(&f, text, sizeof(text));
	CU_ASSERT(strstr(text, "64:ff9b::a00:1 is private-use (10.0.0.0/8") == text && strstr(text, "inside ") != NULL);
	a = parsed("11.9.9.1");
	f = guard_check(&g, &a, 1, 443, false);
	guard_explain(&f, text, sizeof(text));
	CU_ASSERT(strstr(text, "11.9.9.1: ") == text);
	guard_explain(&f, text, 8); /* cut, whole as a string */
	CU_ASSERT(strlen(text) == 7);
}

static const struct unit_test tests[] = {
	{ "one_address", test_one_address },
	{ "one_bad_refuses_all", test_one_bad_refuses_all },
	{ "resolvers_are_replaced_and_gateways_stay", test_resolvers_are_replaced_and_gateways_stay },
	{ "bounds", test_bounds },
	{ "no_descriptor", test_no_descriptor },
	{ "without_the_kernel", test_without_the_kernel },
	{ "explanations", test_explanations },
};

UNIT_MAIN("guard", tests)
