/* How a request, or a connection that becomes no session, is refused. */
#include "dockerproxy/session_steps.h"

#include <string.h>
#include <sys/socket.h>

#include "dockerproxy/policy.h"
#include "dockerproxy/upstream.h"
#include "libgate/log.h"

static const struct {
	const char *id;
	int status;
	const char *text;
} reasons[SESSION_REASON_COUNT] = {
#define ROW(sym, id, status, text) [SESSION_REASON_##sym] = { id, status, text },
#include "dockerproxy/session_reason.def"
#undef ROW
};

const char *session_reason_id(enum session_reason why)
{
	return reasons[why].id;
}

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

void session_refuse_as(struct session *s, const struct session_refusal *t)
{
	struct session_env *env = s->env;
	struct request *r = s->request;
	struct refusal answer = {
		.status = t->status,
		.reason = t->id,
		.at = slice_str(t->at),
		.message = slice_str(t->text),
		.request_id = request_id(r),
		.policy = slice_str(t->policy != NULL ? policy_digest(t->policy) : NULL),
		.head_only = r->head.method == HTTP_HEAD && r->head.length > 0,
	};
	int rc;

	settle_unread_body(s);
	answer.persistence = session_persistence(s);
	r->reason = t->id;
	r->status = t->status;
	if (t->at != NULL && t->at != r->at) {
		size_t n = strnlen(t->at, sizeof(r->at) - 1);

		memcpy(r->at, t->at, n);
		r->at[n] = '\0';
	}
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
	struct session_refusal t = { .id = reasons[why].id, .status = reasons[why].status, .text = reasons[why].text };

	if (s->state == SESSION_CLOSED)
		return;
	if (detail != NULL)
		log_warn("request %.*s: %s: %s", REQUEST_ID_LEN, s->request->id, t.id, detail);
	/* What the engine failed at was allowed. */
	if (t.status < 500 && s->request->decision == METRICS_ALLOW)
		s->request->decision = METRICS_DENY;
	session_refuse_as(s, &t);
}

void session_refuse_malformed(struct session *s, enum http_reason why)
{
	struct session_refusal t = { .id = http_reason_id(why),
		.status = http_reason_status(why),
		.text = http_reason_text(why) };

	/* Where the next request begins is anyone's guess now. */
	s->closing = true;
	s->request->decision = METRICS_DENY;
	session_refuse_as(s, &t);
}

void session_refuse_by_verdict(struct session *s)
{
	const struct verdict *v = &s->request->verdict;
	struct session_refusal t = { .id = v->reason,
		.status = v->status,
		.at = v->at,
		.text = v->message,
		.policy = s->listen->policy };

	/* A malformed target or a refused upgrade leaves doubt about the bytes that follow; a refused field of JSON does not. */
	s->closing =
		s->closing || v->close || (s->state == SESSION_JUDGE_HEAD && (v->status != 403 || s->request->head.upgrade));
	s->request->decision = METRICS_DENY;
	session_refuse_as(s, &t);
}

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
