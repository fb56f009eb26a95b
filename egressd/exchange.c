/*
 * One plain HTTP request and its answer: heads written anew, bodies streamed with back-pressure both ways.
 *
 * The connection to the origin may serve the next request of the same client to the same host and port; it never serves
 * another client. Each request was judged before it comes here.
 */
#include "egressd/exchange.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egressd/forward.h"
#include "egressd/session.h"
#include "libgate/log.h"

#define ORIGIN_IN_MAX (64 * 1024)
#define ORIGIN_OUT_MAX (1024 * 1024)
#define REQUEST_HEAD_MAX (HTTP_MAX_HEAD + 4096)
#define INTERIM_MAX 16 /* 1xx answers to one request */

struct exchange {
	struct stream origin; /* fd -1: none */
	struct host host; /* of the connection */
	uint16_t port;
	struct addr address;
	bool running;

	/* the request in hand */
	enum http_method method;
	uint8_t minor;
	bool client_keeps;
	bool upgrade;
	bool expects; /* the body is kept back until the host asks for it */
	bool can_retry; /* nothing but its head was sent, and sending it twice does no harm */
	bool reused; /* the connection served an earlier request */
	bool request_done;
	bool chunked_up;
	struct http_body up;
	struct buf request; /* its head, kept while it may have to be sent again */
	size_t charged; /* of the pool, for it */
	uint64_t bytes_up;

	/* the answer */
	bool head_sent;
	bool origin_keeps;
	bool chunked_down;
	bool close_after; /* the client's connection ends with this answer */
	bool response_done;
	bool switched; /* to websocket, after a 101 */
	unsigned interim;
	enum http_framing framing;
	struct http_body down;
	uint64_t bytes_down;
	int64_t active_ms;
	int64_t started_ms;
};

void exchange_bytes(const struct session *s, uint64_t *up, uint64_t *down)
{
	*up = s->exchange != NULL ? s->exchange->bytes_up : 0;
	*down = s->exchange != NULL ? s->exchange->bytes_down : 0;
}

static void forget_request(struct session *s)
{
	struct exchange *x = s->exchange;

	buf_release(&x->request);
	stream_pool_charge(&s->egress->pool, &x->charged, 0);
}

void exchange_drop_origin(struct session *s)
{
	if (s->exchange == NULL)
		return;
	stream_close(&s->exchange->origin);
	s->exchange->running = false;
	forget_request(s);
}

void exchange_release(struct session *s)
{
	exchange_drop_origin(s);
	free(s->exchange);
	s->exchange = NULL;
}

int exchange_prepare(struct session *s)
{
	const struct http_head *h = s->head;
	const char *p = buf_head(&s->client.in);
	struct exchange *x = s->exchange;

	if (x == NULL) {
		x = calloc(1, sizeof(*x));
		if (x == NULL)
			return -1;
		stream_none(&x->origin);
		s->exchange = x;
	}
	forget_request(s);
	buf_init(&x->request, REQUEST_HEAD_MAX);
	x->method = h->method;
	x->minor = h->minor;
	x->client_keeps = h->keep_alive && h->minor >= 1; /* a 1.0 client would have to be told so */
	x->upgrade = forward_upgrades(h, p);
	x->expects = h->expect_continue;
	x->can_retry =
		h->framing == HTTP_BODY_NONE && (h->method == HTTP_GET || h->method == HTTP_HEAD || h->method == HTTP_OPTIONS);
	x->chunked_up = h->framing == HTTP_BODY_CHUNKED;
	x->request_done = h->framing == HTTP_BODY_NONE;
	http_body_init(&x->up, h->framing, h->content_length, UINT64_MAX);
	if (forward_request(&x->request, h, p, &s->dest, x->upgrade) != 0)
		return -1;
	stream_pool_charge(&s->egress->pool, &x->charged, x->request.cap);
	return 0;
}

