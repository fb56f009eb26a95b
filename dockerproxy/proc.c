/* A worker process as the master sees it: fork and confinement on one side, the answers to its requests on the other. */
#include "dockerproxy/proc.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "dockerproxy/dial.h"
#include "dockerproxy/link_wire.h"
#include "dockerproxy/worker.h"
#include "libgate/audit.h"
#include "libgate/confine.h"
#include "libgate/log.h"

/* Descriptors of a worker beside those of its connections: line, audit, loop, listeners, spare. */
#define PROC_OWN_FDS 128
#define PROC_FDS_PER_CONNECTION 4 /* client, engine, and two more of a TLS end */

#define AUDIT_RENEW_MS 500

/* An answer that waits until the line takes it. */
struct reply {
	TAILQ_ENTRY(reply) entry;
	struct link_msg msg;
	int fd;
};

/* A connection that a worker asked for. */
struct pending {
	TAILQ_ENTRY(pending) entry;
	struct proc *proc;
	uint32_t id;
	struct dial *dial;
};

int64_t proc_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- the child -------------------------------------------------------------------------------------------------- */

/* The parent's loop must go without a trace: its epoll instance is shared until it is made anew. */
static void leave_loop(struct event_base *base)
{
	if (event_reinit(base) < 0)
		_exit(1);
	event_base_free(base);
}

static int by_number(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void close_between(unsigned first, unsigned last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	/* Before Linux 5.9: one by one, as far as descriptors can go. */
	if (last > (unsigned)sysconf(_SC_OPEN_MAX))
		last = (unsigned)sysconf(_SC_OPEN_MAX);
	for (unsigned fd = first; fd <= last; fd++)
		close((int)fd);
}

/* Lines of other workers, connections in hand-over, sockets of another configuration: none of them is this child's. */
static void keep_only_own(const struct generation *g, int line)
{
	int keep[PROXY_MAX_LISTEN + 3];
	size_t n = 0;
	unsigned next = STDERR_FILENO + 1;

	for (unsigned i = 0; i < g->conf.nlisten; i++)
		keep[n++] = g->fds[i];
	keep[n++] = g->admin_fd;
	keep[n++] = audit_fd(g->audit);
	keep[n++] = line;
	qsort(keep, n, sizeof(keep[0]), by_number);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < (int)next)
			continue;
		close_between(next, (unsigned)keep[i] - 1);
		next = (unsigned)keep[i] + 1;
	}
	close_between(next, ~0U);
}

static void ignore_signals(void)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE };

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

static int confine(struct generation *g, struct confine_result *result, struct err *err)
{
	const struct proxy_conf *conf = &g->conf;
	const struct confine_plan plan = {
		.role = CONFINE_PROXY_WORKER,
		.uid = g->uid,
		.gid = g->gid,
		.max_fds = (uint64_t)(conf->connections * PROC_FDS_PER_CONNECTION + conf->pool + PROC_OWN_FDS),
		.rights_only = !conf->confine,
	};

	if (confine_apply(&plan, result, err) < 0)
		return -1;
	if (result->missing[0] != '\0' && !g->told)
		log_warn("not everything could be confined: %s", result->missing);
	return 0;
}

static void NORETURN run_child(struct generation *g, unsigned slot, int line, struct metrics *metrics)
{
	struct confine_result confined;
	struct err err = ERR_INIT;
	char name[16];
	const struct worker_setup setup = {
		.conf = &g->conf,
		.fds = g->fds,
		.admin_fd = g->admin_fd,
		.link_fd = line,
		.slot = slot,
		.generation = g->number,
		.audit = g->audit,
		.peers = g->peers,
		.metrics = metrics,
		.confined = &confined,
	};

	ignore_signals();
	snprintf(name, sizeof(name), "dproxy-w%u.%u", g->number % 1000, slot);
	prctl(PR_SET_NAME, name, 0, 0, 0);
	if (confine(g, &confined, &err) < 0) {
		log_error("a worker cannot be confined: %s", err.text);
		_exit(1);
	}
	_exit(worker_main(&setup));
}

/* --- the parent ------------------------------------------------------------------------------------------------- */

/* A worker that does not take its answers loses them; it is not waited for. */
static void queue_reply(struct proc *p, const struct link_msg *msg, int fd)
{
	struct reply *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	r->msg = *msg;
	r->fd = fd;
	TAILQ_INSERT_TAIL(&p->replies, r, entry);
	event_add(p->writable, NULL);
}

/* fd passes to the callee. */
static void reply(struct proc *p, const struct link_msg *msg, int fd)
{
	if (TAILQ_EMPTY(&p->replies) && link_send(p->line, msg, fd) != 0) {
		if (fd >= 0)
			close(fd);
		return;
	}
	queue_reply(p, msg, fd);
}

static void drop_reply(struct proc *p, struct reply *r)
{
	TAILQ_REMOVE(&p->replies, r, entry);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct proc *p = arg;
	struct reply *r;

	while ((r = TAILQ_FIRST(&p->replies)) != NULL) {
		if (link_send(p->line, &r->msg, r->fd) == 0) {
			event_add(p->writable, NULL);
			return;
		}
		drop_reply(p, r);
	}
}

static void on_dialed(int fd, int error, void *arg)
{
	struct pending *d = arg;
	struct proc *p = d->proc;
	const struct link_msg msg = { .type = LINK_DIALED, .id = d->id, .error = error };

	TAILQ_REMOVE(&p->pending, d, entry);
	p->npending--;
	free(d);
	reply(p, &msg, fd);
}

