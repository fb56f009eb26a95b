/* A small HTTP server for operators: reads one request, looks up its route, writes one answer. */
#include "libgate/admin.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "libgate/http1.h"
#include "libgate/listen.h"

#define ADMIN_HEAD_MAX 8192
#define ADMIN_DEADLINE_S 15 /* of a connection, from accept to the last byte */

struct conn {
	TAILQ_ENTRY(conn) entry;
	struct admin *admin;
	int fd;
	bool is_unix;
	struct event *readable;
	struct event *writable;
	struct event *deadline;
	struct buf in;
	struct buf out;
	struct http_head head;
	bool head_only; /* HEAD */
	struct admin_call *call; /* its route has not answered yet */
};

/* Lives until the route answered; conn is NULL when the client did not wait for that. */
struct admin_call {
	struct conn *conn;
};

struct admin {
	struct event_base *base;
	struct listener *listener;
	const struct admin_route *routes;
	void *arg;
	TAILQ_HEAD(, conn) conns;
	unsigned nconns;
};

static void conn_close(struct conn *c)
{
	struct admin *a = c->admin;

	if (c->call != NULL)
		c->call->conn = NULL;
	if (c->readable != NULL)
		event_free(c->readable);
	if (c->writable != NULL)
		event_free(c->writable);
	if (c->deadline != NULL)
		event_free(c->deadline);
	buf_release(&c->in);
	buf_release(&c->out);
	close(c->fd);
	TAILQ_REMOVE(&a->conns, c, entry);
	free(c);
	if (a->nconns-- == ADMIN_MAX_CONNECTIONS)
		listener_resume(a->listener);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	conn_close(arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	struct slice s = buf_slice(&c->out);
	ssize_t n = send(fd, s.p, s.len, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_consume(&c->out, (size_t)n);
	if (n < 0 || buf_len(&c->out) == 0)
		conn_close(c);
}

static void respond(struct conn *c, int status, const char *content_type, struct slice body)
{
	struct buf *b = &c->out;

	if (http_put_status_line(b, status, NULL) < 0 || http_put_field(b, "Content-Type", slice_str(content_type)) < 0 ||
		http_put_field_u64(b, "Content-Length", body.len) < 0 ||
		http_put_field(b, "Cache-Control", SLICE_LIT("no-store")) < 0 ||
		http_put_field(b, "X-Content-Type-Options", SLICE_LIT("nosniff")) < 0 ||
		(status == 405 && http_put_field(b, "Allow", SLICE_LIT("GET, HEAD")) < 0) ||
		http_put_field(b, "Connection", SLICE_LIT("close")) < 0 || http_put_end(b) < 0 ||
		(!c->head_only && buf_put_slice(b, body) < 0)) {
		conn_close(c);
		return;
	}
	event_del(c->readable);
	event_add(c->writable, NULL);
}

static void refuse(struct conn *c, int status, const char *why)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "%s\n", why);

	respond(c, status, "text/plain; charset=utf-8", slice_make(text, n > 0 && n < (int)sizeof(text) ? (size_t)n : 0));
}

static void refuse_path(struct conn *c)
{
	struct buf b;

	buf_init(&b, 1024);
	if (buf_puts(&b, "there is nothing here; try") == 0)
		for (const struct admin_route *r = c->admin->routes; r->path != NULL; r++)
			if (buf_putf(&b, " %s", r->path) < 0)
				break;
	if (buf_putc(&b, '\0') == 0)
		refuse(c, 404, buf_head(&b));
	else
		refuse(c, 404, "there is nothing here");
	buf_release(&b);
}

/* An address or "localhost", with or without a port: what no foreign page's name can be. */
static bool host_is_local(struct slice host)
{
	size_t n = 0;
	bool digits = true;

	if (host.len > 0 && host.p[0] == '[')
		return true;
	while (n < host.len && host.p[n] != ':') {
		digits = digits && ((host.p[n] >= '0' && host.p[n] <= '9') || host.p[n] == '.');
		n++;
	}
	return n > 0 && (digits || slice_case_is(slice_make(host.p, n), "localhost"));
}