bool exchange_can_reuse(const struct session *s)
{
	const struct exchange *x = s->exchange;

	return x != NULL && x->origin.fd >= 0 && !x->origin.eof && !x->origin.failed && buf_len(&x->origin.in) == 0 &&
		x->port == s->dest.port && slice_eq(host_slice(&x->host), host_slice(&s->dest.host)) &&
		egress_address_stands(s->egress, &x->host, &x->address);
}

/* --- ends -------------------------------------------------------------------------------------------------------- */

/* The answer cannot be finished: before its head that is an answer of ours, behind it a visible cut. */
static void fail(struct session *s, enum reason reason)
{
	struct exchange *x = s->exchange;
	bool answered = x->head_sent;

	session_log_close(s, reason_id(reason), x->bytes_up, x->bytes_down);
	if (answered || buf_len(&s->client.out) > 0) {
		s->egress->metrics.requests[reason]++;
		session_close(s, true);
		return;
	}
	s->keep = x->client_keeps && x->request_done && !s->client.eof;
	exchange_drop_origin(s);
	refuse(s, reason, NULL);
}

static void finish(struct session *s)
{
	struct exchange *x = s->exchange;
	bool keep_origin = x->origin_keeps && x->request_done && x->origin.fd >= 0 && !x->origin.eof &&
		buf_len(&x->origin.in) == 0 && buf_len(&x->origin.out) == 0;

	session_log_close(s, "closed", x->bytes_up, x->bytes_down);
	x->running = false;
	forget_request(s);
	if (!keep_origin)
		stream_close(&x->origin);
	else
		stream_more(&x->origin);
	s->keep = !x->close_after && x->request_done && !s->egress->draining;
	session_end_request(s);
	if (buf_len(&s->client.out) > 0) { /* drained comes back */
		session_set_state(s, SESSION_ANSWER, s->egress->conf->timeouts.idle);
		return;
	}
	session_answered(s);
}

/* --- bodies ------------------------------------------------------------------------------------------------------ */

static bool over_budget(struct session *s, size_t more)
{
	const struct egress_limits *l = &s->egress->conf->limits;
	struct exchange *x = s->exchange;

	s->egress->bytes += more;
	return l->connection_bytes > 0 && x->bytes_up + x->bytes_down > (uint64_t)l->connection_bytes;
}

static int put_body(struct buf *out, struct slice data, bool chunked)
{
	return chunked ? forward_chunk(out, data) : buf_put_slice(out, data);
}

/* Client to origin, as much as its buffer takes. False when the session was closed or refused. */
static bool fill_up(struct session *s)
{
	struct exchange *x = s->exchange;
	struct buf *in = &s->client.in, *out = &x->origin.out;

	while (!x->request_done && !stream_full(&x->origin)) {
		struct slice data = SLICE_LIT("");
		size_t used = 0;
		enum http_result r = http_body_read(&x->up, buf_head(in), buf_len(in), &used, &data);

		if (r == HTTP_BAD) {
			s->keep = false;
			x->client_keeps = false;
			session_log_close(s, http_reason_id(x->up.reason), x->bytes_up, x->bytes_down);
			if (x->head_sent)
				session_close(s, true);
			else
				refuse_malformed(s, x->up.reason);
			return false;
		}
		if (r == HTTP_DATA && put_body(out, data, x->chunked_up) != 0) {
			fail(s, REASON_INTERNAL);
			return false;
		}
		x->bytes_up += data.len;
		s->egress->metrics.bytes_up_total += data.len;
		buf_consume(in, used);
		if (over_budget(s, data.len)) {
			fail(s, REASON_BUDGET);
			return false;
		}
		if (r == HTTP_DONE) {
			x->request_done = true;
			if (x->chunked_up && forward_last_chunk(out) != 0) {
				fail(s, REASON_INTERNAL);
				return false;
			}
		} else if (r == HTTP_MORE) {
			break;
		}
	}
	return true;
}

