/* Targets get their addresses from a resolver of the test's own, once, and only public ones. */
#include "controller/pin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define HEADER 12

/* What the resolver says of a name; NULL: it does not exist. Addresses are given by their family, all of them. */
static const struct {
	const char *name, *addrs[3];
} zone[] = {
	{ "good.test", { "11.22.33.1", "2a00:11::1", NULL } },
	{ "mixed.test", { "11.22.33.1", "fd00::1", NULL } },
	{ "inside.test", { "10.0.0.1", NULL } },
	{ "empty.test", { NULL } },
};

struct world {
	struct event_base *base;
	struct event *event;
	char servers[32];
	unsigned asked;
	int calls;
	struct err err; /* code -1: all pinned */
};

static const char *const *find(const unsigned char *question)
{
	char name[64] = "";
	size_t n = 0;

	for (const unsigned char *p = question; *p != 0 && n + *p + 1 < sizeof(name); p += *p + 1)
		n += (size_t)snprintf(name + n, sizeof(name) - n, "%s%.*s", n > 0 ? "." : "", *p, (const char *)p + 1);
	for (size_t i = 0; i < ARRAY_SIZE(zone); i++)
		if (strcmp(zone[i].name, name) == 0)
			return zone[i].addrs;
	return NULL;
}

/* Header and question of the query as they are, then the records; what followed the question (EDNS) is left out. */
static void on_query(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;
	unsigned char m[512];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	ssize_t got = recvfrom(fd, m, 200, 0, (struct sockaddr *)&from, &len);
	size_t at = HEADER;

	(void)what;
	if (got < HEADER + 5)
		return;
	w->asked++;
	while (m[at] != 0)
		at += m[at] + 1u;
	unsigned type = m[at + 2];
	const char *const *addrs = find(m + HEADER);
	at += 5;
	m[2] = 0x81;
	m[3] = addrs != NULL ? 0x80 : 0x83;
	memset(m + 6, 0, 6);
	for (; addrs != NULL && *addrs != NULL; addrs++) {
		int family = strchr(*addrs, ':') != NULL ? AF_INET6 : AF_INET;
		if ((type == 1) != (family == AF_INET))
			continue;
		const unsigned char head[] = { 0xc0, HEADER, 0, (unsigned char)type, 0, 1, 0, 0, 0, 60, 0, family == AF_INET ? 4 : 16 };
		memcpy(m + at, head, sizeof(head));
		CU_ASSERT(inet_pton(family, *addrs, m + at + sizeof(head)) == 1);
		at += sizeof(head) + head[11];
		m[7]++;
	}
	(void)sendto(fd, m, at, 0, (struct sockaddr *)&from, len);
}

static void make(struct world *w)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*w = (struct world){ .base = event_base_new() };
	CU_ASSERT_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	snprintf(w->servers, sizeof(w->servers), "127.0.0.1:%u", ntohs(at.sin_port));
	w->event = event_new(w->base, fd, EV_READ | EV_PERSIST, on_query, w);
	CU_ASSERT_FATAL(w->event != NULL && event_add(w->event, NULL) == 0);
}

static void unmake(struct world *w)
{
	int fd = event_get_fd(w->event);

	event_free(w->event);
	close(fd);
	event_base_free(w->base);
}

static void on_pinned(const struct err *err, void *arg)
{
	struct world *w = arg;

	w->calls++;
	w->err = err != NULL ? *err : (struct err){ -1, "" };
	event_base_loopbreak(w->base);
}

static void test_targets(void)
{
	static const struct {
		const char *targets, *test_hosts, *pinned;
		int code;
		const char *says;
		unsigned asked;
	} rows[] = {
		{ "1=good.test:2", NULL, "1=good.test:2@11.22.33.1,2a00:11::1", -1, "", 2 },
		{ "1=good.test:2 3=good.test:4", NULL, "1=good.test:2@11.22.33.1,2a00:11::1 3=good.test:4@11.22.33.1,2a00:11::1", -1, "", 4 },
		{ "1=good.test:2@11.22.33.9", NULL, "1=good.test:2@11.22.33.9", -1, "", 0 },
		{ "1=mixed.test:2", NULL, NULL, EACCES, "mixed.test:2: fd00::1 is unique-local", 2 },
		{ "1=good.test:2 3=inside.test:4", NULL, NULL, EACCES, "inside.test:4: 10.0.0.1 is private-use (10.0.0.0/8, RFC 1918)", 4 },
		{ "1=inside.test:2", "inside.test=10.0.0.1", "1=inside.test:2", -1, "", 0 },
		{ "1=inside.test:2", "a.test=10.0.0.2 inside.test=10.0.0.1", "1=inside.test:2", -1, "", 0 },
		{ "1=inside.test:2", "side.test=10.0.0.1 inside.test.x=10.0.0.1", NULL, EACCES, "10.0.0.1", 2 },
		{ "1=absent.test:2", NULL, NULL, EHOSTUNREACH, "absent.test:2 cannot be pinned: the name does not exist", 2 },
		{ "1=empty.test:2 3=good.test:4", NULL, NULL, EHOSTUNREACH, "the name has no address", 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world w;
		struct spec s = { .tcp_targets = strdup(rows[i].targets),
			.test_hosts = rows[i].test_hosts != NULL ? strdup(rows[i].test_hosts) : NULL };
		make(&w);
		pin_targets(w.base, w.servers, &s, on_pinned, &w);
		if (w.calls == 0)
			event_base_dispatch(w.base);
		UNIT_CHECK(w.calls == 1 && w.err.code == rows[i].code && strstr(w.err.text, rows[i].says) != NULL, "%s: %d %s",
			rows[i].targets, w.err.code, w.err.text);
		/* On failure the list stays as it was. */
		UNIT_CHECK(strcmp(s.tcp_targets, rows[i].pinned != NULL ? rows[i].pinned : rows[i].targets) == 0, "%s: %s",
			rows[i].targets, s.tcp_targets);
		UNIT_CHECK(w.asked == rows[i].asked, "%s: %u questions", rows[i].targets, w.asked);
		free(s.tcp_targets);
		free(s.test_hosts);
		unmake(&w);
	}
}

static void test_no_resolver(void)
{
	struct world w;
	struct spec s = { .tcp_targets = strdup("1=good.test:2") };

	make(&w);
	pin_targets(w.base, "nonsense", &s, on_pinned, &w);
	CU_ASSERT(w.calls == 1 && w.err.code == EHOSTUNREACH && strstr(w.err.text, "resolver \"nonsense\"") != NULL);
	free(s.tcp_targets);
	unmake(&w);
}

static const struct unit_test tests[] = {
	{ "targets", test_targets },
	{ "no_resolver", test_no_resolver },
};

UNIT_MAIN("pin", tests)
