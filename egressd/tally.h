/* How many connections each host has. [pure] */
#ifndef EGRESSD_TALLY_H
#define EGRESSD_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "egressd/host.h"

struct tally_entry;

#define TALLY_BUCKETS 256

struct tally {
	struct tally_entry *bucket[TALLY_BUCKETS];
};

/* One more; returns the new count, or 0 on lack of memory. */
uint32_t tally_add(struct tally *t, const struct host *host);
void tally_drop(struct tally *t, const struct host *host);
uint32_t tally_count(struct tally *t, const struct host *host);
void tally_release(struct tally *t);

#endif
