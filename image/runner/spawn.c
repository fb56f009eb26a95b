/* From a START frame to a running process. */
#include "image/runner/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#include "image/runner/proc.h"

extern char **environ;

/* One command is put together at a time. */
struct plan {
	char *args[SPAWN_ARGS_MAX + 1];
	char *env[SPAWN_ENV_MAX + 1];
	char **own_env; /* the runner's, meanwhile */
	unsigned nargs;
	unsigned nenv;
	char cwd[4096];
	char text[FRAME_REQUEST_MAX + 4096];
	size_t used;
};

/* Descriptors of the command's side. */
struct side {
	int in, out, err;
	bool tty;
};

static struct plan plan;

const char *spawn_step_text(enum spawn_step step)
{
	switch (step) {
	case SPAWN_ARGUMENTS:
		return "the arguments or the environment are too many or too long";
	case SPAWN_PIPE:
		return "no pipes can be made for the command";
	case SPAWN_TERMINAL:
		return "no terminal can be made for the command";
	case SPAWN_FORK:
		return "no process can be started (is the limit of processes reached?)";
	case SPAWN_LIMIT:
		return "the command's resource limits cannot be set";
	case SPAWN_CWD:
		return "the working directory cannot be entered";
	case SPAWN_EXEC:
		return "the program cannot be executed";
	}
	return "the command cannot be started";
}

static char *keep(const char *p, size_t len)
{
	char *at = plan.text + plan.used;

	if (len >= sizeof(plan.text) - plan.used)
		return NULL;
	if (len > 0)
		memcpy(at, p, len);
	at[len] = '\0';
	plan.used += len + 1;
	return at;
}

static bool add_arg(struct slice s)
{
	char *at = plan.nargs < SPAWN_ARGS_MAX && memchr(s.p, '\0', s.len) == NULL ? keep(s.p, s.len) : NULL;

	if (at == NULL)
		return false;
	plan.args[plan.nargs++] = at;
	return true;
}

/* Sets "NAME=value"; a later one replaces an earlier one of the same name. */
static bool set_env(char *entry)
{
	size_t n = strcspn(entry, "=");

	if (entry[n] != '=' || n == 0)
		return true;
	for (unsigned i = 0; i < plan.nenv; i++) {
		if (strncmp(plan.env[i], entry, n + 1) == 0) {
			plan.env[i] = entry;
			return true;
		}
	}
	if (plan.nenv == SPAWN_ENV_MAX)
		return false;
	plan.env[plan.nenv++] = entry;
	return true;
}

static bool set_mark(const char *name, struct slice value)
{
	char entry[128];
	int n = snprintf(entry, sizeof(entry), "%s=%.*s", name, SLICE_ARG(value));
	char *at = n > 0 && (size_t)n < sizeof(entry) ? keep(entry, (size_t)n) : NULL;

	return at != NULL && set_env(at);
}

static bool plan_env(const struct frame *start)
{
	struct slice v;
	size_t at = 0;

	for (char **e = environ; *e != NULL; e++)
		if (!set_env(*e))
			return false;
	while (frame_each(start, FRAME_ATTR_ENV, &at, &v)) {
		char *entry = keep(v.p, v.len);

		if (entry == NULL || !set_env(entry))
			return false;
	}
	v = frame_bytes(start, FRAME_ATTR_TAG);
	if (v.p != NULL && !set_mark(PROC_ENV_TAG, v))
		return false;
	return set_mark(PROC_ENV_EXEC, frame_bytes(start, FRAME_ATTR_ID));
}

static bool plan_make(const struct frame *start)
{
	struct slice v;
	size_t at = 0;

	plan.nargs = plan.nenv = 0;
	plan.used = 0;
	if (frame_num_or(start, FRAME_ATTR_FLAGS, 0) & FRAME_START_LINE)
		if (!add_arg(SLICE_LIT("/bin/bash")) || !add_arg(SLICE_LIT("-c")))
			return false;
	while (frame_each(start, FRAME_ATTR_ARG, &at, &v))
		if (!add_arg(v))
			return false;
	v = frame_bytes(start, FRAME_ATTR_CWD);
	plan.cwd[0] = '\0';
	if (v.p != NULL) {
		memcpy(plan.cwd, v.p, v.len);
		plan.cwd[v.len] = '\0';
	}
	plan.args[plan.nargs] = NULL;
	if (plan.nargs == 0 || !plan_env(start))
		return false;
	plan.env[plan.nenv] = NULL;
	return true;
}

static int pipe_into(int *ours, int *theirs, bool we_write)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return -1;
	*ours = p[we_write];
	*theirs = p[!we_write];
	return fcntl(*ours, F_SETFL, O_NONBLOCK);
}

