/* Staggered connection attempts to checked addresses. */
#include "egressd/connect.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attempt {
	struct connector *connector;
	int fd; /* -1: not started or failed */
	struct event ready; /* writable alone: it stands; readable too: that, or it failed */
	struct addr addr;
};

struct connector {
	struct event_base *base;
	uint16_t port;
	int64_t stagger_ms;
	struct event deadline;
	struct event next; /* the stagger, or a failure to report from the loop */
	unsigned n;
	unsigned started;
	unsigned pending;
	enum reason worst; /* of the attempts that failed, what tells most */
	connect_cb cb;
	void *arg;
	struct attempt attempts[];
};

socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *out)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (a->len == 4 || memcmp(a->bytes, mapped, sizeof(mapped)) == 0) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, a->len == 4 ? a->bytes : a->bytes + 12, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, a->bytes, 16);
	return sizeof(*v6);
}

bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *out, uint16_t *port)
{
	memset(out, 0, sizeof(*out));
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)sa;
		out->len = 4;
		memcpy(out->bytes, &v4->sin_addr, 4);
		*port = ntohs(v4->sin_port);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)sa;
		out->len = 16;
		memcpy(out->bytes, &v6->sin6_addr, 16);
		*port = ntohs(v6->sin6_port);
		return true;
	}
	return false;
}

static struct timeval from_ms(int64_t ms)
{
	return (struct timeval){ .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
}

static void drop_attempt(struct attempt *a)
{
	if (a->fd < 0)
		return;
	event_del(&a->ready);
	close(a->fd);
	a->fd = -1;
	a->connector->pending--;
}

static void release(struct connector *c)
{
	for (unsigned i = 0; i < c->started; i++)
		drop_attempt(&c->attempts[i]);
	event_del(&c->deadline);
	event_del(&c->next);
	free(c);
}

static void report(struct connector *c, int fd, enum reason reason, const struct addr *addr)
{
	struct addr where = addr != NULL ? *addr : (struct addr){ 0, { 0 } };
	connect_cb cb = c->cb;
	void *arg = c->arg;

	release(c);
	cb(fd, reason, addr != NULL ? &where : NULL, arg);
}

/* What is ours to mend says most, then "refused", "timed out", and "no route" of a family that the host lacks. */
static void note_failure(struct connector *c, int error)
{
	static const struct {
		int error; /* 0: any */
		enum reason reason;
	} rows[] = {
		{ EMFILE, REASON_INTERNAL },
		{ ENFILE, REASON_INTERNAL },
		{ ENOMEM, REASON_INTERNAL },
		{ ENOBUFS, REASON_INTERNAL },
		{ ECONNREFUSED, REASON_CONNECT_REFUSED },
		{ ETIMEDOUT, REASON_CONNECT_TIMEOUT },
		{ 0, REASON_CONNECT_FAILED },
	};

	/* The first row that either is: what was noted before, or this. */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (c->worst == rows[i].reason)
			return;
		if (rows[i].error == error || rows[i].error == 0) {
			c->worst = rows[i].reason;
			return;
		}
	}
}

static void on_ready(evutil_socket_t fd, short what, void *arg);

/* Starts to connect: 0, or -1 with errno when the attempt failed at once. */
static int begin(struct attempt *a, const struct sockaddr *to, socklen_t len)
{
	if (connect(a->fd, to, len) != 0 && errno != EINPROGRESS)
		return -1;
	/* To a neighbour it mostly stands by now, which a second call tells; the callback comes from the loop all the same. */
	if (connect(a->fd, to, len) == 0 || errno == EISCONN) {
		event_active(&a->ready, EV_WRITE, 0);
		return 0;
	}
	return errno == EALREADY || errno == EINPROGRESS ? event_add(&a->ready, NULL) : -1;
}

static void make_room(struct connector *c)
{
	for (unsigned i = 0; c->pending >= CONNECT_BESIDE_MAX && i < c->started; i++) {
		if (c->attempts[i].fd >= 0)
			note_failure(c, ETIMEDOUT);
		drop_attempt(&c->attempts[i]);
	}
}

