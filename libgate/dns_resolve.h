/*
 * Names to addresses by DNS alone: no hosts file, no search list, A and AAAA both awaited. [libevent, c-ares]
 *
 * A name is as it is asked for: the caller asks only for what its rules allow. A failure of either question fails the name;
 * that one family does not exist is no failure. Equal names share one lookup. Answers are kept by their TTL, bounded.
 */
#ifndef GATE_DNS_RESOLVE_H
#define GATE_DNS_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/dns_answer.h"
#include "libgate/dns_name.h"
#include "libgate/dns_result.h"
#include "libgate/err.h"
#include "libgate/util.h"

struct event_base;
struct resolver;
struct lookup_wait;

struct resolver_settings {
	const char *servers; /* "ADDRESS[:PORT],…"; NULL: those of /etc/resolv.conf */
	int64_t timeout_ms; /* of one name, both questions */
	unsigned max_lookups; /* names at once */
	unsigned max_per_group; /* of these, of one group (an allowlist entry) */
	unsigned max_cached;
	int64_t max_cache_ms;
};

struct resolver *resolver_new(struct event_base *base, const struct resolver_settings *settings,
	struct err *err) MUSTCHECK;
void resolver_free(struct resolver *r);

/*
 * Takes other settings over, opening no file. Other servers are asked from now on, also for what is being looked up, and what
 * was learnt from the old ones is forgotten. servers NULL: they stay. On failure nothing changes.
 */
int resolver_change(struct resolver *r, const struct resolver_settings *settings, struct err *err) MUSTCHECK;

/* The addresses of the resolvers themselves; returns how many were written. */
unsigned resolver_servers(struct resolver *r, struct addr *out, unsigned max);

/* DNS_OK with the answer, or why there is none. Never called by resolve_start(). */
typedef void (*resolve_cb)(enum dns_result reason, const struct answer *answer, void *arg);

/* An answer that is still good; NULL otherwise. Valid until the next turn of the loop. */
const struct answer *resolve_cached(struct resolver *r, const struct host *host);

bool resolve_pending(struct resolver *r, const struct host *host); /* a lookup of the name is under way, to be shared */

/* NULL with *why (DNS_BUSY, DNS_NO_MEMORY). group: any pointer that names the group; compared, never followed. */
struct lookup_wait *resolve_start(struct resolver *r, const struct host *host, const void *group, resolve_cb cb,
	void *arg, enum dns_result *why) MUSTCHECK;
void resolve_cancel(struct lookup_wait *w); /* NULL: nothing */

struct resolver_counts {
	uint64_t asked; /* names that were sent to a resolver */
	uint64_t cached; /* answers from the cache */
	uint64_t failed;
	unsigned pending;
};
void resolver_counts(const struct resolver *r, struct resolver_counts *out);

#endif
