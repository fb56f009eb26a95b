/* The life of one command. */
#include "image/runner/command.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "image/runner/oom.h"
#include "image/runner/op.h"

/* After the exit, where a background process holds a pipe: until nothing came for this long, */
#define GRACE_IDLE_US 50000
/* and at most this long. */
#define GRACE_MAX_US 500000
#define LIMIT_BASE 819200 /* RLIMIT_MSGQUEUE's default; each command gets a value of its own below */
#define LIMIT_SPAN 400000

static const enum frame_type data_types[COMMAND_STREAMS] = { FRAME_STDOUT, FRAME_STDERR };

static bool closed(const struct command *c)
{
	return c->outputs[COMMAND_OUT].fd < 0 && c->outputs[COMMAND_ERR].fd < 0;
}

static void close_stdin(struct command *c)
{
	util_closep(&c->in_fd);
	c->room_owed += c->in_len;
	c->in_len = 0;
}

static void name_of(char *out, struct slice s)
{
	size_t n = s.len < PROC_NAME_MAX - 1 ? s.len : PROC_NAME_MAX - 1;

	memcpy(out, s.p, n);
	out[n] = '\0';
}

void command_start(struct runner *r, struct op *op, const struct frame *f, int64_t now_us)
{
	struct command *c = &op->u.command;
	struct spawned s;

	name_of(c->id, frame_bytes(f, FRAME_ATTR_ID));
	if (frame_bytes(f, FRAME_ATTR_TAG).p != NULL)
		name_of(c->tag, frame_bytes(f, FRAME_ATTR_TAG));
	c->max_output = frame_num_or(f, FRAME_ATTR_MAX_OUTPUT, UINT64_MAX);
	c->tty = (frame_num_or(f, FRAME_ATTR_FLAGS, 0) & FRAME_START_TTY) != 0;
	c->limit = LIMIT_BASE - 1 - r->next_limit++ % LIMIT_SPAN;
	c->oom_known = oom_read(r->oom_fd, &c->oom_before);
	c->started_us = c->last_data_us = clock_us();
	op->deadline_us = now_us + (int64_t)frame_num_or(f, FRAME_ATTR_TIMEOUT_MS, 0) * 1000;
	if (spawn(&r->spawner, f, c->limit, &s, &c->fault) != 0) {
		c->failed = c->exited = true;
		c->in_fd = -1;
		c->outputs[COMMAND_OUT].fd = c->outputs[COMMAND_ERR].fd = -1;
		return;
	}
	c->started = true;
	c->pid = s.pid;
	c->in_fd = s.in_fd;
	c->outputs[COMMAND_OUT].fd = s.out_fd;
	c->outputs[COMMAND_ERR].fd = s.err_fd;
	c->room_owed = s.in_fd >= 0 ? OP_BUF : 0;
}

void command_stdin(struct op *op, struct slice data)
{
	struct command *c = &op->u.command;
	size_t first, tail = (c->in_at + c->in_len) % OP_BUF;

	if (c->in_fd < 0 || c->in_end) {
		c->room_owed += data.len;
		return;
	}
	/* More than was granted is the controller's fault and its loss: the ring does not grow. */
	if (data.len > OP_BUF - c->in_len)
		data.len = OP_BUF - c->in_len;
	first = data.len < OP_BUF - tail ? data.len : OP_BUF - tail;
	memcpy(op->buf + tail, data.p, first);
	memcpy(op->buf, data.p + first, data.len - first);
	c->in_len += data.len;
}

void command_stdin_end(struct op *op)
{
	struct command *c = &op->u.command;

	c->in_end = true;
	/* A terminal has no half-close: its end of input is a character that the caller types. */
	if (c->in_len == 0 && !c->tty)
		close_stdin(c);
}

void command_resize(struct op *op, const struct frame *f)
{
	struct command *c = &op->u.command;
	struct winsize size = {
		.ws_row = (unsigned short)frame_num_or(f, FRAME_ATTR_ROWS, 24),
		.ws_col = (unsigned short)frame_num_or(f, FRAME_ATTR_COLS, 80),
	};

	if (c->tty && c->outputs[COMMAND_OUT].fd >= 0)
		(void)ioctl(c->outputs[COMMAND_OUT].fd, TIOCSWINSZ, &size);
}

