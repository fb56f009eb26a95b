/* The client's side of a connection: its states, its timers, and the ladder from a request's first byte to its departure. */
#include "dockerproxy/session.h"

#include <assert.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "dockerproxy/clock.h"
#include "dockerproxy/owner.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/policy.h"
#include "dockerproxy/upstream.h"
#include "libgate/json.h"
#include "libgate/log.h"
#include "libgate/relay.h"

#define CHUNK_SLACK 8192 /* framing bytes of a chunked body that wait beside the body itself */
#define OUT_SLACK (256 * 1024)
#define LINGER_MS 2000
#define LINGER_MAX (1024 * 1024)

/* One rung: true when it moved the session on (a refusal does, too), false when it has to wait. */
static bool await_request(struct session *s);
static bool read_head(struct session *s);
static bool judge_head(struct session *s);
static bool read_body(struct session *s);
static bool judge_body(struct session *s);
static bool ask_owner(struct session *s);
static bool forward(struct session *s);
static bool skip_body(struct session *s);
static bool linger(struct session *s);

#define TO(state) (1u << SESSION_##state)

static const struct {
	const char *name;
	bool (*step)(struct session *s); /* NULL: moved on by the engine's side */
	unsigned next; /* states that may follow */
} ladder[SESSION_STATES] = {
	[SESSION_IDLE] = { "idle", await_request, TO(HEAD) | TO(CLOSED) },
	[SESSION_HEAD] = { "head", read_head, TO(JUDGE_HEAD) | TO(LINGER) | TO(CLOSED) },
	[SESSION_JUDGE_HEAD] = { "judge-head", judge_head,
		TO(BODY) | TO(OWNER) | TO(SKIP) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_BODY] = { "body", read_body, TO(JUDGE_BODY) | TO(SKIP) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_JUDGE_BODY] = { "judge-body", judge_body, TO(OWNER) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_OWNER] = { "owner", ask_owner, TO(FORWARD) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_FORWARD] = { "forward", forward, TO(ENGINE) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_ENGINE] = { "engine", NULL,
		TO(ANSWER) | TO(TUNNEL) | TO(JUDGE_HEAD) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_ANSWER] = { "answer", NULL, TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_SKIP] = { "skip", skip_body, TO(IDLE) | TO(CLOSED) },
	[SESSION_TUNNEL] = { "tunnel", NULL, TO(CLOSED) },
	[SESSION_LINGER] = { "linger", linger, TO(CLOSED) },
	[SESSION_CLOSED] = { "closed", NULL, 0 },
};

static const struct {
	const char *id;
	int status;
	const char *text;
} reasons[SESSION_REASON_COUNT] = {
#define ROW(sym, id, status, text) [SESSION_REASON_##sym] = { id, status, text },
#include "dockerproxy/session_reason.def"
#undef ROW
};

void session_set_state(struct session *s, enum session_state state)
{
	assert(ladder[s->state].next & 1u << state);
	if (log_get_level() == LOG_LEVEL_DEBUG)
		log_debug("session %p: %s -> %s", (void *)s, ladder[s->state].name, ladder[state].name);
	s->state = state;
}

void session_run(struct session *s)
{
	if (s->in_step)
		return;
	s->in_step = true;
	/* A client that does not take its answers gets no further ones. */
	while (ladder[s->state].step != NULL && !client_blocked(&s->client))
		if (!ladder[s->state].step(s))
			break;
	s->in_step = false;
}

/* --- timers ------------------------------------------------------------------------------------------------------- */

static void on_timer(evutil_socket_t fd, short what, void *arg);

/*
 * The timer is not moved when the deadline goes further away: it fires early once, sees that, and is set anew. A busy
 * connection thus touches it once in a while instead of several times a request.
 */
static void arm_timer(struct session *s, int64_t now_us)
{
	int64_t wait_us = s->deadline_us - now_us;
	struct timeval tv;

	if (s->deadline_us >= s->timer_us)
		return;
	if (wait_us < 1000)
		wait_us = 1000;
	tv.tv_sec = (time_t)(wait_us / 1000000);
	tv.tv_usec = (suseconds_t)(wait_us % 1000000);
	event_add(&s->timer, &tv);
	s->timer_us = s->deadline_us;
}

