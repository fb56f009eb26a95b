/* The ladder: what happens to a request, step by step, until it is refused or its connection stands. */
#include "egressd/session.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "egressd/connect.h"
#include "egressd/exchange.h"
#include "egressd/resolve.h"
#include "libgate/log.h"
#include "libgate/relay.h"

#define CLIENT_IN_MAX (64 * 1024 + HTTP_MAX_HEAD)
#define CLIENT_OUT_MAX (1024 * 1024)
#define NAMED_MAX 300
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

int64_t egress_now_ms(void)
{
	return egress_now_us() / 1000;
}

int64_t egress_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void egress_audit_done(struct egress *e)
{
	audit_end(e->audit);
	if (!event_pending(&e->flush, EV_TIMEOUT, NULL))
		event_active(&e->flush, EV_TIMEOUT, 0);
}

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

/* --- the request in hand ----------------------------------------------------------------------------------------- */

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
	free(s->named);
	s->named = NULL;
	s->address.len = 0;
}

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

/* --- the ladder -------------------------------------------------------------------------------------------------- */

static void on_connected(int fd, enum reason reason, const struct addr *addr, void *arg)
{
	struct session *s = arg;
	bool tunnel = s->dest.connect;

	s->connector = NULL;
	if (reason != REASON_OK) {
		refuse(s, reason, NULL);
		return;
	}
	s->address = *addr;
	session_log_allowed(s);
	if (tunnel)
		tunnel_begin(s, fd);
	else
		exchange_begin(s, fd);
}

static void connect_to(struct session *s, const struct addr *addrs, unsigned n, bool exempt)
{
	const struct egress_timeouts *t = &s->egress->conf->timeouts;
	struct guard_fault fault = guard_check(&s->egress->guard, addrs, n, s->dest.port, exempt);
	char detail[256];

	if (fault.reason != REASON_OK) {
		guard_explain(&fault, detail, sizeof(detail));
		refuse(s, fault.reason, detail);
		return;
	}
	session_set_state(s, SESSION_CONNECT, t->connect + 1000);
	s->connector = connect_start(s->egress->base, addrs, n, s->dest.port, t->connect, t->stagger, on_connected, s);
	if (s->connector == NULL)
		refuse(s, REASON_INTERNAL, NULL);
}

static void on_resolved(enum reason reason, const struct answer *answer, void *arg)
{
	struct session *s = arg;

	s->lookup = NULL;
	if (reason != REASON_OK)
		refuse(s, reason, NULL);
	else
		connect_to(s, answer->addrs, answer->n, false);
}

/* The name is known to be allowed; only now may it be asked for. */
static void find_addresses(struct session *s)
{
	struct egress *e = s->egress;
	struct addr pins[CONF_TARGET_ADDRS_MAX];
	unsigned n = egress_conf_pins(e->conf, &s->dest.host, pins, ARRAY_SIZE(pins));
	const struct answer *known = n == 0 ? resolve_cached(e->resolver, &s->dest.host) : NULL;
	enum reason why = REASON_OK;

	if (n > 0) {
		connect_to(s, pins, n, true);
		return;
	}
	if (known != NULL) {
		connect_to(s, known->addrs, known->n, false);
		return;
	}
	session_set_state(s, SESSION_RESOLVE, e->conf->timeouts.dns + 1000);
	s->lookup = resolve_start(e->resolver, &s->dest.host, s->group, on_resolved, s, &why);
	if (s->lookup == NULL)
		refuse(s, why, NULL);
}

void session_reconnect(struct session *s)
{
	find_addresses(s);
}

/* Limits of the whole and of the host. */
static enum reason check_room(struct session *s)
{
	struct egress *e = s->egress;
	uint32_t n;

	if (e->draining)
		return REASON_DRAINING;
	if (e->spent)
		return REASON_BUDGET;
	n = tally_add(&e->tally, &s->dest.host);
	if (n == 0)
		return REASON_INTERNAL;
	s->counted = true;
	return e->conf->limits.per_host > 0 && n > (uint64_t)e->conf->limits.per_host ? REASON_HOST_CAPACITY : REASON_OK;
}

static enum reason check_rules(struct session *s)
{
	const struct egress_conf *c = s->egress->conf;
	const struct rule *rule = NULL;
	enum reason r =
		rules_match(c->allow, &s->dest.host, s->dest.port, s->dest.connect ? &c->connect_ports : &c->http_ports, &rule);

	if (rule != NULL && r == REASON_OK)
		s->rule = strdup(rule->text);
	s->group = rule;
	if (r != REASON_OK && c->mode == MODE_WARN) {
		s->warned = r;
		log_warn("%s %s:%u would be refused: %s", s->peer, s->dest.host.name, (unsigned)s->dest.port, reason_text(r));
		return REASON_OK;
	}
	return r;
}

static void copy_method(struct session *s, struct slice method)
{
	size_t n = method.len < sizeof(s->method) - 1 ? method.len : sizeof(s->method) - 1;

	memcpy(s->method, method.p, n);
	s->method[n] = '\0';
}

static void name_request(struct session *s)
{
	const char *p = buf_head(&s->client.in);
	struct slice named = request_named(s->head, p);

	copy_method(s, http_span(p, s->head->method_text));
	free(s->named);
	s->named = strndup(named.p, named.len < NAMED_MAX ? named.len : NAMED_MAX);
}

