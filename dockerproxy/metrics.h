/*
 * Counters of all workers in one shared mapping, made before the workers are forked, and their Prometheus text.
 *
 * A slot belongs to one worker at a time and is written by it alone; a successor goes on counting in it. Readers may see a
 * request half counted, never a torn number.
 */
#ifndef DOCKERPROXY_METRICS_H
#define DOCKERPROXY_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/buf.h"
#include "libgate/util.h"

#define METRICS_BUCKETS 14 /* of the latency histograms; the last is +Inf */

enum metrics_decision { METRICS_ALLOW, METRICS_DENY, METRICS_WOULD_DENY, METRICS_DECISIONS };

struct metrics;

/* What a worker adds to directly. */
struct metrics_counters {
	uint64_t connections; /* accepted */
	uint64_t connections_refused;
	uint64_t connections_now; /* gauge */
	uint64_t tunnels_now; /* gauge */
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint64_t engine_connects;
	uint64_t engine_reuses;
	uint64_t engine_retries;
	uint64_t engine_faults;
	uint64_t audit_dropped;
};

struct metrics *metrics_new(unsigned nslots) MUSTCHECK;
void metrics_free(struct metrics *m);
struct metrics_counters *metrics_counters(struct metrics *m, unsigned slot);

/* One judged request. endpoint: NULL when no row matched; reason: NULL when allowed. engine_us: what the engine took. */
void metrics_request(struct metrics *m, unsigned slot, const char *endpoint, enum metrics_decision decision,
	const char *reason, int64_t duration_us, int64_t engine_us);

/* The slot's worker is gone, and with it what it had open. */
void metrics_lost(struct metrics *m, unsigned slot);

/* generation: 1 for the policy of the start, one more for each reload. */
void metrics_set_policy(struct metrics *m, uint64_t generation, const char *digest);

/* Prometheus text format 0.0.4 of all slots together. */
int metrics_render(const struct metrics *m, struct buf *out) MUSTCHECK;

#endif
