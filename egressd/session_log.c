/* What the audit log says of a session: a line at the decision, and one at the end. */
#include <stdio.h>
#include <string.h>

#include "egressd/session.h"

static void log_object(struct session *s)
{
	char object[HOST_MAX + 8], address[64];

	if (s->dest.host.len > 0) {
		snprintf(object, sizeof(object), "%s:%u", s->dest.host.name, (unsigned)s->dest.port);
		audit_cstr(s->egress->audit, "object", object);
	}
	if (s->address.len > 0) {
		addr_format(&s->address, address, sizeof(address));
		audit_cstr(s->egress->audit, "address", address);
	}
	audit_cstr(s->egress->audit, "rule", s->rule);
}

static void log_begin(struct session *s, const char *event)
{
	struct audit *a = s->egress->audit;

	audit_begin(a, event);
	audit_cstr(a, "request", s->id);
	audit_cstr(a, "peer", s->peer);
	if (s->method[0] != '\0')
		audit_cstr(a, "method", s->method);
	audit_cstr(a, "target", s->named);
	log_object(s);
}

void session_log_decision(struct session *s, const char *decision, const char *reason, const char *detail, int status)
{
	struct audit *a = s->egress->audit;

	/* The probe of a health check asks for nothing; it would fill the log. */
	if (s->named != NULL && strcmp(s->named, "*") == 0 && strcmp(s->method, "OPTIONS") == 0)
		return;
	log_begin(s, "decision");
	audit_cstr(a, "decision", decision);
	audit_cstr(a, "reason", reason);
	audit_cstr(a, "detail", detail);
	audit_int(a, "status", status);
	audit_int(a, "durationUs", egress_now_us() - s->begun_us);
	audit_cstr(a, "mode", s->egress->conf->mode == MODE_WARN ? "warn" : "enforce");
	egress_audit_done(s->egress);
}

void session_log_allowed(struct session *s)
{
	bool warned = s->warned != REASON_OK;

	if (s->decided)
		return;
	s->decided = true;
	s->egress->metrics.requests[REASON_OK]++;
	session_log_decision(s, warned ? "warn" : "allow", warned ? reason_id(s->warned) : NULL, NULL, 200);
}

void session_log_close(struct session *s, const char *why, uint64_t up, uint64_t down)
{
	struct audit *a = s->egress->audit;

	log_begin(s, "close");
	audit_cstr(a, "reason", why);
	audit_int(a, "bytesIn", (int64_t)up);
	audit_int(a, "bytesOut", (int64_t)down);
	audit_int(a, "durationUs", egress_now_us() - s->begun_us);
	egress_audit_done(s->egress);
}
