/* The rungs that decide: head, body, whose the object is, and the departure. */
#include "dockerproxy/session_steps.h"

#include <stdio.h>

#include "dockerproxy/owner.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/policy.h"

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

/*
 * The API version for a request that names none: the policy's, or the engine's own minimum where that is higher, which another
 * listener's request may have told: it is no reason to leave this policy's versions.
 */
static unsigned default_minor(const struct session *s)
{
	const struct policy_versions *known = policy_versions(s->listen->policy);
	unsigned minimum = s->env->engine_min_minor;

	return minimum > known->dflt && minimum <= known->max ? minimum : known->dflt;
}

/* In warn mode a request whose framing is sound goes on as it was received. */
static bool warn_instead(struct session *s)
{
	struct request *r = s->request;
	const struct verdict *v = &r->verdict;
	/* A body that no row takes, or takes as something else, goes on as well; with other methods it would be a framing trick. */
	bool takes_body = r->head.method == HTTP_POST || r->head.method == HTTP_PUT;

	if (s->env->conf->mode != PROXY_WARN || (v->close && !takes_body) ||
		(r->head.framing == HTTP_BODY_LENGTH && r->head.content_length > (uint64_t)s->env->conf->body_max))
		return false;
	r->decision = METRICS_WOULD_DENY;
	r->reason = v->reason;
	snprintf(r->at, sizeof(r->at), "%s", v->at);
	return true;
}

bool session_judge_head(struct session *s)
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
			session_refuse_by_verdict(s);
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
		session_refuse_malformed(s, HTTP_REASON_BODY_SIZE);
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

bool session_judge_body(struct session *s)
{
	struct request *r = s->request;
	struct slice body = request_body(r, buf_slice(&s->client.in));

	if (r->decision != METRICS_WOULD_DENY && ask_body(s, body) == DECISION_DENY && !warn_instead(s)) {
		session_refuse_by_verdict(s);
		return true;
	}
	session_set_state(s, SESSION_OWNER);
	return true;
}

/* Ownership is settled: the request may leave, or is refused. */
static void on_owner(enum owner_result result, struct slice name, void *arg)
{
	static const char *const kinds[] = {
		[OWNER_CONTAINER] = "container",
		[OWNER_EXEC] = "exec instance",
		[OWNER_NETWORK] = "network",
	};
	struct session *s = arg;
	struct request *r = s->request;
	char text[VERDICT_OBJECT_MAX + 64];
	struct session_refusal absent = { .id = session_reason_id(SESSION_REASON_ABSENT),
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
			r->reason = session_reason_id(SESSION_REASON_NOT_OWNED);
			session_set_state(s, SESSION_FORWARD);
		} else {
			session_refuse(s, SESSION_REASON_NOT_OWNED, NULL);
		}
		break;
	case OWNER_ABSENT:
		snprintf(text, sizeof(text), "No such %s: %s", kinds[session_endpoint(r)->owner], r->verdict.object);
		session_refuse_as(s, &absent);
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

bool session_ask_owner(struct session *s)
{
	struct request *r = s->request;
	const struct endpoint_info *row = session_endpoint(r);
	struct slice object = slice_str(r->verdict.object);
	unsigned minor = r->verdict.api_minor != 0 ? r->verdict.api_minor : default_minor(s);
	struct owner_query *query;

	if (r->query != NULL)
		return false;
	if (r->decision == METRICS_WOULD_DENY || row->owner == OWNER_NONE ||
		(row->owner == OWNER_CONTAINER && policy_container_name_ok(s->listen->policy, object)) ||
		(row->owner == OWNER_NETWORK && !owner_is_full_id(object))) {
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

bool session_forward(struct session *s)
{
	const struct endpoint_info *row = session_endpoint(s->request);
	bool stream = row != NULL && row->response == RESPONSE_STREAM;

	session_set_state(s, SESSION_ENGINE);
	/* The answer to a stop, wait or pull comes when its time has come; nothing would tell that an unheard client left. */
	session_set_deadline(s, stream && s->client.reading ? 0 : s->env->conf->response_ms);
	reply_begin(s);
	return s->state != SESSION_ENGINE;
}
