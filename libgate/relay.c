/* Two sockets, two flows between them: read what one side has, write what the other takes, keep only the rest. */
#include "libgate/relay.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "libgate/pipes.h"

/*
 * One read. Larger runs were no faster on loopback, smaller ones cost a system call each. It is also the most that is kept
 * for a slow reader, per direction.
 */
#define RUN_MAX (256 * 1024)

/*
 * A flow is spliced once so many reads in a row brought at least so much, and copied again when as many brought less: little
 * is not worth two system calls and a pipe.
 */
#define BULK_MIN (RUN_MAX / 4)
#define BULK_RUNS 4
#define BULK_NEVER (-1)

/*
 * What all slow readers of the process together may have us keep before runs become small: some hundred stalled downloads
 * must not take the memory that the kernel needs for thousands of connections.
 */
#define KEPT_MUCH (8 * 1024 * 1024)
#define RUN_SMALL 4096

/* Of the process: no relay holds bytes in it between two callbacks. Nor a pipe, unless a slow reader left bytes in it. */
static char run_buffer[RUN_MAX];
static size_t kept_by_all;

struct side {
	int fd;
	bool dead; /* it failed by itself */
	struct event readable;
	struct event writable;
};

struct flow {
	struct relay *relay;
	struct side *from;
	struct side *to;
	char *kept; /* what `to` did not take yet, in memory */
	struct pipes_pipe *pipe; /* or in a pipe */
	size_t kept_off;
	size_t kept_len; /* 0: nothing is kept, neither memory nor pipe held */
	size_t kept_size; /* counted in kept_by_all */
	int8_t bulk; /* large reads in a row; from BULK_RUNS on it is spliced; BULK_NEVER: splicing is nothing for it */
	uint64_t delivered;
	bool ended; /* `from` has sent its last byte */
	bool closed; /* and `to` was told, or can be told nothing any more */
};

struct relay {
	struct side a;
	struct side b;
	struct flow ab;
	struct flow ba;
	struct relay_limits limits;
	struct event timer;
	struct event_base *base;
	int64_t started_ms;
	int64_t active_ms; /* of the last byte */
	bool asks; /* the kernel keeps asking for both peers */
	bool broken; /* one side failed; what the other direction still holds is delivered first */
	relay_done_cb done;
	void *arg;
};

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void side_close(struct side *s, bool abort)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (s->fd < 0)
		return;
	event_del(&s->readable);
	event_del(&s->writable);
	if (abort && !s->dead) /* the peer must not take a cut stream for a whole one */
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(s->fd);
	s->fd = -1;
}

static void forget_kept(struct flow *f)
{
	kept_by_all -= f->kept_size;
	f->kept_size = 0;
	free(f->kept);
	f->kept = NULL;
	if (f->pipe != NULL && f->kept_len > 0)
		pipes_drop(f->pipe);
	else if (f->pipe != NULL)
		pipes_give(f->pipe);
	f->pipe = NULL;
	f->kept_off = 0;
	f->kept_len = 0;
}

static void dispose(struct relay *r)
{
	forget_kept(&r->ab);
	forget_kept(&r->ba);
	free(r);
}

static void finish(struct relay *r, enum relay_end end, bool abort)
{
	struct relay_stats stats;

	relay_stats(r, &stats);
	event_del(&r->timer);
	side_close(&r->a, abort);
	side_close(&r->b, abort);
	r->done(end, &stats, r->arg);
	dispose(r);
}

static int64_t idle_limit(const struct relay *r)
{
	bool half = r->ab.ended || r->ba.ended;

	return half && r->limits.half_closed_ms > 0 ? r->limits.half_closed_ms : r->limits.idle_ms;
}

