/* The relay over socket pairs and loopback connections: order, half-close, back-pressure, resets, limits, counts. */
#include "libgate/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libgate/pipes.h"
#include "tests/unit/unit.h"

/* client <-> (a relay b) <-> server */
struct rig {
	struct event_base *base;
	struct relay *relay;
	int client;
	int server;
	int inner[2]; /* the relay's ends of them */
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

static void make_tcp_pair(int pair[2], int buffer)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sin);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (buffer > 0)
		must(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0, "SO_RCVBUF");
	must(bind(listener, (struct sockaddr *)&sin, sizeof(sin)) == 0, "bind");
	must(listen(listener, 1) == 0, "listen");
	must(getsockname(listener, (struct sockaddr *)&sin, &len) == 0, "getsockname");
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (buffer > 0)
		must(setsockopt(pair[0], SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0, "SO_RCVBUF");
	must(connect(pair[0], (struct sockaddr *)&sin, sizeof(sin)) == 0, "connect");
	pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	must(pair[1] >= 0, "accept");
	must(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0, "fcntl");
	close(listener);
}

static void tcp_pair(int pair[2])
{
	make_tcp_pair(pair, 0);
}

/* Takes a large run at once, whatever the kernel would grow it to. */
static void wide_tcp_pair(int pair[2])
{
	make_tcp_pair(pair, 200 * 1024);
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
	rig->inner[0] = left[1];
	rig->inner[1] = right[1];
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

/* After its half-close a client may be silent for as long as it is there, and its leaving has to be found out. */
static void test_left_after_half_close(void)
{
	const struct relay_limits limits = { .left_ms = 20 };
	struct rig rig;
	char byte;

	rig_init(&rig, unix_pair, &limits, "", "");
	shutdown(rig.client, SHUT_WR);
	CU_ASSERT_EQUAL(await(&rig, rig.server, &byte, 1), 0);
	for (int i = 0; i < 60; i++) {
		turn(&rig);
		(void)poll(NULL, 0, 1);
	}
	CU_ASSERT_EQUAL(rig.calls, 0);
	close(rig.client);
	rig.client = -1;
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.calls, 1);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_RESET);
	rig_release(&rig);
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) == 0 ? value : -1;
}

/* Peers are asked for only when a relay lives long enough for it to matter. */
static void test_silent_peers_are_asked(void)
{
	const struct relay_limits limits = { .idle_ms = 3600000, .keep_alive_ms = 2000 };
	struct rig rig;

	rig_init(&rig, tcp_pair, &limits, "", "");
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(option(rig.inner[i], SOL_SOCKET, SO_KEEPALIVE), 0);
	for (int i = 0; i < 20000 && option(rig.inner[1], SOL_SOCKET, SO_KEEPALIVE) == 0; i++) {
		turn(&rig);
		(void)poll(NULL, 0, 1);
	}
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(option(rig.inner[i], SOL_SOCKET, SO_KEEPALIVE), 1);
		CU_ASSERT_EQUAL(option(rig.inner[i], IPPROTO_TCP, TCP_KEEPIDLE), 2);
	}
	CU_ASSERT_EQUAL(rig.calls, 0);
	rig_release(&rig);
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

/* --- much in one direction: between TCP sockets it is spliced ----------------------------------------------------------- */

#define BULK (4u * 1024 * 1024)
#define RUN_LARGE (96 * 1024)

/* How many of the process's pipes are in use; the others are empty. */
static int pipes_taken(void)
{
	struct pipes_pipe *all[PIPES_MAX];
	int n = 0, inside = 0;

	while (n < PIPES_MAX && (all[n] = pipes_take()) != NULL) {
		must(ioctl(all[n++]->fd[0], FIONREAD, &inside) == 0, "FIONREAD");
		CU_ASSERT_EQUAL(inside, 0);
	}
	for (int i = 0; i < n; i++)
		pipes_give(all[i]);
	return PIPES_MAX - n;
}

/* One way through a relay, by the test: what was sent and seen, and whether it came in order. */
struct way {
	struct rig *rig;
	int from;
	int to;
	int inner; /* where the relay reads it */
	size_t sent;
	size_t seen;
	bool in_order;
};

static struct way way_of(struct rig *rig, bool up)
{
	return (struct way){ .rig = rig, .from = up ? rig->client : rig->server, .to = up ? rig->server : rig->client,
		.inner = rig->inner[up ? 0 : 1], .in_order = true };
}

static char byte_at(size_t offset)
{
	return (char)(offset * 131 >> 3);
}

/* Sends up to n bytes, as many as go at once, and lets a large run of them come to the relay before it has its turn. */
static size_t way_send(struct way *w, size_t n)
{
	static char block[65536];
	size_t begun = w->sent;
	int waiting = 0;

	while (w->sent - begun < n) {
		size_t want = n - (w->sent - begun) < sizeof(block) ? n - (w->sent - begun) : sizeof(block);
		for (size_t i = 0; i < want; i++)
			block[i] = byte_at(w->sent + i);
		ssize_t put = send(w->from, block, want, MSG_NOSIGNAL);
		if (put <= 0)
			break;
		w->sent += (size_t)put;
	}
	for (int i = 0; i < 50 && w->sent - begun >= RUN_LARGE; i++) {
		must(ioctl(w->inner, FIONREAD, &waiting) == 0, "FIONREAD");
		if (waiting >= RUN_LARGE)
			break;
		(void)poll(NULL, 0, 1);
	}
	turn(w->rig);
	return w->sent - begun;
}

