/* The relay over socket pairs and loopback connections: order, half-close, back-pressure, resets, limits, counts. */
#include "libgate/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* client <-> (a relay b) <-> server */
struct rig {
	struct event_base *base;
	struct relay *relay;
	int client;
	int server;
	int calls;
	enum relay_end end;
	struct relay_stats stats;
};

static const struct relay_limits no_limits;

static void on_done(enum relay_end end, const struct relay_stats *stats, void *arg)
{
	struct rig *rig = arg;

	rig->calls++;
	rig->end = end;
	rig->stats = *stats;
	rig->relay = NULL;
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		abort();
	}
}

static void unix_pair(int pair[2])
{
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
}

static void tcp_pair(int pair[2])
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sin);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(bind(listener, (struct sockaddr *)&sin, sizeof(sin)) == 0, "bind");
	must(listen(listener, 1) == 0, "listen");
	must(getsockname(listener, (struct sockaddr *)&sin, &len) == 0, "getsockname");
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(connect(pair[0], (struct sockaddr *)&sin, sizeof(sin)) == 0, "connect");
	pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	must(pair[1] >= 0, "accept");
	must(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
	close(listener);
}

static void rig_init(struct rig *rig, void (*pair)(int[2]), const struct relay_limits *limits, const char *early_a,
	const char *early_b)
{
	int left[2], right[2];

	memset(rig, 0, sizeof(*rig));
	pair(left);
	pair(right);
	rig->base = event_base_new();
	rig->client = left[0];
	rig->server = right[0];
	rig->relay = relay_new(rig->base, left[1], slice_str(early_a), right[1], slice_str(early_b), limits, on_done,
		rig);
	must(rig->relay != NULL, "relay_new");
}

static void rig_release(struct rig *rig)
{
	relay_free(rig->relay);
	if (rig->client >= 0)
		close(rig->client);
	if (rig->server >= 0)
		close(rig->server);
	event_base_free(rig->base);
}

static void turn(struct rig *rig)
{
	event_base_loop(rig->base, EVLOOP_NONBLOCK);
}

/* Runs the loop until fd has something (or an end) to read. */
static ssize_t await(struct rig *rig, int fd, char *p, size_t n)
{
	for (int i = 0; i < 20000; i++) {
		ssize_t got = read(fd, p, n);
		if (got >= 0 || errno != EAGAIN)
			return got;
		turn(rig);
		struct pollfd pfd = { fd, POLLIN, 0 };
		(void)poll(&pfd, 1, 1);
	}
	errno = ETIMEDOUT;
	return -2;
}

static void await_end(struct rig *rig)
{
	for (int i = 0; i < 20000 && rig->calls == 0; i++) {
		turn(rig);
		if (rig->calls == 0)
			(void)poll(NULL, 0, 1);
	}
}

static bool arrives(struct rig *rig, int fd, const char *want)
{
	char text[256];
	size_t have = 0, n = strlen(want);

	while (have < n) {
		ssize_t got = await(rig, fd, text + have, n - have);
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return memcmp(text, want, n) == 0;
}

static void say(int fd, const char *text)
{
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

static void test_both_ways_and_counts(void)
{
	struct rig rig;
	char c;

	rig_init(&rig, unix_pair, &no_limits, "", "");
	say(rig.client, "ping");
	CU_ASSERT(arrives(&rig, rig.server, "ping"));
	say(rig.server, "pong!");
	CU_ASSERT(arrives(&rig, rig.client, "pong!"));
	struct relay_stats now;
	relay_stats(rig.relay, &now);
	CU_ASSERT_EQUAL(now.a_to_b, 4);
	CU_ASSERT_EQUAL(now.b_to_a, 5);
	shutdown(rig.client, SHUT_WR);
	CU_ASSERT_EQUAL(await(&rig, rig.server, &c, 1), 0);
	CU_ASSERT_EQUAL(rig.calls, 0);
	shutdown(rig.server, SHUT_WR);
	CU_ASSERT_EQUAL(await(&rig, rig.client, &c, 1), 0);
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.calls, 1);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_CLOSED);
	CU_ASSERT_EQUAL(rig.stats.a_to_b, 4);
	CU_ASSERT_EQUAL(rig.stats.b_to_a, 5);
	rig_release(&rig);
}

