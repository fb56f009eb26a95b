/* The master process: generations of workers, their crashes, reload and stop. */
#include "dockerproxy/master.h"

#include <errno.h>
#include <event2/event.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "dockerproxy/generation.h"
#include "dockerproxy/metrics.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/proc.h"
#include "dockerproxy/sockets.h"
#include "libgate/audit.h"
#include "libgate/confine.h"
#include "libgate/log.h"
#include "libgate/notify.h"

#define START_TIMEOUT_MS 30000 /* until every worker of a configuration serves */
#define BACKOFF_FIRST_MS 50 /* doubled for each crash in a row; the first one is replaced at once */
#define BACKOFF_MAX_MS 1000
#define BACKOFF_FORGET_MS 10000 /* a worker that lived so long did not crash "in a row" */
#define LANDLOCK_TCP_ABI 4
#define STOP_GRACE_MS 1000 /* beyond timeouts.drain, before what is left is killed */

enum state {
	MASTER_STARTING, /* no configuration serves yet */
	MASTER_SERVING,
	MASTER_RELOADING, /* the next configuration's workers start; the current one serves */
	MASTER_STOPPING,
};

/* What the master of root needs: sockets and logs of other owners, low ports, and workers of another user. */
static const uint64_t capabilities = 1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER |
	1ULL << CAP_KILL | 1ULL << CAP_SETGID | 1ULL << CAP_SETUID | 1ULL << CAP_SETPCAP | 1ULL << CAP_NET_BIND_SERVICE |
	1ULL << CAP_SYS_RESOURCE;

static const char *const state_names[] = { "starting", "serving", "reloading", "stopping" };

TAILQ_HEAD(generation_list, generation);

static const int handled[] = { SIGHUP, SIGUSR1, SIGTERM, SIGINT, SIGCHLD };

struct master {
	const char *config_file;
	struct metrics *metrics;
	struct event_base *base;
	struct sockets *sockets;
	enum state state;
	struct generation_list generations;
	struct generation *current; /* serves; NULL while starting */
	struct generation *next; /* starts; NULL unless starting or reloading */
	unsigned loads; /* generations so far */
	bool reload_again; /* SIGHUP came while reloading */
	struct proc_list procs;
	bool slot_used[MASTER_SLOTS];
	unsigned crashes; /* in a row */
	uint16_t engine_port; /* that it may connect to; 0: none */
	bool ports_held; /* the kernel sees to that */
	struct event *signals[ARRAY_SIZE(handled)];
	struct event *respawn;
	struct event *deadline; /* of a start or a stop */
	struct event *watchdog;
	int exit_status;
};

static void reload(struct master *m);

static struct timeval timeval_of(int64_t ms)
{
	return (struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
}

static void arm(struct event *timer, int64_t ms)
{
	const struct timeval tv = timeval_of(ms);

	event_add(timer, &tv);
}

static void set_state(struct master *m, enum state state)
{
	log_debug("%s -> %s", state_names[m->state], state_names[state]);
	m->state = state;
}

/* --- workers ---------------------------------------------------------------------------------------------------- */

static struct proc *oldest_retired(struct master *m)
{
	struct proc *p;

