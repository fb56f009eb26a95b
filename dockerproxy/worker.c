/* One worker process: listeners in, sessions out, until it is told to drain. */
#include "dockerproxy/worker.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "dockerproxy/clock.h"
#include "dockerproxy/link.h"
#include "dockerproxy/metrics.h"
#include "dockerproxy/owner.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/secure.h"
#include "dockerproxy/session.h"
#include "dockerproxy/status.h"
#include "dockerproxy/upstream.h"
#include "libgate/audit.h"
#include "libgate/confine.h"
#include "libgate/log.h"
#include "libgate/tls.h"

/* A listener and what its connections inherit. */
struct gate {
	struct worker *worker;
	const struct proxy_listen *conf;
	struct listener *listener;
};

struct worker {
	const struct worker_setup *setup;
	struct event_base *base;
	struct link *link;
	struct status *status; /* the admin listener; NULL: none */
	struct session_env env;
	struct gate gates[PROXY_MAX_LISTEN];
	unsigned nhandshakes; /* TLS clients before their session */
	bool paused; /* at the connection cap */
	bool draining;
	bool over; /* the drain's time is up */
	struct event drain_timer;
	struct upstream_stats seen; /* what of the upstream's numbers the metrics have */
	uint64_t seen_dropped; /* and of the audit log's */
};

/* --- engine connections come from the master ----------------------------------------------------------------------- */

/* A connection to an engine that speaks TLS, between the master's hand-over and the end of the handshake. */
struct secure_dial {
	struct worker *worker;
	upstream_dialled_cb done;
	void *arg;
};

static void on_secure(int fd, const char *name, const char *why, void *arg)
{
	struct secure_dial *d = arg;

	if (fd < 0)
		log_error("TLS to the engine: %s", why);
	d->done(fd, fd < 0 ? EPROTO : 0, d->arg);
	free(d);
}

static void on_connected(int fd, int error, void *arg)
{
	struct secure_dial *d = arg;
	const struct proxy_conf *conf = d->worker->setup->conf;

	if (fd >= 0 && tls_start(conf->upstream_secure, d->worker->base, fd, conf->connect_ms, on_secure, d))
		return;
	d->done(-1, fd >= 0 ? ENOMEM : error, d->arg);
	free(d);
}

static void dial_secure(struct worker *w, upstream_dialled_cb done, void *arg)
{
	struct secure_dial *d = malloc(sizeof(*d));

	if (d == NULL) {
		done(-1, ENOMEM, arg);
		return;
	}
	*d = (struct secure_dial){ w, done, arg };
	if (link_connect(w->link, on_connected, d) == NULL) {
		free(d);
		done(-1, ECONNREFUSED, arg);
	}
}

static void dial(void *self, upstream_dialled_cb done, void *arg)
{
	struct worker *w = self;

	if (w->setup->conf->upstream_secure != NULL)
		dial_secure(w, done, arg);
	else if (link_connect(w->link, done, arg) == NULL)
		done(-1, ECONNREFUSED, arg);
}

/* --- accepting ---------------------------------------------------------------------------------------------------- */