static void way_look(struct way *w, const char *in, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++)
		w->in_order = w->in_order && in[i] == byte_at(w->seen + (size_t)i);
	w->seen += n > 0 ? (size_t)n : 0;
}

static void way_receive(struct way *w)
{
	static char in[65536];
	ssize_t n;

	while ((n = read(w->to, in, sizeof(in))) > 0)
		way_look(w, in, n);
}

/* All that was sent arrives; with_end: and then the end of the stream. */
static void way_finish(struct way *w, bool with_end)
{
	static char in[65536];
	ssize_t n = 0;

	while (w->seen < w->sent && (n = await(w->rig, w->to, in, sizeof(in))) > 0)
		way_look(w, in, n);
	CU_ASSERT_EQUAL(w->seen, w->sent);
	CU_ASSERT(w->in_order);
	if (with_end)
		CU_ASSERT_EQUAL(await(w->rig, w->to, in, 1), 0);
}

static void way_move(struct way *w, size_t n)
{
	for (size_t begun = w->sent; w->sent - begun < n && w->rig->calls == 0;) {
		(void)way_send(w, n - (w->sent - begun));
		way_receive(w);
	}
}

/* The reader stops. Everything on the way fills, a pipe last; then nothing more is taken. */
static void way_stall(struct way *w)
{
	way_move(w, BULK);
	for (int quiet = 0; quiet < 20; quiet++) {
		if (way_send(w, BULK) > 0)
			quiet = 0;
		must(w->sent < 64u * BULK, "back-pressure");
	}
}

static void spliced_both_ways(bool up)
{
	struct rig rig;
	char c;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, up), back = way_of(&rig, !up);
	way_stall(&w);
	CU_ASSERT_EQUAL(pipes_taken(), 1);
	way_finish(&w, false);
	CU_ASSERT_EQUAL(pipes_taken(), 0);
	way_move(&w, BULK);
	shutdown(w.from, SHUT_WR);
	way_finish(&w, true);
	CU_ASSERT_EQUAL(rig.calls, 0);
	way_move(&back, BULK + 1);
	shutdown(back.from, SHUT_WR);
	way_finish(&back, false);
	CU_ASSERT_EQUAL(await(&rig, back.to, &c, 1), 0);
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_CLOSED);
	CU_ASSERT_EQUAL(rig.stats.a_to_b, up ? w.sent : back.sent);
	CU_ASSERT_EQUAL(rig.stats.b_to_a, up ? back.sent : w.sent);
	rig_release(&rig);
}

static void test_spliced_up_then_half_closed(void)
{
	spliced_both_ways(true);
}

static void test_spliced_down_then_half_closed(void)
{
	spliced_both_ways(false);
}

/* The end comes while a pipe still holds bytes: they are delivered first. */
static void test_spliced_slow_reader(void)
{
	struct rig rig;
	struct relay_stats now;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, false);
	way_stall(&w);
	relay_stats(rig.relay, &now);
	CU_ASSERT(now.b_to_a < w.sent);
	shutdown(w.from, SHUT_WR);
	turn(&rig);
	way_finish(&w, true);
	relay_stats(rig.relay, &now);
	CU_ASSERT_EQUAL(now.b_to_a, w.sent);
	rig_release(&rig);
}

/* Both ends and all of a pipe's content go; the pipe is closed, since what was in it must not reach another relay. */
static void test_spliced_reader_resets(void)
{
	struct rig rig;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, false);
	way_stall(&w);
	CU_ASSERT_EQUAL(pipes_taken(), 1);
	reset_of(rig.client);
	rig.client = -1;
	await_end(&rig);
	CU_ASSERT_EQUAL(rig.calls, 1);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_RESET);
	CU_ASSERT(rig.stats.b_to_a < w.sent);
	CU_ASSERT_EQUAL(pipes_taken(), 0);
	rig_release(&rig);
}

static void test_spliced_writer_resets(void)
{
	struct rig rig;
	char c;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, false);
	way_move(&w, BULK);
	reset_of(rig.server);
	rig.server = -1;
	while (await(&rig, rig.client, &c, 1) == 1)
		;
	CU_ASSERT_EQUAL(errno, ECONNRESET);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_RESET);
	rig_release(&rig);
}

