/* The one clock of timers and durations. */
#ifndef DOCKERPROXY_CLOCK_H
#define DOCKERPROXY_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

#endif