	TAILQ_FOREACH (p, &m->procs, entry)
		if (p->generation != m->current && p->generation != m->next)
			return p;
	return NULL;
}

/* A place for one more worker. Long-lived streams of old configurations may hold them all: the oldest must then end. */
static int take_slot(struct master *m)
{
	struct proc *old;

	for (unsigned i = 0; i < MASTER_SLOTS; i++) {
		if (!m->slot_used[i]) {
			m->slot_used[i] = true;
			return (int)i;
		}
	}
	old = oldest_retired(m);
	if (old != NULL) {
		log_warn("no place for another worker: the oldest that still drains (%d) is ended", (int)old->pid);
		proc_kill(old);
	}
	return -1;
}

static void on_ready(struct proc *p, void *arg);

static int start_worker(struct master *m, struct generation *g, struct err *err)
{
	int slot = take_slot(m);
	struct proc *p;

	if (slot < 0)
		return err_set(err, EAGAIN, "all %d places for workers are taken; try again", MASTER_SLOTS);
	p = proc_start(m->base, g, (unsigned)slot, m->metrics, on_ready, m, err);
	if (p == NULL) {
		m->slot_used[slot] = false;
		return -1;
	}
	TAILQ_INSERT_TAIL(&m->procs, p, entry);
	return 0;
}

static int start_workers(struct master *m, struct generation *g, struct err *err)
{
	while (g->nworkers < (unsigned)g->conf.workers)
		if (start_worker(m, g, err) < 0)
			return -1;
	return 0;
}

static void drain_workers(struct master *m, const struct generation *g, bool bounded)
{
	struct proc *p;

	TAILQ_FOREACH (p, &m->procs, entry)
		if (g == NULL || p->generation == g)
			proc_drain(p, bounded);
}

static void kill_workers(struct master *m, const struct generation *g)
{
	struct proc *p;

	TAILQ_FOREACH (p, &m->procs, entry)
		if (g == NULL || p->generation == g)
			proc_kill(p);
}

/* --- generations ------------------------------------------------------------------------------------------------ */

static void forget_generation(struct master *m, struct generation *g)
{
	TAILQ_REMOVE(&m->generations, g, entry);
	generation_free(g);
}

/* SIGHUP came while another configuration was on its way: what it may find now was not read yet. */
static void heed_reload(struct master *m)
{
	if (!m->reload_again)
		return;
	m->reload_again = false;
	reload(m);
}

/* Every worker of the next configuration serves: it takes over. */
static void take_over(struct master *m)
{
	struct generation *old = m->current;

	event_del(m->deadline);
	m->current = m->next;
	m->next = NULL;
	m->crashes = 0;
	sockets_commit(m->sockets);
	log_set_level((enum log_level)m->current->conf.log_level);
	metrics_set_policy(m->metrics, m->current->number, policy_digest(m->current->conf.policy));
	generation_log(m->current);
	set_state(m, MASTER_SERVING);
	if (old != NULL) {
		drain_workers(m, old, false);
		log_info("configuration %u serves; connections of configuration %u may finish", m->current->number,
			old->number);
	}
	notify_send("READY=1\nSTATUS=configuration %u, policy %s", m->current->number,
		policy_digest(m->current->conf.policy));
	heed_reload(m);
}

static void on_ready(struct proc *p, void *arg)
{
	struct master *m = arg;
	struct generation *g = p->generation;

	g->nready++;
	log_debug("worker %d of configuration %u serves", (int)p->pid, g->number);
	if (g == m->next && g->nready == (unsigned)g->conf.workers)
		take_over(m);
}

/* The next configuration does not come to serve: what was before stays, or the program ends when there was nothing. */
static void give_up_next(struct master *m, const char *why)
{
	struct generation *g = m->next;

	event_del(m->deadline);
	m->next = NULL;
	kill_workers(m, g);
	sockets_abort(m->sockets);
	if (g->nworkers == 0)
		forget_generation(m, g);
	if (m->current == NULL) {
		log_error("start failed: %s", why);
		m->exit_status = 1;
		set_state(m, MASTER_STOPPING);
		if (TAILQ_EMPTY(&m->procs))
			event_base_loopbreak(m->base);
		return;
	}
	log_error("reload failed, nothing changes: %s", why);
	set_state(m, MASTER_SERVING);
	notify_send("READY=1\nSTATUS=configuration %u; the last reload failed", m->current->number);
	heed_reload(m);
}

static int load_next(struct master *m, struct err *err)
{
	uint16_t port;

	m->next = generation_load(m->config_file, m->loads + 1, m->sockets, err);
	if (m->next == NULL)
		return -1;
	port = engine_port(&m->next->engine);
	if (m->ports_held && port != 0 && port != m->engine_port) {
		sockets_abort(m->sockets);
		generation_free(STEAL(m->next));
		return err_set(err, EPERM,
			"upstream: TCP port %u is not the one that the master confined itself to at its start; restart the program",
			port);
	}
	m->loads++;
	TAILQ_INSERT_TAIL(&m->generations, m->next, entry);
	arm(m->deadline, START_TIMEOUT_MS);
	return 0;
}

static void reload(struct master *m)
{
	struct err err = ERR_INIT;

	notify_reloading();
	if (load_next(m, &err) < 0) {
		log_error("reload refused, nothing changes: %s", err.text);
		notify_send("READY=1\nSTATUS=configuration %u; the last reload was refused", m->current->number);
		return;
	}
	set_state(m, MASTER_RELOADING);
	if (start_workers(m, m->next, &err) < 0)
		give_up_next(m, err.text);
}

/* --- ends ------------------------------------------------------------------------------------------------------- */

static void log_end(const struct proc *p, int status)
{
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (sig == SIGSYS)
		log_error("worker %d made a system call outside its allowlist and was ended; the kernel's audit log names it",
			(int)p->pid);
	else if (sig != 0)
		log_error("worker %d was ended by signal %d (%s)", (int)p->pid, sig, strsignal(sig));
	else
		log_error("worker %d ended with status %d", (int)p->pid, WEXITSTATUS(status));
}

static void on_respawn(evutil_socket_t fd, short what, void *arg)
{
	struct master *m = arg;
	struct err err = ERR_INIT;

	if (m->state == MASTER_STOPPING || m->current == NULL)
		return;
	if (start_workers(m, m->current, &err) < 0) {
		log_error("%s", err.text);
		arm(m->respawn, BACKOFF_MAX_MS);
	}
}

static void replace(struct master *m, const struct proc *p)
{
	int64_t wait = 0;

	if (proc_now_ms() - p->started_ms >= BACKOFF_FORGET_MS)
		m->crashes = 0;
	if (m->crashes > 0)
		wait = m->crashes > 5 ? BACKOFF_MAX_MS : (int64_t)BACKOFF_FIRST_MS << (m->crashes - 1);
	if (wait > BACKOFF_MAX_MS)
		wait = BACKOFF_MAX_MS;
	m->crashes++;
	log_info("another worker starts in %lld ms", (long long)wait);
	if (!event_pending(m->respawn, EV_TIMEOUT, NULL))
		arm(m->respawn, wait);
}

/* What a dead worker leaves: its place, and perhaps the last use of its configuration. */
static void on_worker_end(struct master *m, struct proc *p, int status)
{
	struct generation *g = p->generation;
	bool crashed = !p->leaving;

	TAILQ_REMOVE(&m->procs, p, entry);
	m->slot_used[p->slot] = false;
	peers_lost(g->peers, p->slot);
	metrics_lost(m->metrics, p->slot);
	g->nworkers--;
	if (crashed)
		log_end(p, status);
	if (g == m->next)
		give_up_next(m, "a worker ended before it served");
	else if (g != m->current && g->nworkers == 0)
		forget_generation(m, g);
	else if (g == m->current && crashed && m->state != MASTER_STOPPING)
		replace(m, p);
	proc_free(p);
	if (m->state == MASTER_STOPPING && TAILQ_EMPTY(&m->procs))
		event_base_loopbreak(m->base);
}

static void on_child(struct master *m)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct proc *p;

