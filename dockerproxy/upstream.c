/*
 * Exchanges with the engine over kept-alive or fresh connections.
 *
 * One object is a connection for all its life; between two exchanges it rests in the idle list with its read event on, so that
 * the engine's closing it is noticed at once and a steady exchange costs one write and one read.
 */
#include "dockerproxy/upstream.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "libgate/buf.h"

#define READ_SIZE 65536
#define MAX_INFORMATIONAL 8 /* 1xx heads before the final one */

enum state {
	X_DIALLING,
	X_WAITING, /* the request is out or on its way, no complete head yet */
	X_BODY,
	X_IDLE,
	X_DEAD, /* aborted: freed as soon as nobody is using it */
};

struct upstream_exchange {
	TAILQ_ENTRY(upstream_exchange) link; /* of the idle list */
	struct upstream *up;
	int fd;
	enum state state;
	struct event readable;
	struct event writable;
	unsigned flags;
	bool reused; /* not the connection's first exchange */
	bool answered; /* a byte of this answer came */
	bool in_feed; /* feed() is on the stack: freeing waits */
	bool dialling; /* the dialer still holds a pointer to this */
	int dial_error; /* readable is a pending on_dial_failed() */
	enum http_method method;
	unsigned informational;
	struct slice unsent[2];
	struct upstream_request request;
	struct http_head head;
	const char *head_bytes;
	struct slice rest; /* what follows the head in this read; during head() */
	struct http_body body;
	struct buf in; /* an incomplete head, seldom more */
	const struct upstream_events *events;
	void *arg;
};

TAILQ_HEAD(exchange_list, upstream_exchange);

struct upstream {
	struct event_base *base;
	struct upstream_dialer dialer;
	struct exchange_list idle;
	unsigned max_idle;
	struct upstream_stats stats;
	char api_version[12];
	char scratch[READ_SIZE];
};

static void on_readable(evutil_socket_t fd, short what, void *arg);
static void on_writable(evutil_socket_t fd, short what, void *arg);
static void dial(struct upstream_exchange *x);
static void send_request(struct upstream_exchange *x);

struct upstream *upstream_new(struct event_base *base, const struct upstream_dialer *dialer, unsigned max_idle)
{
	struct upstream *u = calloc(1, sizeof(*u));

	if (u == NULL)
		return NULL;
	u->base = base;
	u->dialer = *dialer;
	u->max_idle = max_idle;
	TAILQ_INIT(&u->idle);
	return u;
}

void upstream_free(struct upstream *u)
{
	if (u == NULL)
		return;
	upstream_drop_idle(u);
	free(u);
}

void upstream_stats(const struct upstream *u, struct upstream_stats *out)
{
	*out = u->stats;
}

struct slice upstream_api_version(const struct upstream *u)
{
	return slice_str(u->api_version);
}

/* --- life of a connection --------------------------------------------------------------------------------------- */

static void close_socket(struct upstream_exchange *x)
{
	if (x->dial_error != 0)
		event_del(&x->readable);
	if (x->fd < 0)
		return;
	event_del(&x->readable);
	event_del(&x->writable);
	close(x->fd);
	x->fd = -1;
}

/* Nobody may use x afterwards but a feed() or a dialer that is still at it. */
static void discard(struct upstream_exchange *x)
{
	if (x->state == X_IDLE) {
		TAILQ_REMOVE(&x->up->idle, x, link);
		x->up->stats.idle--;
	} else if (x->state != X_DEAD) {
		x->up->stats.active--;
	}
	close_socket(x);
	x->state = X_DEAD;
	if (x->in_feed || x->dialling)
		return;
	buf_release(&x->in);
	free(x);
}

void upstream_drop_idle(struct upstream *u)
{
	while (!TAILQ_EMPTY(&u->idle))
		discard(TAILQ_FIRST(&u->idle));
}

static void rest_in_pool(struct upstream_exchange *x)
{
	struct upstream *u = x->up;

	x->state = X_IDLE;
	x->events = NULL;
	buf_release(&x->in);
	u->stats.active--;
	u->stats.idle++;
	TAILQ_INSERT_HEAD(&u->idle, x, link);
}

static void fail(struct upstream_exchange *x, enum upstream_fault fault, const char *detail)
{
	const struct upstream_events *events = x->events;
	void *arg = x->arg;

	x->up->stats.faults++;
	x->up->stats.losses += fault != UPSTREAM_MALFORMED;
	discard(x);
	events->fail(arg, fault, detail);
}

