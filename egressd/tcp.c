/* Relays connections to pinned targets. */
#include "egressd/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egressd/connect.h"
#include "libgate/dns_resolve.h"
#include "libgate/log.h"
#include "libgate/relay.h"

struct tcp_port {
	struct egress *egress;
	struct host host; /* copies: a reload replaces the configuration, never a running target */
	uint16_t port;
	unsigned naddrs;
	struct addr addrs[CONF_TARGET_ADDRS_MAX];
};

struct relayed {
	TAILQ_ENTRY(relayed) link;
	const struct tcp_port *port;
	int fd; /* the client, until the relay has it */
	struct connector *connector;
	struct relay *relay;
	struct addr address;
	int64_t begun_us;
	char peer[64];
};

/* --- pinning ----------------------------------------------------------------------------------------------------- */

struct pinning {
	struct target *target;
	enum dns_result result;
	bool done;
};

static void on_pinned(enum dns_result result, const struct answer *answer, void *arg)
{
	struct pinning *p = arg;

	p->done = true;
	p->result = result;
	if (result != DNS_OK)
		return;
	if (answer->n > CONF_TARGET_ADDRS_MAX) {
		p->result = DNS_TOO_MANY;
		return;
	}
	p->target->naddrs = answer->n;
	memcpy(p->target->addrs, answer->addrs, answer->n * sizeof(answer->addrs[0]));
}

static int resolve_target(struct egress *e, struct target *t, struct err *err)
{
	struct pinning p = { .target = t };
	struct lookup_wait *wait = resolve_start(e->resolver, &t->host, NULL, on_pinned, &p, &p.result);

	while (wait != NULL && !p.done)
		event_base_loop(e->base, EVLOOP_ONCE);
	if (p.result != DNS_OK)
		return err_set(err, 0, "TCP target %s:%u cannot be pinned: %s", t->host.name, (unsigned)t->port,
			dns_result_text(p.result));
	return 0;
}

static int pin_target(struct egress *e, struct target *t, struct err *err)
{
	bool exempt;
	struct addr pins[CONF_TARGET_ADDRS_MAX];
	unsigned npins = egress_conf_pins(e->conf, &t->host, pins, ARRAY_SIZE(pins));
	struct guard_fault fault;
	char why[256];

	exempt = npins > 0;
	if (t->naddrs == 0 && exempt) {
		memcpy(t->addrs, pins, npins * sizeof(pins[0]));
		t->naddrs = npins;
	} else if (t->naddrs == 0 && resolve_target(e, t, err) != 0) {
		return -1;
	}
	fault = guard_check(&e->guard, t->addrs, t->naddrs, t->port, exempt);
	if (fault.reason == REASON_OK)
		return 0;
	guard_explain(&fault, why, sizeof(why));
	return err_set(err, 0, "TCP target %s:%u cannot be pinned: %s", t->host.name, (unsigned)t->port, why);
}

int tcp_pin_targets(struct egress *e, struct err *err)
{
	for (unsigned i = 0; i < e->conf->targets.n; i++) {
		struct target *t = e->conf->targets.target[i];
		if (pin_target(e, t, err) != 0)
			return -1;
		log_info("%s relays to %s:%u, pinned to %u address%s", t->listen, t->host.name, (unsigned)t->port, t->naddrs,
			t->naddrs == 1 ? "" : "es");
	}
	return 0;
}

struct tcp_port *tcp_port_new(struct egress *e, const struct target *target)
{
	struct tcp_port *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->egress = e;
	p->host = target->host;
	p->port = target->port;
	p->naddrs = target->naddrs;
	memcpy(p->addrs, target->addrs, sizeof(p->addrs));
	return p;
}

void tcp_port_free(struct tcp_port *port)
{
	free(port);
}

/* --- connections ------------------------------------------------------------------------------------------------- */

static void log_line(const struct relayed *r, const char *event, const char *decision, const char *reason,
	const struct relay_stats *stats)
{
	struct audit *a = r->port->egress->audit;
	char object[HOST_MAX + 8], address[64];

	snprintf(object, sizeof(object), "%s:%u", r->port->host.name, (unsigned)r->port->port);
	audit_begin(a, event);
	audit_cstr(a, "peer", r->peer);
	audit_cstr(a, "method", "TCP");
	audit_cstr(a, "object", object);
	if (r->address.len > 0) {
		addr_format(&r->address, address, sizeof(address));
		audit_cstr(a, "address", address);
	}
	audit_cstr(a, "decision", decision);
	audit_cstr(a, "reason", reason);
	if (stats != NULL) {
		audit_int(a, "bytesIn", (int64_t)stats->a_to_b);
		audit_int(a, "bytesOut", (int64_t)stats->b_to_a);
	}
	audit_int(a, "durationUs", egress_now_us() - r->begun_us);
	egress_audit_done(r->port->egress);
}