static void half_close(bool by_client)
{
	struct rig rig;
	char c;

	rig_init(&rig, tcp_pair, &no_limits, "", "");
	int one = by_client ? rig.client : rig.server, two = by_client ? rig.server : rig.client;
	say(one, "question");
	shutdown(one, SHUT_WR);
	CU_ASSERT(arrives(&rig, two, "question"));
	CU_ASSERT_EQUAL(await(&rig, two, &c, 1), 0);
	say(two, "late answer");
	CU_ASSERT(arrives(&rig, one, "late answer"));
	CU_ASSERT_EQUAL(rig.calls, 0);
	shutdown(two, SHUT_WR);
	CU_ASSERT_EQUAL(await(&rig, one, &c, 1), 0);
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_CLOSED);
	rig_release(&rig);
}

static void test_half_close_by_client(void)
{
	half_close(true);
}

static void test_half_close_by_server(void)
{
	half_close(false);
}

static void test_early_bytes_come_first(void)
{
	struct rig rig;

	rig_init(&rig, unix_pair, &no_limits, "hello ", "banner ");
	say(rig.client, "world");
	say(rig.server, "more");
	CU_ASSERT(arrives(&rig, rig.server, "hello world"));
	CU_ASSERT(arrives(&rig, rig.client, "banner more"));
	struct relay_stats now;
	relay_stats(rig.relay, &now);
	CU_ASSERT_EQUAL(now.a_to_b, 11);
	CU_ASSERT_EQUAL(now.b_to_a, 11);
	rig_release(&rig);
}

/* A reader that does not read: the relay takes a bounded amount and no more; then all arrives, in order. */
static void test_back_pressure(void)
{
	struct rig rig;
	static char block[65536];
	size_t sent = 0, seen = 0;
	bool in_order = true;
	char in[65536];

	rig_init(&rig, unix_pair, &no_limits, "", "");
	for (int quiet = 0; quiet < 50;) {
		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = (char)((sent + i) * 131 >> 3);
		ssize_t n = write(rig.client, block, sizeof(block));
		quiet = n > 0 ? 0 : quiet + 1;
		sent += n > 0 ? (size_t)n : 0;
		turn(&rig);
		if (sent > 64u * 1024 * 1024)
			break;
	}
	CU_ASSERT(sent > 65536);
	CU_ASSERT(sent < 4u * 1024 * 1024);
	shutdown(rig.client, SHUT_WR);
	for (;;) {
		ssize_t n = await(&rig, rig.server, in, sizeof(in));
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			in_order = in_order && in[i] == (char)((seen + (size_t)i) * 131 >> 3);
		seen += (size_t)n;
	}
	CU_ASSERT_EQUAL(seen, sent);
	CU_ASSERT(in_order);
	close(rig.server);
	rig.server = -1;
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.stats.a_to_b, sent);
	rig_release(&rig);
}

/* Many stalled readers: together they cost little more than the bound, and all bytes still arrive. */
static void test_many_stalled_readers(void)
{
	enum { MANY = 120 };
	static struct rig rigs[MANY];
	static char block[65536];
	size_t accepted[MANY] = { 0 }, all = 0;

	for (size_t i = 0; i < MANY; i++) {
		rig_init(&rigs[i], tcp_pair, &no_limits, "", "");
		for (int quiet = 0; quiet < 20;) {
			ssize_t n = write(rigs[i].client, block, sizeof(block));
			quiet = n > 0 ? 0 : quiet + 1;
			accepted[i] += n > 0 ? (size_t)n : 0;
			turn(&rigs[i]);
		}
		shutdown(rigs[i].client, SHUT_WR);
		all += accepted[i];
	}
	CU_ASSERT(all > 8u * 1024 * 1024); /* the bound was reached */
	for (size_t i = 0; i < MANY; i++) {
		size_t seen = 0;
		ssize_t n;
		while ((n = await(&rigs[i], rigs[i].server, block, sizeof(block))) > 0)
			seen += (size_t)n;
		UNIT_CHECK(seen == accepted[i], "%zu: %zu of %zu", i, seen, accepted[i]);
		rig_release(&rigs[i]);
	}
}

static void reset_of(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0, "linger");
	close(fd);
}

/* A reset arrives as a reset: a cut download must not look complete. */
static void test_reset_is_passed_on(void)
{
	struct rig rig;
	char c;

	rig_init(&rig, tcp_pair, &no_limits, "", "");
	say(rig.server, "part");
	CU_ASSERT(arrives(&rig, rig.client, "part"));
	reset_of(rig.server);
	rig.server = -1;
	CU_ASSERT_EQUAL(await(&rig, rig.client, &c, 1), -1);
	CU_ASSERT_EQUAL(errno, ECONNRESET);
	CU_ASSERT_EQUAL(rig.calls, 1);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_RESET);
	rig_release(&rig);
}

