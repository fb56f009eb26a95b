/* What the log and the metrics are told of a request. */
#include "dockerproxy/session_steps.h"

#include <string.h>

#include "dockerproxy/clock.h"
#include "dockerproxy/policy.h"

const struct endpoint_info *session_endpoint(const struct request *r)
{
	return r->verdict.endpoint != NULL ? endpoint_info(r->verdict.endpoint) : NULL;
}

static const char *const decision_words[METRICS_DECISIONS] = { "allow", "deny", "would_deny" };

static void write_record(struct session *s, const char *event, int64_t duration_us)
{
	struct audit *a = s->env->audit;
	const struct request *r = s->request;
	const struct endpoint_info *row = session_endpoint(r);
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
	const struct endpoint_info *row = session_endpoint(r);
	int64_t duration_us = clock_us() - r->began_us;
	bool read = r->head.method == HTTP_GET || r->head.method == HTTP_HEAD;

	if (r->decision != METRICS_ALLOW || r->reason != NULL || !read || s->env->conf->audit_reads)
		write_record(s, event, duration_us);
	if (strcmp(event, "decision") != 0)
		return;
	metrics_request(s->env->metrics, s->env->slot, row != NULL ? row->id : NULL, r->decision, r->reason, duration_us,
		r->engine_us);
}
