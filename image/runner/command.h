/*
 * One command, from START to EXIT.
 *
 * Its output ends when its first process has exited and its pipes are at their end; where a background process still
 * holds them, when what was in them at the exit has been passed on and a short grace is over.
 */
#ifndef RUNNER_COMMAND_H
#define RUNNER_COMMAND_H

#include <poll.h>

#include "image/runner/proc.h"
#include "image/runner/spawn.h"
#include "libgate/frame.h"

struct runner;
struct op;

enum command_stream { COMMAND_OUT, COMMAND_ERR, COMMAND_STREAMS };

struct command_output {
	int fd; /* -1: ended */
	uint64_t written; /* by the command */
	uint64_t passed; /* to the controller */
	uint64_t owed; /* bytes that were in the pipe when the command exited */
};

struct command {
	char id[PROC_NAME_MAX];
	char tag[PROC_NAME_MAX]; /* empty: none */
	pid_t pid;
	bool exited; /* reaped; status holds */
	bool started; /* the program runs, or ran */
	bool told_started;
	bool failed; /* it never ran; fault holds */
	bool timed_out;
	bool killed;
	bool cut; /* killed: nothing more is passed on than what is there */
	bool tty;
	int status;
	struct spawn_fault fault;
	int in_fd;
	struct command_output outputs[COMMAND_STREAMS];
	uint64_t max_output;
	uint64_t limit; /* RLIMIT_MSGQUEUE */
	/* stdin: op->buf as a ring */
	size_t in_at, in_len;
	bool in_end;
	uint64_t room_owed; /* stdin bytes taken and not yet told */
	uint64_t oom_before;
	bool oom_known;
	int64_t started_us, exited_us, last_data_us;
};

/* Ends the operation at once, with an EXIT that says why, when it cannot start. */
void command_start(struct runner *r, struct op *op, const struct frame *f, int64_t now_us);
void command_stdin(struct op *op, struct slice data);
void command_stdin_end(struct op *op);
void command_resize(struct op *op, const struct frame *f);
void command_kill(struct runner *r, struct op *op, int64_t now_us);
void command_exited(struct op *op, int status, int64_t now_us);
unsigned command_poll(struct runner *r, struct op *op, struct pollfd *out); /* at most OP_FDS */
/* polled: what command_poll() asked for, n of them. */
void command_step(struct runner *r, struct op *op, const struct pollfd *polled, unsigned n, int64_t now_us);

#endif