static void set_deadline_at(struct session *s, int64_t at_us)
{
	s->deadline_us = at_us;
	if (at_us < s->timer_us)
		arm_timer(s, clock_us());
}

void session_set_deadline(struct session *s, int64_t ms)
{
	set_deadline_at(s, ms == 0 ? INT64_MAX : clock_us() + ms * 1000);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct session *s = arg;
	int64_t now = clock_us();

	s->timer_us = INT64_MAX;
	if (now < s->deadline_us) {
		if (s->deadline_us != INT64_MAX)
			arm_timer(s, now);
		return;
	}
	s->deadline_us = INT64_MAX;
	if (client_blocked(&s->client)) {
		session_cut(s, SESSION_REASON_CLIENT_SLOW);
		return;
	}
	switch (s->state) {
	case SESSION_HEAD:
	case SESSION_BODY:
		s->closing = true;
		session_refuse(s, SESSION_REASON_REQUEST_TIMEOUT, NULL);
		return;
	case SESSION_OWNER:
	case SESSION_ENGINE:
		reply_abort(s);
		session_refuse(s, SESSION_REASON_ENGINE_TIMEOUT, NULL);
		return;
	case SESSION_ANSWER:
		session_cut(s, SESSION_REASON_ENGINE_TIMEOUT);
		return;
	case SESSION_IDLE:
	case SESSION_SKIP:
	case SESSION_LINGER:
		session_close(s);
		return;
	case SESSION_JUDGE_HEAD:
	case SESSION_JUDGE_BODY:
	case SESSION_FORWARD:
	case SESSION_TUNNEL:
	case SESSION_CLOSED:
	case SESSION_STATES:
		return;
	}
}

/* --- endings ------------------------------------------------------------------------------------------------------ */

static const struct endpoint_info *request_endpoint(const struct request *r)
{
	return r->verdict.endpoint != NULL ? endpoint_info(r->verdict.endpoint) : NULL;
}

static const char *const decision_words[METRICS_DECISIONS] = { "allow", "deny", "would_deny" };

static void write_record(struct session *s, const char *event, int64_t duration_us)
{
	struct audit *a = s->env->audit;
	const struct request *r = s->request;
	const struct endpoint_info *row = request_endpoint(r);
	const char *in = buf_slice(&s->client.in).p;

	if (audit_fd(a) < 0)
		return;
	audit_begin(a, event);
	audit_str(a, "request", request_id(r));
	audit_cstr(a, "peer", s->peer_text);
	audit_str(a, "method", r->head.method_text.len > 0 ? http_span(in, r->head.method_text) : slice_make("", 0));
	audit_cstr(a, "endpoint", row != NULL ? row->id : NULL);
	audit_str(a, "target", r->head.target.len > 0 ? http_span(in, r->head.target) : slice_make("", 0));
	audit_cstr(a, "object", r->verdict.object[0] != '\0' ? r->verdict.object : NULL);
	audit_cstr(a, "decision", decision_words[r->decision]);
	audit_cstr(a, "reason", r->reason);
	audit_cstr(a, "at", r->at[0] != '\0' ? r->at : NULL);
	audit_int(a, "status", r->status);
	audit_int(a, "bytesIn", (int64_t)r->body_at);
	audit_int(a, "bytesOut", (int64_t)(s->client.sent - r->sent_before));
	audit_int(a, "durationUs", duration_us);
	audit_int(a, "engineUs", r->engine_us);
	audit_cstr(a, "policy", policy_digest(s->listen->policy));
	audit_cstr(a, "mode", s->env->conf->mode == PROXY_WARN ? "warn" : "enforce");
	audit_end(a);
}