/* The server answers early and closes while the client still sends: the answer arrives. */
static void test_early_answer_survives_a_broken_upload(void)
{
	struct rig rig;
	static char block[65536];
	char c;

	rig_init(&rig, unix_pair, &no_limits, "", "");
	say(rig.server, "413 too large");
	close(rig.server);
	rig.server = -1;
	must(write(rig.client, block, sizeof(block)) > 0, "write");
	CU_ASSERT(arrives(&rig, rig.client, "413 too large"));
	CU_ASSERT(await(&rig, rig.client, &c, 1) <= 0);
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.calls, 1);
	rig_release(&rig);
}

static void test_byte_budget_exact(void)
{
	const struct relay_limits limits = { .max_bytes = 10 };
	struct rig rig;
	char c;

	rig_init(&rig, tcp_pair, &limits, "", "");
	say(rig.client, "12345");
	CU_ASSERT(arrives(&rig, rig.server, "12345"));
	say(rig.server, "67890");
	CU_ASSERT(arrives(&rig, rig.client, "67890"));
	shutdown(rig.client, SHUT_WR);
	CU_ASSERT_EQUAL(await(&rig, rig.server, &c, 1), 0);
	shutdown(rig.server, SHUT_WR);
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_CLOSED);
	rig_release(&rig);
}

static void test_byte_budget_exceeded(void)
{
	const struct relay_limits limits = { .max_bytes = 10 };
	struct rig rig;
	char text[64];
	ssize_t n;
	size_t got = 0;

	rig_init(&rig, unix_pair, &limits, "", "");
	say(rig.client, "0123456789abc");
	while ((n = await(&rig, rig.server, text, sizeof(text))) > 0)
		got += (size_t)n;
	await_end(&rig);
	CU_ASSERT_EQUAL(got, 10);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_BYTES);
	CU_ASSERT_EQUAL(rig.stats.a_to_b, 10);
	rig_release(&rig);
}

static void ends_by_time(const struct relay_limits *limits, bool close_one, enum relay_end want)
{
	struct rig rig;

	rig_init(&rig, unix_pair, limits, "", "");
	if (close_one)
		shutdown(rig.client, SHUT_WR);
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.calls, 1);
	CU_ASSERT_EQUAL(rig.end, want);
	rig_release(&rig);
}

static void test_idle(void)
{
	ends_by_time(&(struct relay_limits){ .idle_ms = 20 }, false, RELAY_END_IDLE);
}

static void test_half_closed_has_its_own_limit(void)
{
	ends_by_time(&(struct relay_limits){ .idle_ms = 3600000, .half_closed_ms = 20 }, true, RELAY_END_IDLE);
}

static void test_lifetime(void)
{
	ends_by_time(&(struct relay_limits){ .idle_ms = 3600000, .max_ms = 20 }, false, RELAY_END_LIFETIME);
}

static void test_free_closes_both_without_a_call(void)
{
	struct rig rig;
	char c;

	rig_init(&rig, tcp_pair, &no_limits, "", "");
	relay_free(rig.relay);
	rig.relay = NULL;
	CU_ASSERT(await(&rig, rig.client, &c, 1) <= 0);
	CU_ASSERT(await(&rig, rig.server, &c, 1) <= 0);
	CU_ASSERT_EQUAL(rig.calls, 0);
	rig_release(&rig);
}

static const struct unit_test tests[] = {
	{ "both_ways_and_counts", test_both_ways_and_counts },
	{ "half_close_by_client", test_half_close_by_client },
	{ "half_close_by_server", test_half_close_by_server },
	{ "early_bytes_come_first", test_early_bytes_come_first },
	{ "back_pressure", test_back_pressure },
	{ "many_stalled_readers", test_many_stalled_readers },
	{ "reset_is_passed_on", test_reset_is_passed_on },
	{ "early_answer_survives_a_broken_upload", test_early_answer_survives_a_broken_upload },
	{ "byte_budget_exact", test_byte_budget_exact },
	{ "byte_budget_exceeded", test_byte_budget_exceeded },
	{ "idle", test_idle },
	{ "half_closed_has_its_own_limit", test_half_closed_has_its_own_limit },
	{ "lifetime", test_lifetime },
	{ "free_closes_both_without_a_call", test_free_closes_both_without_a_call },
};

UNIT_MAIN("relay", tests)
