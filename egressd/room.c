/* The limit of clients. */
#include "egressd/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "libgate/pipes.h"

#define BYTES_PER_CLIENT (64u * 1024 * 1024 / 2000)
#define DESCRIPTORS_PER_CLIENT 2
#define DESCRIPTORS_ASIDE (64 + PIPES_DESCRIPTORS) /* listeners, resolver, logs, attempts beside the first */
#define MOST 250000

/* The first number of a file; 0 when there is none ("max") or the file is missing. */
static uint64_t read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[64] = "";
	uint64_t n = 0;

	if (f == NULL)
		return 0;
	if (fgets(line, sizeof(line), f) != NULL)
		n = strtoull(line, NULL, 10);
	fclose(f);
	return n;
}

/* 0: unlimited. Inside a container its own group stands at the mount's root. */
static uint64_t memory_limit(void)
{
	uint64_t v2 = read_number("/sys/fs/cgroup/memory.max");
	uint64_t v1 = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
	uint64_t limit = v2 != 0 ? v2 : v1;

	return limit >= UINT64_C(1) << 60 ? 0 : limit; /* how v1 spells "none" */
}

static uint64_t descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	return limit.rlim_cur == RLIM_INFINITY ? UINT64_C(1) << 20 : (uint64_t)limit.rlim_cur;
}

void room_read(struct room *room)
{
	room->descriptors = descriptor_limit();
	room->memory = memory_limit();
}

unsigned room_for_clients(const struct room *room, int64_t configured)
{
	uint64_t n =
		room->descriptors > DESCRIPTORS_ASIDE ? (room->descriptors - DESCRIPTORS_ASIDE) / DESCRIPTORS_PER_CLIENT : 1;

	if (configured > 0 && (uint64_t)configured < n)
		n = (uint64_t)configured;
	if (configured == 0 && room->memory > 0 && room->memory / BYTES_PER_CLIENT < n)
		n = room->memory / BYTES_PER_CLIENT;
	if (n < 1)
		n = 1;
	return n > MOST ? MOST : (unsigned)n;
}