static int64_t nearer(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Asking starts when a relay is half as old as a silence that counts: most are over by then. */
static int64_t asks_at(const struct relay *r)
{
	return r->asks || r->limits.keep_alive_ms <= 0 ? INT64_MAX : r->started_ms + r->limits.keep_alive_ms / 2;
}

static void ask(struct relay *r)
{
	const int one = 1, seconds = (int)(r->limits.keep_alive_ms / 1000);
	const int fds[] = { r->a.fd, r->b.fd };

	r->asks = true;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		(void)setsockopt(fds[i], SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		(void)setsockopt(fds[i], IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	}
}

/* One timer for all limits, set to the nearest; activity does not touch it, it looks when it fires. */
static void arm(struct relay *r, int64_t now)
{
	int64_t idle = idle_limit(r), at = asks_at(r);
	struct timeval tv;

	if (r->limits.left_ms > 0)
		at = nearer(at, (r->active_ms + r->limits.left_ms > now ? r->active_ms : now) + r->limits.left_ms);
	if (idle > 0)
		at = nearer(at, r->active_ms + idle);
	if (r->limits.max_ms > 0)
		at = nearer(at, r->started_ms + r->limits.max_ms);
	if (at == INT64_MAX)
		return;
	if (at <= now)
		at = now + 1;
	tv.tv_sec = (time_t)((at - now) / 1000);
	tv.tv_usec = (suseconds_t)((at - now) % 1000 * 1000);
	event_add(&r->timer, &tv);
}

/* After its half-close no event would say that a's peer closed altogether. What it sent is delivered first. */
static bool a_left(const struct relay *r, int64_t now)
{
	struct pollfd p = { .fd = r->a.fd };

	return r->limits.left_ms > 0 && now - r->active_ms >= r->limits.left_ms && r->ab.closed && poll(&p, 1, 0) == 1 &&
		(p.revents & (POLLHUP | POLLERR)) != 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct relay *r = arg;
	int64_t now = now_ms(), idle = idle_limit(r);

	(void)fd;
	(void)what;
	if (now >= asks_at(r))
		ask(r);
	if (r->limits.max_ms > 0 && now - r->started_ms >= r->limits.max_ms)
		finish(r, RELAY_END_LIFETIME, true);
	else if (idle > 0 && now - r->active_ms >= idle)
		finish(r, RELAY_END_IDLE, true);
	else if (a_left(r, now))
		finish(r, RELAY_END_RESET, false);
	else
		arm(r, now);
}

/* Bytes that may be read now: one run, or what the budget leaves. */
static size_t allowance(const struct relay *r)
{
	uint64_t used = r->ab.delivered + r->ba.delivered + r->ab.kept_len + r->ba.kept_len;
	size_t run = kept_by_all < KEPT_MUCH ? RUN_MAX : RUN_SMALL;

	if (r->limits.max_bytes == 0)
		return run;
	if (used >= r->limits.max_bytes)
		return 0;
	return r->limits.max_bytes - used < run ? (size_t)(r->limits.max_bytes - used) : run;
}

/* Returns true when the relay is gone. */
static bool end_if_over(struct relay *r)
{
	if (!r->ab.closed || !r->ba.closed)
		return false;
	finish(r, r->broken ? RELAY_END_RESET : RELAY_END_CLOSED, false);
	return true;
}

/* All that `from` sent is delivered: pass its end on. */
static bool close_flow(struct flow *f)
{
	f->closed = true;
	shutdown(f->to->fd, SHUT_WR);
	return end_if_over(f->relay);
}

/*
 * `to` takes no more. What it sent before it went may still wait to be read, an early error answer typically, so the
 * opposite flow goes on until its end.
 */
static bool break_flow(struct flow *f)
{
	forget_kept(f);
	event_del(&f->from->readable);
	event_del(&f->to->writable);
	f->relay->broken = true;
	f->ended = true;
	f->closed = true;
	if (!end_if_over(f->relay)) {
		arm(f->relay, now_ms());
		return false;
	}
	return true;
}

static bool transient(int e)
{
	return e == EAGAIN || e == EWOULDBLOCK || e == EINTR;
}

static bool keep(struct flow *f, const char *p, size_t n)
{
	f->kept = malloc(n);
	if (f->kept == NULL)
		return false;
	memcpy(f->kept, p, n);
	f->kept_off = 0;
	f->kept_len = n;
	f->kept_size = n;
	kept_by_all += n;
	return true;
}

static bool is_tcp(int fd)
{
	int domain = 0;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && (domain == AF_INET || domain == AF_INET6);
}

/* A unix stream is always copied: spliced it pays a reference per fragment and is no faster. */
static void note_copied(struct flow *f, size_t n)
{
	if (f->bulk == BULK_NEVER)
		return;
	if (n < BULK_MIN)
		f->bulk = 0;
	else if (++f->bulk == BULK_RUNS && !(is_tcp(f->from->fd) && is_tcp(f->to->fd)))
		f->bulk = BULK_NEVER;
}

/* A pipe has a place for each fragment: small packets fill it early, and copying makes large ones of them again. */
static void note_spliced(struct flow *f, size_t n)
{
	int more = 0;

	if (n >= BULK_MIN)
		f->bulk = 2 * BULK_RUNS - 1;
	else if (ioctl(f->from->fd, FIONREAD, &more) == 0 && more >= BULK_MIN)
		f->bulk = BULK_NEVER;
	else
		f->bulk--;
}

/* Of splice(): it could not be done, which says nothing about the sockets. */
static bool unspliceable(int e)
{
	return transient(e) || e == EINVAL || e == ENOSYS || e == ENOMEM || e == EPERM;
}

/*
 * Socket to pipe to socket; what `to` does not take stays in the pipe. False: nothing was read, and why is for read() to find
 * out: the end, an urgent byte, which splice() does not step over, or no pipe at all. But a socket tells its error only once.
 */
static bool spliced(struct flow *f, size_t want)
{
	ssize_t n = 0, sent;

	f->pipe = pipes_take();
	if (f->pipe != NULL)
		n = pipes_fill(f->pipe, f->from->fd, want);
	if (n < 0 && !unspliceable(errno)) {
		f->from->dead = true;
		finish(f->relay, RELAY_END_RESET, !f->relay->broken);
		return true;
	}
	if (n <= 0) {
		forget_kept(f);
		f->bulk = 0;
		return false;
	}
	f->relay->active_ms = now_ms();
	note_spliced(f, (size_t)n);
	f->kept_len = (size_t)n;
	sent = pipes_drain(f->pipe, f->to->fd, f->kept_len);
	if (sent < 0 && !transient(errno)) {
		(void)break_flow(f);
		return true;
	}
	if (sent > 0) {
		f->delivered += (uint64_t)sent;
		f->kept_len -= (size_t)sent;
	}
	if (f->kept_len == 0) {
		forget_kept(f);
		return true;
	}
	f->kept_size = f->kept_len;
	kept_by_all += f->kept_size;
	event_del(&f->from->readable);
	event_add(&f->to->writable, NULL);
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct flow *f = arg;
	struct relay *r = f->relay;
	size_t want = allowance(r);
	bool spent = want == 0;
	ssize_t n, sent;

	(void)what;
	if (f->bulk >= BULK_RUNS && want >= BULK_MIN && spliced(f, want))
		return;
	n = read(fd, run_buffer, spent ? 1 : want);
	if (n < 0 && transient(errno))
		return;
	if (n < 0) {
		f->from->dead = true;
		finish(r, RELAY_END_RESET, !r->broken);
		return;
	}
	if (n == 0) {
		event_del(&f->from->readable);
		f->ended = true;
		if (f->kept_len == 0 && close_flow(f))
			return;
		arm(r, now_ms());
		return;
	}
	if (spent) {
		finish(r, RELAY_END_BYTES, true);
		return;
	}
	note_copied(f, (size_t)n);
	r->active_ms = now_ms();
	sent = send(f->to->fd, run_buffer, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && !transient(errno)) {
		(void)break_flow(f);
		return;
	}
	if (sent < 0)
		sent = 0;
	f->delivered += (uint64_t)sent;
	if (sent == n)
		return;
	if (!keep(f, run_buffer + sent, (size_t)(n - sent))) {
		finish(r, RELAY_END_RESET, true);
		return;
	}
	event_del(&f->from->readable);
	event_add(&f->to->writable, NULL);
}

static ssize_t send_kept(const struct flow *f)
{
	if (f->pipe != NULL)
		return pipes_drain(f->pipe, f->to->fd, f->kept_len);
	return send(f->to->fd, f->kept + f->kept_off, f->kept_len, MSG_NOSIGNAL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct flow *f = arg;
	ssize_t sent;

	(void)fd;
	(void)what;
	sent = send_kept(f);
	if (sent < 0 && transient(errno))
		return;
	if (sent < 0) {
		(void)break_flow(f);
		return;
	}
	f->relay->active_ms = now_ms();
	f->delivered += (uint64_t)sent;
	f->kept_off += (size_t)sent;
	f->kept_len -= (size_t)sent;
	if (f->kept_len > 0)
		return;
	forget_kept(f);
	event_del(&f->to->writable);
	if (f->ended)
		(void)close_flow(f);
	else
		event_add(&f->from->readable, NULL);
}

static void flow_init(struct flow *f, struct relay *r, struct side *from, struct side *to)
{
	f->relay = r;
	f->from = from;
	f->to = to;
	event_assign(&from->readable, r->base, from->fd, EV_READ | EV_PERSIST, on_readable, f);
	event_assign(&to->writable, r->base, to->fd, EV_WRITE | EV_PERSIST, on_writable, f);
}

static bool flow_start(struct flow *f, struct slice early)
{
	if (early.len > 0 && !keep(f, early.p, early.len))
		return false;
	return event_add(early.len > 0 ? &f->to->writable : &f->from->readable, NULL) == 0;
}

struct relay *relay_new(struct event_base *base, int fd_a, struct slice early_a, int fd_b, struct slice early_b,
	const struct relay_limits *limits, relay_done_cb done, void *arg)
{
	struct relay *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->base = base;
	r->a.fd = fd_a;
	r->b.fd = fd_b;
	r->limits = *limits;
	r->done = done;
	r->arg = arg;
	r->started_ms = now_ms();
	r->active_ms = r->started_ms;
	flow_init(&r->ab, r, &r->a, &r->b);
	flow_init(&r->ba, r, &r->b, &r->a);
	evtimer_assign(&r->timer, base, on_timer, r);
	if (!flow_start(&r->ab, early_a) || !flow_start(&r->ba, early_b)) {
		event_del(&r->a.readable);
		event_del(&r->a.writable);
		event_del(&r->b.readable);
		event_del(&r->b.writable);
		dispose(r);
		return NULL;
	}
	arm(r, r->started_ms);
	return r;
}

void relay_stats(const struct relay *r, struct relay_stats *out)
{
	out->a_to_b = r->ab.delivered;
	out->b_to_a = r->ba.delivered;
}

void relay_free(struct relay *r)
{
	if (r == NULL)
		return;
	event_del(&r->timer);
	side_close(&r->a, true);
	side_close(&r->b, true);
	dispose(r);
}