static void start_kill(struct runner *r, struct op *op, int64_t now_us)
{
	struct command *c = &op->u.command;
	struct kill_target target = { .leader = c->exited ? 0 : c->pid, .exec = c->id, .limits = &c->limit, .nlimits = 1 };

	if (op->kill.phase == KILL_IDLE)
		tree_start(&r->tree, &op->kill, &target, now_us);
	c->cut = true;
}

void command_kill(struct runner *r, struct op *op, int64_t now_us)
{
	struct command *c = &op->u.command;

	if (!c->exited)
		c->killed = true;
	if (!c->failed)
		start_kill(r, op, now_us);
}

void command_exited(struct op *op, int status, int64_t now_us)
{
	struct command *c = &op->u.command;

	c->exited = true;
	c->status = status;
	c->exited_us = c->last_data_us = now_us;
	for (int s = 0; s < COMMAND_STREAMS; s++) {
		int pending = 0;

		if (c->outputs[s].fd >= 0 && ioctl(c->outputs[s].fd, FIONREAD, &pending) == 0 && pending > 0)
			c->outputs[s].owed = (uint64_t)pending;
	}
	close_stdin(c);
}

/* How many bytes of this stream may be read for the controller now; *drop: past its limit, read and thrown away. */
static size_t allowance(struct runner *r, struct op *op, const struct command_output *o, bool *drop)
{
	struct command *c = &op->u.command;
	uint64_t left = c->max_output - o->passed;
	size_t cap;

	*drop = left == 0 || r->wire.gone;
	if (*drop)
		return FRAME_DATA_MAX;
	(void)wire_data(&r->wire, &cap);
	if (cap > op->credit)
		cap = (size_t)op->credit;
	if (cap > left)
		cap = (size_t)left;
	return cap;
}

unsigned command_poll(struct runner *r, struct op *op, struct pollfd *out)
{
	struct command *c = &op->u.command;
	unsigned n = 0;
	bool drop;

	for (int s = 0; s < COMMAND_STREAMS; s++)
		if (c->outputs[s].fd >= 0 && allowance(r, op, &c->outputs[s], &drop) > 0)
			out[n++] = (struct pollfd){ .fd = c->outputs[s].fd, .events = POLLIN };
	if (c->in_fd >= 0)
		out[n++] = (struct pollfd){ .fd = c->in_fd, .events = c->in_len > 0 ? POLLOUT : 0 };
	return n;
}

static short revents_of(int fd, const struct pollfd *polled, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (polled[i].fd == fd)
			return polled[i].revents;
	return 0;
}

static void read_output(struct runner *r, struct op *op, int s, int64_t now_us)
{
	static char scratch[FRAME_DATA_MAX];
	struct command *c = &op->u.command;
	struct command_output *o = &c->outputs[s];
	bool drop;
	size_t room, cap = allowance(r, op, o, &drop);
	char *at = drop ? scratch : wire_data(&r->wire, &room);
	ssize_t n;

	if (cap == 0)
		return;
	n = read(o->fd, at, cap);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* a terminal whose last user is gone says EIO */
		util_closep(&o->fd);
		o->owed = 0;
		return;
	}
	o->written += (uint64_t)n;
	o->owed -= o->owed < (uint64_t)n ? o->owed : (uint64_t)n;
	c->last_data_us = now_us;
	if (drop)
		return;
	o->passed += (uint64_t)n;
	op->credit -= (uint64_t)n;
	wire_data_commit(&r->wire, data_types[s], op->channel, (size_t)n);
}