/* The worker's own limits keep it far below the ceiling; one that reaches it is broken or taken over. */
static void dial(struct proc *p, uint32_t id)
{
	const struct proxy_conf *conf = &p->generation->conf;
	struct pending *d = p->npending < conf->connections + conf->pool ? calloc(1, sizeof(*d)) : NULL;
	struct dial *started;

	if (d == NULL) {
		const struct link_msg msg = { .type = LINK_DIALED, .id = id, .error = EAGAIN };

		reply(p, &msg, -1);
		return;
	}
	d->proc = p;
	d->id = id;
	TAILQ_INSERT_TAIL(&p->pending, d, entry);
	p->npending++;
	started = dial_start(p->base, &p->generation->engine, conf->connect_ms, on_dialed, d);
	if (started != NULL)
		d->dial = started;
}

/* The sink went away, a restarted syslog for one. A worker that asks without end is not heard each time. */
static void renew_audit(struct proc *p)
{
	int64_t now = proc_now_ms();
	struct err err = ERR_INIT;

	if (now - p->audit_ms < AUDIT_RENEW_MS)
		return;
	p->audit_ms = now;
	if (audit_reopen(p->generation->audit, &err) < 0)
		log_error("%s", err.text);
	else
		proc_give_audit(p);
}

static void on_message(struct proc *p, const struct link_msg *msg)
{
	if (msg->type == LINK_DIAL) {
		dial(p, msg->id);
	} else if (msg->type == LINK_AUDIT) {
		renew_audit(p);
	} else if (msg->type == LINK_READY && !p->ready) {
		p->ready = true;
		p->on_ready(p, p->arg);
	} else {
		log_error("worker %d says what no worker says to its master and is killed", (int)p->pid);
		kill(p->pid, SIGKILL);
	}
}

static void on_readable(evutil_socket_t line, short what, void *arg)
{
	struct proc *p = arg;
	struct link_msg msg;
	int fd;

	switch (link_receive(line, &msg, &fd)) {
	case LINK_GOT:
		util_closep(&fd);
		on_message(p, &msg);
		break;
	case LINK_NOTHING:
		break;
	case LINK_GONE:
		/* It ends, and SIGCHLD tells the rest; one that only hung up could no longer be told to drain. */
		event_del(p->readable);
		if (!p->leaving)
			kill(p->pid, SIGKILL);
		break;
	case LINK_BROKEN:
		event_del(p->readable);
		log_error("worker %d breaks the protocol with its master and is killed", (int)p->pid);
		kill(p->pid, SIGKILL);
		break;
	}
}

static struct proc *proc_new(struct event_base *base, struct generation *g, unsigned slot, int line)
{
	struct proc *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	TAILQ_INIT(&p->replies);
	TAILQ_INIT(&p->pending);
	p->base = base;
	p->generation = g;
	p->slot = slot;
	p->line = -1;
	p->started_ms = proc_now_ms();
	p->readable = event_new(base, line, EV_READ | EV_PERSIST, on_readable, p);
	p->writable = event_new(base, line, EV_WRITE, on_writable, p);
	if (p->readable == NULL || p->writable == NULL || event_add(p->readable, NULL) < 0) {
		proc_free(p);
		return NULL;
	}
	p->line = line;
	return p;
}

struct proc *proc_start(struct event_base *base, struct generation *g, unsigned slot, struct metrics *metrics,
	void (*on_ready)(struct proc *p, void *arg), void *arg, struct err *err)
{
	int line[2];
	struct proc *p;
	pid_t pid;

	if (link_pair(line) < 0) {
		err_errno(err, "socket pair for a worker");
		return NULL;
	}
	pid = fork();
	if (pid == 0) {
		leave_loop(base);
		keep_only_own(g, line[1]);
		run_child(g, slot, line[1], metrics);
	}
	close(line[1]);
	p = pid > 0 ? proc_new(base, g, slot, line[0]) : NULL;
	if (p == NULL) {
		err_errno(err, "a worker cannot be started");
		close(line[0]); /* a child that runs sees the end of its line and ends */
		return NULL;
	}
	g->told = true;
	g->nworkers++;
	p->pid = pid;
	p->on_ready = on_ready;
	p->arg = arg;
	return p;
}

void proc_free(struct proc *p)
{
	struct pending *d;
	struct reply *r;

	if (p == NULL)
		return;
	while ((d = TAILQ_FIRST(&p->pending)) != NULL) {
		TAILQ_REMOVE(&p->pending, d, entry);
		dial_cancel(d->dial);
		free(d);
	}
	while ((r = TAILQ_FIRST(&p->replies)) != NULL)
		drop_reply(p, r);
	if (p->readable != NULL)
		event_free(p->readable);
	if (p->writable != NULL)
		event_free(p->writable);
	if (p->line >= 0)
		close(p->line);
	free(p);
}

void proc_drain(struct proc *p, bool bounded)
{
	const struct link_msg msg = { .type = bounded ? LINK_STOP : LINK_RETIRE };

	p->leaving = true;
	reply(p, &msg, -1);
}

void proc_kill(struct proc *p)
{
	p->leaving = true;
	kill(p->pid, SIGKILL);
}

void proc_give_audit(struct proc *p)
{
	const struct link_msg msg = { .type = LINK_AUDIT };
	int fd = audit_fd(p->generation->audit);

	if (fd < 0)
		return;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0)
		reply(p, &msg, fd);
}