void session_record(struct session *s, const char *event)
{
	const struct request *r = s->request;
	const struct endpoint_info *row = request_endpoint(r);
	int64_t duration_us = clock_us() - r->began_us;
	bool read = r->head.method == HTTP_GET || r->head.method == HTTP_HEAD;

	if (r->decision != METRICS_ALLOW || r->reason != NULL || !read || s->env->conf->audit_reads)
		write_record(s, event, duration_us);
	if (strcmp(event, "decision") != 0)
		return;
	metrics_request(s->env->metrics, s->env->slot, row != NULL ? row->id : NULL, r->decision, r->reason, duration_us,
		r->engine_us);
}

enum answer_persistence session_persistence(const struct session *s)
{
	if (s->closing || s->env->draining)
		return ANSWER_CLOSE;
	return s->request->head.minor == 0 ? ANSWER_KEEP_10 : ANSWER_KEEP;
}

bool session_send(struct session *s)
{
	if (client_send(&s->client, &s->env->batch) < 0) {
		session_cut(s, SESSION_REASON_CLIENT_GONE);
		return false;
	}
	if (client_blocked(&s->client))
		session_set_deadline(s, s->env->conf->write_ms);
	return true;
}

static void release_request(struct session *s)
{
	if (s->request == NULL)
		return;
	request_give_back(&s->env->requests, s->request);
	s->request = NULL;
}

void session_close(struct session *s)
{
	struct session_env *env = s->env;
	struct metrics_counters *m = metrics_counters(env->metrics, env->slot);

	if (s->state == SESSION_CLOSED)
		return;
	reply_abort(s);
	if (s->relay != NULL)
		reply_end_tunnel(s);
	m->bytes_in += s->client.received;
	m->bytes_out += s->client.sent;
	m->connections_now--;
	event_del(&s->timer);
	client_close(&s->client);
	release_request(s);
	peers_leave(s->peer_entry);
	session_set_state(s, SESSION_CLOSED);
	TAILQ_REMOVE(&env->sessions, s, link);
	TAILQ_INSERT_TAIL(&env->dead, s, link);
	env->nsessions--;
	event_active(&env->reaper, EV_TIMEOUT, 0);
	env->on_close(env->on_close_arg);
}

void session_cut(struct session *s, enum session_reason why)
{
	if (s->state == SESSION_CLOSED)
		return;
	if (s->request != NULL) {
		s->request->reason = reasons[why].id;
		session_record(s, "decision");
	}
	session_close(s);
}

/* Until the last answer has been read, a close with unread input would destroy it (RFC 9112 section 9.6). */
static void begin_linger(struct session *s)
{
	session_set_state(s, SESSION_LINGER);
	session_set_deadline(s, client_blocked(&s->client) ? s->env->conf->write_ms : LINGER_MS);
	client_consume(&s->client, buf_len(&s->client.in));
	if (s->client.eof && !client_blocked(&s->client))
		session_close(s);
	else if (!client_blocked(&s->client))
		shutdown(s->client.fd, SHUT_WR);
}