static int open_terminal(const struct frame *start, struct spawned *out, struct side *child)
{
	struct winsize size = {
		.ws_row = (unsigned short)frame_num_or(start, FRAME_ATTR_ROWS, 24),
		.ws_col = (unsigned short)frame_num_or(start, FRAME_ATTR_COLS, 80),
	};
	char name[64];

	out->out_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (out->out_fd < 0 || grantpt(out->out_fd) != 0 || unlockpt(out->out_fd) != 0 ||
		ptsname_r(out->out_fd, name, sizeof(name)) != 0)
		return -1;
	child->in = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (child->in < 0 || ioctl(child->in, TIOCSWINSZ, &size) != 0 || fcntl(out->out_fd, F_SETFL, O_NONBLOCK) != 0)
		return -1;
	out->in_fd = fcntl(out->out_fd, F_DUPFD_CLOEXEC, 0);
	return out->in_fd < 0 ? -1 : 0;
}

static int open_pipes(bool want_stdin, struct spawned *out, struct side *child)
{
	if (want_stdin) {
		if (pipe_into(&out->in_fd, &child->in, true) != 0)
			return -1;
	} else {
		child->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (child->in < 0)
			return -1;
	}
	if (pipe_into(&out->out_fd, &child->out, false) != 0)
		return -1;
	return pipe_into(&out->err_fd, &child->err, false);
}

/* The child's words to its parent, whose memory it shares. */
NORETURN static void child_fail(struct spawn_fault *fault, enum spawn_step step)
{
	*fault = (struct spawn_fault){ step, errno };
	_exit(127);
}

/* Runs in the parent's memory: of that it writes *fault and nothing else. */
NORETURN static void child_run(const struct spawner *s, const struct side *side, uint64_t limit,
	struct spawn_fault *fault)
{
	struct rlimit mark = { limit, limit };
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	/* SIGPIPE is the only one that the runner ignores. The handler of SIGCHLD would write into the runner. */
	sigaction(SIGPIPE, &dfl, NULL);
	sigaction(SIGCHLD, &dfl, NULL);
	setsid();
	if (dup2(side->in, 0) < 0 || dup2(side->tty ? side->in : side->out, 1) < 0 ||
		dup2(side->tty ? side->in : side->err, 2) < 0)
		child_fail(fault, SPAWN_PIPE);
	if (side->tty && ioctl(0, TIOCSCTTY, 0) != 0)
		child_fail(fault, SPAWN_TERMINAL);
	if (setrlimit(RLIMIT_NOFILE, &s->nofile) != 0)
		child_fail(fault, SPAWN_LIMIT);
	/* Where the runtime has no such limit the environment alone marks the command. */
	setrlimit(RLIMIT_MSGQUEUE, &mark);
	if (plan.cwd[0] != '\0' && chdir(plan.cwd) != 0)
		child_fail(fault, SPAWN_CWD);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvpe(plan.args[0], plan.args, plan.env);
	child_fail(fault, SPAWN_EXEC);
}

static void close_side(struct side *side)
{
	util_closep(&side->in);
	util_closep(&side->out);
	util_closep(&side->err);
}

static int fail(struct spawned *out, struct side *side, struct spawn_fault *fault, enum spawn_step step, int code)
{
	*fault = (struct spawn_fault){ step, code };
	close_side(side);
	util_closep(&out->in_fd);
	util_closep(&out->out_fd);
	util_closep(&out->err_fd);
	return -1;
}

int spawn(const struct spawner *s, const struct frame *start, uint64_t limit, struct spawned *out,
	struct spawn_fault *fault)
{
	uint64_t flags = frame_num_or(start, FRAME_ATTR_FLAGS, 0);
	struct side side = { -1, -1, -1, (flags & FRAME_START_TTY) != 0 };

	*out = (struct spawned){ 0, -1, -1, -1 };
	if (!plan_make(start))
		return fail(out, &side, fault, SPAWN_ARGUMENTS, E2BIG);
	if (side.tty && open_terminal(start, out, &side) != 0)
		return fail(out, &side, fault, SPAWN_TERMINAL, errno);
	if (!side.tty && open_pipes((flags & FRAME_START_STDIN) != 0, out, &side) != 0)
		return fail(out, &side, fault, SPAWN_PIPE, errno);
	fault->code = 0;
	/* The program is looked for where the command's own PATH says, which execvpe() reads here. */
	plan.own_env = environ;
	environ = plan.env;
	out->pid = vfork();
	if (out->pid == 0)
		child_run(s, &side, limit, fault);
	environ = plan.own_env;
	if (out->pid < 0)
		return fail(out, &side, fault, SPAWN_FORK, errno);
	/* The child has its program now, or has failed and ends. */
	if (fault->code != 0) {
		while (waitpid(out->pid, NULL, 0) < 0 && errno == EINTR)
			;
		return fail(out, &side, fault, fault->step, fault->code);
	}
	close_side(&side);
	return 0;
}
