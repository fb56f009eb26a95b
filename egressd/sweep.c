/* What is done to all connections at once: after a reload, by the budgets of the whole, at the end. */
#include <stdlib.h>

#include "egressd/exchange.h"
#include "egressd/session.h"
#include "egressd/tcp.h"
#include "libgate/log.h"
#include "libgate/relay.h"

static bool still_allowed(struct session *s)
{
	const struct egress_conf *c = s->egress->conf;
	const struct rule *rule = NULL;
	enum reason r =
		rules_match(c->allow, &s->dest.host, s->dest.port, s->dest.connect ? &c->connect_ports : &c->http_ports, &rule);

	s->group = r == REASON_OK ? rule : NULL; /* the old entry is gone */
	if (s->address.len > 0 && !egress_address_stands(s->egress, &s->dest.host, &s->address))
		return false;
	return s->warned != REASON_OK || r == REASON_OK;
}

void sweep_judge_again(struct egress *e)
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
		egress_count_relayed(s->egress, &stats);
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

void sweep_tick(struct egress *e, int64_t now_ms)
{
	const struct egress_conf *c = e->conf;
	struct session *s, *next;

	if ((c->limits.total_bytes > 0 &&
			e->bytes + bytes_in_tunnels(e) + tcp_bytes(e) >= (uint64_t)c->limits.total_bytes) ||
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

void sweep_close_all(struct egress *e)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&e->sessions)) != NULL)
		cut(s, "shutdown");
}

void sweep_close_idle(struct egress *e)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE (s, &e->sessions, link, next)
		if (s->state == SESSION_WAIT || (s->state == SESSION_HEAD && buf_len(&s->client.in) == 0))
			session_close(s, false);
}
