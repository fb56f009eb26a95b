/* Reads /proc by descriptors alone: no allocation, no process. */
#include "image/runner/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "libgate/util.h"

#define ENV_CHUNK 16384
#define ENV_CHUNKS 160 /* beyond the kernel's limit for an environment */

struct dirent_row {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

int proc_open(void)
{
	return open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool number(const char *s, pid_t *out)
{
	uint64_t v = 0;

	if (*s < '1' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > INT32_MAX)
			return false;
	}
	*out = (pid_t)v;
	return *s == '\0';
}

static int open_of(int proc_fd, pid_t pid, const char *what)
{
	char path[48];

	snprintf(path, sizeof(path), "%d/%s", (int)pid, what);
	return openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
}

static ssize_t read_of(int proc_fd, pid_t pid, const char *what, char *out, size_t size)
{
	auto_close int fd = open_of(proc_fd, pid, what);
	size_t len = 0;

	if (fd < 0)
		return -1;
	while (len + 1 < size) {
		ssize_t n = read(fd, out + len, size - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	out[len] = '\0';
	return (ssize_t)len;
}

/* The n-th (from 0) space-separated number after s. */
static uint64_t field(const char *s, unsigned n)
{
	uint64_t v = 0;

	for (; n > 0 && *s != '\0'; s++)
		if (*s == ' ')
			n--;
	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (uint64_t)(*s - '0');
	return v;
}

/* "pid (name) state ppid pgrp session …"; the name may hold anything, so it ends at the last parenthesis. */
static bool read_stat(int proc_fd, struct proc *p)
{
	char text[1024];
	char *name, *end;

	if (read_of(proc_fd, p->pid, "stat", text, sizeof(text)) <= 0)
		return false;
	name = strchr(text, '(');
	end = strrchr(text, ')');
	if (name == NULL || end == NULL || end < name || strlen(end) < 4)
		return false;
	*end = '\0';
	p->zombie = end[2] == 'Z' || end[2] == 'X' || end[2] == 'x';
	p->ppid = (pid_t)field(end + 4, 0);
	p->pgid = (pid_t)field(end + 4, 1);
	p->sid = (pid_t)field(end + 4, 2);
	p->start = field(end + 4, 18);
	/* Only the engine puts a process here whose parent is outside: nothing in the sandbox can imitate that. */
	p->runner = p->ppid == 0 && strcmp(name + 1, "sandbox-runner") == 0;
	return true;
}

static void take(const char *entry, size_t len, const char *key, char *out)
{
	size_t n = strlen(key);

	if (len <= n + 1 || len - n - 1 >= PROC_NAME_MAX || memcmp(entry, key, n) != 0 || entry[n] != '=')
		return;
	memcpy(out, entry + n + 1, len - n - 1);
	out[len - n - 1] = '\0';
}

/* Reads the environment in chunks; an entry that is cut by a chunk's end is carried over when it can be one of ours. */
static void read_env(int proc_fd, struct proc *p)
{
	static char chunk[ENV_CHUNK];
	auto_close int fd = open_of(proc_fd, p->pid, "environ");
	size_t len = 0;
	bool skipping = false; /* inside an entry longer than the chunk */

	if (fd < 0)
		return;
	for (unsigned i = 0; i < ENV_CHUNKS; i++) {
		ssize_t n = read(fd, chunk + len, sizeof(chunk) - len);
		size_t at = 0;

		if (n <= 0)
			break;
		len += (size_t)n;
		for (;;) {
			char *nul = memchr(chunk + at, '\0', len - at);

			if (nul == NULL)
				break;
			if (!skipping) {
				take(chunk + at, (size_t)(nul - (chunk + at)), PROC_ENV_EXEC, p->exec);
				take(chunk + at, (size_t)(nul - (chunk + at)), PROC_ENV_TAG, p->tag);
			}
			skipping = false;
			at = (size_t)(nul - chunk) + 1;
		}
		len -= at;
		memmove(chunk, chunk + at, len);
		if (len == sizeof(chunk)) {
			skipping = true;
			len = 0;
		}
	}
}

static void read_limit(int proc_fd, struct proc *p)
{
	static const char key[] = "Max msgqueue size";
	char text[4096];
	const char *at;

	if (read_of(proc_fd, p->pid, "limits", text, sizeof(text)) <= 0)
		return;
	at = strstr(text, key);
	if (at == NULL)
		return;
	at += sizeof(key) - 1;
	p->limit = field(at + strspn(at, " "), 0);
}

/* NULL when it is gone. */
static struct proc *read_process(int proc_fd, struct proc_table *t, pid_t pid)
{
	struct proc *p = &t->rows[t->n];

	memset(p, 0, sizeof(*p));
	p->pid = pid;
	if (!read_stat(proc_fd, p))
		return NULL;
	t->n++;
	if (p->zombie)
		return p;
	read_env(proc_fd, p);
	if (p->exec[0] == '\0')
		read_limit(proc_fd, p);
	return p;
}

int proc_scan(int proc_fd, struct proc_table *t, void (*seen)(struct proc *p, void *arg), void *arg)
{
	static char entries[32768] __attribute__((aligned(8)));
	long n;

	t->n = 0;
	if (lseek(proc_fd, 0, SEEK_SET) < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, proc_fd, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < n;) {
			struct dirent_row *d = (struct dirent_row *)(void *)(entries + at);
			struct proc *p = NULL;
			pid_t pid;

			if (number(d->name, &pid) && t->n < PROC_MAX)
				p = read_process(proc_fd, t, pid);
			if (p != NULL)
				seen(p, arg);
			at += d->reclen;
		}
	}
	return n < 0 ? -1 : 0;
}

struct proc *proc_find(struct proc_table *t, pid_t pid, uint64_t start)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->rows[i].pid == pid && t->rows[i].start == start)
			return &t->rows[i];
	return NULL;
}
