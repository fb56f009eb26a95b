/* CONNECT: the 200, the look at the ClientHello, and the relay. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egressd/session.h"
#include "libgate/log.h"
#include "libgate/relay.h"

#define TLS_PORT 443

static const char *end_word(enum relay_end end)
{
	switch (end) {
	case RELAY_END_CLOSED:
		return "closed";
	case RELAY_END_RESET:
		return "reset";
	case RELAY_END_IDLE:
		return "idle";
	case RELAY_END_LIFETIME:
		return "lifetime";
	case RELAY_END_BYTES:
		return "bytes";
	case RELAY_END_STOPPED:
		return "stopped";
	}
	return "closed";
}

static void on_relayed(enum relay_end end, const struct relay_stats *stats, void *arg)
{
	struct session *s = arg;
	struct egress *e = s->egress;

	s->relay = NULL;
	egress_count_relayed(e, stats);
	e->metrics.tunnels--;
	session_log_close(s, end_word(end), stats->a_to_b, stats->b_to_a);
	session_close(s, false);
}

void tunnel_relay(struct session *s, int origin_fd, struct slice early_origin)
{
	const struct egress_conf *c = s->egress->conf;
	const struct relay_limits limits = {
		.idle_ms = c->timeouts.idle,
		.half_closed_ms = c->timeouts.half_closed,
		.max_ms = c->timeouts.connection,
		.max_bytes = (uint64_t)c->limits.connection_bytes,
		.keep_alive_ms = EGRESS_KEEP_ALIVE_MS,
	};

	session_set_state(s, SESSION_TUNNEL, 0);
	s->relay = relay_new(s->egress->base, s->client.fd, buf_slice(&s->client.in), origin_fd, early_origin, &limits,
		on_relayed, s);
	if (s->relay == NULL) {
		close(origin_fd);
		session_log_close(s, reason_id(REASON_INTERNAL), 0, 0);
		session_close(s, true);
		return;
	}
	(void)stream_detach(&s->client);
	s->egress->metrics.tunnels++;
	s->egress->metrics.tunnels_total++;
	stream_close(&s->client); /* an idle tunnel holds no buffer and no head */
	free(s->head);
	s->head = NULL;
}

static void cut(struct session *s, enum reason reason)
{
	s->egress->metrics.requests[reason]++;
	session_log_decision(s, "deny", reason_id(reason),
		s->hello != NULL && s->hello->name.len > 0 ? s->hello->name.name : NULL, reason_status(reason));
	session_log_close(s, reason_id(reason), 0, 0);
	session_close(s, true);
}

void tunnel_drop_hello(struct session *s)
{
	if (s->hello == NULL)
		return;
	hello_release(s->hello);
	free(s->hello);
	s->hello = NULL;
	stream_pool_charge(&s->egress->pool, &s->hello_charged, 0);
}

static void go_relay(struct session *s)
{
	int fd = s->origin_fd;

	s->origin_fd = -1;
	tunnel_relay(s, fd, SLICE_LIT(""));
}

/* The name is not the host's: in warn mode that is written down, else the tunnel ends here. */
static void judged(struct session *s, enum reason reason)
{
	bool warn = reason != REASON_OK && s->egress->conf->mode == MODE_WARN;

	if (warn)
		session_log_decision(s, "warn", reason_id(reason), NULL, 200);
	if (reason != REASON_OK && !warn) {
		cut(s, reason);
		return;
	}
	tunnel_drop_hello(s);
	go_relay(s);
}

static enum reason judge_hello(const struct session *s, enum hello_result result)
{
	switch (result) {
	case HELLO_NAME:
		if (slice_eq(host_slice(&s->hello->name), host_slice(&s->dest.host)))
			return REASON_OK;
		return s->hello->ech ? REASON_SNI_ECH : REASON_SNI_MISMATCH;
	case HELLO_MISSING:
		return REASON_SNI_MISSING;
	case HELLO_NOT_TLS:
		return REASON_SNI_NOT_TLS;
	case HELLO_MALFORMED:
	case HELLO_MORE:
		return REASON_SNI_MALFORMED;
	}
	return REASON_SNI_MALFORMED;
}

/* Takes what has come of the hello. The bytes stay in the buffer: they go to the host once they were judged. */
static void take_hello(struct session *s)
{
	struct buf *in = &s->client.in;
	struct hello *h = s->hello;

	if (h->result != HELLO_MORE || buf_len(in) == h->seen)
		return;
	h->result = hello_read(h, buf_head(in) + h->seen, buf_len(in) - h->seen);
	h->seen = buf_len(in);
	stream_pool_charge(&s->egress->pool, &s->hello_charged, h->cap);
}

void tunnel_client_input(struct session *s)
{
	struct hello *h = s->hello;

	if (h == NULL) /* nothing is looked into; the 200 is on its way, and drained goes on */
		return;
	take_hello(s);
	if (h->result == HELLO_MORE && stream_starved(&s->client)) {
		cut(s, REASON_BUFFERS);
		return;
	}
	if (h->result == HELLO_MORE && !s->client.eof) {
		stream_more(&s->client);
		return;
	}
	if (buf_len(&s->client.out) > 0) /* the 200 first; drained comes back here */
		return;
	if (h->seen == 0) { /* opened ahead of need, and given up: no offence */
		session_log_close(s, "closed", 0, 0);
		session_close(s, false);
		return;
	}
	judged(s, judge_hello(s, h->result));
}

void tunnel_drained(struct session *s)
{
	if (s->state != SESSION_HELLO)
		return;
	if (s->hello == NULL)
		go_relay(s);
	else
		tunnel_client_input(s);
}

void tunnel_timeout(struct session *s)
{
	if (s->hello != NULL && s->egress->conf->mode == MODE_WARN)
		judged(s, REASON_SNI_TIMEOUT);
	else
		cut(s, REASON_SNI_TIMEOUT);
}

static bool looks_inside(const struct session *s)
{
	const struct egress_conf *c = s->egress->conf;
	const struct ports all = { 1, { TLS_PORT } };
	const struct rule *rule;

	return c->require_sni && s->dest.port == TLS_PORT &&
		rules_match(c->sni_exempt, &s->dest.host, TLS_PORT, &all, &rule) != REASON_OK;
}

void tunnel_begin(struct session *s, int origin_fd)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	s->origin_fd = origin_fd;
	exchange_release(s); /* nothing will ask for the connection of an earlier request again */
	if (looks_inside(s)) {
		s->hello = malloc(sizeof(*s->hello));
		if (s->hello == NULL) {
			refuse(s, REASON_INTERNAL, NULL);
			return;
		}
		hello_init(s->hello);
	}
	session_set_state(s, SESSION_HELLO, s->egress->conf->timeouts.hello);
	if (buf_put(&s->client.out, established, sizeof(established) - 1) != 0 || stream_flush(&s->client) != 0) {
		session_log_close(s, "reset", 0, 0);
		session_close(s, true);
		return;
	}
	if (buf_len(&s->client.out) == 0)
		tunnel_drained(s);
}
