/*
 * Limits that count per peer (unix: user; TCP: address): connections, and requests a second by a token bucket. [pure]
 *
 * A table of fixed size. When it is full of peers that are connected, a new one gets no entry and is refused: the limits
 * never fail open.
 */
#ifndef DOCKERPROXY_PEERS_H
#define DOCKERPROXY_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/listen.h"
#include "libgate/util.h"

struct peers;
struct peer_entry;

/* connections and rate: 0 for no limit. */
struct peers *peers_new(int64_t connections, int64_t rate, int64_t burst) MUSTCHECK;
void peers_free(struct peers *p);

/* A connection came: its peer's entry, or NULL when it is one too many. Give it back with peers_leave(). */
struct peer_entry *peers_enter(struct peers *p, const struct peer *who, int64_t now_us);
void peers_leave(struct peer_entry *e);

/* May this peer make a request now? */
bool peers_take(struct peers *p, struct peer_entry *e, int64_t now_us);

#endif
