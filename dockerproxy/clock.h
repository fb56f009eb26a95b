/* The one clock of timers and durations, and its hand that moves in ticks of some milliseconds. */
#ifndef DOCKERPROXY_CLOCK_H
#define DOCKERPROXY_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline int64_t clock_us(void)
{
	return clock_read_us(CLOCK_MONOTONIC);
}

/* Up to a tick behind clock_us(), at a fifth of its price: for deadlines, which a request moves several times. */
static inline int64_t clock_tick_us(void)
{
	return clock_read_us(CLOCK_MONOTONIC_COARSE);
}

#endif
