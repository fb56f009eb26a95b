/*
 * The rungs of a session's ladder, and what they share; for session*.c alone. [libevent]
 *
 * A rung returns true when it moved the session on (a refusal does, too), false when it has to wait. It may close the
 * session: s stays allocated until the next turn of the loop.
 */
#ifndef DOCKERPROXY_SESSION_STEPS_H
#define DOCKERPROXY_SESSION_STEPS_H

#include "dockerproxy/session.h"

/* session_read.c */
bool session_await_request(struct session *s);
bool session_read_head(struct session *s);
bool session_read_body(struct session *s);
bool session_skip_body(struct session *s);
bool session_linger(struct session *s);

/* session_judge.c */
bool session_judge_head(struct session *s);
bool session_judge_body(struct session *s);
bool session_ask_owner(struct session *s);
bool session_forward(struct session *s);

/* session_refuse.c */
struct session_refusal {
	const char *id;
	int status;
	const char *at; /* may be NULL */
	const char *text;
	bool engines_own; /* said as the engine would say it */
	const struct policy *policy; /* that decided; may be NULL */
};

const char *session_reason_id(enum session_reason why);
void session_refuse_as(struct session *s, const struct session_refusal *t);
void session_refuse_malformed(struct session *s, enum http_reason why); /* and closes */
void session_refuse_by_verdict(struct session *s);

/* session_record.c: the row that the request fell under; NULL: none. */
const struct endpoint_info *session_endpoint(const struct request *r);

/* session.c */
void session_set_deadline_at(struct session *s, int64_t at_us);

#endif