static bool is_listed(const unsigned *ids, unsigned n, unsigned id)
{
	for (unsigned i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static struct addr peer_addr(const struct peer *peer)
{
	struct addr a = { .len = 4 };

	if (peer->addr.ss_family == AF_INET) {
		memcpy(a.bytes, &((const struct sockaddr_in *)(const void *)&peer->addr)->sin_addr, 4);
	} else {
		a.len = 16;
		memcpy(a.bytes, &((const struct sockaddr_in6 *)(const void *)&peer->addr)->sin6_addr, 16);
	}
	return a;
}

static bool peer_allowed(const struct proxy_listen *l, const struct peer *peer)
{
	struct addr addr;

	if (peer->is_unix)
		return (l->nuids == 0 && l->ngids == 0) || is_listed(l->uids, l->nuids, peer->uid) ||
			is_listed(l->gids, l->ngids, peer->gid);
	if (l->ncidrs == 0)
		return true;
	addr = peer_addr(peer);
	for (unsigned i = 0; i < l->ncidrs; i++)
		if (cidr_has(&l->cidrs[i], &addr))
			return true;
	return false;
}

static void pause_at_cap(struct worker *w)
{
	bool full = w->env.nsessions + w->nhandshakes >= (unsigned)w->setup->conf->connections;

	if (full == w->paused || w->draining)
		return;
	w->paused = full;
	if (full)
		log_warn("limits.connections (%u) reached: new connections wait", w->env.nsessions);
	for (unsigned i = 0; i < w->setup->conf->nlisten; i++)
		(full ? listener_pause : listener_resume)(w->gates[i].listener);
}

/* A TLS client before its session. It counts for its peer from the beginning: nobody has shown a certificate yet. */
struct handshake {
	struct gate *gate;
	struct peer peer;
	struct peer_entry *entry;
};

static void on_handshake(int fd, const char *name, const char *why, void *arg)
{
	struct handshake *h = arg;
	struct worker *w = h->gate->worker;
	char text[PEER_TEXT_MAX];

	w->nhandshakes--;
	peers_leave(w->setup->peers, w->setup->slot, h->entry);
	snprintf(h->peer.name, sizeof(h->peer.name), "%s", name);
	if (fd < 0) {
		peer_format(&h->peer, text, sizeof(text));
		log_info("TLS client %s: %s", text, why);
	} else if (w->draining) {
		close(fd);
	} else {
		(void)session_new(&w->env, h->gate->conf, fd, &h->peer);
	}
	pause_at_cap(w);
	free(h);
}

/* A TLS client could not read an answer in the clear: it sees the end alone. */
static void turn_away_unheard(struct gate *gate, int fd, const struct peer *peer, enum session_reason why)
{
	shutdown(fd, SHUT_RDWR);
	session_turn_away(&gate->worker->env, fd, peer, why);
}

static void shake_hands(struct gate *gate, int fd, const struct peer *peer)
{
	struct worker *w = gate->worker;
	struct peers *peers = w->setup->peers;
	struct peer_entry *entry = peers_enter(peers, w->setup->slot, peer, clock_us());
	struct handshake *h = entry != NULL ? malloc(sizeof(*h)) : NULL;

	if (entry == NULL) {
		turn_away_unheard(gate, fd, peer, SESSION_REASON_CONNECTIONS);
		return;
	}
	if (h != NULL) {
		*h = (struct handshake){ gate, *peer, entry };
		if (tls_start(gate->conf->secure, w->base, fd, w->setup->conf->head_ms, on_handshake, h)) {
			w->nhandshakes++;
			return;
		}
		free(h);
	} else {
		close(fd);
	}
	peers_leave(peers, w->setup->slot, entry);
}

static void on_accept(int fd, const struct peer *peer, void *arg)
{
	struct gate *gate = arg;

	if (!peer_allowed(gate->conf, peer)) {
		if (gate->conf->secure != NULL)
			turn_away_unheard(gate, fd, peer, SESSION_REASON_PEER);
		else
			session_turn_away(&gate->worker->env, fd, peer, SESSION_REASON_PEER);
		return;
	}
	if (gate->conf->secure != NULL)
		shake_hands(gate, fd, peer);
	else
		(void)session_new(&gate->worker->env, gate->conf, fd, peer);
	pause_at_cap(gate->worker);
}

static void on_session_close(void *arg)
{
	pause_at_cap(arg);
}

static int open_gates(struct worker *w)
{
	const struct proxy_conf *conf = w->setup->conf;

	for (unsigned i = 0; i < conf->nlisten; i++) {
		struct gate *gate = &w->gates[i];

		gate->worker = w;
		gate->conf = &conf->listen[i];
		gate->listener = listener_new(w->base, w->setup->fds[i], on_accept, gate);
		if (gate->listener == NULL)
			return -1;
	}
	return 0;
}

static void close_gates(struct worker *w)
{
	for (unsigned i = 0; i < w->setup->conf->nlisten; i++) {
		if (w->gates[i].listener != NULL)
			listener_free(w->gates[i].listener);
		w->gates[i].listener = NULL;
	}
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static void on_drain_over(evutil_socket_t fd, short what, void *arg)
{
	struct worker *w = arg;

	log_warn("timeouts.drain is over: %u connections are cut", w->env.nsessions);
	w->over = true;
}

static void on_drain(bool bounded, void *arg)
{
	struct worker *w = arg;
	int64_t ms = w->setup->conf->drain_ms;
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	w->draining = true;
	status_free(w->status);
	w->status = NULL;
	close_gates(w);
	session_drain(&w->env);
	if (bounded)
		event_add(&w->drain_timer, &tv);
}

static void on_audit(int fd, void *arg)
{
	struct worker *w = arg;

	audit_flush(w->setup->audit);
	audit_adopt(w->setup->audit, fd);
}

static const struct link_handlers link_handlers = {
	.drain = on_drain,
	.audit = on_audit,
};

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void publish(struct worker *w)
{
	struct metrics_counters *m = metrics_counters(w->setup->metrics, w->setup->slot);
	struct upstream_stats now;

	upstream_stats(w->env.upstream, &now);
	m->engine_connects += now.connects - w->seen.connects;
	m->engine_reuses += now.reuses - w->seen.reuses;
	m->engine_retries += now.retries - w->seen.retries;
	m->engine_faults += now.faults - w->seen.faults;
	m->audit_dropped += audit_dropped(w->setup->audit) - w->seen_dropped;
	w->seen = now;
	w->seen_dropped = audit_dropped(w->setup->audit);
}

/* One write of audit lines a turn, not one a request. */
static void serve(struct worker *w)
{
	/* A TLS end may still carry the last bytes of a session that is gone. */
	while (!w->over && !(w->draining && w->env.nsessions == 0 && secure_clients(w->setup->conf) == 0)) {
		if (event_base_loop(w->base, EVLOOP_ONCE) != 0)
			return;
		audit_flush(w->setup->audit);
		if (audit_lost(w->setup->audit))
			link_audit_lost(w->link);
		publish(w);
	}
}

static struct event_base *new_base(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	if (config == NULL)
		return NULL;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

static int set_up(struct worker *w, const struct worker_setup *setup)
{
	struct upstream_dialer dialer = {
		.dial = dial,
		.self = w,
		.direct = setup->conf->upstream.unix_path != NULL && setup->conf->upstream_secure == NULL,
	};

	w->setup = setup;
	w->base = new_base();
	if (w->base == NULL)
		return -1;
	w->link = link_new(w->base, setup->link_fd, &link_handlers, w);
	w->env = (struct session_env){
		.base = w->base,
		.conf = setup->conf,
		.upstream = upstream_new(w->base, &dialer, (unsigned)setup->conf->pool),
		.peers = setup->peers,
		.audit = setup->audit,
		.metrics = setup->metrics,
		.slot = setup->slot,
		.on_close = on_session_close,
		.on_close_arg = w,
	};
	if (w->link == NULL || w->env.upstream == NULL || session_env_init(&w->env) < 0)
		return -1;
	w->env.owners = owner_new(w->env.upstream, OWNER_NAME_MS);
	if (w->env.owners == NULL || open_gates(w) < 0)
		return -1;
	if (setup->admin_fd >= 0 && (w->status = status_new(w->base, setup, w->env.upstream)) == NULL)
		return -1;
	event_assign(&w->drain_timer, w->base, -1, 0, on_drain_over, w);
	audit_set_buffered(setup->audit, true);
	return 0;
}

static void tear_down(struct worker *w)
{
	close_gates(w);
	session_env_release(&w->env);
	audit_flush(w->setup->audit);
	event_del(&w->drain_timer);
	status_free(w->status);
	owner_free(w->env.owners);
	upstream_free(w->env.upstream);
	link_free(w->link);
	event_base_free(w->base);
}

int worker_main(const struct worker_setup *setup)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (w == NULL || set_up(w, setup) < 0) {
		log_error("worker: not enough memory to start");
		return 1;
	}
	link_ready(w->link);
	serve(w);
	tear_down(w);
	free(w);
	return 0;
}
