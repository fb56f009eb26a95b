/*
 * sandbox-runner [OUTCOMES]: runs commands and file operations of one sandbox for one controller, over its stdin and
 * stdout. OUTCOMES is the file that takes how commands ended when no controller does.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "image/runner/dispatch.h"
#include "image/runner/oom.h"
#include "image/runner/op.h"

#define POLL_MAX (2 + OP_MAX * OP_FDS + LINGER_MAX)

static struct runner runner;

static void on_child(int signo)
{
	runner.child_died = 1;
}

/* What is not there is told to the controller, not an error: gVisor has neither subreaper nor openat2. */
static void probe(struct runner *r)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
		r->features |= FRAME_FEATURE_SUBREAPER;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0)
		r->features |= FRAME_FEATURE_UNDUMPABLE;
	r->ways.openat2 = path_probe_openat2();
	if (r->ways.openat2)
		r->features |= FRAME_FEATURE_OPENAT2;
	r->oom_fd = oom_open();
	if (r->oom_fd >= 0)
		r->features |= FRAME_FEATURE_OOM_COUNTER;
}

/* All memory that the operations will ever have, before the first of them. */
static bool reserve(struct runner *r)
{
	char *bufs =
		mmap(NULL, (size_t)OP_MAX * OP_BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int proc_fd = proc_open();

	if (bufs == MAP_FAILED || proc_fd < 0)
		return false;
	for (unsigned i = 0; i < OP_MAX; i++)
		r->ops[i].buf = bufs + (size_t)i * OP_BUF;
	tree_init(&r->tree, proc_fd);
	return true;
}

static void raise_files(struct runner *r)
{
	struct rlimit more;

	getrlimit(RLIMIT_NOFILE, &r->spawner.nofile);
	more = r->spawner.nofile;
	more.rlim_cur = more.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &more);
}

