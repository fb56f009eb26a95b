/* The answers that are egressd's own: a status with the reason in phrase, fields and text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egressd/connect.h"
#include "egressd/exchange.h"
#include "libgate/dns_resolve.h"
#include "egressd/session.h"

#define ANSWER_MS 15000
#define LINGER_MS 2000
#define TEXT_MAX 1024

struct refusal {
	int status;
	const char *id;
	const char *text;
	const char *proxy_status;
	const char *detail;
};

static int put_text(struct buf *out, const struct session *s, const struct refusal *r)
{
	if (buf_putf(out, "egressd: %d %s (%s)\n", r->status, r->text, r->id) != 0)
		return -1;
	if (s->dest.host.len > 0 && buf_putf(out, "host: %s port %u\n", s->dest.host.name, (unsigned)s->dest.port) != 0)
		return -1;
	if (r->detail != NULL && buf_putf(out, "detail: %s\n", r->detail) != 0)
		return -1;
	return buf_putf(out, "request: %s\n", s->id);
}

/* RFC 9209. The details are a quoted string of printable ASCII without quotes: ids and table texts. */
static int put_proxy_status(struct buf *out, const struct refusal *r)
{
	return buf_putf(out, "Proxy-Status: egressd; error=%s; details=\"%s\"\r\n", r->proxy_status, r->id);
}

static int put_answer(struct session *s, const struct refusal *r)
{
	struct buf *out = &s->client.out, text;
	bool head = strcmp(s->method, "HEAD") == 0;
	char phrase[256];
	int rc = -1;

	buf_init(&text, TEXT_MAX);
	snprintf(phrase, sizeof(phrase), "%s (%s)", r->text, r->id);
	if (put_text(&text, s, r) == 0 && http_put_status_line(out, r->status, phrase) == 0 &&
		put_proxy_status(out, r) == 0 && http_put_field(out, "X-Request-Id", slice_str(s->id)) == 0 &&
		http_put_field(out, "Cache-Control", SLICE_LIT("no-store")) == 0 &&
		http_put_field(out, "Content-Type", SLICE_LIT("text/plain; charset=utf-8")) == 0 &&
		http_put_field_u64(out, "Content-Length", buf_len(&text)) == 0 &&
		(r->status != 503 || http_put_field(out, "Retry-After", SLICE_LIT("1")) == 0) &&
		(r->status != 405 ||
			http_put_field(out, "Allow", SLICE_LIT("CONNECT, GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS")) == 0) &&
		(s->keep || http_put_field(out, "Connection", SLICE_LIT("close")) == 0) && http_put_end(out) == 0 &&
		(head || buf_put_slice(out, buf_slice(&text)) == 0))
		rc = 0;
	buf_release(&text);
	return rc;
}

void session_answered(struct session *s)
{
	if (s->keep) {
		session_end_request(s);
		session_set_state(s, SESSION_WAIT, s->egress->conf->timeouts.keep_alive);
		session_next(s);
		return;
	}
	/* What still comes is read away for a while: closing on unread bytes would reset the answer. */
	session_end_request(s);
	shutdown(s->client.fd, SHUT_WR);
	session_set_state(s, SESSION_LINGER, LINGER_MS);
	buf_clear(&s->client.in);
	if (s->client.eof)
		session_close(s, false);
	else
		stream_more(&s->client);
}

static void send_refusal(struct session *s, const struct refusal *r)
{
	resolve_cancel(s->lookup);
	connect_cancel(s->connector);
	s->lookup = NULL;
	s->connector = NULL;
	if (s->origin_fd >= 0)
		close(s->origin_fd);
	s->origin_fd = -1;
	exchange_drop_origin(s);
	if (s->egress->draining)
		s->keep = false;
	session_set_state(s, SESSION_ANSWER, ANSWER_MS);
	if (put_answer(s, r) != 0 || stream_flush(&s->client) != 0) {
		session_close(s, true);
		return;
	}
	if (buf_len(&s->client.out) > 0)
		return;
	/* A kept connection goes on in the caller's loop, so that a run of refused requests is no recursion. */
	if (s->keep) {
		session_end_request(s);
		session_set_state(s, SESSION_WAIT, s->egress->conf->timeouts.keep_alive);
		return;
	}
	session_answered(s);
}

/* What the rules or the grammar say no to is denied; what could not be done has failed. */
static const char *decision_of(enum reason reason)
{
	return reason_status(reason) < 500 ? "deny" : "fail";
}

void refuse(struct session *s, enum reason reason, const char *detail)
{
	const struct refusal r = { reason_status(reason), reason_id(reason), reason_text(reason),
		reason_proxy_status(reason), detail };
	bool from_loop = s->state != SESSION_HEAD;

	if (s->dest.connect || (r.status != 403 && r.status != 502 && r.status != 504))
		s->keep = false;
	s->egress->metrics.requests[reason]++;
	session_log_decision(s, decision_of(reason), r.id, detail, r.status);
	send_refusal(s, &r);
	if (from_loop && s->state == SESSION_WAIT)
		session_next(s);
}

/* A CONNECT or URL with bytes outside ASCII deserves a better word than "not visible ASCII". */
static bool has_high_byte(struct slice s)
{
	const char *end = s.len > 0 ? memchr(s.p, '\r', s.len) : NULL;
	size_t n = end != NULL ? (size_t)(end - s.p) : s.len;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s.p[i] >= 0x80)
			return true;
	return false;
}

void refuse_malformed(struct session *s, enum http_reason reason)
{
	struct slice in = buf_slice(&s->client.in);
	struct refusal r = { http_reason_status(reason), http_reason_id(reason), http_reason_text(reason),
		"http_request_error", NULL };

	s->keep = false;
	if (reason == HTTP_REASON_TARGET && has_high_byte(in)) {
		refuse(s, REASON_HOST_NON_ASCII, NULL);
		return;
	}
	if (reason == HTTP_REASON_CODING) {
		refuse(s, REASON_TRANSFER_CODING, NULL);
		return;
	}
	s->egress->metrics.malformed++;
	session_log_decision(s, "deny", r.id, NULL, r.status);
	send_refusal(s, &r);
}
