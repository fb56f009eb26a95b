/* The ladder: what happens to a request, step by step, until it is refused or its connection stands. */
#include <stdlib.h>
#include <string.h>

#include "egressd/connect.h"
#include "libgate/dns_resolve.h"
#include "egressd/session.h"
#include "libgate/log.h"

#define NAMED_MAX 300

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

static void on_resolved(enum dns_result result, const struct answer *answer, void *arg)
{
	struct session *s = arg;

	s->lookup = NULL;
	if (result != DNS_OK)
		refuse(s, reason_of_dns(result), NULL);
	else
		connect_to(s, answer->addrs, answer->n, false);
}

/*
 * The labels under a wildcard are the client's to choose and reach that zone's name servers: how many a minute is limited.
 * What other requests ask for at this moment, or the cache knows, says nothing new to anybody.
 */
static bool in_pace(const struct session *s)
{
	struct egress *e = s->egress;

	return s->group == NULL || !s->group->wildcard || resolve_pending(e->resolver, &s->dest.host) ||
		pace_take(&e->paces[rules_index(e->conf->allow, s->group)], e->conf->limits.wildcard_lookups, egress_now_ms());
}

/* The name is known to be allowed; only now may it be asked for. */
static void find_addresses(struct session *s)
{
	struct egress *e = s->egress;
	struct addr pins[CONF_TARGET_ADDRS_MAX];
	bool exempt;
	unsigned n = egress_conf_known(e->conf, &s->dest.host, pins, ARRAY_SIZE(pins), &exempt);
	const struct answer *known = n == 0 ? resolve_cached(e->resolver, &s->dest.host) : NULL;
	enum dns_result why = DNS_OK;

	if (n > 0) {
		connect_to(s, pins, n, exempt);
		return;
	}
	if (known != NULL) {
		connect_to(s, known->addrs, known->n, false);
		return;
	}
	if (!in_pace(s)) {
		refuse(s, REASON_DNS_PACE, NULL);
		return;
	}
	session_set_state(s, SESSION_RESOLVE, e->conf->timeouts.dns + 1000);
	s->lookup = resolve_start(e->resolver, &s->dest.host, s->group, on_resolved, s, &why);
	if (s->lookup == NULL)
		refuse(s, reason_of_dns(why), NULL);
}

void ladder_reconnect(struct session *s)
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
	if (!s->dest.connect && stream_pool_spent(&e->pool))
		return REASON_BUFFERS;
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
	s->group = r == REASON_OK ? rule : NULL;
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
void ladder_climb(struct session *s)
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
	stream_more(&s->client); /* and gives the buffer back, if that was all */
	if (!s->dest.connect && exchange_can_reuse(s))
		exchange_begin(s, -1);
	else
		find_addresses(s);
}
