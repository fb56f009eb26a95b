/* egressd run: from the configuration to the loop, and out of it again. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egressd/commands.h"
#include "egressd/connect.h"
#include "egressd/egress.h"
#include "egressd/reload.h"
#include "libgate/dns_resolve.h"
#include "egressd/room.h"
#include "egressd/session.h"
#include "egressd/status.h"
#include "egressd/tcp.h"
#include "libgate/confine.h"
#include "libgate/listen.h"
#include "libgate/log.h"

struct port {
	struct listener *listener;
	struct tcp_port *tcp; /* NULL: the proxy */
};

struct program {
	struct egress egress;
	const char *config; /* NULL: environment alone */
	struct port ports[CONF_LISTEN_MAX + CONF_TARGETS_MAX];
	int fds[CONF_LISTEN_MAX + CONF_TARGETS_MAX];
	unsigned nports;
	struct event *signals[3];
	struct event *tick;
	struct confine_result confined;
	int64_t drain_until_ms;
	int admin_fd; /* opened, not served yet; -1: none */
	struct status *status;
};

/* --- drain ------------------------------------------------------------------------------------------------------- */

static void close_listeners(struct program *p)
{
	for (unsigned i = 0; i < p->nports; i++) {
		listener_free(p->ports[i].listener);
		p->ports[i].listener = NULL;
	}
}

static void begin_drain(struct program *p)
{
	struct egress *e = &p->egress;

	if (e->draining) { /* a second signal does not wait */
		event_base_loopbreak(e->base);
		return;
	}
	e->draining = true;
	p->drain_until_ms = egress_now_ms() + e->conf->timeouts.drain;
	log_info("draining: %u connections have %lld ms to finish", e->nclients, (long long)e->conf->timeouts.drain);
	close_listeners(p);
	sweep_close_idle(e);
	if (e->nclients == 0)
		event_base_loopbreak(e->base);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct program *p = arg;

	(void)what;
	if (number == SIGHUP)
		reload(&p->egress, p->config);
	else
		begin_drain(p);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct program *p = arg;
	struct egress *e = &p->egress;
	int64_t now = egress_now_ms();

	(void)fd;
	(void)what;
	sweep_tick(e, now);
	if (e->spent)
		tcp_close_all(e, reason_id(REASON_BUDGET));
	if (e->draining) {
		sweep_close_idle(e);
		if (e->nclients == 0 || now >= p->drain_until_ms)
			event_base_loopbreak(e->base);
	}
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	session_reap(arg);
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	struct egress *e = arg;

	(void)fd;
	(void)what;
	audit_flush(e->audit);
}

static void on_client(int fd, const struct peer *peer, void *arg)
{
	session_accept(arg, fd, peer);
}

/* --- start ------------------------------------------------------------------------------------------------------- */

static void know_listen_port(struct egress *e, const char *address)
{
	const char *colon = strrchr(address, ':');
	uint16_t port;

	if (colon != NULL && port_parse(slice_str(colon + 1), &port))
		guard_know_port(&e->guard, port);
}

static int start_resolver(struct egress *e, struct err *err)
{
	const struct egress_conf *c = e->conf;
	const struct resolver_settings settings = reload_resolver_settings(c);

	e->resolver = resolver_new(e->base, &settings, err);
	if (e->resolver == NULL)
		return -1;
	guard_init(&e->guard, &c->refuse);
	guard_read_gateways(&e->guard);
	reload_know_resolvers(e);
	for (unsigned i = 0; i < c->listen.n; i++)
		know_listen_port(e, c->listen.at[i]);
	for (unsigned i = 0; i < c->targets.n; i++)
		know_listen_port(e, c->targets.target[i]->listen);
	if (c->admin != NULL)
		know_listen_port(e, c->admin);
	return 0;
}

/* Sockets are opened here and served later, after the rights are gone; a target's only after it is pinned. */
static int open_ports(struct program *p, struct err *err)
{
	const struct egress_conf *c = p->egress.conf;

	for (unsigned i = 0; i < c->listen.n + c->targets.n; i++) {
		const char *at = i < c->listen.n ? c->listen.at[i] : c->targets.target[i - c->listen.n]->listen;
		p->fds[i] = listen_tcp(at, err);
		if (p->fds[i] < 0)
			return -1;
		p->nports++;
	}
	if (c->admin == NULL)
		return 0;
	p->admin_fd = status_open(c->admin, err);
	return p->admin_fd < 0 ? -1 : 0;
}

