/* The client's side of a connection: its states, its timers, its birth and its end. The rungs are in session_*.c. */
#include "dockerproxy/session.h"

#include <assert.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

#include "dockerproxy/clock.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/session_steps.h"
#include "libgate/json.h"
#include "libgate/log.h"

#define CHUNK_SLACK 8192 /* framing bytes of a chunked body that wait beside the body itself */
#define OUT_SLACK (256 * 1024)
#define LINGER_MS 2000

#define TO(state) (1u << SESSION_##state)

static const struct {
	const char *name;
	bool (*step)(struct session *s); /* NULL: moved on by the engine's side */
	unsigned next; /* states that may follow */
} ladder[SESSION_STATES] = {
	[SESSION_IDLE] = { "idle", session_await_request, TO(HEAD) | TO(CLOSED) },
	[SESSION_HEAD] = { "head", session_read_head, TO(JUDGE_HEAD) | TO(LINGER) | TO(CLOSED) },
	[SESSION_JUDGE_HEAD] = { "judge-head", session_judge_head,
		TO(BODY) | TO(OWNER) | TO(SKIP) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_BODY] = { "body", session_read_body, TO(JUDGE_BODY) | TO(SKIP) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_JUDGE_BODY] = { "judge-body", session_judge_body, TO(OWNER) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_OWNER] = { "owner", session_ask_owner, TO(FORWARD) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_FORWARD] = { "forward", session_forward, TO(ENGINE) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_ENGINE] = { "engine", NULL,
		TO(ANSWER) | TO(TUNNEL) | TO(JUDGE_HEAD) | TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_ANSWER] = { "answer", NULL, TO(IDLE) | TO(LINGER) | TO(CLOSED) },
	[SESSION_SKIP] = { "skip", session_skip_body, TO(IDLE) | TO(CLOSED) },
	[SESSION_TUNNEL] = { "tunnel", NULL, TO(CLOSED) },
	[SESSION_LINGER] = { "linger", session_linger, TO(CLOSED) },
	[SESSION_CLOSED] = { "closed", NULL, 0 },
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

void session_set_deadline_at(struct session *s, int64_t at_us)
{
	s->deadline_us = at_us;
	if (at_us < s->timer_us)
		arm_timer(s, clock_us());
}

void session_set_deadline(struct session *s, int64_t ms)
{
	session_set_deadline_at(s, ms == 0 ? INT64_MAX : clock_tick_us() + ms * 1000);
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

void session_hold(struct session *s, size_t bytes)
{
	s->env->held += bytes - s->held;
	s->held = bytes;
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
	session_hold(s, 0);
	peers_leave(env->peers, env->slot, s->peer_entry);
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
		reply_abort(s);
		s->request->reason = session_reason_id(why);
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
	session_hold(s, buf_len(&s->client.out));
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
	/*
	 * Over TCP a half-close may be all that is ever heard of a client that left, and of one that sent more than is kept
	 * not even that is: its stream must not stay for good.
	 */
	if (!s->client.reading && (s->state == SESSION_ENGINE || s->state == SESSION_ANSWER) && s->deadline_us == INT64_MAX)
		session_set_deadline(s, s->env->conf->response_ms);
	session_run(s);
}

static void on_drained(void *arg)
{
	struct session *s = arg;

	session_hold(s, 0);
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

struct session *session_new(struct session_env *env, const struct proxy_listen *listen, int fd, const struct peer *peer)
{
	struct metrics_counters *m = metrics_counters(env->metrics, env->slot);
	struct peer_entry *entry = peers_enter(env->peers, env->slot, peer, clock_us());
	char text[PEER_TEXT_MAX];
	struct session *s;

	if (entry == NULL) {
		session_turn_away(env, fd, peer, SESSION_REASON_CONNECTIONS);
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		peers_leave(env->peers, env->slot, entry);
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
	env->held = 0;
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

/* What was judged has its record, whatever became of it; a tunnel's is written when it ends. */
static void cut_short(struct session *s)
{
	if (s->request != NULL && s->state != SESSION_HEAD && s->state != SESSION_TUNNEL)
		session_cut(s, SESSION_REASON_STOPPED);
	else
		session_close(s);
}

void session_env_release(struct session_env *env)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE (s, &env->sessions, link, next)
		cut_short(s);
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