static struct upstream_exchange *new_connection(struct upstream *u)
{
	struct upstream_exchange *x = malloc(sizeof(*x));

	if (x == NULL)
		return NULL;
	memset(x, 0, offsetof(struct upstream_exchange, head));
	x->up = u;
	x->fd = -1;
	buf_init(&x->in, READ_SIZE);
	return x;
}

static bool still_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* A connection for the request: an idle one where that is allowed, else a new one that is not dialled yet. */
static struct upstream_exchange *pick(struct upstream *u, const struct upstream_request *request)
{
	while (!(request->flags & UPSTREAM_FRESH) && !TAILQ_EMPTY(&u->idle)) {
		struct upstream_exchange *x = TAILQ_FIRST(&u->idle);

		/*
		 * What cannot be repeated is worth a system call to see that the engine has not hung up, where sending would
		 * not tell: TCP takes bytes for a closed end, and so does the TLS half of this process.
		 */
		if (!(request->flags & UPSTREAM_REPEATABLE) && !u->dialer.direct && !still_open(x->fd)) {
			u->stats.losses++;
			discard(x);
			continue;
		}
		TAILQ_REMOVE(&u->idle, x, link);
		u->stats.idle--;
		u->stats.reuses++;
		x->reused = true;
		return x;
	}
	return new_connection(u);
}

/* --- sending ---------------------------------------------------------------------------------------------------- */

