/*
 * Moves bytes between two connected sockets, both ways, until both directions ended. [libevent]
 *
 * Plain events and one shared buffer of the loop (up to 256 KiB a read): an idle relay owns no buffer; what a slow
 * reader does not take is kept per direction, bounded, and reading of the other side stops (back-pressure). A peer's
 * half-close is passed on after what it sent was delivered; a reset ends both. Byte counts are of delivered bytes.
 *
 * Between two TCP sockets, much in one direction is spliced through one of the process's pipes (libgate/pipes.h), under the
 * same limits; SIGPIPE has to be ignored by the process.
 */
#ifndef GATE_RELAY_H
#define GATE_RELAY_H

#include <stdint.h>

#include "libgate/slice.h"
#include "libgate/util.h"

struct event_base;
struct relay;

enum relay_end {
	RELAY_END_CLOSED, /* both directions ended in order */
	RELAY_END_RESET, /* one side failed */
	RELAY_END_IDLE, /* no byte for idle_ms */
	RELAY_END_LIFETIME, /* max_ms reached */
	RELAY_END_BYTES, /* max_bytes reached */
	RELAY_END_STOPPED, /* relay_free() by the owner: not reported by the callback */
};

struct relay_limits {
	int64_t idle_ms; /* 0: none */
	int64_t half_closed_ms; /* idle limit once one direction has ended; 0: as idle_ms */
	int64_t max_ms; /* 0: none */
	uint64_t max_bytes; /* both directions together; 0: none */
	int64_t left_ms; /* silence after which a half-closed a is looked after (unix sockets tell who left); 0: never */
	int64_t keep_alive_ms; /* a peer that is silent for so long is asked by the kernel whether it is there; 0: never */
};

struct relay_stats {
	uint64_t a_to_b;
	uint64_t b_to_a;
};

/* Called once, from the loop; the relay is freed after it returns and the sockets are closed by then. */
typedef void (*relay_done_cb)(enum relay_end end, const struct relay_stats *stats, void *arg);

/*
 * Takes over both descriptors (non-blocking). early_a: bytes already read from a that are to reach b first; early_b
 * likewise; both are copied. NULL on lack of memory: the descriptors then stay the caller's. Events that the caller has on them
 * are best deleted afterwards: then the kernel need not be told that reading goes on.
 */
struct relay *relay_new(struct event_base *base, int fd_a, struct slice early_a, int fd_b, struct slice early_b,
	const struct relay_limits *limits, relay_done_cb done, void *arg) MUSTCHECK;
void relay_stats(const struct relay *r, struct relay_stats *out);
void relay_free(struct relay *r); /* closes both at once */

#endif
