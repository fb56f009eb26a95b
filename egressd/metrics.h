/* Counters of one process, written in the Prometheus text format. [pure] */
#ifndef EGRESSD_METRICS_H
#define EGRESSD_METRICS_H

#include <stdint.h>

#include "egressd/reason.h"
#include "libgate/buf.h"

struct metrics {
#define COUNTER(name, help) uint64_t name;
#define GAUGE(name, help) uint64_t name;
#include "egressd/metrics.def"
#undef COUNTER
#undef GAUGE
	uint64_t requests[REASON_COUNT]; /* by outcome; REASON_OK: allowed */
	uint64_t malformed; /* heads that the HTTP reader refused */
	uint64_t lookups;
	uint64_t lookups_cached;
	uint64_t lookups_failed;
	uint64_t audit_dropped;
};

int metrics_put(struct buf *out, const struct metrics *m) MUSTCHECK;

#endif
