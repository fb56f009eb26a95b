/* Limits per peer: who counts as one peer, the token bucket, a table that is full, and workers that share it. */
#include "dockerproxy/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

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
	struct peers *p = peers_new(2, 0, 1, 2);
	struct peer a = user(1), b = user(2);
	struct peer_entry *first = peers_enter(p, 0, &a, 0), *second = peers_enter(p, 0, &a, 0);

	CU_ASSERT_PTR_NOT_NULL_FATAL(first);
	CU_ASSERT_PTR_EQUAL(first, second);
	CU_ASSERT_PTR_NULL(peers_enter(p, 0, &a, 0));
	CU_ASSERT_PTR_NOT_NULL(peers_enter(p, 0, &b, 0));
	peers_leave(p, 0, first);
	CU_ASSERT_PTR_NOT_NULL(peers_enter(p, 0, &a, 0));
	CU_ASSERT_PTR_NULL(peers_enter(p, 0, &a, 0));
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
		struct peers *p = peers_new(1, 0, 1, 2);
		struct peer a = address(cases[i].a), b = address(cases[i].b);

		CU_ASSERT_PTR_NOT_NULL(peers_enter(p, 0, &a, 0));
		UNIT_CHECK((peers_enter(p, 0, &b, 0) == NULL) == cases[i].same, "%s and %s", cases[i].a, cases[i].b);
		peers_free(p);
	}
}

static void test_rate(void)
{
	struct peers *p = peers_new(0, 10, 3, 2);
	struct peer a = user(1);
	struct peer_entry *e = peers_enter(p, 0, &a, 0);

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
	struct peers *p = peers_new(0, 1, 1, 2);
	struct peer a = user(1);
	struct peer_entry *e = peers_enter(p, 0, &a, 0);

	CU_ASSERT_TRUE(peers_take(p, e, 0));
	peers_leave(p, 0, e);
	e = peers_enter(p, 0, &a, 1000);
	CU_ASSERT_FALSE(peers_take(p, e, 1000));
	peers_free(p);
}

/* Many peers at once: whoever finds no place is refused, nobody is let off. */
static void test_full(void)
{
	struct peers *p = peers_new(1, 0, 1, 2);
	unsigned refused = 0;

	for (uid_t uid = 0; uid < 5000; uid++) {
		struct peer who = user(uid);

		refused += peers_enter(p, 0, &who, 0) == NULL;
	}
	UNIT_CHECK(refused >= 5000 - 1024, "%u", refused);
	CU_ASSERT_TRUE(refused < 5000);
	peers_free(p);
}

/* One limit for both workers; what a dead one had is given back, and what the other has is not. */
/* Where nothing is limited, no number of peers is too many. */
static void test_no_limits(void)
{
	struct peers *p = peers_new(0, 0, 1, 2);
	struct peer_entry *e = NULL;

	for (unsigned i = 0; i < 5000; i++) {
		struct peer a = user(i);

		e = peers_enter(p, i % 2, &a, 0);
		if (!UNIT_CHECK(e != NULL, "peer %u", i))
			break;
	}
	CU_ASSERT(e == NULL || peers_take(p, e, 0));
	for (unsigned i = 0; e != NULL && i < 5000; i++)
		peers_leave(p, i % 2, e);
	peers_free(p);
}

static void test_workers(void)
{
	struct peers *p = peers_new(3, 1, 2, 2);
	struct peer a = user(1);
	struct peer_entry *e = peers_enter(p, 0, &a, 0);

	CU_ASSERT_PTR_EQUAL(peers_enter(p, 1, &a, 0), e);
	CU_ASSERT_PTR_EQUAL(peers_enter(p, 1, &a, 0), e);
	CU_ASSERT_PTR_NULL(peers_enter(p, 0, &a, 0));
	CU_ASSERT_PTR_NULL(peers_enter(p, 1, &a, 0));
	CU_ASSERT_TRUE(peers_take(p, e, 0));
	CU_ASSERT_TRUE(peers_take(p, e, 0));
	CU_ASSERT_FALSE(peers_take(p, e, 0));
	peers_lost(p, 1);
	CU_ASSERT_PTR_EQUAL(peers_enter(p, 0, &a, 0), e);
	CU_ASSERT_PTR_EQUAL(peers_enter(p, 0, &a, 0), e);
	CU_ASSERT_PTR_NULL(peers_enter(p, 0, &a, 0));
	CU_ASSERT_FALSE(peers_take(p, e, 0));
	peers_free(p);
}

#define PROCESSES 2
#define ROUNDS 20000
#define LIMIT 3

/* Two processes come and go with one peer's connections, among others that push entries out: never more than the limit. */
static void come_and_go(struct peers *p, unsigned slot, _Atomic int *held, _Atomic int *over)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct peer a = user(1), b = user(1000 + i % 3000);
		struct peer_entry *mine[2] = { peers_enter(p, slot, &a, i), peers_enter(p, slot, &a, i) };
		struct peer_entry *other = peers_enter(p, slot, &b, i);

		for (int k = 0; k < 2; k++)
			if (mine[k] != NULL && atomic_fetch_add(held, 1) >= LIMIT)
				atomic_fetch_add(over, 1);
		for (int k = 0; k < 2; k++) {
			if (mine[k] == NULL)
				continue;
			atomic_fetch_sub(held, 1);
			peers_leave(p, slot, mine[k]);
		}
		if (other != NULL)
			peers_leave(p, slot, other);
	}
}

static void test_processes(void)
{
	struct peers *p = peers_new(LIMIT, 0, 1, PROCESSES + 1);
	_Atomic int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct peer a = user(1);
	/* The peer is there before: its entry is made once. */
	struct peer_entry *e = peers_enter(p, PROCESSES, &a, 0);
	pid_t pids[PROCESSES];
	int status;

	CU_ASSERT_FATAL(shared != MAP_FAILED && e != NULL);
	shared[0] = 1;
	for (unsigned i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			come_and_go(p, i, &shared[0], &shared[1]);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		CU_ASSERT(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	CU_ASSERT_EQUAL(shared[0], 1);
	CU_ASSERT_EQUAL(shared[1], 0);
	peers_leave(p, PROCESSES, e);
	for (unsigned i = 0; i < LIMIT; i++)
		CU_ASSERT_PTR_NOT_NULL(peers_enter(p, 0, &a, ROUNDS));
	CU_ASSERT_PTR_NULL(peers_enter(p, 0, &a, ROUNDS));
	munmap(shared, 4096);
	peers_free(p);
}

static const struct unit_test tests[] = {
	{ "connections", test_connections },
	{ "addresses", test_addresses },
	{ "rate", test_rate },
	{ "reconnect", test_reconnect },
	{ "full", test_full },
	{ "no limits", test_no_limits },
	{ "workers", test_workers },
	{ "processes", test_processes },
};

UNIT_MAIN("peers", tests)