		TAILQ_FOREACH (p, &m->procs, entry)
			if (p->pid == pid)
				break;
		if (p != NULL)
			on_worker_end(m, p, status);
	}
}

static void stop(struct master *m)
{
	int64_t bound = m->current != NULL ? m->current->conf.drain_ms : 0;

	if (m->state == MASTER_STOPPING) {
		log_warn("told to stop again: what is under way ends now");
		kill_workers(m, NULL);
		return;
	}
	log_info("stopping: what is under way may finish within %lld ms", (long long)bound);
	notify_send("STOPPING=1");
	set_state(m, MASTER_STOPPING);
	event_del(m->respawn);
	m->next = NULL;
	/* New clients are refused from now on, not left waiting in a queue. */
	sockets_free(m->sockets);
	m->sockets = NULL;
	drain_workers(m, NULL, true);
	if (TAILQ_EMPTY(&m->procs))
		event_base_loopbreak(m->base);
	else
		arm(m->deadline, bound + STOP_GRACE_MS);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct master *m = arg;

	if (m->next != NULL) {
		give_up_next(m, "the workers did not come to serve in time");
		return;
	}
	log_warn("not everything finished in time: the rest is cut");
	kill_workers(m, NULL);
}

static void reopen_audit(struct master *m)
{
	struct generation *g;
	struct proc *p;
	struct err err = ERR_INIT;
	bool all = true;

	TAILQ_FOREACH (g, &m->generations, entry) {
		if (audit_reopen(g->audit, &err) == 0)
			continue;
		all = false;
		log_error("the audit log was not reopened, the old file stays in use: %s", err.text);
	}
	TAILQ_FOREACH (p, &m->procs, entry)
		proc_give_audit(p);
	if (all)
		log_info("audit log reopened");
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct master *m = arg;

	switch (sig) {
	case SIGCHLD:
		on_child(m);
		break;
	case SIGTERM:
	case SIGINT:
		stop(m);
		break;
	case SIGUSR1:
		reopen_audit(m);
		break;
	case SIGHUP:
		if (m->state == MASTER_SERVING)
			reload(m);
		else if (m->state != MASTER_STOPPING)
			m->reload_again = true;
		break;
	}
}

