/* The life of a client connection: its states and their time, its stream, one head after another, its end. */
#include "egressd/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "egressd/connect.h"
#include "libgate/dns_resolve.h"
#include "libgate/log.h"

#define CLIENT_IN_MAX (64 * 1024 + HTTP_MAX_HEAD)
#define CLIENT_OUT_MAX (1024 * 1024)
#define REFUSED_AT_ONCE_MAX 64 /* connections over the limit that are told so; more are closed without a word */

#define M(state) (1u << SESSION_##state)

static const struct {
	const char *name;
	unsigned next;
} states[] = {
#define ROW(state, name, next) [SESSION_##state] = { name, (next) | M(CLOSED) },
#include "egressd/session_state.def"
#undef ROW
};
const char *session_state_name(enum session_state state)
{
	return states[state].name;
}

/* --- state and time ---------------------------------------------------------------------------------------------- */

static void arm(struct session *s, int64_t in_ms)
{
	struct timeval tv;

	if (in_ms < 1)
		in_ms = 1;
	tv.tv_sec = (time_t)(in_ms / 1000);
	tv.tv_usec = (suseconds_t)(in_ms % 1000 * 1000);
	event_add(&s->timer, &tv);
}

/* The timer is moved only to fire earlier: a request that passes quickly costs no timer at all. */
static void set_deadline(struct session *s, int64_t timeout_ms)
{
	int64_t now = egress_now_ms(), before = s->deadline_ms;

	s->deadline_ms = now + timeout_ms;
	if (!event_pending(&s->timer, EV_TIMEOUT, NULL) || s->deadline_ms < before)
		arm(s, timeout_ms);
}

void session_set_state(struct session *s, enum session_state state, int64_t timeout_ms)
{
	if (state == s->state && state != SESSION_EXCHANGE)
		return;
	log_debug("%s %s: %s -> %s", s->peer, s->id, states[s->state].name, states[state].name);
	assert(state == s->state || (states[s->state].next & (1u << state)) != 0);
	s->state = state;
	if (state == SESSION_TUNNEL || state == SESSION_CLOSED)
		event_del(&s->timer); /* the relay has its own */
	else
		set_deadline(s, timeout_ms);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct session *s = arg;
	int64_t now = egress_now_ms();

	(void)fd;
	(void)what;
	if (now < s->deadline_ms) {
		arm(s, s->deadline_ms - now);
		return;
	}
	switch (s->state) {
	case SESSION_HEAD:
		if (buf_len(&s->client.in) > 0)
			refuse(s, REASON_HEAD_TIMEOUT, NULL);
		else
			session_close(s, false);
		return;
	case SESSION_HELLO:
		tunnel_timeout(s);
		return;
	case SESSION_EXCHANGE:
		exchange_timeout(s, now);
		return;
	case SESSION_RESOLVE: /* resolver and connector have deadlines of their own; these are for safety */
		refuse(s, REASON_DNS_TIMEOUT, NULL);
		return;
	case SESSION_CONNECT:
		refuse(s, REASON_CONNECT_TIMEOUT, NULL);
		return;
	case SESSION_WAIT:
	case SESSION_ANSWER:
	case SESSION_LINGER:
		session_close(s, s->state == SESSION_ANSWER);
		return;
	case SESSION_TUNNEL:
	case SESSION_CLOSED:
		return;
	}
}

/* --- heads --------------------------------------------------------------------------------------------------------- */

