/* Upgrades one connection to an exec's stream. */
#include "controller/hijack.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

#include "controller/mem.h"
#include "libgate/buf.h"
#include "libgate/http1.h"

#define ANSWER_MAX ((size_t)64 * 1024) /* head and a refusal's body */

struct hijack {
	struct engine_call *connecting;
	struct event *event;
	struct event_base *base;
	int fd;
	struct buf out;
	struct buf in;
	struct http_head head;
	struct http_body body;
	struct buf message; /* a refusal's body */
	bool sent; /* at least one byte went out */
	bool head_done;
	struct timeval timeout;
	hijack_cb cb;
	void *arg;
};

static void hijack_free(struct hijack *h)
{
	if (h->connecting != NULL)
		engine_cancel(h->connecting);
	if (h->event != NULL)
		event_free(h->event);
	if (h->fd >= 0)
		close(h->fd);
	buf_release(&h->out);
	buf_release(&h->in);
	buf_release(&h->message);
	free(h);
}

void hijack_cancel(struct hijack *h)
{
	hijack_free(h);
}

static void finish(struct hijack *h, struct hijack_result *r)
{
	hijack_cb cb = h->cb;
	void *arg = h->arg;

	if (r->fd >= 0)
		h->fd = -1;
	if (h->event != NULL)
		event_free(h->event);
	h->event = NULL;
	cb(r, arg);
	hijack_free(h);
}

static void fail(struct hijack *h, int code, const char *text)
{
	struct hijack_result r = { .fd = -1, .maybe_started = h->sent, .err = ERR_INIT };

	err_set(&r.err, code, "exec start: %s", text);
	finish(h, &r);
}

/* A whole answer that is no upgrade. */
static void refused(struct hijack *h)
{
	struct hijack_result r = { .fd = -1, .err = ERR_INIT };
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	struct slice message = SLICE_LIT("(no message)");
	bool from_engine = false, from_proxy = false;

	for (unsigned i = 0; i < h->head.nfields; i++) {
		struct slice name = http_span(buf_head(&h->in), h->head.fields[i].name);
		from_engine = from_engine || slice_case_is(name, "Api-Version");
		from_proxy = from_proxy || slice_case_is(name, "X-Dockerproxy-Reason");
	}
	const struct json_node *json =
		doc != NULL ? json_parse(doc, buf_slice(&h->message), JSON_STRICT, &fault, &offset) : NULL;
	bool said = json_get_string(json, "message", &message);
	if (message.len > 300)
		message.len = 300;
	if (from_engine && said && !from_proxy) {
		r.status = h->head.status;
		err_set(&r.err,
			r.status == 409       ? EEXIST
				: r.status == 404 ? ENOENT
								  : EAGAIN,
			"exec start: %.*s", SLICE_ARG(message));
	} else if (from_proxy) {
		r.maybe_started = h->head.status >= 500;
		err_set(&r.err, h->head.status == 403 ? EACCES : EAGAIN, "%.*s", SLICE_ARG(message));
	} else {
		r.maybe_started = true;
		err_set(&r.err, EAGAIN, "exec start: status %d, and not from the engine (no Api-Version)", h->head.status);
	}
	finish(h, &r);
	json_doc_free(doc);
}

static void upgraded(struct hijack *h)
{
	struct hijack_result r = { .fd = h->fd, .err = ERR_INIT };

	r.early = slice_skip(buf_slice(&h->in), h->head.length);
	finish(h, &r);
}

/* Reads the body of a refusal; true when it is complete. */
static bool refusal_complete(struct hijack *h, size_t from, bool eof)
{
	struct slice rest = slice_skip(buf_slice(&h->in), from);

	/* The body is read again from its beginning on every arrival: it is small, and the state stays simple. */
	buf_clear(&h->message);
	http_body_init(&h->body, h->head.framing, h->head.content_length, ANSWER_MAX);
	for (;;) {
		size_t used = 0;
		struct slice data = { NULL, 0 };

		switch (http_body_read(&h->body, rest.p, rest.len, &used, &data)) {
		case HTTP_DATA:
			if (buf_put_slice(&h->message, data) != 0)
				return true;
			rest = slice_skip(rest, used);
			break;
		case HTTP_MORE:
			return eof;
		case HTTP_DONE:
		case HTTP_BAD:
			return true;
		}
	}
}