static void catch_signals(void)
{
	struct sigaction child = { .sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, dfl = { .sa_handler = SIG_DFL }, old;
	sigset_t blocked;

	/* What the runner's own starter ignored would stay ignored in every command. */
	for (int signo = 1; signo < NSIG; signo++)
		if (sigaction(signo, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			(void)sigaction(signo, &dfl, NULL);
	sigaction(SIGCHLD, &child, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
}

static bool nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* Whatever the engine left open besides the three would reach every command. */
static void close_others(void)
{
	if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
}

static bool set_up(struct runner *r)
{
	int in, out, null;

	close_others();
	/* The engine's pipes move away from 0 to 2, so that no mistake lends them to a command. */
	in = fcntl(0, F_DUPFD_CLOEXEC, 3);
	out = fcntl(1, F_DUPFD_CLOEXEC, 3);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (in < 0 || out < 0 || null < 0 || !nonblocking(in) || !nonblocking(out))
		return false;
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return false;
	close(null);
	(void)fcntl(out, F_SETPIPE_SZ, 1 << 20); /* a larger pipe is fewer turns of the engine; no harm without */
	catch_signals();
	raise_files(r);
	wire_init(&r->wire, in, out);
	probe(r);
	if (getrandom(&r->next_limit, sizeof(r->next_limit), GRND_NONBLOCK) < 0)
		r->next_limit = (uint64_t)clock_us();
	r->next_limit &= UINT32_MAX;
	return reserve(r);
}

static void reap(struct runner *r, int64_t now_us)
{
	int status;
	pid_t pid;

	if (!r->child_died)
		return;
	r->child_died = 0;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < OP_MAX; i++) {
			struct op *op = &r->ops[i];

			if (op->kind == OP_COMMAND && op->u.command.pid == pid && !op->u.command.exited)
				command_exited(op, status, now_us);
		}
	}
}

/* One turn: what each operation asked to be polled lies in fds[at[i]] .. fds[at[i + 1]]. */
struct turn {
	struct pollfd fds[POLL_MAX];
	unsigned at[OP_MAX + 1];
	unsigned n;
	unsigned linger;
};

static struct turn turn;

static void collect(struct runner *r, struct turn *t)
{
	t->fds[0] = (struct pollfd){ .fd = r->wire.gone ? -1 : r->wire.rfd, .events = dispatch_ready(r) ? POLLIN : 0 };
	t->fds[1] = (struct pollfd){ .fd = wire_pending(&r->wire) ? r->wire.wfd : -1, .events = POLLOUT };
	t->n = 2;
	for (unsigned i = 0; i < OP_MAX; i++) {
		t->at[i] = t->n;
		if (r->ops[i].kind == OP_COMMAND)
			t->n += command_poll(r, &r->ops[i], t->fds + t->n);
	}
	t->at[OP_MAX] = t->n;
	t->linger = t->n;
	t->n += linger_poll(&r->linger, t->fds + t->n);
}

static int64_t next_wake(struct runner *r)
{
	int64_t wake = r->tree.due_us, outcome = outcomes_wake(&r->outcomes);

	if (outcome < wake)
		wake = outcome;
	for (unsigned i = 0; i < OP_MAX; i++) {
		struct op *op = &r->ops[i];

		if (op->kind == OP_FREE)
			continue;
		if (op->kind == OP_FILE && file_busy(r, op))
			return 0;
		if (op->wake_us < wake)
			wake = op->wake_us;
	}
	return wake;
}

static void wait_for_events(struct runner *r, struct turn *t, bool restless)
{
	int64_t wake = restless ? 0 : next_wake(r), now_us = clock_us();
	int64_t wait = wake > now_us ? wake - now_us : 0;
	struct timespec ts = { wait / 1000000, wait % 1000000 * 1000 };
	sigset_t none;

	sigemptyset(&none);
	if (ppoll(t->fds, t->n, wake == CLOCK_NEVER ? NULL : &ts, &none) < 0)
		for (unsigned i = 0; i < t->n; i++)
			t->fds[i].revents = 0;
}

static void step(struct runner *r, const struct turn *t, int64_t now_us)
{
	static struct kill_job *jobs[OP_MAX];

	tree_step(&r->tree, jobs, op_kill_jobs(r, jobs), now_us);
	for (unsigned i = 0; i < OP_MAX; i++) {
		struct op *op = &r->ops[i];

		if (op->kind == OP_COMMAND)
			command_step(r, op, t->fds + t->at[i], t->at[i + 1] - t->at[i], now_us);
		else if (op->kind == OP_FILE)
			file_step(r, op, now_us);
		else if (op->kind == OP_KILL)
			dispatch_kill_step(r, op);
	}
	outcomes_step(&r->outcomes, now_us);
	linger_step(&r->linger, t->fds + t->linger);
}

static bool idle(const struct runner *r)
{
	for (unsigned i = 0; i < OP_MAX; i++)
		if (r->ops[i].kind != OP_FREE)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct runner *r = &runner;
	bool restless = false;

	/* As root, kill-all would reach what keeps the sandbox alive. */
	if (geteuid() == 0) {
		static const char text[] = "sandbox-runner: must not be started as root; use the sandbox user\n";

		return write(2, text, sizeof(text) - 1) < 0 ? 1 : 2;
	}
	if (!set_up(r))
		return 1;
	r->outcomes.path = argc > 1 ? argv[1] : NULL;
	if (r->outcomes.path != NULL)
		r->features |= FRAME_FEATURE_OUTCOMES;
	dispatch_hello(r);
	for (;;) {
		int64_t now_us;

		wire_flush(&r->wire);
		/* Without a controller the commands run on to their limits; with the last of them the runner ends. */
		if (r->wire.gone && idle(r)) {
			outcomes_flush(&r->outcomes);
			_exit(0);
		}
		collect(r, &turn);
		wait_for_events(r, &turn, restless);
		now_us = clock_us();
		reap(r, now_us);
		if (turn.fds[0].revents != 0)
			wire_fill(&r->wire);
		step(r, &turn, now_us);
		restless = dispatch(r, now_us);
	}
}
