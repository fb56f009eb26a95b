/*
 * The processes of the sandbox, read from /proc into a table of fixed size without starting anything.
 *
 * A command is recognised in what descends from it by the environment that it was started with (CAPYBARA_EXEC,
 * CAPYBARA_TAG) and by a resource limit with a value of its own (RLIMIT_MSGQUEUE), which `env -i` does not remove.
 * Neither is a security boundary: the sandbox user may shed both, and then only kill-all reaches that process.
 */
#ifndef RUNNER_PROC_H
#define RUNNER_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_MAX 8192 /* above any pids limit that a sandbox gets */
#define PROC_NAME_MAX 65 /* an id or tag with its NUL */

#define PROC_ENV_EXEC "CAPYBARA_EXEC"
#define PROC_ENV_TAG "CAPYBARA_TAG"

struct proc {
	pid_t pid, ppid, pgid, sid;
	uint64_t start; /* with pid: which process it is, for the life of the sandbox */
	bool zombie;
	bool runner; /* entered from outside the sandbox and named like this program */
	bool denied; /* the kernel refused a signal: not the sandbox user's */
	uint64_t marks; /* one bit a kill job, see tree.h */
	uint64_t limit; /* RLIMIT_MSGQUEUE, 0 when not known */
	char exec[PROC_NAME_MAX]; /* "" when the environment names none */
	char tag[PROC_NAME_MAX];
};

struct proc_table {
	unsigned n;
	struct proc rows[PROC_MAX];
};

int proc_open(void); /* a descriptor of /proc, or -1 */
/* 0, or -1 when /proc cannot be read. Rows are in the order of the directory; seen() gets each as soon as it is read. */
int proc_scan(int proc_fd, struct proc_table *t, void (*seen)(struct proc *p, void *arg), void *arg);
struct proc *proc_find(struct proc_table *t, pid_t pid, uint64_t start);

#endif
