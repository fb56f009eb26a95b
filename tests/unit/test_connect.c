/* Connecting to the first of several addresses: order of the families, the next one, what a failure is called, bounds. */
#include "egressd/connect.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct result {
	struct event_base *base;
	int calls;
	int fd;
	enum reason reason;
	struct addr addr;
};

static void on_connected(int fd, enum reason reason, const struct addr *addr, void *arg)
{
	struct result *r = arg;

	r->calls++;
	r->fd = fd;
	r->reason = reason;
	r->addr = addr != NULL ? *addr : (struct addr){ 0, { 0 } };
	event_base_loopbreak(r->base);
}

static struct addr parsed(const char *text)
{
	struct addr a = { 0, { 0 } };

	CU_ASSERT_FATAL(addr_parse(slice_str(text), &a));
	return a;
}

/* A listener on one loopback address; the others of 127/8 then refuse the same port. */
static int listener_on(const char *address, uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(*port) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_FATAL(inet_pton(AF_INET, address, &at.sin_addr) == 1);
	CU_ASSERT_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 8) == 0);
	CU_ASSERT_FATAL(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static struct result run(const struct addr *addrs, unsigned n, uint16_t port, int64_t timeout_ms, int64_t stagger_ms)
{
	struct result r = { .base = event_base_new(), .fd = -1 };
	struct connector *c = connect_start(r.base, addrs, n, port, timeout_ms, stagger_ms, on_connected, &r);

	CU_ASSERT_FATAL(c != NULL);
	CU_ASSERT(r.calls == 0); /* never from within */
	event_base_dispatch(r.base);
	CU_ASSERT(r.calls == 1);
	event_base_free(r.base);
	return r;
}

static void test_first_address(void)
{
	uint16_t port = 0;
	int listener = listener_on("127.0.0.1", &port);
	struct addr one = parsed("127.0.0.1");
	struct result r = run(&one, 1, port, 5000, 250);

	CU_ASSERT(r.reason == REASON_OK && r.fd >= 0 && addr_equal(&r.addr, &one));
	close(r.fd);
	close(listener);
}

static void test_next_after_a_refusal(void)
{
	uint16_t port = 0;
	int listener = listener_on("127.0.0.3", &port);
	struct addr all[] = { parsed("127.0.0.1"), parsed("127.0.0.2"), parsed("127.0.0.3") };
	struct result r = run(all, 3, port, 60000, 60000);

	CU_ASSERT(r.reason == REASON_OK && addr_equal(&r.addr, &all[2]));
	close(r.fd);
	close(listener);
}

static void test_all_refuse(void)
{
	uint16_t port = 0;
	int listener = listener_on("127.0.0.9", &port);
	struct addr all[] = { parsed("127.0.0.1"), parsed("127.0.0.2") };
	struct result r = run(all, 2, port, 60000, 60000);

	CU_ASSERT(r.reason == REASON_CONNECT_REFUSED && r.fd == -1 && r.addr.len == 0);
	close(listener);
}

static void test_no_address(void)
{
	struct result r = run(NULL, 0, 1, 60000, 250);

	CU_ASSERT(r.reason == REASON_CONNECT_FAILED && r.fd == -1);
}

/* A refusal tells more than a family that the host does not have, in either order. */
static void test_what_a_failure_is_called(void)
{
	uint16_t port = 0;
	int listener = listener_on("127.0.0.9", &port);
	struct addr multicast = parsed("ff0e::1"), refuses = parsed("127.0.0.1");
	struct addr orders[2][2] = { { multicast, refuses }, { refuses, multicast } };

	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT(run(orders[i], 2, port, 60000, 60000).reason == REASON_CONNECT_REFUSED);
	CU_ASSERT(run(&multicast, 1, port, 60000, 60000).reason == REASON_CONNECT_FAILED);
	close(listener);
}

/* Without a descriptor nothing was asked of the host: the fault is ours, whatever else failed. */
static void test_no_descriptor(void)
{
	struct result r = { .base = event_base_new(), .fd = -1 };
	struct addr all[] = { parsed("127.0.0.1"), parsed("127.0.0.2") };
	struct rlimit before, none;

	CU_ASSERT_FATAL(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = (struct rlimit){ 0, before.rlim_max };
	CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &none) == 0);
	struct connector *c = connect_start(r.base, all, 2, 1, 60000, 250, on_connected, &r);
	CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &before) == 0);
	CU_ASSERT_FATAL(c != NULL);
	event_base_dispatch(r.base);
	CU_ASSERT(r.calls == 1 && r.reason == REASON_INTERNAL && r.fd == -1);
	event_base_free(r.base);
}

