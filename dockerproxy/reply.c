/* The engine's side of a session: the request leaves, the answer is passed on, looked into, or becomes a tunnel. */
#include "dockerproxy/session.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "dockerproxy/clock.h"
#include "dockerproxy/listing.h"
#include "dockerproxy/owner.h"
#include "dockerproxy/policy.h"
#include "dockerproxy/upstream.h"
#include "libgate/json.h"
#include "libgate/log.h"
#include "libgate/relay.h"

#define TUNNEL_LEFT_MS 60000 /* a tunnel may be silent for good, but not for a client that is gone */
#define HELD_ANSWERS 8 /* that a worker holds for all its clients: so many of limits.answer */

static const struct endpoint_info *row_of(const struct request *r)
{
	return r->verdict.endpoint != NULL ? endpoint_info(r->verdict.endpoint) : NULL;
}

/* --- what kind of answer is this? --------------------------------------------------------------------------------- */

/* May this exchange become a tunnel? In warn mode a request outside the policy may, when it asks for it. */
static bool may_tunnel(const struct request *r)
{
	const struct endpoint_info *row = row_of(r);

	if (r->decision == METRICS_WOULD_DENY)
		return r->head.upgrade || (row != NULL && row->response == RESPONSE_HIJACK);
	return row->response == RESPONSE_HIJACK;
}

static bool asked_upgrade(const struct request *r)
{
	return r->decision == METRICS_WOULD_DENY ? r->head.upgrade : r->verdict.upgrade;
}

/* The engine decides, by what it answers, never the request. */
static bool is_tunnel(const struct request *r, const struct http_head *h, const char *p)
{
	struct slice type = http_field_value(h, p, HTTP_F_CONTENT_TYPE);

	if (!may_tunnel(r))
		return false;
	if (h->status == 101)
		return asked_upgrade(r);
	return h->status == 200 && h->framing == HTTP_BODY_EOF &&
		(slice_case_is(type, "application/vnd.docker.raw-stream") ||
			slice_case_is(type, "application/vnd.docker.multiplexed-stream"));
}

static bool is_stream(const struct request *r)
{
	const struct endpoint_info *row = row_of(r);

	return row == NULL || row->response != RESPONSE_PLAIN;
}

/* How long the answer may pause: a stream for good, but only as long as it would be heard that its client left. */
static int64_t pause_ms(const struct session *s)
{
	return is_stream(s->request) && s->client.reading ? 0 : s->env->conf->response_ms;
}

/* A refusal of the version that we chose for the client tells the engine's minimum. */
static bool may_tell_minimum(const struct request *r, const struct http_head *h)
{
	return h->status == 400 && r->verdict.api_minor == 0 && r->decision == METRICS_ALLOW && !r->retried;
}

static bool must_collect(const struct request *r, const struct http_head *h)
{
	const struct endpoint_info *row = row_of(r);

	return (row != NULL && row->answer_label != NULL && h->status == 200 && r->head.method != HTTP_HEAD) ||
		may_tell_minimum(r, h);
}

/* Does the request end or rename its object? */
static bool unsettles(const struct request *r)
{
	struct slice target = buf_slice(&r->verdict.target);

	return r->verdict.object[0] != '\0' &&
		(r->head.method == HTTP_DELETE || memmem(target.p, target.len, "/rename?", 8) != NULL);
}

/* --- passing on --------------------------------------------------------------------------------------------------- */

/* Chooses the client's framing and puts the head in the batch. */
static bool put_head(struct session *s, const struct http_head *h, const char *p, bool whole, uint64_t whole_len)
{
	struct session_env *env = s->env;
	struct request *r = s->request;
	struct answer_head *a = &r->answer;

	*a = (struct answer_head){ .request_id = request_id(r) };
	switch (h->framing) {
	case HTTP_BODY_NONE:
		a->framing = ANSWER_NO_BODY;
		/* What a GET would have brought, for HEAD; 204 and 304 say nothing. */
		a->show_length = h->has_content_length && h->status != 204 && h->status != 304;
		a->length = h->content_length;
		break;
	case HTTP_BODY_LENGTH:
		a->framing = ANSWER_LENGTH;
		a->show_length = true;
		a->length = h->content_length;
		break;
	case HTTP_BODY_CHUNKED:
	case HTTP_BODY_EOF:
		a->framing = r->head.minor == 0 ? ANSWER_EOF : ANSWER_CHUNKED;
		break;
	}
	if (whole) {
		a->framing = ANSWER_LENGTH;
		a->show_length = true;
		a->length = whole_len;
	}
	/* A refused upgrade: what the client sent behind its request may have been meant for the tunnel. */
	if (a->framing == ANSWER_EOF || r->head.upgrade)
		s->closing = true;
	a->persistence = session_persistence(s);
	r->status = h->status;
	buf_clear(&env->scratch);
	if (answer_passed_head(&env->scratch, h, p, a) < 0)
		return false;
	batch_add(&env->batch, buf_slice(&env->scratch));
	return true;
}

