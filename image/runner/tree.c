/* Whole-tree kill as a state machine over scans of /proc. */
#include "image/runner/tree.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "image/runner/clock.h"
#include "libgate/util.h"

#define FREEZE_ROUNDS 100 /* against a tree that grows as fast as it is stopped: then killing starts all the same */
#define SCAN_GAP_US 1000

void tree_init(struct tree *t, int proc_fd)
{
	t->proc_fd = proc_fd;
	t->bits = 0;
	t->due_us = CLOCK_NEVER;
	t->now = 0;
	t->tables[0].n = t->tables[1].n = 0;
}

void tree_start(struct tree *t, struct kill_job *job, const struct kill_target *target, int64_t now_us)
{
	memset(job, 0, sizeof(*job));
	job->phase = KILL_WAITING;
	job->target = *target;
	job->deadline_us = now_us + TREE_TIME_US;
	t->due_us = now_us;
}

static bool spared(const struct proc *p)
{
	return p->pid == 1 || p->pid == getpid() || p->runner || p->zombie || p->denied;
}

bool kill_target_has_tag(const struct kill_target *target, const char *tag)
{
	const char *at = target->tags;

	if (tag[0] == '\0')
		return false;
	for (unsigned i = 0; i < target->ntags; i++, at += strlen(at) + 1)
		if (strcmp(at, tag) == 0)
			return true;
	return false;
}

/* A process that is just becoming a program, or has thrown its environment away, has its command's limit all the same. */
static bool has_limit(const struct kill_target *target, const struct proc *p)
{
	if (p->exec[0] != '\0' || p->limit == 0)
		return false;
	for (unsigned i = 0; i < target->nlimits; i++)
		if (target->limits[i] == p->limit)
			return true;
	return false;
}

static bool is_target(const struct kill_target *target, const struct proc *p)
{
	if (target->all)
		return true;
	if (target->leader != 0 && (p->pid == target->leader || p->sid == target->leader || p->pgid == target->leader))
		return true;
	if (target->exec != NULL && strcmp(p->exec, target->exec) == 0)
		return true;
	return has_limit(target, p) || kill_target_has_tag(target, p->tag);
}

/* A session of the marked process's own kind: not the one that a runner or pid 1 lives in. */
static bool related(const struct proc *marked, const struct proc *p)
{
	return p->ppid == marked->pid || (marked->sid > 1 && p->sid == marked->sid) ||
		(marked->pgid > 1 && p->pgid == marked->pgid);
}

/* Marks until nothing more follows from what is marked. */
static void mark(struct proc_table *t, const struct kill_job *job)
{
	uint64_t bit = UINT64_C(1) << job->bit;
	bool more = true;

	for (unsigned i = 0; i < t->n; i++)
		if (!spared(&t->rows[i]) && is_target(&job->target, &t->rows[i]))
			t->rows[i].marks |= bit;
	while (more && !job->target.all) {
		more = false;
		for (unsigned i = 0; i < t->n; i++) {
			if ((t->rows[i].marks & bit) == 0)
				continue;
			for (unsigned k = 0; k < t->n; k++) {
				struct proc *p = &t->rows[k];

				if ((p->marks & bit) == 0 && !spared(p) && related(&t->rows[i], p)) {
					p->marks |= bit;
					more = true;
				}
			}
		}
	}
}

/* Sends; a refusal means that the process is not the sandbox user's and is none of ours. */
static void send_signal(struct proc *p, int signo)
{
	if (kill(p->pid, signo) != 0 && errno == EPERM) {
		p->denied = true;
		p->marks = 0;
	}
}

static void finish(struct tree *t, struct kill_job *job, unsigned survivors, int code)
{
	t->bits &= ~(UINT64_C(1) << job->bit);
	job->survivors = survivors;
	job->code = code;
	job->phase = KILL_DONE;
}

static void freeze(struct proc_table *now, struct proc_table *before, struct kill_job *job)
{
	uint64_t bit = UINT64_C(1) << job->bit;
	unsigned fresh = 0;

	for (unsigned i = 0; i < now->n; i++) {
		struct proc *p = &now->rows[i];
		const struct proc *old;

		if ((p->marks & bit) == 0)
			continue;
		old = proc_find(before, p->pid, p->start);
		if (old != NULL && (old->marks & bit) != 0)
			continue;
		send_signal(p, SIGSTOP);
		fresh += !p->denied;
	}
	if (fresh == 0 || ++job->rounds > FREEZE_ROUNDS)
		job->phase = KILL_KILLING;
}

