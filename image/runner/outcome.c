/* Remembers ends, and writes down those that nobody settled. */
#include "image/runner/outcome.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "image/runner/clock.h"
#include "libgate/util.h"

static void drop(struct outcomes *o, unsigned n)
{
	memmove(o->list, o->list + n, (o->n - n) * sizeof(o->list[0]));
	o->n -= n;
}

/* Any of the sandbox's processes may have put something else in its place: what is no file, or blocks, is left alone. */
static int open_file(const char *path, off_t *size)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		*size = st.st_size;
	return fd;
}

static void write_all(struct outcomes *o, unsigned n)
{
	char older[4096], line[4 * PROC_NAME_MAX];
	off_t size = 0;
	int fd = open_file(o->path, &size);

	if (fd >= 0 && size > OUTCOME_FILE_MAX) {
		int len = snprintf(older, sizeof(older), "%s.1", o->path);

		close(fd);
		if (len < 0 || (size_t)len >= sizeof(older) || rename(o->path, older) != 0)
			return;
		fd = open_file(o->path, &size);
	}
	if (fd < 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		const struct outcome *e = &o->list[i];
		int len = snprintf(line, sizeof(line), "1 %s %s %s %d %s %lld\n", e->id, e->tag[0] != '\0' ? e->tag : "_",
			e->state, e->number, e->oom, (long long)e->time_s);

		if (len < 0 || (size_t)len >= sizeof(line) || write(fd, line, (size_t)len) != len)
			break; /* a full disk: what cannot be kept stays unknown */
	}
	(void)fdatasync(fd);
	close(fd);
}

static void write_down(struct outcomes *o, unsigned n)
{
	if (n > 0 && o->path != NULL)
		write_all(o, n);
	drop(o, n);
}

void outcomes_add(struct outcomes *o, const struct outcome *end, int64_t now_us)
{
	struct outcome *e;

	if (o->n == OUTCOME_MAX)
		write_down(o, 1);
	e = &o->list[o->n++];
	*e = *end;
	e->time_s = time(NULL);
	e->due_us = now_us + OUTCOME_WAIT_US;
}

void outcomes_settled(struct outcomes *o, uint32_t channel)
{
	for (unsigned i = 0; i < o->n; i++) {
		if (o->list[i].channel != channel)
			continue;
		memmove(o->list + i, o->list + i + 1, (o->n - i - 1) * sizeof(o->list[0]));
		o->n--;
		return;
	}
}

void outcomes_step(struct outcomes *o, int64_t now_us)
{
	unsigned due = 0;

	while (due < o->n && o->list[due].due_us <= now_us)
		due++;
	write_down(o, due);
}

int64_t outcomes_wake(const struct outcomes *o)
{
	return o->n > 0 ? o->list[0].due_us : CLOCK_NEVER;
}

void outcomes_flush(struct outcomes *o)
{
	write_down(o, o->n);
}