/* Starts the next address that can be started; false when none is left. */
static bool start_next(struct connector *c)
{
	if (c->started < c->n)
		make_room(c);
	while (c->started < c->n) {
		struct attempt *a = &c->attempts[c->started++];
		struct sockaddr_storage ss;
		socklen_t len = addr_to_sockaddr(&a->addr, c->port, &ss);
		int one = 1;

		a->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (a->fd < 0) {
			note_failure(c, errno);
			continue;
		}
		c->pending++;
		event_assign(&a->ready, c->base, a->fd, EV_READ | EV_WRITE, on_ready, a);
		(void)setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (begin(a, (struct sockaddr *)&ss, len) != 0) {
			note_failure(c, errno);
			drop_attempt(a);
			continue;
		}
		if (c->started < c->n) {
			struct timeval tv = from_ms(c->stagger_ms);
			event_add(&c->next, &tv);
		}
		return true;
	}
	return false;
}

static void go_on(struct connector *c)
{
	event_del(&c->next);
	if (!start_next(c) && c->pending == 0)
		report(c, -1, c->worst == REASON_OK ? REASON_CONNECT_FAILED : c->worst, NULL);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct attempt *a = arg;
	struct connector *c = a->connector;
	int error = 0;
	socklen_t len = sizeof(error);

	/* The loop reports a failed socket as readable and writable. */
	if ((what & EV_READ) != 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0) {
		note_failure(c, error);
		drop_attempt(a);
		go_on(c);
		return;
	}
	event_del(&a->ready);
	a->fd = -1;
	c->pending--;
	report(c, fd, REASON_OK, &a->addr);
}

static void on_next(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	go_on(arg);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct connector *c = arg;

	(void)fd;
	(void)what;
	report(c, -1, c->worst == REASON_CONNECT_REFUSED && c->pending == 0 ? c->worst : REASON_CONNECT_TIMEOUT, NULL);
}

/* RFC 8305 section 4: families take turns, each in the resolver's order. */
static unsigned take_turns(struct connector *c, const struct addr *addrs, unsigned n)
{
	unsigned six = 0, four = 0, out = 0;

	while (out < CONNECT_ADDRS_MAX) {
		unsigned before = out;
		while (six < n && addrs[six].len != 16)
			six++;
		if (six < n)
			c->attempts[out++].addr = addrs[six++];
		while (four < n && addrs[four].len == 16)
			four++;
		if (four < n && out < CONNECT_ADDRS_MAX)
			c->attempts[out++].addr = addrs[four++];
		if (out == before)
			break;
	}
	return out;
}

struct connector *connect_start(struct event_base *base, const struct addr *addrs, unsigned n, uint16_t port,
	int64_t timeout_ms, int64_t stagger_ms, connect_cb cb, void *arg)
{
	unsigned room = n < CONNECT_ADDRS_MAX ? n : CONNECT_ADDRS_MAX;
	struct connector *c = calloc(1, sizeof(*c) + room * sizeof(c->attempts[0]));
	struct timeval tv = from_ms(timeout_ms);

	if (c == NULL)
		return NULL;
	c->base = base;
	c->port = port;
	c->stagger_ms = stagger_ms;
	c->cb = cb;
	c->arg = arg;
	c->n = take_turns(c, addrs, n);
	for (unsigned i = 0; i < c->n; i++) {
		c->attempts[i].connector = c;
		c->attempts[i].fd = -1;
	}
	evtimer_assign(&c->deadline, base, on_deadline, c);
	evtimer_assign(&c->next, base, on_next, c);
	event_add(&c->deadline, &tv);
	if (!start_next(c))
		event_active(&c->next, EV_TIMEOUT, 0);
	return c;
}

void connect_cancel(struct connector *c)
{
	if (c != NULL)
		release(c);
}
