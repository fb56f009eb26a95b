/*
 * Limits that count per peer (unix: user; TCP: address): connections, and requests a second by a token bucket. [pure]
 *
 * The table is a shared mapping, made before the workers of a configuration are forked: a limit holds for all of them together,
 * and a reload begins a new count. It has a fixed size, and is not used where there is no limit. When it is full of peers
 * that are connected, a new one gets no entry and is refused: the limits never fail open. There is no lock: a worker that
 * dies holds nothing, and what it had counted is taken back by peers_lost(). Where two workers meet a peer's very first
 * connections in the same microsecond, each may count them apart, until these end; every other race errs on the side of
 * refusal.
 */
#ifndef DOCKERPROXY_PEERS_H
#define DOCKERPROXY_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/listen.h"
#include "libgate/util.h"

struct peers;
struct peer_entry;

/* connections and rate: 0 for no limit. burst: requests at once. nslots: workers, each with a slot 0..nslots-1 of its own. */
struct peers *peers_new(int64_t connections, int64_t rate, int64_t burst, unsigned nslots) MUSTCHECK;
void peers_free(struct peers *p);

/* A connection came to this slot: its peer's entry, or NULL when it is one too many. Give it back with peers_leave(). */
struct peer_entry *peers_enter(struct peers *p, unsigned slot, const struct peer *who, int64_t now_us);
void peers_leave(struct peers *p, unsigned slot, struct peer_entry *e);

/* The worker of this slot is gone, with all its connections. */
void peers_lost(struct peers *p, unsigned slot);

/* May this peer make a request now? */
bool peers_take(struct peers *p, struct peer_entry *e, int64_t now_us);

#endif
