/*
 * Starts one command: its own session, pipes or terminal, environment and marks.
 *
 * The engine's pipes are never lent to it. The child shares the runner's memory until it executes its program (vfork):
 * nothing of the runner is copied for it, and what keeps the program from starting is known when spawn() returns.
 */
#ifndef RUNNER_SPAWN_H
#define RUNNER_SPAWN_H

#include <sys/resource.h>
#include <sys/types.h>

#include "libgate/frame.h"

#define SPAWN_ARGS_MAX 32768
#define SPAWN_ENV_MAX 4096

enum spawn_step { SPAWN_ARGUMENTS, SPAWN_PIPE, SPAWN_TERMINAL, SPAWN_FORK, SPAWN_LIMIT, SPAWN_CWD, SPAWN_EXEC };

struct spawn_fault {
	enum spawn_step step;
	int code; /* errno value */
};

const char *spawn_step_text(enum spawn_step step); /* "the working directory cannot be entered" */

struct spawned {
	pid_t pid;
	int in_fd; /* -1: the command reads /dev/null */
	int out_fd; /* with a terminal: its master; in_fd is then a second descriptor of it */
	int err_fd; /* -1 with a terminal */
};

struct spawner {
	struct rlimit nofile; /* what a command gets; the runner raised its own */
};

/* start: a START frame with its attributes checked. limit: RLIMIT_MSGQUEUE. 0: the program runs; or -1 with *fault. */
int spawn(const struct spawner *s, const struct frame *start, uint64_t limit, struct spawned *out,
	struct spawn_fault *fault) MUSTCHECK;

#endif
