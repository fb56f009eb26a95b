/*
 * Killing whole trees of processes without starting one: the pids limit may be exhausted.
 *
 * A job marks what belongs to its target (by environment, by limit, by session, by process group, by parent, and by
 * having been marked before), stops every newly marked process until a scan finds no new one, so that none can fork
 * any more, then kills all and scans until two scans in a row find nothing alive. What is left when time is up is
 * counted as surviving.
 */
#ifndef RUNNER_TREE_H
#define RUNNER_TREE_H

#include "image/runner/proc.h"
#include "libgate/slice.h"

#define TREE_JOBS 64 /* bits of proc.marks; further jobs wait */
#define TREE_TIME_US 5000000
#define TREE_SETTLE_US 5000000 /* after the first SIGKILL */

enum kill_phase { KILL_IDLE, KILL_WAITING, KILL_FREEZING, KILL_KILLING, KILL_DONE };

struct kill_target {
	bool all; /* every process that the sandbox user may signal, except runners and pid 1 */
	pid_t leader; /* a command's first process, 0: none */
	const char *exec; /* a command's id, NULL: none */
	const uint64_t *limits; /* RLIMIT_MSGQUEUE of nlimits commands: what tells a process that shows no environment */
	unsigned nlimits;
	const char *tags; /* ntags strings, each with its NUL, NULL: none */
	unsigned ntags;
};

struct kill_job {
	enum kill_phase phase;
	struct kill_target target;
	int64_t deadline_us;
	unsigned bit;
	unsigned rounds;
	unsigned quiet; /* scans in a row that found nothing alive */
	unsigned killed;
	unsigned survivors;
	int code; /* errno value when /proc could not be read */
};

struct tree {
	int proc_fd;
	uint64_t bits; /* in use */
	int64_t due_us; /* of the next scan, CLOCK_NEVER when no job is under way */
	unsigned now; /* which of the tables is the newest */
	struct proc_table tables[2];
};

/* Is the tag one of the target's? */
bool kill_target_has_tag(const struct kill_target *target, const char *tag);

void tree_init(struct tree *t, int proc_fd);
/* What the target points to stays until the job is done. */
void tree_start(struct tree *t, struct kill_job *job, const struct kill_target *target, int64_t now_us);
/* One scan for all jobs, when it is due. jobs[] holds every job that is neither idle nor done. */
void tree_step(struct tree *t, struct kill_job *const *jobs, unsigned njobs, int64_t now_us);

static inline bool kill_active(const struct kill_job *job)
{
	return job->phase != KILL_IDLE && job->phase != KILL_DONE;
}

#endif