static void kill_marked(struct tree *t, struct proc_table *now, struct kill_job *job, int64_t now_us)
{
	uint64_t bit = UINT64_C(1) << job->bit;
	unsigned alive = 0;

	for (unsigned i = 0; i < now->n; i++) {
		struct proc *p = &now->rows[i];

		if ((p->marks & bit) == 0 || p->zombie)
			continue;
		send_signal(p, SIGKILL);
		alive += !p->denied;
	}
	/* Those who were just killed are no survivors: they get the time to end, however late the freezing was over. */
	if (job->killed == 0 && alive > 0 && job->deadline_us < now_us + TREE_SETTLE_US)
		job->deadline_us = now_us + TREE_SETTLE_US;
	/*
	 * The first pass that finds any counts the tree; what appears later was forked before its parent could be stopped.
	 * A process that just execs shows no environment, and is found by the next pass.
	 */
	if ((job->quiet == 0 || job->killed == 0) && alive > job->killed)
		job->killed = alive;
	job->quiet = alive == 0 ? job->quiet + 1 : 0;
	if (job->quiet >= 2)
		finish(t, job, 0, 0);
	else if (now_us >= job->deadline_us)
		finish(t, job, alive, 0);
}

/* A mark lasts for the life of the process: one that sheds its environment or its parent is not lost again. */
static void carry_marks(struct proc_table *now, struct proc_table *before)
{
	unsigned k = 0;

	for (unsigned i = 0; i < now->n; i++) {
		struct proc *p = &now->rows[i];
		const struct proc *old = NULL;

		/* Both tables are in the order of /proc, which is by pid: walk them together, search when it is not. */
		while (k < before->n && before->rows[k].pid < p->pid)
			k++;
		if (k < before->n && before->rows[k].pid == p->pid)
			old = before->rows[k].start == p->start ? &before->rows[k] : NULL;
		else
			old = proc_find(before, p->pid, p->start);
		if (old != NULL) {
			p->marks = old->marks;
			p->denied = old->denied;
		}
	}
}

struct jobs {
	struct kill_job *const *list;
	unsigned n;
};

/*
 * Stops what is plainly a target while the scan still runs: among a thousand processes that fork all the time the
 * runner gets a thousandth of the processor, and more with each one that stands still.
 */
static void stop_at_once(struct proc *p, void *arg)
{
	const struct jobs *jobs = arg;

	if (spared(p))
		return;
	for (unsigned i = 0; i < jobs->n; i++)
		if (jobs->list[i]->phase == KILL_FREEZING && is_target(&jobs->list[i]->target, p))
			send_signal(p, SIGSTOP);
}

static void admit(struct tree *t, struct kill_job *job)
{
	for (unsigned i = 0; i < TREE_JOBS; i++) {
		if ((t->bits & UINT64_C(1) << i) != 0)
			continue;
		t->bits |= UINT64_C(1) << i;
		job->bit = i;
		job->phase = KILL_FREEZING;
		if (job->target.leader > 1)
			kill(-job->target.leader, SIGSTOP);
		return;
	}
}

void tree_step(struct tree *t, struct kill_job *const *jobs, unsigned njobs, int64_t now_us)
{
	struct proc_table *before = &t->tables[t->now];
	struct proc_table *now = &t->tables[1 - t->now];
	struct jobs all = { jobs, njobs };
	uint64_t used = t->bits;
	bool broken;
	bool active = false;

	if (now_us < t->due_us)
		return;
	for (unsigned i = 0; i < njobs; i++)
		if (jobs[i]->phase == KILL_WAITING)
			admit(t, jobs[i]);
	/* A bit that starts anew must not inherit the marks of the job that had it before. */
	for (unsigned i = 0; i < before->n; i++)
		before->rows[i].marks &= used;
	broken = proc_scan(t->proc_fd, now, stop_at_once, &all) != 0;
	carry_marks(now, before);
	for (unsigned i = 0; i < njobs; i++) {
		struct kill_job *job = jobs[i];

		if (job->phase != KILL_FREEZING && job->phase != KILL_KILLING)
			continue;
		if (broken) {
			finish(t, job, 0, EIO);
			continue;
		}
		mark(now, job);
		if (job->phase == KILL_FREEZING)
			freeze(now, before, job);
		if (job->phase == KILL_KILLING)
			kill_marked(t, now, job, now_us);
	}
	for (unsigned i = 0; i < njobs; i++)
		active |= kill_active(jobs[i]);
	t->now = 1 - t->now;
	t->due_us = active ? now_us + SCAN_GAP_US : CLOCK_NEVER;
}