/* Mapped IPv4 becomes AF_INET: the check, the log and the socket speak of one address. */
static void test_sockaddrs(void)
{
	static const struct {
		const char *text;
		int family;
	} rows[] = {
		{ "192.0.2.7", AF_INET },
		{ "::ffff:192.0.2.7", AF_INET },
		{ "2001:db8::7", AF_INET6 },
		{ "::192.0.2.7", AF_INET6 },
		{ "::fffe:192.0.2.7", AF_INET6 },
		{ "64:ff9b::192.0.2.7", AF_INET6 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sockaddr_storage ss;
		struct addr a = parsed(rows[i].text), back;
		uint16_t port = 0;
		socklen_t len = addr_to_sockaddr(&a, 443, &ss);
		UNIT_CHECK(ss.ss_family == rows[i].family, "%s", rows[i].text);
		UNIT_CHECK(len == (rows[i].family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)), "%s",
			rows[i].text);
		UNIT_CHECK(addr_from_sockaddr((struct sockaddr *)&ss, &back, &port) && port == 443, "%s", rows[i].text);
		if (rows[i].family == AF_INET6) {
			const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&ss;
			UNIT_CHECK(v6->sin6_scope_id == 0 && v6->sin6_flowinfo == 0, "%s", rows[i].text);
			UNIT_CHECK(addr_equal(&a, &back), "%s", rows[i].text);
		}
	}
	struct sockaddr other = { .sa_family = AF_UNIX };
	struct addr a;
	uint16_t port;
	CU_ASSERT(!addr_from_sockaddr(&other, &a, &port));
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	CU_ASSERT_FATAL(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Cancelled before anything was reported: nothing is called, nothing stays open. */
static void test_cancel(void)
{
	struct result r = { .base = event_base_new(), .fd = -1 };
	uint16_t port = 0;
	int listener = listener_on("127.0.0.1", &port);
	struct addr one = parsed("127.0.0.1");
	unsigned before = descriptors();
	struct connector *c = connect_start(r.base, &one, 1, port, 60000, 250, on_connected, &r);

	CU_ASSERT_FATAL(c != NULL);
	connect_cancel(c);
	connect_cancel(NULL);
	CU_ASSERT(descriptors() == before);
	event_base_loop(r.base, EVLOOP_NONBLOCK);
	CU_ASSERT(r.calls == 0);
	event_base_free(r.base);
	close(listener);
}

/* A full backlog never answers: the deadline does, and takes every attempt with it. */
static void test_deadline(void)
{
	uint16_t port = 0;
	struct sockaddr_in at = { .sin_family = AF_INET };
	int listener = listener_on("127.0.0.1", &port), fill[64];
	struct addr all[8];
	unsigned before;

	CU_ASSERT(listen(listener, 0) == 0);
	at.sin_port = htons(port);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (size_t i = 0; i < ARRAY_SIZE(fill); i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(fill[i], (struct sockaddr *)&at, sizeof(at));
	}
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = parsed("127.0.0.1");
	before = descriptors();
	struct result r = run(all, ARRAY_SIZE(all), port, 200, 1);
	CU_ASSERT(r.reason == REASON_CONNECT_TIMEOUT && r.fd == -1);
	CU_ASSERT(descriptors() == before);
	for (size_t i = 0; i < ARRAY_SIZE(fill); i++)
		close(fill[i]);
	close(listener);
}

static const struct unit_test tests[] = {
	{ "first_address", test_first_address },
	{ "next_after_a_refusal", test_next_after_a_refusal },
	{ "all_refuse", test_all_refuse },
	{ "no_address", test_no_address },
	{ "what_a_failure_is_called", test_what_a_failure_is_called },
	{ "no_descriptor", test_no_descriptor },
	{ "sockaddrs", test_sockaddrs },
	{ "cancel", test_cancel },
	{ "deadline", test_deadline },
};

UNIT_MAIN("connect", tests)