static int serve_ports(struct program *p, struct err *err)
{
	struct egress *e = &p->egress;
	const struct egress_conf *c = e->conf;

	for (unsigned i = 0; i < p->nports; i++) {
		struct port *port = &p->ports[i];
		if (i >= c->listen.n) {
			port->tcp = tcp_port_new(e, c->targets.target[i - c->listen.n]);
			if (port->tcp == NULL)
				return err_set(err, ENOMEM, "out of memory");
			port->listener = listener_new(e->base, p->fds[i], tcp_accept, port->tcp);
		} else {
			port->listener = listener_new(e->base, p->fds[i], on_client, e);
		}
		if (port->listener == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	if (p->admin_fd >= 0) {
		p->status = status_new(e, p->admin_fd, &p->confined);
		if (p->status == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	for (unsigned i = 0; i < c->listen.n; i++)
		log_info("listening on %s, at most %u clients", c->listen.at[i], e->max_clients);
	return 0;
}

static int find_ids(const struct egress_conf *c, struct confine_plan *plan, struct err *err)
{
	if (geteuid() != 0)
		return 0;
	if (confine_find_user(c->user != NULL ? c->user : "65534", &plan->uid, &plan->gid, err) != 0)
		return -1;
	return c->group != NULL ? confine_find_group(c->group, &plan->gid, err) : 0;
}

static int confine(struct program *p, struct err *err)
{
	const struct egress_conf *c = p->egress.conf;
	struct confine_plan plan = { .role = CONFINE_EGRESS, .uid = (uid_t)-1, .gid = (gid_t)-1, .any_tcp = true };
	auto_free char *config = p->config != NULL ? realpath(p->config, NULL) : NULL;
	auto_free char *audit = c->audit[0] == '/' ? strdup(c->audit) : NULL;

	if (find_ids(c, &plan, err) != 0)
		return -1;
	plan.rights_only = !c->confine;
	plan.read_dir = config != NULL ? dirname(config) : NULL;
	plan.append_dir = audit != NULL ? dirname(audit) : NULL;
	if (confine_apply(&plan, &p->confined, err) != 0)
		return err_wrap(err, "confinement");
	if (p->confined.missing[0] != '\0' && c->confine)
		log_warn("confinement is not whole: %s", p->confined.missing);
	return 0;
}

static int add_events(struct program *p, struct err *err)
{
	static const int numbers[] = { SIGHUP, SIGTERM, SIGINT };
	static const struct timeval second = { 1, 0 };
	struct egress *e = &p->egress;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		p->signals[i] = evsignal_new(e->base, numbers[i], on_signal, p);
		if (p->signals[i] == NULL || event_add(p->signals[i], NULL) != 0)
			return err_set(err, 0, "signal events");
	}
	p->tick = event_new(e->base, -1, EV_PERSIST, on_tick, p);
	if (p->tick == NULL || event_add(p->tick, &second) != 0)
		return err_set(err, 0, "timer event");
	return 0;
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

static int start(struct program *p, struct err *err)
{
	struct egress *e = &p->egress;

	TAILQ_INIT(&e->sessions);
	TAILQ_INIT(&e->dead);
	TAILQ_INIT(&e->relayed);
	e->started_ms = egress_now_ms();
	e->pool.max = (size_t)e->conf->limits.buffer_bytes;
	room_read(&e->room);
	e->max_clients = room_for_clients(&e->room, e->conf->limits.connections);
	e->base = new_base();
	if (e->base == NULL)
		return err_set(err, 0, "no event loop");
	evtimer_assign(&e->reaper, e->base, on_reap, e);
	evtimer_assign(&e->flush, e->base, on_flush, e);
	e->paces = reload_paces(e->conf, err);
	if (e->paces == NULL || start_resolver(e, err) != 0 || tcp_pin_targets(e, err) != 0 || open_ports(p, err) != 0)
		return -1;
	e->audit = audit_open(e->conf->audit, "egressd", err);
	if (e->audit == NULL)
		return -1;
	audit_set_buffered(e->audit, true);
	reload_say(e->conf);
	if (add_events(p, err) != 0 || confine(p, err) != 0)
		return -1;
	return serve_ports(p, err);
}

static void stop(struct program *p)
{
	struct egress *e = &p->egress;

	close_listeners(p);
	status_free(p->status);
	if (e->base != NULL) {
		sweep_close_all(e);
		tcp_close_all(e, "shutdown");
		session_reap(e);
	}
	if (e->audit != NULL)
		audit_flush(e->audit);
	audit_free(e->audit);
	resolver_free(e->resolver);
	tally_release(&e->tally);
	for (unsigned i = 0; i < p->nports; i++)
		tcp_port_free(p->ports[i].tcp);
	for (size_t i = 0; i < ARRAY_SIZE(p->signals); i++)
		if (p->signals[i] != NULL)
			event_free(p->signals[i]);
	if (p->tick != NULL)
		event_free(p->tick);
	if (e->base != NULL) {
		event_del(&e->reaper);
		event_del(&e->flush);
		event_base_free(e->base);
	}
	free(e->paces);
	egress_conf_free(e->conf);
}

static int usage(void)
{
	fprintf(stderr, "usage: egressd [--config FILE] [--check]; see egressd --help\n");
	return EXIT_USAGE;
}

int command_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check", no_argument, NULL, 'k' },
		{ NULL, 0, NULL, 0 },
	};
	struct program *p = calloc(1, sizeof(*p));
	struct err err = ERR_INIT;
	bool check_only = false;
	int c, rc;

	if (p == NULL)
		return 1;
	p->admin_fd = -1;
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'c') {
			p->config = optarg;
		} else if (c == 'k') {
			check_only = true;
		} else {
			free(p);
			return usage();
		}
	}
	if (optind < argc) {
		free(p);
		return usage();
	}
	log_init("egressd", LOG_LEVEL_INFO);
	signal(SIGPIPE, SIG_IGN);
	p->egress.conf = egress_conf_load(p->config, &err);
	if (p->egress.conf == NULL) {
		log_error("%s", err.text);
		free(p);
		return EXIT_USAGE;
	}
	log_set_level((enum log_level)p->egress.conf->log_level);
	if (check_only) {
		reload_say(p->egress.conf);
		egress_conf_free(p->egress.conf);
		free(p);
		return 0;
	}
	rc = start(p, &err);
	if (rc == 0)
		event_base_dispatch(p->egress.base);
	else
		log_error("%s", err.text);
	stop(p);
	free(p);
	return rc == 0 ? 0 : 1;
}
