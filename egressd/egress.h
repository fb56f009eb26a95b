/* What the sessions of one process share. */
#ifndef EGRESSD_EGRESS_H
#define EGRESSD_EGRESS_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "egressd/conf.h"
#include "egressd/guard.h"
#include "egressd/metrics.h"
#include "egressd/pace.h"
#include "egressd/room.h"
#include "egressd/stream.h"
#include "egressd/tally.h"
#include "libgate/audit.h"

#define EGRESS_KEEP_ALIVE_MS 60000 /* silence after which a tunnel's peers are asked whether they are there */

struct relay_stats;
struct resolver;
struct session;
struct relayed;

TAILQ_HEAD(session_list, session);
TAILQ_HEAD(relayed_list, relayed);

struct egress {
	struct event_base *base;
	struct egress_conf *conf; /* replaced as a whole by a reload */
	struct pace *paces; /* one for each entry of conf->allow: names that it had the resolver asked for */
	struct guard guard;
	struct resolver *resolver;
	struct audit *audit;
	struct metrics metrics;
	struct tally tally; /* connections by host */
	struct stream_pool
		pool; /* what heads and bodies in passing may take; tunnels have a bound of their own in the relay */
	struct session_list sessions;
	struct session_list dead; /* closed, freed in the next turn of the loop */
	struct relayed_list relayed; /* connections of pinned targets */
	struct event reaper;
	struct event flush; /* writes the audit lines of this turn */
	unsigned nclients; /* sessions and relayed connections */
	struct room room;
	unsigned max_clients;
	unsigned nrefused; /* over the limit, being told so */
	uint64_t bytes; /* of all connections that ended, and of exchanges that run */
	int64_t started_ms;
	bool draining;
	bool spent; /* a budget of the whole is used up */
};

int64_t egress_now_ms(void);
int64_t egress_now_us(void);

/* What a relay moved counts for the budget of the whole and for the metrics, however it ended. */
void egress_count_relayed(struct egress *e, const struct relay_stats *stats);

/* Would the configuration in force still let this host have this address? Whether it is an own one is not asked again. */
bool egress_address_stands(const struct egress *e, const struct host *host, const struct addr *addr);

/* A line for the audit log goes out at the end of this turn. */
void egress_audit_done(struct egress *e);

#endif