/* Client to origin. False when the session was closed or refused. */
static bool pump_up(struct session *s)
{
	struct exchange *x = s->exchange;
	struct buf *in = &s->client.in, *out = &x->origin.out;
	bool full;

	do {
		if (!fill_up(s))
			return false;
		full = stream_full(&x->origin);
		if (x->origin.fd >= 0 && stream_flush(&x->origin) != 0) {
			/* The origin may have answered before it went: what it said is read first. */
			buf_clear(out);
			x->origin_keeps = false;
			full = false;
		}
	} while (full && !stream_full(&x->origin)); /* as in pump_down() */
	if (!x->request_done && s->client.eof && buf_len(in) == 0) { /* half a body */
		session_log_close(s, "reset", x->bytes_up, x->bytes_down);
		session_close(s, true);
		return false;
	}
	if (!x->request_done)
		stream_more(&s->client);
	return true;
}

/* The head of the answer, or an interim one. False: wait for more, or the session is gone. */
static bool read_head(struct session *s)
{
	struct exchange *x = s->exchange;
	struct buf *in = &x->origin.in;
	struct http_head *h = s->head;
	struct forward_response how = { false, false, false };

	switch (http_head_read(h, buf_head(in), buf_len(in))) {
	case HTTP_MORE:
	case HTTP_DATA:
		if (stream_starved(&x->origin))
			fail(s, REASON_BUFFERS);
		return false;
	case HTTP_BAD:
		fail(s, REASON_ORIGIN_MALFORMED);
		return false;
	case HTTP_DONE:
		break;
	}
	if (h->status < 200) {
		bool switching = h->status == 101;
		if (switching &&
			(!x->upgrade || !h->upgrade ||
				!slice_case_is(http_field_value(h, buf_head(in), HTTP_F_UPGRADE), "websocket"))) {
			fail(s, REASON_ORIGIN_UPGRADE);
			return false;
		}
		how.upgrade = switching;
		if (++x->interim > INTERIM_MAX) {
			fail(s, REASON_ORIGIN_MALFORMED);
			return false;
		}
		/* HTTP/1.0 clients know no interim answers. */
		if ((switching || x->minor >= 1) && forward_response(&s->client.out, h, buf_head(in), &how) != 0) {
			fail(s, REASON_INTERNAL);
			return false;
		}
		buf_consume(in, h->length);
		http_head_init(h, HTTP_RESPONSE | HTTP_LENIENT_RESPONSE | HTTP_TE_ANY_CASE, HTTP_MAX_HEAD);
		if (switching) {
			x->head_sent = true;
			x->switched = true;
		}
		return !switching;
	}
	if (http_response_framing(h, x->method) != HTTP_DONE) {
		fail(s, REASON_ORIGIN_MALFORMED);
		return false;
	}
	x->framing = h->framing;
	x->origin_keeps = h->keep_alive && h->framing != HTTP_BODY_EOF;
	x->chunked_down = h->framing == HTTP_BODY_CHUNKED && x->minor >= 1;
	x->close_after = !x->client_keeps || h->framing == HTTP_BODY_EOF || !x->request_done || s->client.eof ||
		(h->framing == HTTP_BODY_CHUNKED && x->minor == 0) || s->egress->draining;
	how.chunked = x->chunked_down;
	how.close = x->close_after;
	http_body_init(&x->down, h->framing, h->content_length, UINT64_MAX);
	x->down.lenient = true; /* origins are as they are; the client gets chunks of our own */
	if (forward_response(&s->client.out, h, buf_head(in), &how) != 0) {
		fail(s, REASON_INTERNAL);
		return false;
	}
	x->head_sent = true;
	x->can_retry = false;
	buf_consume(in, h->length);
	forget_request(s);
	x->response_done = x->framing == HTTP_BODY_NONE;
	return true;
}

/* After a 101 both sides speak freely; what has been read so far goes first. */
static void switch_protocols(struct session *s)
{
	struct exchange *x = s->exchange;

	if (buf_len(&s->client.out) > 0) /* drained comes back */
		return;
	tunnel_relay(s, stream_detach(&x->origin), buf_slice(&x->origin.in));
	if (s->state != SESSION_CLOSED)
		exchange_release(s);
}