/* The service manager restarts a master whose loop stands still. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	notify_send("WATCHDOG=1");
}

static int prepare_events(struct master *m)
{
	int64_t watchdog_ms = notify_watchdog_ms();

	m->base = event_base_new();
	if (m->base == NULL)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++) {
		m->signals[i] = evsignal_new(m->base, handled[i], on_signal, m);
		if (m->signals[i] == NULL || event_add(m->signals[i], NULL) < 0)
			return -1;
	}
	m->respawn = evtimer_new(m->base, on_respawn, m);
	m->deadline = evtimer_new(m->base, on_deadline, m);
	m->watchdog = event_new(m->base, -1, EV_PERSIST, on_watchdog, m);
	if (m->respawn == NULL || m->deadline == NULL || m->watchdog == NULL)
		return -1;
	if (watchdog_ms > 0)
		arm(m->watchdog, watchdog_ms);
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

static void release(struct master *m)
{
	struct generation *g;

	sockets_free(m->sockets);
	while ((g = TAILQ_FIRST(&m->generations)) != NULL)
		forget_generation(m, g);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++)
		if (m->signals[i] != NULL)
			event_free(m->signals[i]);
	if (m->respawn != NULL)
		event_free(m->respawn);
	if (m->deadline != NULL)
		event_free(m->deadline);
	if (m->watchdog != NULL)
		event_free(m->watchdog);
	if (m->base != NULL)
		event_base_free(m->base);
}

/*
 * From here on the master starts no program and connects by TCP to the engine of its first configuration alone; what it reads
 * later (another configuration) cannot widen that.
 */
static int confine_master(struct master *m, struct err *err)
{
	const struct generation *g = m->next;
	struct confine_plan plan = { .role = CONFINE_PROXY_MASTER };
	struct confine_result result;

	if (!g->conf.confine)
		return 0;
	m->engine_port = engine_port(&g->engine);
	plan.connect_ports = &m->engine_port;
	plan.n_connect_ports = m->engine_port != 0;
	if (confine_apply(&plan, &result, err) < 0)
		return err_wrap(err, "the master cannot be confined");
	m->ports_held = result.landlock_abi >= LANDLOCK_TCP_ABI;
	return 0;
}

static void run(struct master *m)
{
	struct err err = ERR_INIT;

	if (confine_keep(capabilities, &err) < 0 || load_next(m, &err) < 0 || confine_master(m, &err) < 0) {
		log_error("%s", err.text);
		m->exit_status = 1;
		return;
	}
	if (start_workers(m, m->next, &err) < 0)
		give_up_next(m, err.text);
	if (m->state == MASTER_STOPPING && TAILQ_EMPTY(&m->procs))
		return;
	event_base_dispatch(m->base);
	log_info("stopped");
}

int master_run(const char *config_file, struct metrics *metrics)
{
	struct master m = { .config_file = config_file, .metrics = metrics, .state = MASTER_STARTING };

	TAILQ_INIT(&m.generations);
	TAILQ_INIT(&m.procs);
	m.sockets = sockets_new();
	if (m.sockets == NULL || prepare_events(&m) < 0) {
		log_error("out of memory");
		m.exit_status = 1;
	} else {
		run(&m);
	}
	release(&m);
	return m.exit_status;
}