static void test_spliced_byte_budget(void)
{
	const struct relay_limits limits = { .max_bytes = BULK + 12345 };
	struct rig rig;
	static char in[65536];
	ssize_t n = 1;

	rig_init(&rig, wide_tcp_pair, &limits, "", "");
	struct way w = way_of(&rig, false);
	while (rig.calls == 0) {
		(void)way_send(&w, BULK);
		if ((n = read(w.to, in, sizeof(in))) > 0)
			way_look(&w, in, n);
	}
	while ((n = read(w.to, in, sizeof(in))) > 0)
		way_look(&w, in, n);
	CU_ASSERT(w.in_order);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_BYTES);
	CU_ASSERT_EQUAL(rig.stats.b_to_a, limits.max_bytes);
	rig_release(&rig);
}

static void test_spliced_idle_with_a_full_pipe(void)
{
	const struct relay_limits limits = { .idle_ms = 1500 };
	struct rig rig;

	rig_init(&rig, wide_tcp_pair, &limits, "", "");
	struct way w = way_of(&rig, false);
	for (way_move(&w, BULK); rig.calls == 0;)
		(void)way_send(&w, BULK);
	CU_ASSERT_EQUAL(rig.end, RELAY_END_IDLE);
	CU_ASSERT(rig.stats.b_to_a < w.sent);
	CU_ASSERT_EQUAL(pipes_taken(), 0);
	rig_release(&rig);
}

static void test_freed_with_a_full_pipe(void)
{
	struct rig rig;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, true);
	way_stall(&w);
	CU_ASSERT_EQUAL(pipes_taken(), 1);
	relay_free(rig.relay);
	rig.relay = NULL;
	CU_ASSERT_EQUAL(pipes_taken(), 0);
	rig_release(&rig);
}

/* Slow readers hold all pipes: the next ones are copied for, and everything arrives. */
static void test_more_slow_readers_than_pipes(void)
{
	enum { MANY = PIPES_MAX + 4 };
	static struct rig rigs[MANY];
	static struct way ways[MANY];

	for (size_t i = 0; i < MANY; i++) {
		rig_init(&rigs[i], wide_tcp_pair, &no_limits, "", "");
		ways[i] = way_of(&rigs[i], true);
		way_stall(&ways[i]);
	}
	CU_ASSERT_EQUAL(pipes_taken(), PIPES_MAX);
	for (size_t i = 0; i < MANY; i++) {
		shutdown(ways[i].from, SHUT_WR);
		way_finish(&ways[i], true);
		rig_release(&rigs[i]);
	}
}

static void test_no_descriptor_for_a_pipe(void)
{
	struct rlimit limit, none;
	struct pipes_pipe *all[PIPES_MAX];
	size_t n = 0;
	struct rig rig;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, true);
	while (n < PIPES_MAX && (all[n] = pipes_take()) != NULL)
		n++;
	CU_ASSERT_EQUAL(n, PIPES_MAX);
	while (n > 0)
		pipes_drop(all[--n]);
	getrlimit(RLIMIT_NOFILE, &limit);
	none = limit;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	way_stall(&w);
	setrlimit(RLIMIT_NOFILE, &limit);
	CU_ASSERT_EQUAL(pipes_taken(), 0);
	way_finish(&w, false);
	rig_release(&rig);
}

/* splice() does not step over an urgent byte and would wait for ever; read() leaves it out, as always. */
static void test_spliced_with_an_urgent_byte(void)
{
	struct rig rig;

	rig_init(&rig, wide_tcp_pair, &no_limits, "", "");
	struct way w = way_of(&rig, true);
	way_move(&w, BULK);
	while (send(w.from, "!", 1, MSG_OOB) != 1)
		way_receive(&w);
	way_move(&w, BULK);
	shutdown(w.from, SHUT_WR);
	way_finish(&w, true);
	rig_release(&rig);
}

static void test_unix_streams_are_copied(void)
{
	struct rig rig;

	rig_init(&rig, unix_pair, &no_limits, "", "");
	struct way w = way_of(&rig, true);
	way_stall(&w);
	CU_ASSERT_EQUAL(pipes_taken(), 0);
	way_finish(&w, false);
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
	{ "left_after_half_close", test_left_after_half_close },
	{ "silent_peers_are_asked", test_silent_peers_are_asked },
	{ "free_closes_both_without_a_call", test_free_closes_both_without_a_call },
	{ "spliced_up_then_half_closed", test_spliced_up_then_half_closed },
	{ "spliced_down_then_half_closed", test_spliced_down_then_half_closed },
	{ "spliced_slow_reader", test_spliced_slow_reader },
	{ "spliced_reader_resets", test_spliced_reader_resets },
	{ "spliced_writer_resets", test_spliced_writer_resets },
	{ "spliced_byte_budget", test_spliced_byte_budget },
	{ "spliced_idle_with_a_full_pipe", test_spliced_idle_with_a_full_pipe },
	{ "freed_with_a_full_pipe", test_freed_with_a_full_pipe },
	{ "more_slow_readers_than_pipes", test_more_slow_readers_than_pipes },
	{ "no_descriptor_for_a_pipe", test_no_descriptor_for_a_pipe },
	{ "spliced_with_an_urgent_byte", test_spliced_with_an_urgent_byte },
	{ "unix_streams_are_copied", test_unix_streams_are_copied },
};

UNIT_MAIN("relay", tests)
