/*
 * One client connection of the proxy. [libevent]
 *
 * session.c is its life: states, time, heads, end. ladder.c is what every request climbs: destination, host, allowlist, port,
 * budgets, addresses, connection. tunnel.c takes over a CONNECT that stands, exchange.c a plain HTTP request, refuse.c writes
 * the answers that are our own, session_log.c the audit lines; sweep.c is for all sessions at once.
 */
#ifndef EGRESSD_SESSION_H
#define EGRESSD_SESSION_H

#include "egressd/egress.h"
#include "egressd/hello.h"
#include "egressd/reason.h"
#include "egressd/request.h"
#include "egressd/stream.h"
#include "libgate/http1.h"
#include "libgate/listen.h"

struct connector;
struct exchange;
struct lookup_wait;
struct relay;

enum session_state {
#define ROW(state, name, next) SESSION_##state,
#include "egressd/session_state.def"
#undef ROW
};

#define SESSION_ID_SIZE 17
#define SESSION_PEER_SIZE 64

struct session {
	TAILQ_ENTRY(session) link;
	struct egress *egress;
	enum session_state state;
	bool over_limit; /* accepted only to be told that there is no room */
	bool counted; /* this request's host is in the tally */
	enum reason warned; /* why the rules say no, where warn mode let it through */
	bool decided; /* the decision is in the log */
	bool keep; /* the client's connection may go on after this request */
	struct stream client;
	struct event timer;
	int64_t deadline_ms; /* of the state; the timer may fire earlier and look again */
	int64_t doomed_ms; /* the host is off the list: cut then; 0: not so */

	/* the request in hand */
	char id[SESSION_ID_SIZE];
	struct http_head *head; /* while heads are read; NULL in a tunnel */
	struct dest dest; /* dest.path is only good while the head is in client.in */
	char *rule; /* the allowlist entry that let it in */
	const struct rule *group; /* the same, of the rules in force, for the limits of lookups; NULL: none */
	char *named; /* what the client called its destination */
	char method[16];
	int64_t begun_us;
	struct addr address; /* connected to */
	struct lookup_wait *lookup;
	struct connector *connector;

	int origin_fd; /* connected, for HELLO and TUNNEL; -1: none */
	struct hello *hello;
	size_t hello_charged; /* of the pool */
	struct relay *relay;
	struct exchange *exchange; /* with its connection to the origin, which may serve several requests */
	char peer[SESSION_PEER_SIZE];
};

void session_accept(struct egress *e, int fd, const struct peer *peer);

/* Closes at once; the memory is freed later in the loop. abort: by a reset. */
void session_close(struct session *s, bool abort);

void session_set_state(struct session *s, enum session_state state, int64_t timeout_ms);
const char *session_state_name(enum session_state state);

/* The next request of the connection, from what has come already. */
void session_next(struct session *s);

/* Forgets the request in hand: tally, names. */
void session_end_request(struct session *s);

void session_reap(struct egress *e); /* frees what was closed in an earlier turn */

/* --- ladder.c */

/* A whole head stands in client.in: judges it, and goes as far as can be gone without waiting. */
void ladder_climb(struct session *s);
/* Connects again for the request in hand (a kept connection to the origin turned out to be dead). */
void ladder_reconnect(struct session *s);

/* --- session_log.c */

void session_log_decision(struct session *s, const char *decision, const char *reason, const char *detail, int status);
/* The request passed everything and its connection stands. */
void session_log_allowed(struct session *s);
/* The audit line of the request's end; why: "closed", "reset", a reason id … */
void session_log_close(struct session *s, const char *why, uint64_t up, uint64_t down);

/* --- sweep.c */

/* The configuration changed: connections to hosts that are off the list end after the grace. */
void sweep_judge_again(struct egress *e);
/* Once a second: dooms, drain and the budgets of the whole. */
void sweep_tick(struct egress *e, int64_t now_ms);
void sweep_close_all(struct egress *e);
void sweep_close_idle(struct egress *e); /* those between two requests */

/* --- refuse.c */

/* Answers with the reason, logs it, and goes on or closes. detail: more for the person, or NULL. */
void refuse(struct session *s, enum reason reason, const char *detail);
void refuse_malformed(struct session *s, enum http_reason reason);
/* An answer was written whole, our own or an origin's: on to the next request, or to the end. */
void session_answered(struct session *s);

/* --- tunnel.c */

void tunnel_begin(struct session *s, int origin_fd);
void tunnel_client_input(struct session *s); /* in HELLO */
void tunnel_drained(struct session *s);
/* Raw from here on: what both have sent so far goes first. */
void tunnel_relay(struct session *s, int origin_fd, struct slice early_origin);
void tunnel_timeout(struct session *s);
void tunnel_drop_hello(struct session *s); /* frees what was read of it; again: nothing */

/* --- exchange.c */

/* Writes the request for the origin while its head is still in the buffer. -1: no memory or too large. */
int exchange_prepare(struct session *s) MUSTCHECK;
bool exchange_can_reuse(const struct session *s); /* is the kept connection one for this destination? */
void exchange_drop_origin(struct session *s);
void exchange_begin(struct session *s, int origin_fd); /* -1: on the kept connection */
void exchange_client_input(struct session *s);
void exchange_client_drained(struct session *s);
void exchange_timeout(struct session *s, int64_t now_ms);
void exchange_release(struct session *s);

#endif