/* Moves the body of the answer on. False when the session was closed. */
static bool pump_body(struct session *s)
{
	struct exchange *x = s->exchange;
	struct buf *in = &x->origin.in, *out = &s->client.out;

	while (!x->response_done && !stream_full(&s->client)) {
		struct slice data = SLICE_LIT("");
		size_t used = 0;
		enum http_result r = HTTP_DATA;

		if (x->framing == HTTP_BODY_EOF) {
			data = buf_slice(in);
			used = data.len;
			if (used == 0)
				r = HTTP_MORE;
		} else {
			r = http_body_read(&x->down, buf_head(in), buf_len(in), &used, &data);
		}
		if (r == HTTP_BAD) {
			fail(s, REASON_ORIGIN_MALFORMED);
			return false;
		}
		if (r == HTTP_DATA && put_body(out, data, x->chunked_down) != 0) {
			fail(s, REASON_INTERNAL);
			return false;
		}
		x->bytes_down += data.len;
		s->egress->metrics.bytes_down_total += data.len;
		buf_consume(in, used);
		if (over_budget(s, data.len)) {
			fail(s, REASON_BUDGET);
			return false;
		}
		if (r == HTTP_DONE) {
			x->response_done = true;
			if (x->chunked_down && forward_last_chunk(out) != 0) {
				fail(s, REASON_INTERNAL);
				return false;
			}
		} else if (r == HTTP_MORE) {
			break;
		}
	}
	if (!x->response_done && x->origin.eof && buf_len(in) == 0) {
		if (x->framing == HTTP_BODY_EOF) {
			x->response_done = true;
		} else {
			fail(s, REASON_ORIGIN_CLOSED);
			return false;
		}
	}
	return true;
}

static void retry(struct session *s)
{
	struct exchange *x = s->exchange;

	log_debug("%s %s: the kept connection to %s was closed: once more on a new one", s->peer, s->id, x->host.name);
	stream_close(&x->origin);
	x->running = false;
	ladder_reconnect(s);
}

/* Origin to client, as far as both allow; then whatever its end asks for. */
static void pump_down(struct session *s)
{
	struct exchange *x = s->exchange;
	bool full;

	while (!x->head_sent) {
		if (buf_len(&x->origin.in) > 0) {
			x->can_retry = false;
			if (read_head(s))
				continue;
			if (s->state != SESSION_EXCHANGE || x != s->exchange || x->head_sent)
				break;
		}
		if (x->origin.eof || x->origin.failed) {
			if (x->reused && x->can_retry)
				retry(s);
			else
				fail(s, REASON_ORIGIN_CLOSED);
			return;
		}
		stream_more(&x->origin);
		break;
	}
	if (s->state != SESSION_EXCHANGE)
		return;
	do {
		if (x->head_sent && !x->switched && !pump_body(s))
			return;
		full = stream_full(&s->client);
		if (buf_len(&s->client.out) > 0 && stream_flush(&s->client) != 0) {
			session_log_close(s, "reset", x->bytes_up, x->bytes_down);
			session_close(s, true);
			return;
		}
		/* Full, and at once empty: nothing would ever say so, and what stands in the other buffer would stay there. */
	} while (full && !stream_full(&s->client));
	if (x->switched) {
		switch_protocols(s);
		return;
	}
	if (x->response_done) {
		finish(s);
		return;
	}
	if (!stream_full(&s->client))
		stream_more(&x->origin);
}

/* --- the origin's stream ----------------------------------------------------------------------------------------- */

static void on_origin_input(struct stream *stream)
{
	struct session *s = stream->owner;
	struct exchange *x = s->exchange;

	if (!x->running) { /* between two requests nothing may come */
		stream_close(stream);
		return;
	}
	x->active_ms = egress_now_ms();
	pump_down(s);
}

static void on_origin_drained(struct stream *stream)
{
	struct session *s = stream->owner;

	if (!s->exchange->running)
		return;
	s->exchange->active_ms = egress_now_ms();
	(void)pump_up(s);
}