static void dispatch(struct conn *c)
{
	const char *p = buf_head(&c->in);
	struct slice target = http_span(p, c->head.target);
	const struct admin_route *r = c->admin->routes;

	c->head_only = c->head.method == HTTP_HEAD;
	if (c->head.method != HTTP_GET && c->head.method != HTTP_HEAD) {
		refuse(c, 405, "only GET and HEAD");
		return;
	}
	if (c->head.framing != HTTP_BODY_NONE && c->head.content_length != 0) {
		refuse(c, 400, "a body is not taken here");
		return;
	}
	if (!c->is_unix && !host_is_local(http_field_value(&c->head, p, HTTP_F_HOST))) {
		refuse(c, 421, "Host must be an address or localhost");
		return;
	}
	while (r->path != NULL && !slice_is(target, r->path))
		r++;
	if (r->path == NULL) {
		refuse_path(c);
		return;
	}
	c->call = malloc(sizeof(*c->call));
	if (c->call == NULL) {
		conn_close(c);
		return;
	}
	c->call->conn = c;
	r->answer(c->call, c->admin->arg);
}

void admin_answer(struct admin_call *call, int status, const char *content_type, struct slice body)
{
	struct conn *c = call->conn;

	free(call);
	if (c == NULL)
		return;
	c->call = NULL;
	respond(c, status, content_type, body);
}

/* While a route is thinking, only the client's end is of interest. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	char *room = buf_reserve(&c->in, 2048);
	ssize_t n = room != NULL ? recv(fd, room, 2048, MSG_DONTWAIT) : 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_close(c);
		return;
	}
	buf_commit(&c->in, (size_t)n);
	if (c->call != NULL)
		return;
	switch (http_head_read(&c->head, buf_head(&c->in), buf_len(&c->in))) {
	case HTTP_MORE:
	case HTTP_DATA:
		break;
	case HTTP_DONE:
		dispatch(c);
		break;
	case HTTP_BAD:
		refuse(c, http_reason_status(c->head.reason), http_reason_text(c->head.reason));
		break;
	}
}

static void on_accept(int fd, const struct peer *peer, void *arg)
{
	const struct timeval limit = { ADMIN_DEADLINE_S, 0 };
	struct admin *a = arg;
	struct conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		close(fd);
		return;
	}
	c->admin = a;
	c->fd = fd;
	c->is_unix = peer->is_unix;
	buf_init(&c->in, ADMIN_HEAD_MAX + 2048);
	buf_init(&c->out, ADMIN_MAX_ANSWER + 1024);
	http_head_init(&c->head, HTTP_REQUEST, ADMIN_HEAD_MAX);
	TAILQ_INSERT_TAIL(&a->conns, c, entry);
	if (++a->nconns == ADMIN_MAX_CONNECTIONS)
		listener_pause(a->listener);
	c->readable = event_new(a->base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->writable = event_new(a->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
	c->deadline = evtimer_new(a->base, on_deadline, c);
	if (c->readable == NULL || c->writable == NULL || c->deadline == NULL || event_add(c->readable, NULL) < 0 ||
		event_add(c->deadline, &limit) < 0)
		conn_close(c);
}

struct admin *admin_new(struct event_base *base, int fd, const struct admin_route *routes, void *arg)
{
	struct admin *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	TAILQ_INIT(&a->conns);
	a->base = base;
	a->routes = routes;
	a->arg = arg;
	a->listener = listener_new(base, fd, on_accept, a);
	if (a->listener == NULL) {
		free(a);
		return NULL;
	}
	return a;
}

void admin_free(struct admin *a)
{
	struct conn *c;

	if (a == NULL)
		return;
	while ((c = TAILQ_FIRST(&a->conns)) != NULL)
		conn_close(c);
	listener_free(a->listener);
	free(a);
}