void session_finish(struct session *s)
{
	struct request *r = s->request;

	session_record(s, "decision");
	s->closing = s->closing || s->env->draining;
	if (s->closing) {
		release_request(s);
		begin_linger(s);
		return;
	}
	client_consume(&s->client, r->body_at);
	release_request(s);
	if (!client_blocked(&s->client))
		session_set_deadline(s, s->skip > 0 ? s->env->conf->body_ms : s->env->conf->idle_ms);
	session_set_state(s, s->skip > 0 ? SESSION_SKIP : SESSION_IDLE);
	session_run(s);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

/* What of the request's body has not been read yet: it is read past where that is cheap, else the connection ends. */
static void settle_unread_body(struct session *s)
{
	struct request *r = s->request;
	size_t here = buf_len(&s->client.in) - r->head.length;

	s->skip = 0;
	/* Who asks for an upgrade may have sent bytes that were meant for the tunnel. */
	s->closing = s->closing || r->head.upgrade;
	if (s->closing || s->state > SESSION_BODY)
		return;
	switch (r->head.framing) {
	case HTTP_BODY_NONE:
		r->body_at = r->head.length;
		return;
	case HTTP_BODY_LENGTH:
		if (r->head.expect_continue || r->head.content_length > (uint64_t)s->env->conf->body_max) {
			s->closing = true;
			return;
		}
		if (here > r->head.content_length)
			here = (size_t)r->head.content_length;
		r->body_at = r->head.length + here;
		s->skip = r->head.content_length - here;
		return;
	case HTTP_BODY_CHUNKED:
	case HTTP_BODY_EOF:
		s->closing = true;
		return;
	}
}

struct reason_text {
	const char *id;
	int status;
	const char *at; /* may be NULL */
	const char *text;
	bool engines_own; /* said as the engine would say it */
};

static void refuse(struct session *s, const struct reason_text *t)
{
	struct session_env *env = s->env;
	struct request *r = s->request;
	struct refusal answer = {
		.status = t->status,
		.reason = t->id,
		.at = slice_str(t->at),
		.message = slice_str(t->text),
		.request_id = request_id(r),
		.head_only = r->head.method == HTTP_HEAD && r->head.length > 0,
	};
	int rc;

	settle_unread_body(s);
	answer.persistence = session_persistence(s);
	r->reason = t->id;
	r->status = t->status;
	if (t->at != NULL && t->at != r->at)
		snprintf(r->at, sizeof(r->at), "%s", t->at);
	buf_clear(&env->scratch);
	rc = t->engines_own ? answer_engine_error(&env->scratch, &answer, upstream_api_version(env->upstream))
						: answer_refusal(&env->scratch, &answer);
	if (rc < 0) {
		session_cut(s, SESSION_REASON_MEMORY);
		return;
	}
	batch_refer(&env->batch, buf_slice(&env->scratch));
	if (session_send(s))
		session_finish(s);
}

void session_refuse(struct session *s, enum session_reason why, const char *detail)
{
	struct reason_text t = { .id = reasons[why].id, .status = reasons[why].status, .text = reasons[why].text };

	if (s->state == SESSION_CLOSED)
		return;
	if (detail != NULL)
		log_warn("request %.*s: %s: %s", REQUEST_ID_LEN, s->request->id, t.id, detail);
	/* What the engine failed at was allowed. */
	if (t.status < 500 && s->request->decision == METRICS_ALLOW)
		s->request->decision = METRICS_DENY;
	refuse(s, &t);
}

static void refuse_malformed(struct session *s, enum http_reason why)
{
	struct reason_text t = { .id = http_reason_id(why),
		.status = http_reason_status(why),
		.text = http_reason_text(why) };

	/* Where the next request begins is anyone's guess now. */
	s->closing = true;
	s->request->decision = METRICS_DENY;
	refuse(s, &t);
}

static void refuse_by_verdict(struct session *s)
{
	const struct verdict *v = &s->request->verdict;
	struct reason_text t = { .id = v->reason, .status = v->status, .at = v->at, .text = v->message };

	/* A malformed target or a refused upgrade leaves doubt about the bytes that follow; a refused field of JSON does not. */
	s->closing =
		s->closing || v->close || (s->state == SESSION_JUDGE_HEAD && (v->status != 403 || s->request->head.upgrade));
	s->request->decision = METRICS_DENY;
	refuse(s, &t);
}

/* --- the ladder --------------------------------------------------------------------------------------------------- */

static bool await_request(struct session *s)
{
	struct request *r;

	if (buf_len(&s->client.in) == 0) {
		if (s->client.eof || s->env->draining)
			session_close(s);
		else
			buf_trim(&s->client.in);
		return false;
	}
	r = request_take(&s->env->requests);
	if (r == NULL) {
		session_close(s);
		return false;
	}
	http_head_init(&r->head, HTTP_REQUEST, (size_t)s->env->conf->head_max);
	r->sent_before = s->client.sent;
	s->request = r;
	session_set_state(s, SESSION_HEAD);
	return true;
}

static bool read_head(struct session *s)
{
	struct request *r = s->request;
	struct slice in = buf_slice(&s->client.in);

	switch (http_head_read(&r->head, in.p, in.len)) {
	case HTTP_MORE:
		if (s->client.eof)
			session_close(s);
		else
			set_deadline_at(s, r->began_us + s->env->conf->head_ms * 1000);
		return false;
	case HTTP_DONE:
		r->body_at = r->head.length;
		s->closing = s->closing || !r->head.keep_alive;
		session_set_state(s, SESSION_JUDGE_HEAD);
		return true;
	case HTTP_BAD:
	case HTTP_DATA:
		break;
	}
	refuse_malformed(s, r->head.reason);
	return true;
}

/* The verdict on the head, and on the body; what they need besides the request's own room is the loop's. */
static enum decision ask_head(struct session *s, const struct verdict_request *judged, unsigned minor)
{
	enum decision d;

	verdict_borrow(&s->request->verdict, &s->env->tools);
	d = verdict_head(&s->request->verdict, s->listen->policy, judged, minor);
	verdict_give_back(&s->request->verdict, &s->env->tools);
	return d;
}

static enum decision ask_body(struct session *s, struct slice body)
{
	enum decision d;

	verdict_borrow(&s->request->verdict, &s->env->tools);
	d = verdict_body(&s->request->verdict, s->listen->policy, body);
	verdict_give_back(&s->request->verdict, &s->env->tools);
	return d;
}

/* The API version for a request that names none: the policy's, or the engine's own minimum where that is higher. */
static unsigned default_minor(const struct session *s)
{
	unsigned dflt = policy_versions(s->listen->policy)->dflt;

	return s->env->engine_min_minor > dflt ? s->env->engine_min_minor : dflt;
}

/* In warn mode a request whose framing is sound goes on as it was received. */
static bool warn_instead(struct session *s)
{
	struct request *r = s->request;
	const struct verdict *v = &r->verdict;

	if (s->env->conf->mode != PROXY_WARN || v->close ||
		(r->head.framing == HTTP_BODY_LENGTH && r->head.content_length > (uint64_t)s->env->conf->body_max))
		return false;
	r->decision = METRICS_WOULD_DENY;
	r->reason = v->reason;
	snprintf(r->at, sizeof(r->at), "%s", v->at);
	return true;
}

static bool judge_head(struct session *s)
{
	struct request *r = s->request;
	const struct http_head *h = &r->head;
	const char *p = buf_slice(&s->client.in).p;
	struct verdict_request judged;

	verdict_request_from_head(&judged, h, p);
	if (!r->retried && !peers_take(s->env->peers, s->peer_entry, r->began_us)) {
		session_refuse(s, SESSION_REASON_RATE_LIMIT, NULL);
		return true;
	}
	switch (ask_head(s, &judged, default_minor(s))) {
	case DECISION_DENY:
		if (!warn_instead(s)) {
			refuse_by_verdict(s);
			return true;
		}
		break;
	case DECISION_ALLOW:
		session_set_state(s, SESSION_OWNER);
		return true;
	case DECISION_NEED_BODY:
		break;
	}
	if (h->framing == HTTP_BODY_LENGTH && h->content_length > (uint64_t)s->env->conf->body_max) {
		refuse_malformed(s, HTTP_REASON_BODY_SIZE);
		return true;
	}
	http_body_init(&r->body, h->framing, h->content_length, (uint64_t)s->env->conf->body_max);
	/* A second try has its body already. */
	if (r->retried) {
		session_set_state(s, SESSION_BODY);
		session_set_state(s, SESSION_JUDGE_BODY);
		return true;
	}
	session_set_state(s, SESSION_BODY);
	if (h->expect_continue && h->minor == 1 && buf_len(&s->client.in) == h->length && h->framing != HTTP_BODY_NONE) {
		batch_copy(&s->env->batch, slice_str("HTTP/1.1 100 Continue\r\n\r\n"));
		if (!session_send(s))
			return false;
	}
	return true;
}

/* Decodes what has come of a chunked body, in place: the body grows right behind the head. */
static enum http_result decode_chunks(struct session *s)
{
	struct request *r = s->request;
	struct buf *in = &s->client.in;
	enum http_result result = HTTP_MORE;
	size_t hole;

	while (r->body_at < buf_len(in) || r->body.framing == HTTP_BODY_NONE) {
		char *p = buf_head(in);
		size_t used = 0;
		struct slice run = slice_make(NULL, 0);

		result = http_body_read(&r->body, p + r->body_at, buf_len(in) - r->body_at, &used, &run);
		r->body_at += used;
		if (result != HTTP_DATA)
			break;
		memmove(p + r->head.length + r->body_len, run.p, run.len);
		r->body_len += run.len;
		result = HTTP_MORE;
	}
	/* Closes the hole between the decoded and what follows. */
	hole = r->body_at - (r->head.length + r->body_len);
	if (hole > 0) {
		char *p = buf_head(in);

		memmove(p + r->body_at - hole, p + r->body_at, buf_len(in) - r->body_at);
		in->end -= hole;
		r->body_at -= hole;
	}
	return result;
}

static enum http_result take_body(struct session *s)
{
	struct request *r = s->request;
	size_t need;

	switch (r->head.framing) {
	case HTTP_BODY_NONE:
		return HTTP_DONE;
	case HTTP_BODY_LENGTH:
		need = r->head.length + (size_t)r->head.content_length;
		if (buf_len(&s->client.in) < need)
			return HTTP_MORE;
		r->body_len = (size_t)r->head.content_length;
		r->body_at = need;
		return HTTP_DONE;
	case HTTP_BODY_CHUNKED:
		return decode_chunks(s);
	case HTTP_BODY_EOF:
		break;
	}
	return HTTP_BAD;
}

static bool read_body(struct session *s)
{
	struct request *r = s->request;

	switch (take_body(s)) {
	case HTTP_DONE:
		session_set_state(s, SESSION_JUDGE_BODY);
		return true;
	case HTTP_MORE:
		if (s->client.eof)
			session_close(s);
		else if (!r->body_timed)
			session_set_deadline(s, s->env->conf->body_ms);
		r->body_timed = true;
		return false;
	case HTTP_BAD:
	case HTTP_DATA:
		break;
	}
	refuse_malformed(s, r->body.reason);
	return true;
}

static bool judge_body(struct session *s)
{
	struct request *r = s->request;
	struct slice body = request_body(r, buf_slice(&s->client.in));

	if (r->decision != METRICS_WOULD_DENY && ask_body(s, body) == DECISION_DENY && !warn_instead(s)) {
		refuse_by_verdict(s);
		return true;
	}
	session_set_state(s, SESSION_OWNER);
	return true;
}

/* Ownership is settled: the request may leave, or is refused. */
static void on_owner(enum owner_result result, struct slice name, void *arg)
{
	struct session *s = arg;
	struct request *r = s->request;
	char text[VERDICT_OBJECT_MAX + 64];
	struct reason_text absent = { .id = reasons[SESSION_REASON_ABSENT].id,
		.status = 404,
		.text = text,
		.engines_own = true };

	r->query = NULL;
	switch (result) {
	case OWNER_FOUND:
		if (policy_container_name_ok(s->listen->policy, name)) {
			session_set_state(s, SESSION_FORWARD);
		} else if (s->env->conf->mode == PROXY_WARN) {
			r->decision = METRICS_WOULD_DENY;
			r->reason = reasons[SESSION_REASON_NOT_OWNED].id;
			session_set_state(s, SESSION_FORWARD);
		} else {
			session_refuse(s, SESSION_REASON_NOT_OWNED, NULL);
		}
		break;
	case OWNER_ABSENT:
		snprintf(text, sizeof(text), "No such %s: %s",
			request_endpoint(r)->owner == OWNER_EXEC ? "exec instance" : "container", r->verdict.object);
		refuse(s, &absent);
		break;
	case OWNER_UNREACHABLE:
		session_refuse(s, SESSION_REASON_ENGINE_UNREACHABLE, "ownership look-up");
		break;
	case OWNER_UNCLEAR:
		session_refuse(s, SESSION_REASON_ENGINE_ANSWER, "ownership look-up");
		break;
	}
	session_run(s);
}

static bool ask_owner(struct session *s)
{
	struct request *r = s->request;
	const struct endpoint_info *row = request_endpoint(r);
	struct slice object = slice_str(r->verdict.object);
	unsigned minor = r->verdict.api_minor != 0 ? r->verdict.api_minor : default_minor(s);
	struct owner_query *query;

	if (r->query != NULL)
		return false;
	if (r->decision == METRICS_WOULD_DENY || row->owner == OWNER_NONE ||
		(row->owner == OWNER_CONTAINER && policy_container_name_ok(s->listen->policy, object))) {
		session_set_state(s, SESSION_FORWARD);
		return true;
	}
	if (!owner_is_full_id(object)) {
		session_refuse(s, SESSION_REASON_NOT_OWNED, NULL);
		return true;
	}
	session_set_deadline(s, s->env->conf->response_ms);
	query = owner_ask(s->env->owners, row->owner, object, minor, on_owner, s);
	/* Without a query the answer was at hand, and on_owner() has moved the session on; r may be gone. */
	if (query == NULL)
		return true;
	r->query = query;
	return false;
}

static bool forward(struct session *s)
{
	const struct endpoint_info *row = request_endpoint(s->request);

	session_set_state(s, SESSION_ENGINE);
	/* The answer to a stop, wait or pull comes when its time has come. */
	session_set_deadline(s, row != NULL && row->response == RESPONSE_STREAM ? 0 : s->env->conf->response_ms);
	reply_begin(s);
	return s->state != SESSION_ENGINE;
}

static bool skip_body(struct session *s)
{
	size_t here = buf_len(&s->client.in);

	if (here > s->skip)
		here = (size_t)s->skip;
	s->skip -= here;
	client_consume(&s->client, here);
	if (s->skip == 0) {
		session_set_deadline(s, s->env->conf->idle_ms);
		session_set_state(s, SESSION_IDLE);
		return true;
	}
	if (s->client.eof)
		session_close(s);
	return false;
}

static bool linger(struct session *s)
{
	s->lingered += buf_len(&s->client.in);
	client_consume(&s->client, buf_len(&s->client.in));
	if (s->client.eof || s->lingered > LINGER_MAX)
		session_close(s);
	return false;
}

/* --- the socket's events ------------------------------------------------------------------------------------------ */

static void on_input(void *arg)
{
	struct session *s = arg;

	/* Half-closed clients get their answer; those that are gone need none, and the engine can stop working for them. */
	if (s->client.eof && (s->state == SESSION_OWNER || s->state == SESSION_ENGINE || s->state == SESSION_ANSWER) &&
		client_is_gone(&s->client)) {
		session_cut(s, SESSION_REASON_CLIENT_GONE);
		return;
	}
	/* Over TCP a half-close may be all that is ever heard of a client that left: its stream must not stay for good. */
	if (s->client.eof && (s->state == SESSION_ENGINE || s->state == SESSION_ANSWER) && s->deadline_us == INT64_MAX)
		session_set_deadline(s, s->env->conf->response_ms);
	session_run(s);
}

static void on_drained(void *arg)
{
	struct session *s = arg;

	switch (s->state) {
	case SESSION_ANSWER:
		reply_resume(s);
		return;
	case SESSION_LINGER:
		shutdown(s->client.fd, SHUT_WR);
		session_set_deadline(s, LINGER_MS);
		session_run(s);
		return;
	case SESSION_IDLE:
	case SESSION_SKIP:
	case SESSION_BODY:
		session_set_deadline(s, s->state == SESSION_IDLE ? s->env->conf->idle_ms : s->env->conf->body_ms);
		session_run(s);
		return;
	case SESSION_HEAD:
	case SESSION_JUDGE_HEAD:
	case SESSION_JUDGE_BODY:
	case SESSION_OWNER:
	case SESSION_FORWARD:
	case SESSION_ENGINE:
	case SESSION_TUNNEL:
	case SESSION_CLOSED:
	case SESSION_STATES:
		return;
	}
}

static void on_broken(void *arg)
{
	session_cut(arg, SESSION_REASON_CLIENT_GONE);
}

static const struct client_events client_events = {
	.input = on_input,
	.drained = on_drained,
	.broken = on_broken,
};

/* --- birth and death ---------------------------------------------------------------------------------------------- */

void session_turn_away(struct session_env *env, int fd, const struct peer *peer, enum session_reason why)
{
	struct refusal answer = {
		.status = reasons[why].status,
		.reason = reasons[why].id,
		.message = slice_str(reasons[why].text),
		.request_id = slice_str("none"),
		.persistence = ANSWER_CLOSE,
	};
	char text[PEER_TEXT_MAX];

	buf_clear(&env->scratch);
	if (answer_refusal(&env->scratch, &answer) == 0)
		(void)!send(fd, buf_head(&env->scratch), buf_len(&env->scratch), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
	metrics_counters(env->metrics, env->slot)->connections_refused++;
	peer_format(peer, text, sizeof(text));
	audit_begin(env->audit, "decision");
	audit_cstr(env->audit, "peer", text);
	audit_cstr(env->audit, "decision", "deny");
	audit_cstr(env->audit, "reason", answer.reason);
	audit_int(env->audit, "status", answer.status);
	audit_end(env->audit);
}

struct session *session_new(struct session_env *env, const struct proxy_listen *listen, int fd, const struct peer *peer)
{
	struct metrics_counters *m = metrics_counters(env->metrics, env->slot);
	struct peer_entry *entry = peers_enter(env->peers, peer, clock_us());
	char text[PEER_TEXT_MAX];
	struct session *s;

	if (entry == NULL) {
		session_turn_away(env, fd, peer, SESSION_REASON_CONNECTIONS);
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		peers_leave(entry);
		close(fd);
		return NULL;
	}
	s->env = env;
	s->listen = listen;
	peer_format(peer, text, sizeof(text));
	s->peer_text = strdup(text);
	s->peer_entry = entry;
	s->state = SESSION_IDLE;
	s->timer_us = INT64_MAX;
	event_assign(&s->timer, env->base, -1, 0, on_timer, s);
	client_open(&s->client, env->base, fd, (size_t)(env->conf->head_max + env->conf->body_max + CHUNK_SLACK),
		(size_t)env->conf->answer_max + OUT_SLACK, &client_events, s);
	session_set_deadline(s, env->conf->idle_ms);
	TAILQ_INSERT_TAIL(&env->sessions, s, link);
	env->nsessions++;
	m->connections++;
	m->connections_now++;
	return s;
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	struct session_env *env = arg;

	while (!TAILQ_EMPTY(&env->dead)) {
		struct session *s = TAILQ_FIRST(&env->dead);

		TAILQ_REMOVE(&env->dead, s, link);
		free(s->peer_text);
		free(s);
	}
}

int session_env_init(struct session_env *env)
{
	TAILQ_INIT(&env->sessions);
	TAILQ_INIT(&env->dead);
	env->nsessions = 0;
	env->draining = false;
	env->engine_min_minor = 0;
	event_assign(&env->reaper, env->base, -1, 0, on_reap, env);
	request_store_init(&env->requests);
	batch_clear(&env->batch);
	env->tools = (struct verdict_tools){ NULL, NULL };
	buf_init(&env->scratch, HTTP_MAX_HEAD * 2);
	env->doc = json_doc_new();
	return env->doc != NULL ? 0 : -1;
}

void session_env_release(struct session_env *env)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE (s, &env->sessions, link, next)
		session_close(s);
	on_reap(-1, 0, env);
	event_del(&env->reaper);
	request_store_release(&env->requests);
	buf_release(&env->scratch);
	json_doc_free(env->doc);
	verdict_tools_release(&env->tools);
}

void session_drain(struct session_env *env)
{
	struct session *s, *next;

	env->draining = true;
	TAILQ_FOREACH_SAFE (s, &env->sessions, link, next)
		if (s->state == SESSION_IDLE && !client_blocked(&s->client))
			session_close(s);
}