static void write_stdin(struct op *op)
{
	struct command *c = &op->u.command;
	size_t run = c->in_len < OP_BUF - c->in_at ? c->in_len : OP_BUF - c->in_at;
	ssize_t n = run > 0 ? write(c->in_fd, op->buf + c->in_at, run) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		close_stdin(c); /* it closed its stdin: the rest is thrown away and does not block the caller */
		return;
	}
	if (n > 0) {
		c->in_at = (c->in_at + (size_t)n) % OP_BUF;
		c->in_len -= (size_t)n;
		c->room_owed += (uint64_t)n;
	}
	if (c->in_end && c->in_len == 0 && !c->tty)
		close_stdin(c);
}

static void move_data(struct runner *r, struct op *op, const struct pollfd *polled, unsigned n, int64_t now_us)
{
	struct command *c = &op->u.command;
	short in = c->in_fd >= 0 ? revents_of(c->in_fd, polled, n) : 0;

	for (int s = 0; s < COMMAND_STREAMS; s++)
		if (c->outputs[s].fd >= 0 && revents_of(c->outputs[s].fd, polled, n) != 0)
			read_output(r, op, s, now_us);
	if ((in & POLLOUT) != 0)
		write_stdin(op);
	else if ((in & (POLLERR | POLLHUP)) != 0)
		close_stdin(c);
}

/*
 * After the exit: are there bytes of before it in the pipes? A background process can read its own output back, by
 * /proc/self/fd, and what it took never comes: so the pipe is asked, and nobody waits for ever.
 */
static bool owes(struct command *c)
{
	bool any = false;

	for (int s = 0; s < COMMAND_STREAMS; s++) {
		struct command_output *o = &c->outputs[s];
		int pending = 0;

		if (o->owed > 0 && ioctl(o->fd, FIONREAD, &pending) == 0 && (uint64_t)pending < o->owed)
			o->owed = (uint64_t)pending;
		any |= o->owed > 0;
	}
	return any;
}

/* After the exit: is there nothing more to wait for? Sets op->wake_us when only time decides. */
static bool drained(struct op *op, int64_t now_us)
{
	struct command *c = &op->u.command;
	int64_t idle = c->last_data_us + GRACE_IDLE_US, latest = c->exited_us + GRACE_MAX_US;
	int64_t until = idle < latest ? idle : latest;

	if (closed(c))
		return true;
	if (!c->cut && owes(c)) {
		op->wake_us = now_us + GRACE_IDLE_US;
		return false;
	}
	if (now_us >= until)
		return true;
	op->wake_us = until;
	return false;
}

static uint64_t oom_verdict(struct runner *r, const struct command *c)
{
	bool killed = WIFSIGNALED(c->status) ? WTERMSIG(c->status) == SIGKILL : WEXITSTATUS(c->status) == 128 + SIGKILL;
	uint64_t now;

	if (!c->oom_known || !oom_read(r->oom_fd, &now))
		return killed && !c->killed && !c->timed_out ? FRAME_OOM_UNKNOWN : FRAME_OOM_NO;
	return killed && !c->killed && !c->timed_out && now > c->oom_before ? FRAME_OOM_YES : FRAME_OOM_NO;
}

static void put_end(struct frame_writer *fw, const struct command *c, uint64_t oom)
{
	if (c->failed) {
		frame_put_num(fw, FRAME_ATTR_END, FRAME_END_START_FAILED);
		frame_put_num(fw, FRAME_ATTR_CODE, (uint64_t)c->fault.code);
		frame_put_bytes(fw, FRAME_ATTR_TEXT, slice_str(spawn_step_text(c->fault.step)));
		return;
	}
	if (WIFSIGNALED(c->status)) {
		frame_put_num(fw, FRAME_ATTR_END, FRAME_END_SIGNALED);
		frame_put_num(fw, FRAME_ATTR_STATUS, (uint64_t)WTERMSIG(c->status));
	} else {
		frame_put_num(fw, FRAME_ATTR_END, FRAME_END_EXITED);
		frame_put_num(fw, FRAME_ATTR_STATUS, (uint64_t)WEXITSTATUS(c->status));
	}
	frame_put_num(fw, FRAME_ATTR_OOM, oom);
	frame_put_num(fw, FRAME_ATTR_DURATION_US, (uint64_t)(c->exited_us - c->started_us));
}

