/* Limits per peer: who counts as one peer, the token bucket, and a table that is full. */
#include "dockerproxy/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/unit.h"

#define SECOND 1000000

static struct peer user(uid_t uid)
{
	return (struct peer){ .is_unix = true, .uid = uid };
}

static struct peer address(const char *text)
{
	struct peer p = { .is_unix = false };
	struct sockaddr_in *in = (void *)&p.addr;
	struct sockaddr_in6 *in6 = (void *)&p.addr;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
	} else {
		CU_ASSERT_EQUAL_FATAL(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
		in6->sin6_family = AF_INET6;
	}
	return p;
}

static void test_connections(void)
{
	struct peers *p = peers_new(2, 0, 1);
	struct peer a = user(1), b = user(2);
	struct peer_entry *first = peers_enter(p, &a, 0), *second = peers_enter(p, &a, 0);

	CU_ASSERT_PTR_NOT_NULL_FATAL(first);
	CU_ASSERT_PTR_EQUAL(first, second);
	CU_ASSERT_PTR_NULL(peers_enter(p, &a, 0));
	CU_ASSERT_PTR_NOT_NULL(peers_enter(p, &b, 0));
	peers_leave(first);
	CU_ASSERT_PTR_NOT_NULL(peers_enter(p, &a, 0));
	CU_ASSERT_PTR_NULL(peers_enter(p, &a, 0));
	peers_free(p);
}

static void test_addresses(void)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "10.0.0.1", "10.0.0.1", true },
		{ "10.0.0.1", "10.0.0.2", false },
		{ "2001:db8::1", "2001:db8::ffff", true },
		{ "2001:db8::1", "2001:db8:0:1::1", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct peers *p = peers_new(1, 0, 1);
		struct peer a = address(cases[i].a), b = address(cases[i].b);

		CU_ASSERT_PTR_NOT_NULL(peers_enter(p, &a, 0));
		UNIT_CHECK((peers_enter(p, &b, 0) == NULL) == cases[i].same, "%s and %s", cases[i].a, cases[i].b);
		peers_free(p);
	}
}

static void test_rate(void)
{
	struct peers *p = peers_new(0, 10, 3);
	struct peer a = user(1);
	struct peer_entry *e = peers_enter(p, &a, 0);

	for (int i = 0; i < 3; i++)
		CU_ASSERT_TRUE(peers_take(p, e, 0));
	CU_ASSERT_FALSE(peers_take(p, e, 0));
	CU_ASSERT_FALSE(peers_take(p, e, SECOND / 10 - 1));
	CU_ASSERT_TRUE(peers_take(p, e, SECOND / 10));
	CU_ASSERT_FALSE(peers_take(p, e, SECOND / 10));
	/* However long it was quiet, a burst is all it has saved. */
	for (int i = 0; i < 3; i++)
		CU_ASSERT_TRUE(peers_take(p, e, 1000 * (int64_t)SECOND));
	CU_ASSERT_FALSE(peers_take(p, e, 1000 * (int64_t)SECOND));
	peers_free(p);
}

/* Coming back on a new connection does not fill the bucket. */
static void test_reconnect(void)
{
	struct peers *p = peers_new(0, 1, 1);
	struct peer a = user(1);
	struct peer_entry *e = peers_enter(p, &a, 0);

	CU_ASSERT_TRUE(peers_take(p, e, 0));
	peers_leave(e);
	e = peers_enter(p, &a, 1000);
	CU_ASSERT_FALSE(peers_take(p, e, 1000));
	peers_free(p);
}

/* Many peers at once: whoever finds no place is refused, nobody is let off. */
static void test_full(void)
{
	struct peers *p = peers_new(1, 0, 1);
	unsigned refused = 0;

	for (uid_t uid = 0; uid < 5000; uid++) {
		struct peer who = user(uid);

		refused += peers_enter(p, &who, 0) == NULL;
	}
	UNIT_CHECK(refused >= 5000 - 1024, "%u", refused);
	CU_ASSERT_TRUE(refused < 5000);
	peers_free(p);
}

static const struct unit_test tests[] = {
	{ "connections", test_connections },
	{ "addresses", test_addresses },
	{ "rate", test_rate },
	{ "reconnect", test_reconnect },
	{ "full", test_full },
};

UNIT_MAIN("peers", tests)