/* A whole head stands in client.in. */
static void climb(struct session *s)
{
	const char *p = buf_head(&s->client.in);
	enum reason r;

	name_request(s);
	s->keep = s->head->keep_alive && s->head->minor >= 1 && s->head->framing == HTTP_BODY_NONE;
	r = request_dest(s->head, p, &s->dest);
	if (r == REASON_OK)
		r = check_rules(s);
	if (r == REASON_OK)
		r = check_room(s);
	if (r != REASON_OK) {
		/* After a refused CONNECT nothing that follows is a request; nor behind a body that nobody reads. */
		s->keep = s->keep && !s->dest.connect && reason_status(r) == 403;
		buf_consume(&s->client.in, s->head->length);
		refuse(s, r, NULL);
		return;
	}
	if (!s->dest.connect && exchange_prepare(s) != 0) {
		s->keep = false;
		refuse(s, REASON_INTERNAL, NULL);
		return;
	}
	buf_consume(&s->client.in, s->head->length);
	if (!s->dest.connect && exchange_can_reuse(s))
		exchange_begin(s, -1);
	else
		find_addresses(s);
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
		if (s->client.eof)
			session_close(s, false);
		else
			stream_more(&s->client);
		return false;
	case HTTP_BAD:
		s->begun_us = egress_now_us();
		refuse_malformed(s, s->head->reason);
		return false;
	case HTTP_DONE:
		s->begun_us = egress_now_us();
		climb(s);
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
	/* An idle connection keeps no buffer. */
	if (s->state == SESSION_WAIT) {
		buf_trim(&s->client.in);
		stream_more(&s->client);
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
	int one = 1;

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
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
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
	stream_open(&s->client, e->base, fd, CLIENT_IN_MAX, CLIENT_OUT_MAX, &client_ops, s);
	set_deadline(s, e->conf->timeouts.head);
	new_id(s);
	http_head_init(s->head, HTTP_REQUEST | HTTP_TE_ANY_CASE | HTTP_HOST_OPTIONAL, HTTP_MAX_HEAD);
	if (over) {
		s->begun_us = egress_now_us();
		refuse(s, REASON_CAPACITY, NULL);
	}
}

/* --- all of them ------------------------------------------------------------------------------------------------- */

static bool still_allowed(struct session *s)
{
	const struct egress_conf *c = s->egress->conf;
	const struct rule *rule;

	return s->warned != REASON_OK ||
		rules_match(c->allow, &s->dest.host, s->dest.port, s->dest.connect ? &c->connect_ports : &c->http_ports,
			&rule) == REASON_OK;
}

void session_judge_again(struct egress *e)
{
	struct session *s;
	int64_t until = egress_now_ms() + e->conf->timeouts.reload_grace;

	TAILQ_FOREACH (s, &e->sessions, link) {
		if (s->dest.host.len == 0 || still_allowed(s))
			s->doomed_ms = 0;
		else if (s->doomed_ms == 0)
			s->doomed_ms = until;
		/* A connection to an origin that waits for the next request is not worth a second look. */
		if (s->state == SESSION_WAIT)
			exchange_drop_origin(s);
	}
}

/* Ends what runs, with its reason in the log. */
static void cut(struct session *s, const char *why)
{
	struct relay_stats stats = { 0, 0 };

	if (s->state == SESSION_TUNNEL && s->relay != NULL) {
		relay_stats(s->relay, &stats);
		s->egress->bytes += stats.a_to_b + stats.b_to_a;
		relay_free(s->relay);
		s->relay = NULL;
		s->egress->metrics.tunnels--;
	} else if (s->exchange != NULL) {
		exchange_bytes(s, &stats.a_to_b, &stats.b_to_a);
	}
	if (s->dest.host.len > 0)
		session_log_close(s, why, stats.a_to_b, stats.b_to_a);
	session_close(s, true);
}

static uint64_t bytes_in_tunnels(struct egress *e)
{
	struct session *s;
	struct relay_stats stats;
	uint64_t sum = 0;

	TAILQ_FOREACH (s, &e->sessions, link) {
		if (s->relay == NULL)
			continue;
		relay_stats(s->relay, &stats);
		sum += stats.a_to_b + stats.b_to_a;
	}
	return sum;
}

void session_sweep(struct egress *e, int64_t now_ms)
{
	const struct egress_conf *c = e->conf;
	struct session *s, *next;

	if ((c->limits.total_bytes > 0 && e->bytes + bytes_in_tunnels(e) >= (uint64_t)c->limits.total_bytes) ||
		(c->timeouts.total > 0 && now_ms - e->started_ms >= c->timeouts.total)) {
		if (!e->spent)
			log_warn("the byte or time budget of this proxy is used up: open connections are cut, new ones refused");
		e->spent = true;
	}
	TAILQ_FOREACH_SAFE (s, &e->sessions, link, next) {
		if (e->spent && s->dest.host.len > 0)
			cut(s, reason_id(REASON_BUDGET));
		else if (s->doomed_ms > 0 && now_ms >= s->doomed_ms)
			cut(s, "reload");
	}
}

void session_close_all(struct egress *e)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&e->sessions)) != NULL)
		cut(s, "shutdown");
}

void session_reap(struct egress *e)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&e->dead)) != NULL) {
		TAILQ_REMOVE(&e->dead, s, link);
		if (s->hello != NULL)
			hello_release(s->hello);
		free(s->hello);
		free(s->head);
		free(s);
	}
}

void session_close_idle(struct egress *e)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE (s, &e->sessions, link, next)
		if (s->state == SESSION_WAIT || (s->state == SESSION_HEAD && buf_len(&s->client.in) == 0))
			session_close(s, false);
}