static void remember(struct runner *r, const struct op *op, uint64_t oom)
{
	static const char *const oom_words[] = { "no", "yes", "unknown" };
	const struct command *c = &op->u.command;
	bool signaled = !c->failed && WIFSIGNALED(c->status);
	struct outcome end = {
		.channel = op->channel,
		.state = c->failed ? "failed"
			: c->timed_out ? "timeout"
			: c->killed    ? "killed"
			: signaled     ? "signaled"
						   : "exited",
		.number = c->failed ? c->fault.code
			: signaled      ? WTERMSIG(c->status)
							: WEXITSTATUS(c->status),
		.oom = oom_words[oom],
	};

	memcpy(end.id, c->id, sizeof(end.id));
	memcpy(end.tag, c->tag, sizeof(end.tag));
	outcomes_add(&r->outcomes, &end, clock_us());
}

static bool tell_end(struct runner *r, struct op *op)
{
	struct command *c = &op->u.command;
	uint64_t oom = c->failed ? FRAME_OOM_NO : oom_verdict(r, c);
	struct frame_writer fw;

	if (!wire_room(&r->wire, &fw))
		return false;
	frame_begin(&fw, FRAME_EXIT, op->channel);
	put_end(&fw, c, oom);
	frame_put_num(&fw, FRAME_ATTR_FLAGS,
		(c->timed_out ? FRAME_EXIT_TIMED_OUT : 0) | (c->killed ? FRAME_EXIT_KILLED : 0));
	frame_put_num(&fw, FRAME_ATTR_SURVIVORS, op->kill.survivors);
	frame_put_num(&fw, FRAME_ATTR_STDOUT_BYTES, c->outputs[COMMAND_OUT].written);
	frame_put_num(&fw, FRAME_ATTR_STDERR_BYTES, c->outputs[COMMAND_ERR].written);
	if (frame_end(&fw))
		wire_commit(&r->wire, &fw);
	remember(r, op, oom);
	return true;
}

static void finish(struct runner *r, struct op *op)
{
	struct command *c = &op->u.command;

	if (!tell_end(r, op))
		return;
	close_stdin(c);
	for (int s = 0; s < COMMAND_STREAMS; s++) {
		if (c->outputs[s].fd >= 0 && !c->tty)
			linger_add(&r->linger, STEAL_FD(c->outputs[s].fd));
		util_closep(&c->outputs[s].fd);
	}
	op_free(op);
}

static void tell(struct runner *r, struct op *op)
{
	struct command *c = &op->u.command;
	struct frame_writer fw;

	if (c->started && !c->told_started && wire_room(&r->wire, &fw)) {
		frame_begin(&fw, FRAME_STARTED, op->channel);
		frame_put_num(&fw, FRAME_ATTR_PID, (uint64_t)c->pid);
		c->told_started = frame_end(&fw);
		wire_commit(&r->wire, &fw);
	}
	if (c->told_started && c->room_owed >= OP_BUF / 2 && !c->exited && wire_room(&r->wire, &fw)) {
		frame_begin(&fw, FRAME_ROOM, op->channel);
		frame_put_num(&fw, FRAME_ATTR_BYTES, c->room_owed);
		if (frame_end(&fw))
			c->room_owed = 0;
		wire_commit(&r->wire, &fw);
	}
}

void command_step(struct runner *r, struct op *op, const struct pollfd *polled, unsigned n, int64_t now_us)
{
	struct command *c = &op->u.command;

	op->wake_us = op->deadline_us;
	if (now_us >= op->deadline_us) {
		op->deadline_us = op->wake_us = CLOCK_NEVER;
		if (!c->exited) {
			c->timed_out = true;
			start_kill(r, op, now_us);
		}
	}
	if (c->exited)
		op->deadline_us = op->wake_us = CLOCK_NEVER;
	if (r->wire.gone)
		close_stdin(c);
	move_data(r, op, polled, n, now_us);
	tell(r, op);
	if (c->exited && !kill_active(&op->kill) && (c->failed || drained(op, now_us)))
		finish(r, op);
}