static void new_id(struct session *s)
{
	static uint64_t seed, count;
	uint64_t id;

	if (seed == 0 && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = (uint64_t)egress_now_us();
	/* A bijection of the counter (splitmix64): unique within the process, not guessable from one another by eye. */
	id = seed + ++count * UINT64_C(0x9e3779b97f4a7c15);
	id = (id ^ id >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	id = (id ^ id >> 27) * UINT64_C(0x94d049bb133111eb);
	id ^= id >> 31;
	for (int i = 0; i < SESSION_ID_SIZE - 1; i++)
		s->id[i] = "0123456789abcdef"[id >> (60 - 4 * i) & 15];
	s->id[SESSION_ID_SIZE - 1] = '\0';
}

void session_end_request(struct session *s)
{
	if (s->counted)
		tally_drop(&s->egress->tally, &s->dest.host);
	s->counted = false;
	s->warned = REASON_OK;
	s->decided = false;
	s->doomed_ms = 0;
	s->method[0] = '\0';
	s->dest.host.len = 0;
	free(s->rule);
	s->rule = NULL;
	s->group = NULL;
	free(s->named);
	s->named = NULL;
	s->address.len = 0;
}

/* Reads a head from what has come; true when the connection may have another request ready. */
static bool read_head(struct session *s)
{
	struct buf *in = &s->client.in;

	if (buf_len(in) == 0) {
		if (s->client.eof)
			session_close(s, false);
		return false;
	}
	if (s->state == SESSION_WAIT)
		session_set_state(s, SESSION_HEAD, s->egress->conf->timeouts.head);
	switch (http_head_read(s->head, buf_head(in), buf_len(in))) {
	case HTTP_MORE:
	case HTTP_DATA:
		if (s->client.eof) {
			session_close(s, false);
		} else if (stream_starved(&s->client)) {
			s->keep = false;
			s->begun_us = egress_now_us();
			refuse(s, REASON_BUFFERS, NULL);
		} else {
			stream_more(&s->client);
		}
		return false;
	case HTTP_BAD:
		s->begun_us = egress_now_us();
		refuse_malformed(s, s->head->reason);
		return false;
	case HTTP_DONE:
		s->begun_us = egress_now_us();
		ladder_climb(s);
		return s->state == SESSION_WAIT;
	}
	return false;
}

void session_next(struct session *s)
{
	do {
		new_id(s);
		http_head_init(s->head, HTTP_REQUEST | HTTP_TE_ANY_CASE | HTTP_HOST_OPTIONAL, HTTP_MAX_HEAD);
	} while (read_head(s));
	if (s->state == SESSION_WAIT)
		stream_more(&s->client); /* and gives the buffer back: an idle connection keeps none */
}

/* --- end of a connection ----------------------------------------------------------------------------------------- */

void session_close(struct session *s, bool abort)
{
	struct egress *e = s->egress;

	if (s->state == SESSION_CLOSED)
		return;
	session_set_state(s, SESSION_CLOSED, 0);
	session_end_request(s);
	resolve_cancel(s->lookup);
	connect_cancel(s->connector);
	s->lookup = NULL;
	s->connector = NULL;
	exchange_release(s);
	if (s->origin_fd >= 0)
		close(s->origin_fd);
	s->origin_fd = -1;
	if (abort)
		stream_abort(&s->client);
	else
		stream_close(&s->client);
	TAILQ_REMOVE(&e->sessions, s, link);
	TAILQ_INSERT_TAIL(&e->dead, s, link);
	event_active(&e->reaper, EV_TIMEOUT, 0);
	if (s->over_limit)
		e->nrefused--;
	else
		e->nclients--;
	e->metrics.connections = e->nclients;
}

void session_reap(struct egress *e)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&e->dead)) != NULL) {
		TAILQ_REMOVE(&e->dead, s, link);
		tunnel_drop_hello(s);
		free(s->head);
		free(s);
	}
}

/* --- the client's stream ----------------------------------------------------------------------------------------- */

static void on_input(struct stream *stream)
{
	struct session *s = stream->owner;

	switch (s->state) {
	case SESSION_WAIT:
	case SESSION_HEAD:
		if (read_head(s))
			session_next(s);
		return;
	case SESSION_RESOLVE:
	case SESSION_CONNECT: /* kept for what comes; bounded by the buffer */
	case SESSION_TUNNEL:
	case SESSION_CLOSED:
		return;
	case SESSION_HELLO:
		tunnel_client_input(s);
		return;
	case SESSION_EXCHANGE:
		exchange_client_input(s);
		return;
	case SESSION_ANSWER:
		if (!s->keep)
			buf_clear(&stream->in);
		return;
	case SESSION_LINGER:
		buf_clear(&stream->in);
		if (stream->eof)
			session_close(s, false);
		return;
	}
}

static void on_drained(struct stream *stream)
{
	struct session *s = stream->owner;

	switch (s->state) {
	case SESSION_ANSWER:
		session_answered(s);
		return;
	case SESSION_EXCHANGE:
		exchange_client_drained(s);
		return;
	case SESSION_HELLO:
	case SESSION_TUNNEL:
		tunnel_drained(s);
		return;
	case SESSION_WAIT:
	case SESSION_HEAD:
	case SESSION_RESOLVE:
	case SESSION_CONNECT:
	case SESSION_LINGER:
	case SESSION_CLOSED:
		return;
	}
}

static void on_failed(struct stream *stream, int error)
{
	struct session *s = stream->owner;

	(void)error;
	session_close(s, true);
}

static const struct stream_ops client_ops = { on_input, on_drained, on_failed };

void session_accept(struct egress *e, int fd, const struct peer *peer)
{
	struct session *s;
	bool over = e->nclients >= e->max_clients;

	if (over && e->nrefused >= REFUSED_AT_ONCE_MAX) {
		close(fd);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL || (s->head = malloc(sizeof(*s->head))) == NULL) {
		free(s);
		close(fd);
		return;
	}
	s->egress = e;
	s->origin_fd = -1;
	s->state = SESSION_HEAD;
	s->over_limit = over;
	peer_format(peer, s->peer, sizeof(s->peer));
	evtimer_assign(&s->timer, e->base, on_timer, s);
	TAILQ_INSERT_TAIL(&e->sessions, s, link);
	if (over)
		e->nrefused++;
	else
		e->nclients++;
	e->metrics.connections_total++;
	e->metrics.connections = e->nclients;
	stream_open(&s->client, e->base, &e->pool, fd, CLIENT_IN_MAX, CLIENT_OUT_MAX, &client_ops, s);
	set_deadline(s, e->conf->timeouts.head);
	new_id(s);
	http_head_init(s->head, HTTP_REQUEST | HTTP_TE_ANY_CASE | HTTP_HOST_OPTIONAL, HTTP_MAX_HEAD);
	if (over) {
		s->begun_us = egress_now_us();
		refuse(s, REASON_CAPACITY, NULL);
	}
}