static void on_origin_failed(struct stream *stream, int error)
{
	struct session *s = stream->owner;
	struct exchange *x = s->exchange;

	(void)error;
	if (!x->running) {
		stream_close(stream);
		return;
	}
	if (x->framing == HTTP_BODY_EOF && x->head_sent) { /* the reset is the only sign that the body is cut */
		fail(s, REASON_ORIGIN_CLOSED);
		return;
	}
	pump_down(s);
	if (s->state == SESSION_EXCHANGE && s->exchange == x && x->running && x->origin.failed && !stream_full(&s->client))
		fail(s, REASON_ORIGIN_CLOSED);
}

static const struct stream_ops origin_ops = { on_origin_input, on_origin_drained, on_origin_failed };

/* --- steps of the session ---------------------------------------------------------------------------------------- */

void exchange_begin(struct session *s, int origin_fd)
{
	const struct egress_timeouts *t = &s->egress->conf->timeouts;
	struct exchange *x = s->exchange;
	int one = 1;

	x->reused = origin_fd < 0;
	if (origin_fd >= 0) {
		stream_close(&x->origin);
		(void)setsockopt(origin_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
		stream_open(&x->origin, s->egress->base, &s->egress->pool, origin_fd, ORIGIN_IN_MAX, ORIGIN_OUT_MAX,
			&origin_ops, s);
		x->host = s->dest.host;
		x->port = s->dest.port;
		x->address = s->address;
	} else {
		s->address = x->address;
		session_log_allowed(s);
	}
	x->running = true;
	x->head_sent = false;
	x->response_done = false;
	x->switched = false;
	x->close_after = false;
	x->origin_keeps = false;
	x->interim = 0;
	x->framing = HTTP_BODY_NONE;
	x->bytes_up = 0;
	x->bytes_down = 0;
	x->started_ms = egress_now_ms();
	x->active_ms = x->started_ms;
	s->egress->metrics.exchanges_total++;
	http_head_init(s->head, HTTP_RESPONSE | HTTP_LENIENT_RESPONSE | HTTP_TE_ANY_CASE, HTTP_MAX_HEAD);
	session_set_state(s, SESSION_EXCHANGE,
		t->connection > 0 && t->connection < t->response ? t->connection : t->response);
	if (buf_put_slice(&x->origin.out, buf_slice(&x->request)) != 0) {
		fail(s, REASON_INTERNAL);
		return;
	}
	if (!x->reused || !x->can_retry)
		forget_request(s);
	(void)pump_up(s);
}

void exchange_client_input(struct session *s)
{
	struct exchange *x = s->exchange;

	x->active_ms = egress_now_ms();
	if (!x->request_done)
		(void)pump_up(s);
}

void exchange_client_drained(struct session *s)
{
	struct exchange *x = s->exchange;

	x->active_ms = egress_now_ms();
	if (x->switched)
		switch_protocols(s);
	else
		pump_down(s);
}

/* Everything that came has gone out, and more was promised: it is the client that is late. */
static bool client_is_late(const struct exchange *x)
{
	return !x->head_sent && !x->request_done && buf_len(&x->origin.out) == 0 && !(x->expects && x->interim == 0);
}

void exchange_timeout(struct session *s, int64_t now_ms)
{
	const struct egress_timeouts *t = &s->egress->conf->timeouts;
	struct exchange *x = s->exchange;
	int64_t limit = x->head_sent ? t->idle : t->response;

	if (t->connection > 0 && now_ms - x->started_ms >= t->connection) {
		fail(s, REASON_BUDGET);
		return;
	}
	if (now_ms - x->active_ms >= limit) {
		fail(s, client_is_late(x) ? REASON_BODY_TIMEOUT : REASON_ORIGIN_TIMEOUT);
		return;
	}
	limit -= now_ms - x->active_ms;
	if (t->connection > 0 && x->started_ms + t->connection - now_ms < limit)
		limit = x->started_ms + t->connection - now_ms;
	session_set_state(s, SESSION_EXCHANGE, limit);
}
