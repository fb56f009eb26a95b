/*
 * One client connection from accept to close: a ladder of named steps for each request on it. [libevent]
 *
 * session.c holds the states and the connection's life, session_read.c, session_judge.c and session_refuse.c the steps up to the
 * request's departure, session_record.c its record, reply.c what comes back. A session dies in the turn of the loop after the
 * one that closed it, so that no callback meets a freed one.
 */
#ifndef DOCKERPROXY_SESSION_H
#define DOCKERPROXY_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dockerproxy/batch.h"
#include "dockerproxy/client.h"
#include "dockerproxy/conf.h"
#include "dockerproxy/metrics.h"
#include "dockerproxy/request.h"
#include "libgate/buf.h"
#include "libgate/listen.h"

struct audit;
struct event_base;
struct json_doc;
struct owner;
struct peers;
struct peer_entry;
struct relay;
struct session;
struct upstream;

TAILQ_HEAD(session_list, session);

/* Reasons of session_reason.def. */
enum session_reason {
#define ROW(sym, id, status, text) SESSION_REASON_##sym,
#include "dockerproxy/session_reason.def"
#undef ROW
	SESSION_REASON_COUNT
};

/* What the sessions of one loop share. */
struct session_env {
	struct event_base *base;
	const struct proxy_conf *conf;
	struct upstream *upstream;
	struct owner *owners;
	struct peers *peers;
	struct audit *audit;
	struct metrics *metrics;
	unsigned slot; /* in the metrics */
	void (*on_close)(void *arg); /* a session was closed */
	void *on_close_arg;

	/* kept by session_env_init() and the sessions */
	bool draining;
	unsigned nsessions;
	size_t held; /* bytes of whole answers, in all sessions */
	struct session_list sessions;
	struct session_list dead;
	struct event reaper;
	struct request_store requests;
	unsigned engine_min_minor; /* learned from its refusals; 0: not known */
	struct batch batch;
	struct buf scratch; /* heads and refusals on their way into the batch */
	struct json_doc *doc;
	struct verdict_tools tools;
};

enum session_state {
	SESSION_IDLE, /* between requests */
	SESSION_HEAD,
	SESSION_JUDGE_HEAD,
	SESSION_BODY,
	SESSION_JUDGE_BODY,
	SESSION_OWNER, /* the engine is asked whose the id is */
	SESSION_FORWARD,
	SESSION_ENGINE, /* sent; no answer yet */
	SESSION_ANSWER, /* the answer is passing */
	SESSION_SKIP, /* refused; its body is read and forgotten */
	SESSION_TUNNEL,
	SESSION_LINGER, /* answered for the last time; the client may read it in peace */
	SESSION_CLOSED,
	SESSION_STATES
};

struct session {
	TAILQ_ENTRY(session) link;
	struct session_env *env;
	const struct proxy_listen *listen;
	char *peer_text; /* for the log; NULL: no memory for it */
	struct peer_entry *peer_entry;
	struct client client;
	enum session_state state;
	struct event timer;
	int64_t deadline_us; /* INT64_MAX: none */
	int64_t timer_us; /* when the timer will fire; INT64_MAX: it is off */
	struct request *request; /* NULL between requests */
	uint64_t skip; /* SESSION_SKIP: body bytes to come */
	uint64_t lingered;
	bool closing; /* no further request on this connection */
	bool in_step; /* the ladder is being climbed */
	struct relay *relay;
	size_t held; /* of env->held */
};

/* The list, counters, store and scratch of an env whose upper part is filled in. */
int session_env_init(struct session_env *env) MUSTCHECK;
void session_env_release(struct session_env *env); /* closes what is left */
void session_drain(struct session_env *env); /* idle ones now, others after their answer */

/* Takes over fd in any case. NULL: no memory, or the peer is over its limit (answered). */
struct session *session_new(struct session_env *env, const struct proxy_listen *listen, int fd,
	const struct peer *peer);

/* A connection that becomes no session: a short answer, one audit line, and the close. */
void session_turn_away(struct session_env *env, int fd, const struct peer *peer, enum session_reason why);

/* --- between session*.c and reply.c ------------------------------------------------------------------------------- */

void session_set_state(struct session *s, enum session_state state);
void session_set_deadline(struct session *s, int64_t ms); /* from now; 0: none */
void session_run(struct session *s); /* climbs as far as it goes */
void session_close(struct session *s);
void session_refuse(struct session *s, enum session_reason why,
	const char *detail); /* detail: for the log, may be NULL */
void session_finish(struct session *s); /* the request is over: record it, go on or close */
void session_cut(struct session *s, enum session_reason why); /* the answer cannot be completed: record it and close */
void session_record(struct session *s, const char *event); /* one audit line, and the counters when it is a decision */
enum answer_persistence session_persistence(const struct session *s);

/* How much of whole answers, collected or waiting for the client, this session holds from now on. */
void session_hold(struct session *s, size_t bytes);

/* Sends env->batch; false when the session was closed over it. */
bool session_send(struct session *s) MUSTCHECK;

/* reply.c: sends the canonical request and sees its answer through. */
void reply_begin(struct session *s);
void reply_resume(struct session *s); /* the client takes bytes again */
void reply_abort(struct session *s); /* the exchange or query under way, if any */
void reply_end_tunnel(struct session *s); /* at once, and record it */

#endif
