/*
 * How commands ended, kept until the controller says that it knows.
 *
 * What it does not settle soon, because the engine between the two died or the controller did, is appended to a file on
 * the sandbox's volume: a line for each command, for the controller that asks later. The same lines are written by the
 * engine mode's script (controller/scripts/exec.sh) and read by controller/outcome.c:
 *
 *      1 ID TAG STATE NUMBER OOM TIME
 *
 * STATE is exited, signaled, timeout, killed or failed; NUMBER an exit code, a signal or an errno value; OOM yes, no or
 * unknown; TIME seconds since 1970; a TAG of _ is none. The sandbox user owns the file, so it is a hint and no proof.
 */
#ifndef RUNNER_OUTCOME_H
#define RUNNER_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "image/runner/proc.h"

#define OUTCOME_MAX 256 /* ends that wait; beyond, the oldest is written */
#define OUTCOME_WAIT_US 2000000 /* for the controller */
#define OUTCOME_FILE_MAX 65536 /* then the file becomes FILE.1 */

struct outcome {
	uint32_t channel;
	char id[PROC_NAME_MAX];
	char tag[PROC_NAME_MAX]; /* empty: none */
	const char *state;
	int number;
	const char *oom;
	int64_t time_s;
	int64_t due_us;
};

struct outcomes {
	const char *path; /* NULL: none is written */
	unsigned n;
	struct outcome list[OUTCOME_MAX]; /* oldest first */
};

void outcomes_add(struct outcomes *o, const struct outcome *end, int64_t now_us);
void outcomes_settled(struct outcomes *o, uint32_t channel);
/* Writes what is due. */
void outcomes_step(struct outcomes *o, int64_t now_us);
int64_t outcomes_wake(const struct outcomes *o); /* CLOCK_NEVER: nothing waits */
/* Writes all: nobody will settle any more. */
void outcomes_flush(struct outcomes *o);

#endif