/* Sends what the socket takes. 1 all sent, 0 more to do, -1 the connection is broken. */
static int write_unsent(struct upstream_exchange *x)
{
	while (x->unsent[0].len + x->unsent[1].len > 0) {
		struct iovec iov[2];
		struct msghdr message = { .msg_iov = iov };
		ssize_t n;

		for (int i = 0; i < 2; i++)
			if (x->unsent[i].len > 0)
				iov[message.msg_iovlen++] = (struct iovec){ (char *)(uintptr_t)x->unsent[i].p, x->unsent[i].len };
		n = sendmsg(x->fd, &message, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
		for (int i = 0; i < 2; i++) {
			size_t part = (size_t)n < x->unsent[i].len ? (size_t)n : x->unsent[i].len;

			x->unsent[i] = slice_skip(x->unsent[i], part);
			n -= (ssize_t)part;
		}
	}
	return 1;
}

static bool nothing_sent(const struct upstream_exchange *x)
{
	return x->unsent[0].len == x->request.head.len && x->unsent[1].len == x->request.body.len;
}

/* The connection ended or broke before the answer began. */
static void retry_or_fail(struct upstream_exchange *x, const char *detail)
{
	if (!x->reused || x->answered || !((x->flags & UPSTREAM_REPEATABLE) || nothing_sent(x))) {
		fail(x, UPSTREAM_GONE, detail);
		return;
	}
	/* The other idle ones are as old: the engine was probably restarted. */
	upstream_drop_idle(x->up);
	x->up->stats.losses++;
	x->up->stats.retries++;
	x->reused = false;
	close_socket(x);
	buf_clear(&x->in);
	dial(x);
}

static void send_request(struct upstream_exchange *x)
{
	x->state = X_WAITING;
	x->unsent[0] = x->request.head;
	x->unsent[1] = x->request.body;
	switch (write_unsent(x)) {
	case 1:
		return;
	case 0:
		event_add(&x->writable, NULL);
		return;
	default:
		/* Reported from the loop: the read event finds the same end, after an answer that the engine may have sent. */
		return;
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct upstream_exchange *x = arg;

	if (write_unsent(x) != 0)
		event_del(&x->writable);
}

static void on_dial_failed(evutil_socket_t fd, short what, void *arg)
{
	struct upstream_exchange *x = arg;

	fail(x, UPSTREAM_UNREACHABLE, strerror(x->dial_error));
}

static void on_dialled(int fd, int error, void *arg)
{
	struct upstream_exchange *x = arg;
	struct upstream *u = x->up;

	x->dialling = false;
	if (x->state == X_DEAD) {
		if (fd >= 0)
			close(fd);
		discard(x);
		return;
	}
	if (fd < 0) {
		/* From the loop, not from within upstream_start(). */
		x->dial_error = error != 0 ? error : ECONNREFUSED;
		event_assign(&x->readable, u->base, -1, 0, on_dial_failed, x);
		event_active(&x->readable, EV_TIMEOUT, 0);
		return;
	}
	x->fd = fd;
	event_assign(&x->readable, u->base, fd, EV_READ | EV_PERSIST, on_readable, x);
	event_assign(&x->writable, u->base, fd, EV_WRITE | EV_PERSIST, on_writable, x);
	event_add(&x->readable, NULL);
	u->stats.connects++;
	send_request(x);
}

static void dial(struct upstream_exchange *x)
{
	x->state = X_DIALLING;
	x->dialling = true;
	x->up->dialer.dial(x->up->dialer.self, on_dialled, x);
}

struct upstream_exchange *upstream_start(struct upstream *u, const struct upstream_request *request,
	const struct upstream_events *events, void *arg)
{
	struct upstream_exchange *x = pick(u, request);

	if (x == NULL)
		return NULL;
	u->stats.active++;
	x->flags = request->flags;
	x->method = request->method;
	x->request = *request;
	x->answered = false;
	x->informational = 0;
	x->events = events;
	x->arg = arg;
	http_head_init(&x->head, HTTP_RESPONSE, HTTP_MAX_HEAD);
	if (x->reused)
		send_request(x);
	else
		dial(x);
	return x;
}

/* --- receiving -------------------------------------------------------------------------------------------------- */

static void finish(struct upstream_exchange *x, bool clean)
{
	const struct upstream_events *events = x->events;
	void *arg = x->arg;
	bool keep = clean && x->head.keep_alive && !(x->flags & UPSTREAM_FRESH) && x->up->stats.idle < x->up->max_idle &&
		x->unsent[0].len + x->unsent[1].len == 0;

	if (keep)
		rest_in_pool(x);
	else
		discard(x);
	events->end(arg);
}

/* "1.41"; nothing else is believed to be the engine's version. */
static void learn_version(struct upstream *u, const struct http_head *h, const char *p)
{
	for (unsigned i = 0; i < h->nfields; i++) {
		struct slice value = http_span(p, h->fields[i].value);

		if (h->fields[i].name.len != 11 || !slice_case_is(http_span(p, h->fields[i].name), "api-version"))
			continue;
		if (value.len == 0 || value.len >= sizeof(u->api_version))
			return;
		for (size_t k = 0; k < value.len; k++)
			if (value.p[k] != '.' && (value.p[k] < '0' || value.p[k] > '9'))
				return;
		memcpy(u->api_version, value.p, value.len);
		u->api_version[value.len] = '\0';
		return;
	}
}

/* Reads the head in p[0..len). Returns the bytes used, 0 when it is incomplete; on a fault the exchange is gone. */
static size_t feed_head(struct upstream_exchange *x, const char *p, size_t len)
{
	size_t used;

	switch (http_head_read(&x->head, p, len)) {
	case HTTP_MORE:
		return 0;
	case HTTP_BAD:
	case HTTP_DATA:
		fail(x, UPSTREAM_MALFORMED, http_reason_text(x->head.reason));
		return 0;
	case HTTP_DONE:
		break;
	}
	used = x->head.length;
	if (x->head.status < 200 && x->head.status != 101) {
		if (++x->informational > MAX_INFORMATIONAL) {
			fail(x, UPSTREAM_MALFORMED, "too many 1xx answers");
			return 0;
		}
		http_head_init(&x->head, HTTP_RESPONSE, HTTP_MAX_HEAD);
		return used;
	}
	if (x->head.status != 101 && http_response_framing(&x->head, x->method) == HTTP_BAD) {
		fail(x, UPSTREAM_MALFORMED, http_reason_text(x->head.reason));
		return 0;
	}
	learn_version(x->up, &x->head, p);
	x->state = X_BODY;
	x->head_bytes = p;
	x->rest = slice_make(p + used, len - used);
	http_body_init(&x->body, x->head.framing, x->head.content_length, UINT64_MAX);
	x->events->head(x->arg);
	x->head_bytes = NULL;
	x->rest = slice_make(NULL, 0);
	return used;
}

static bool body_is_empty(const struct upstream_exchange *x)
{
	return x->head.framing == HTTP_BODY_NONE || (x->head.framing == HTTP_BODY_LENGTH && x->head.content_length == 0);
}

/* Hands out body bytes of p[0..len). Returns the bytes used; the exchange may be gone afterwards. */
static size_t feed_body(struct upstream_exchange *x, const char *p, size_t len)
{
	size_t done = 0;

	while (x->state == X_BODY && done < len) {
		size_t used = 0;
		struct slice run = slice_make(NULL, 0);
		enum http_result r = http_body_read(&x->body, p + done, len - done, &used, &run);

		done += used;
		switch (r) {
		case HTTP_MORE:
			return done;
		case HTTP_DATA:
			x->events->data(x->arg, run);
			break;
		case HTTP_DONE:
			finish(x, done == len);
			return done;
		case HTTP_BAD:
			fail(x, UPSTREAM_MALFORMED, http_reason_text(x->body.reason));
			return done;
		}
		/* A message of known length is over with its last byte, not with the next read. */
		if (x->state == X_BODY && x->head.framing == HTTP_BODY_LENGTH && x->body.left == 0) {
			finish(x, done == len);
			return done;
		}
	}
	return done;
}

/* Everything in p[0..len) belongs to x. Returns the bytes used; x may be X_DEAD afterwards, but is not freed yet. */
static size_t feed(struct upstream_exchange *x, const char *p, size_t len)
{
	size_t done = 0;

	x->answered = true;
	while (x->state == X_WAITING) {
		size_t used = feed_head(x, p + done, len - done);

		if (used == 0)
			return done;
		done += used;
		if (x->state == X_BODY && body_is_empty(x)) {
			finish(x, done == len);
			return done;
		}
		if (done == len && x->state == X_WAITING)
			return done;
	}
	if (x->state == X_BODY)
		done += feed_body(x, p + done, len - done);
	if (x->state == X_BODY)
		x->events->flush(x->arg);
	return done;
}

static void on_end(struct upstream_exchange *x, int error)
{
	if (x->state == X_BODY && error == 0 && x->head.framing == HTTP_BODY_EOF)
		finish(x, false);
	else if (x->state == X_BODY)
		fail(x, UPSTREAM_GONE, "closed within the answer");
	else
		retry_or_fail(x, error != 0 ? strerror(error) : "closed before the answer");
}

/* What the parsers left unused waits in x->in for the next read. */
static void keep_rest(struct upstream_exchange *x, struct slice rest)
{
	if (buf_len(&x->in) > 0) {
		buf_consume(&x->in, buf_len(&x->in) - rest.len);
	} else if (rest.len > 0 && buf_put_slice(&x->in, rest) < 0) {
		fail(x, UPSTREAM_MALFORMED, "the answer's head is too large");
		return;
	}
	if (x->state == X_BODY && buf_len(&x->in) == 0)
		buf_release(&x->in);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct upstream_exchange *x = arg;
	char *to = x->up->scratch;
	size_t room = READ_SIZE;
	struct slice got;
	size_t used;
	ssize_t n;

	/* Idle: the engine has closed it, or speaks unasked. Neither is of use. */
	if (x->state == X_IDLE) {
		x->up->stats.losses++;
		discard(x);
		return;
	}
	if (buf_len(&x->in) > 0) {
		room = 4096;
		to = buf_reserve(&x->in, room);
		if (to == NULL) {
			fail(x, UPSTREAM_MALFORMED, "the answer's head is too large");
			return;
		}
	}
	n = recv(fd, to, room, 0);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	if (n <= 0) {
		on_end(x, n < 0 ? errno : 0);
		return;
	}
	if (to == x->up->scratch) {
		got = slice_make(to, (size_t)n);
	} else {
		buf_commit(&x->in, (size_t)n);
		got = buf_slice(&x->in);
	}
	x->in_feed = true;
	used = feed(x, got.p, got.len);
	x->in_feed = false;
	if (x->state == X_DEAD)
		discard(x);
	else if (x->state == X_WAITING || x->state == X_BODY)
		keep_rest(x, slice_skip(got, used));
}

/* --- the caller's verbs ------------------------------------------------------------------------------------------- */

const struct http_head *upstream_head(const struct upstream_exchange *x)
{
	return &x->head;
}

const char *upstream_head_bytes(const struct upstream_exchange *x)
{
	return x->head_bytes;
}

void upstream_pause(struct upstream_exchange *x)
{
	if (x->fd >= 0)
		event_del(&x->readable);
}

void upstream_resume(struct upstream_exchange *x)
{
	if (x->fd >= 0)
		event_add(&x->readable, NULL);
}

void upstream_abort(struct upstream_exchange *x)
{
	discard(x);
}

int upstream_take(struct upstream_exchange *x, struct slice *early)
{
	int fd = x->fd;

	assert(x->state == X_BODY && x->head_bytes != NULL);
	event_del(&x->readable);
	event_del(&x->writable);
	*early = x->rest;
	x->fd = -1;
	discard(x);
	return fd;
}