static void put_run(struct session *s, struct slice run)
{
	struct batch *b = &s->env->batch;
	char size[24];

	if (s->request->answer.framing == ANSWER_CHUNKED) {
		batch_copy(b, slice_make(size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", run.len)));
		batch_add(b, run);
		batch_copy(b, slice_str("\r\n"));
	} else {
		batch_add(b, run);
	}
}

static void end_answer(struct session *s)
{
	if (s->request->answer.framing == ANSWER_CHUNKED)
		batch_copy(&s->env->batch, slice_str("0\r\n\r\n"));
	if (session_send(s))
		session_finish(s);
}

static void begin_answer(struct session *s, const struct http_head *h, const char *p)
{
	session_set_state(s, SESSION_ANSWER);
	s->request->path = PATH_STREAM;
	if (!put_head(s, h, p, false, 0)) {
		session_cut(s, SESSION_REASON_ENGINE_MALFORMED);
		return;
	}
	/* A stream may be silent for as long as it likes; its record must not wait for its end. */
	session_set_deadline(s, pause_ms(s));
}

/* --- answers that are looked into --------------------------------------------------------------------------------- */

static void begin_collecting(struct session *s, const struct http_head *h, const char *p)
{
	struct request *r = s->request;

	r->path = PATH_COLLECT;
	buf_init(&r->collected, (size_t)s->env->conf->answer_max);
	buf_clear(&r->collected_bytes);
	r->collected_head = malloc(sizeof(*h));
	if (r->collected_head == NULL || buf_put(&r->collected_bytes, p, h->length) < 0) {
		reply_abort(s);
		session_refuse(s, SESSION_REASON_MEMORY, NULL);
		return;
	}
	*r->collected_head = *h;
}

/* One client's answers may fill limits.answer, but not many clients' the memory: those that nobody reads count as well. */
static void collect(struct session *s, struct slice run)
{
	struct request *r = s->request;
	enum session_reason why = SESSION_REASON_ANSWER_SIZE;

	if (s->env->held + run.len > HELD_ANSWERS * (size_t)s->env->conf->answer_max)
		why = SESSION_REASON_MEMORY;
	else if (buf_put_slice(&r->collected, run) == 0) {
		session_hold(s, s->held + run.len);
		return;
	}
	reply_abort(s);
	session_refuse(s, why, NULL);
}

/* Takes text and the number behind it off the front of *s; false when it does not begin so. */
static bool take_number(struct slice *s, const char *text, unsigned *number)
{
	struct slice digits;

	if (!slice_starts(*s, text))
		return false;
	digits = slice_skip(*s, strlen(text));
	for (*number = 0; digits.len > 0 && digits.p[0] >= '0' && digits.p[0] <= '9' && *number < 1000;
		 digits = slice_skip(digits, 1))
		*number = *number * 10 + (unsigned)(digits.p[0] - '0');
	*s = digits;
	return true;
}

/*
 * The engine's minimum when it refused our version; 0 when that was one it is too old for, a former engine's minimum. False:
 * it speaks of something else. The sentence must be the engine's from its first word: other errors quote what the client
 * wrote, and one client must not choose the version for all.
 */
static bool minimum_in(struct session_env *env, struct slice answer, unsigned *minimum)
{
	enum json_fault fault;
	struct slice message;
	size_t offset;
	unsigned ours;

	if (!json_get_string(json_parse(env->doc, answer, JSON_STRICT, &fault, &offset), "message", &message) ||
		!take_number(&message, "client version 1.", &ours))
		return false;
	*minimum = 0;
	return slice_starts(message, " is too new. ") ||
		take_number(&message, " is too old. Minimum supported API version is 1.", minimum);
}

/* The engine refused our default version before it looked at anything else: the request may go out again. */
static bool retry_with_minimum(struct session *s)
{
	struct request *r = s->request;
	const struct policy_versions *known = policy_versions(s->listen->policy);
	unsigned minor;

	if (!may_tell_minimum(r, r->collected_head))
		return false;
	if (!minimum_in(s->env, buf_slice(&r->collected), &minor) || minor == s->env->engine_min_minor ||
		(minor != 0 && (minor <= known->dflt || minor > known->max)))
		return false;
	s->env->engine_min_minor = minor;
	r->retried = true;
	r->path = PATH_NONE;
	session_hold(s, 0);
	buf_release(&r->collected);
	free(r->collected_head);
	r->collected_head = NULL;
	verdict_reset(&r->verdict);
	session_set_state(s, SESSION_JUDGE_HEAD);
	session_run(s);
	return true;
}

static void end_collected(struct session *s)
{
	struct request *r = s->request;
	const char *label = row_of(r)->answer_label;
	struct buf filtered;
	struct slice body;

	if (retry_with_minimum(s))
		return;
	buf_init(&filtered, r->collected.max);
	body = buf_slice(&r->collected);
	if (label != NULL && r->collected_head->status == 200) {
		if (listing_filter(s->env->doc, body, label, &filtered) < 0) {
			buf_release(&filtered);
			session_refuse(s, SESSION_REASON_ENGINE_ANSWER, "the listing is not what it should be");
			return;
		}
		body = buf_slice(&filtered);
	}
	session_set_state(s, SESSION_ANSWER);
	if (!put_head(s, r->collected_head, buf_slice(&r->collected_bytes).p, true, body.len)) {
		buf_release(&filtered);
		session_cut(s, SESSION_REASON_ENGINE_MALFORMED);
		return;
	}
	batch_refer(&s->env->batch, body);
	end_answer(s);
	buf_release(&filtered);
}

/* --- tunnels ------------------------------------------------------------------------------------------------------ */

static void record_tunnel(struct session *s, const struct relay_stats *stats)
{
	s->relay = NULL;
	metrics_counters(s->env->metrics, s->env->slot)->tunnels_now--;
	s->client.received += stats->a_to_b;
	s->client.sent += stats->b_to_a;
	s->request->body_at = (size_t)stats->a_to_b;
	session_record(s, "close");
}

static void on_tunnel_end(enum relay_end end, const struct relay_stats *stats, void *arg)
{
	struct session *s = arg;

	record_tunnel(s, stats);
	session_close(s);
}

void reply_end_tunnel(struct session *s)
{
	struct relay *relay = s->relay;
	struct relay_stats stats;

	relay_stats(relay, &stats);
	relay_free(relay);
	record_tunnel(s, &stats);
}

static void begin_tunnel(struct session *s, const struct http_head *h, const char *p)
{
	struct session_env *env = s->env;
	struct request *r = s->request;
	static const struct relay_limits limits = { .left_ms = TUNNEL_LEFT_MS };
	struct slice early_engine, early_client;
	struct answer_head a = {
		.framing = ANSWER_EOF,
		.persistence = h->status == 101 ? ANSWER_UPGRADE : ANSWER_CLOSE,
		.request_id = request_id(r),
	};
	struct buf first;
	int fd_client, fd_engine;

	session_set_state(s, SESSION_TUNNEL);
	session_set_deadline(s, 0);
	r->status = h->status;
	/* What the client must read first: our head, then what the engine sent right behind its own. */
	buf_init(&first, 128 * 1024);
	if (answer_passed_head(&first, h, p, &a) < 0) {
		buf_release(&first);
		session_cut(s, SESSION_REASON_MEMORY);
		return;
	}
	fd_engine = upstream_take(r->exchange, &early_engine);
	r->exchange = NULL;
	early_client = slice_skip(buf_slice(&s->client.in), r->body_at);
	fd_client = client_release_fd(&s->client);
	if (buf_put_slice(&first, early_engine) == 0)
		s->relay =
			relay_new(env->base, fd_client, early_client, fd_engine, buf_slice(&first), &limits, on_tunnel_end, s);
	buf_release(&first);
	if (s->relay == NULL) {
		close(fd_engine);
		close(fd_client);
		session_cut(s, SESSION_REASON_MEMORY);
		return;
	}
	metrics_counters(env->metrics, env->slot)->tunnels_now++;
	session_record(s, "decision");
}

/* --- the exchange's events ---------------------------------------------------------------------------------------- */

static void on_head(void *arg)
{
	struct session *s = arg;
	struct request *r = s->request;
	const struct http_head *h = upstream_head(r->exchange);
	const char *p = upstream_head_bytes(r->exchange);

	r->engine_us = clock_us() - r->sent_us;
	if (unsettles(r) || ((h->status == 404 || h->status == 409) && r->verdict.object[0] != '\0'))
		owner_forget(s->env->owners, slice_str(r->verdict.object));
	if (is_tunnel(r, h, p)) {
		begin_tunnel(s, h, p);
	} else if (h->status == 101) {
		reply_abort(s);
		session_refuse(s, SESSION_REASON_ENGINE_MALFORMED, "an upgrade that was not asked for");
	} else if (must_collect(r, h)) {
		begin_collecting(s, h, p);
	} else {
		begin_answer(s, h, p);
	}
}

static void on_data(void *arg, struct slice run)
{
	struct session *s = arg;
	struct request *r = s->request;

	if (r->path == PATH_COLLECT) {
		collect(s, run);
		return;
	}
	if (!batch_has_room(&s->env->batch, BATCH_REFER_FROM + 64, 4) && !session_send(s))
		return;
	put_run(s, run);
}

static void on_flush(void *arg)
{
	struct session *s = arg;
	struct request *r = s->request;

	if (r->path == PATH_COLLECT || !session_send(s))
		return;
	if (client_blocked(&s->client)) {
		upstream_pause(r->exchange);
		/* A stream's reader may take its time. */
		if (is_stream(r))
			session_set_deadline(s, 0);
	} else {
		session_set_deadline(s, pause_ms(s));
	}
}

static void on_end(void *arg)
{
	struct session *s = arg;
	struct request *r = s->request;

	r->exchange = NULL;
	r->engine_us = clock_us() - r->sent_us;
	if (r->path == PATH_COLLECT)
		end_collected(s);
	else
		end_answer(s);
}

static void on_fail(void *arg, enum upstream_fault fault, const char *detail)
{
	static const enum session_reason why[] = {
		[UPSTREAM_UNREACHABLE] = SESSION_REASON_ENGINE_UNREACHABLE,
		[UPSTREAM_GONE] = SESSION_REASON_ENGINE_GONE,
		[UPSTREAM_MALFORMED] = SESSION_REASON_ENGINE_MALFORMED,
	};
	struct session *s = arg;
	struct request *r = s->request;

	r->exchange = NULL;
	r->engine_us = clock_us() - r->sent_us;
	if (s->state == SESSION_ENGINE) {
		session_refuse(s, why[fault], detail);
		return;
	}
	/* The client has the beginning of an answer: only the end of the connection tells it that there is no more. */
	log_warn("request %.*s: %s", REQUEST_ID_LEN, r->id, detail);
	if (session_send(s))
		session_cut(s, why[fault]);
}

static const struct upstream_events events = {
	.head = on_head,
	.data = on_data,
	.flush = on_flush,
	.end = on_end,
	.fail = on_fail,
};

void reply_begin(struct session *s)
{
	struct request *r = s->request;
	struct slice in = buf_slice(&s->client.in);
	bool as_received = r->decision == METRICS_WOULD_DENY;
	struct upstream_request request = { .method = r->head.method };

	if ((as_received ? request_put_as_received(r, in) : request_put_canonical(r)) < 0) {
		session_refuse(s, SESSION_REASON_MEMORY, "the canonical head does not fit");
		return;
	}
	request.head = buf_slice(&r->canonical);
	request.body = as_received ? slice_make("", 0) : buf_slice(&r->verdict.body);
	if (may_tunnel(r))
		request.flags |= UPSTREAM_FRESH;
	if (r->head.method == HTTP_GET || r->head.method == HTTP_HEAD)
		request.flags |= UPSTREAM_REPEATABLE;
	if (unsettles(r))
		owner_forget(s->env->owners, slice_str(r->verdict.object));
	r->sent_us = clock_us();
	r->exchange = upstream_start(s->env->upstream, &request, &events, s);
	if (r->exchange == NULL)
		session_refuse(s, SESSION_REASON_MEMORY, NULL);
}

void reply_resume(struct session *s)
{
	session_set_deadline(s, pause_ms(s));
	upstream_resume(s->request->exchange);
}

void reply_abort(struct session *s)
{
	struct request *r = s->request;

	if (r == NULL)
		return;
	if (r->query != NULL)
		owner_cancel(r->query);
	if (r->exchange != NULL) {
		/* Until now it was the engine that was waited for, or that went on answering. */
		r->engine_us = clock_us() - r->sent_us;
		upstream_abort(r->exchange);
	}
	r->query = NULL;
	r->exchange = NULL;
}