static void relayed_free(struct relayed *r)
{
	struct egress *e = r->port->egress;

	connect_cancel(r->connector);
	relay_free(r->relay);
	if (r->fd >= 0)
		close(r->fd);
	TAILQ_REMOVE(&e->relayed, r, link);
	e->nclients--;
	e->metrics.connections = e->nclients;
	free(r);
}

static void on_relayed(enum relay_end end, const struct relay_stats *stats, void *arg)
{
	static const char *const words[] = {
		[RELAY_END_CLOSED] = "closed",
		[RELAY_END_RESET] = "reset",
		[RELAY_END_IDLE] = "idle",
		[RELAY_END_LIFETIME] = "lifetime",
		[RELAY_END_BYTES] = "bytes",
		[RELAY_END_STOPPED] = "stopped",
	};
	struct relayed *r = arg;
	struct egress *e = r->port->egress;

	r->relay = NULL;
	egress_count_relayed(e, stats);
	log_line(r, "close", NULL, words[end], stats);
	relayed_free(r);
}

static void on_connected(int fd, enum reason reason, const struct addr *addr, void *arg)
{
	struct relayed *r = arg;
	struct egress *e = r->port->egress;
	const struct relay_limits limits = {
		.idle_ms = e->conf->timeouts.idle,
		.half_closed_ms = e->conf->timeouts.half_closed,
		.max_ms = e->conf->timeouts.connection,
		.max_bytes = (uint64_t)e->conf->limits.connection_bytes,
		.keep_alive_ms = EGRESS_KEEP_ALIVE_MS,
	};

	r->connector = NULL;
	if (reason != REASON_OK) {
		log_line(r, "decision", "fail", reason_id(reason), NULL);
		relayed_free(r);
		return;
	}
	r->address = *addr;
	log_line(r, "decision", "allow", NULL, NULL);
	e->metrics.relays_total++;
	r->relay = relay_new(e->base, r->fd, SLICE_LIT(""), fd, SLICE_LIT(""), &limits, on_relayed, r);
	if (r->relay == NULL)
		close(fd);
	else
		r->fd = -1;
	if (r->relay == NULL)
		relayed_free(r);
}

void tcp_accept(int fd, const struct peer *peer, void *port)
{
	struct tcp_port *p = port;
	struct egress *e = p->egress;
	const struct egress_timeouts *t = &e->conf->timeouts;
	struct relayed *r;

	r = e->nclients < e->max_clients && !e->draining && !e->spent ? calloc(1, sizeof(*r)) : NULL;
	if (r == NULL) {
		close(fd);
		e->metrics.requests[REASON_CAPACITY]++;
		return;
	}
	r->port = p;
	r->fd = fd;
	r->begun_us = egress_now_us();
	peer_format(peer, r->peer, sizeof(r->peer));
	TAILQ_INSERT_TAIL(&e->relayed, r, link);
	e->nclients++;
	e->metrics.connections_total++;
	e->metrics.connections = e->nclients;
	r->connector = connect_start(e->base, p->addrs, p->naddrs, p->port, t->connect, t->stagger, on_connected, r);
	if (r->connector == NULL)
		relayed_free(r);
}

uint64_t tcp_bytes(const struct egress *e)
{
	struct relayed *r;
	struct relay_stats stats;
	uint64_t sum = 0;

	TAILQ_FOREACH (r, &e->relayed, link) {
		if (r->relay == NULL)
			continue;
		relay_stats(r->relay, &stats);
		sum += stats.a_to_b + stats.b_to_a;
	}
	return sum;
}

void tcp_close_all(struct egress *e, const char *why)
{
	struct relayed *r;

	while ((r = TAILQ_FIRST(&e->relayed)) != NULL) {
		struct relay_stats stats = { 0, 0 };
		if (r->relay != NULL)
			relay_stats(r->relay, &stats);
		egress_count_relayed(e, &stats);
		log_line(r, "close", NULL, why, &stats);
		relayed_free(r);
	}
}