static void on_input(struct hijack *h, bool eof)
{
	if (!h->head_done) {
		switch (http_head_read(&h->head, buf_len(&h->in) > 0 ? buf_head(&h->in) : "", buf_len(&h->in))) {
		case HTTP_MORE:
			if (eof)
				fail(h, ECONNRESET, "the connection was closed before an answer");
			return;
		case HTTP_BAD:
		case HTTP_DATA:
			fail(h, EPROTO, "the answer is not HTTP");
			return;
		case HTTP_DONE:
			break;
		}
		h->head_done = true;
		if (h->head.status == 101) {
			upgraded(h);
			return;
		}
		if (http_response_framing(&h->head, HTTP_POST) == HTTP_BAD) {
			fail(h, EPROTO, "the answer's framing is not understood");
			return;
		}
	}
	if (refusal_complete(h, h->head.length, eof))
		refused(h);
}

static void on_event(evutil_socket_t fd, short what, void *arg);

static void watch(struct hijack *h, short what)
{
	event_del(h->event);
	event_assign(h->event, h->base, h->fd, what, on_event, h);
	event_add(h->event, &h->timeout);
}

static void send_request(struct hijack *h)
{
	while (buf_len(&h->out) > 0) {
		ssize_t n = send(h->fd, buf_head(&h->out), buf_len(&h->out), MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			watch(h, EV_WRITE);
			return;
		}
		if (n < 0) {
			fail(h, errno, strerror(errno));
			return;
		}
		h->sent = true;
		buf_consume(&h->out, (size_t)n);
	}
	watch(h, EV_READ);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct hijack *h = arg;

	if (what & EV_TIMEOUT) {
		fail(h, ETIMEDOUT, "no answer in time");
		return;
	}
	if (what & EV_WRITE) {
		send_request(h);
		return;
	}
	char *room = buf_reserve(&h->in, 4096);
	if (room == NULL) {
		fail(h, EMSGSIZE, "the answer is too large");
		return;
	}
	ssize_t n = recv(h->fd, room, 4096, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		watch(h, EV_READ);
		return;
	}
	if (n < 0) {
		fail(h, errno, strerror(errno));
		return;
	}
	buf_commit(&h->in, (size_t)n);
	watch(h, EV_READ);
	on_input(h, n == 0);
}

static void on_connected(const struct engine_reply *reply, void *arg)
{
	struct hijack *h = arg;

	h->connecting = NULL;
	if (reply->err.text[0] != '\0') {
		fail(h, reply->err.code, reply->err.text);
		return;
	}
	h->fd = reply->fd;
	h->event = event_new(h->base, h->fd, EV_WRITE, on_event, h);
	if (h->event == NULL)
		abort();
	send_request(h);
}

static int put_request(struct hijack *h, const char *exec_id, bool tty, unsigned api_minor)
{
	auto_free char *target = mem_printf("/v1.%u/exec/%s/start", api_minor, exec_id);
	auto_free char *body = mem_printf("{\"Detach\":false,\"Tty\":%s}", tty ? "true" : "false");

	if (http_put_request_line(&h->out, SLICE_LIT("POST"), slice_str(target)) != 0 ||
		http_put_field(&h->out, "Host", SLICE_LIT("docker")) != 0 ||
		http_put_field(&h->out, "Content-Type", SLICE_LIT("application/json")) != 0 ||
		http_put_field_u64(&h->out, "Content-Length", strlen(body)) != 0 ||
		http_put_field(&h->out, "Connection", SLICE_LIT("Upgrade")) != 0 ||
		http_put_field(&h->out, "Upgrade", SLICE_LIT("tcp")) != 0 || http_put_end(&h->out) != 0)
		return -1;
	return buf_puts(&h->out, body);
}

struct hijack *hijack_exec(struct engine *e, const char *exec_id, bool tty, int64_t timeout_ms, hijack_cb cb, void *arg)
{
	struct hijack *h = mem_zalloc(sizeof(*h));

	h->base = engine_base(e);
	h->cb = cb;
	h->arg = arg;
	h->fd = -1;
	h->timeout = (struct timeval){ timeout_ms / 1000, (timeout_ms % 1000) * 1000 };
	buf_init(&h->out, 4096);
	buf_init(&h->in, ANSWER_MAX);
	buf_init(&h->message, ANSWER_MAX);
	http_head_init(&h->head, HTTP_RESPONSE, HTTP_MAX_HEAD);
	if (put_request(h, exec_id, tty, engine_api_minor(e)) != 0)
		abort();
	h->connecting = engine_connect(e, timeout_ms, on_connected, h);
	return h;
}
