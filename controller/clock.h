/* Deadlines are on the monotonic clock, in milliseconds. */
#ifndef CONTROLLER_CLOCK_H
#define CONTROLLER_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static inline int64_t clock_ms(void)
{
	return clock_us() / 1000;
}

#endif
