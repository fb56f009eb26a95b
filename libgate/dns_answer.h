/*
 * A DNS answer message (RFC 1035) to one A or AAAA question: every address that belongs to the question. [pure]
 *
 * Aliases are followed from the question's name inside the message; an address record under any other name is not an
 * answer. More addresses than can be kept refuse the whole: an address that was not seen could not be checked.
 */
#ifndef GATE_DNS_ANSWER_H
#define GATE_DNS_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "libgate/addr.h"
#include "libgate/dns_name.h"
#include "libgate/dns_result.h"
#include "libgate/util.h"

#define ANSWER_ADDRS_MAX 256
#define ANSWER_RECORDS_MAX 512
#define ANSWER_ALIASES_MAX 16

#define DNS_TYPE_A 1
#define DNS_TYPE_AAAA 28

struct answer {
	unsigned n;
	uint32_t ttl; /* the smallest of the records that led to the addresses, seconds */
	struct addr addrs[ANSWER_ADDRS_MAX];
};

static inline void answer_init(struct answer *a)
{
	a->n = 0;
	a->ttl = UINT32_MAX;
}

/*
 * Adds the addresses to out (which may hold those of the other question). DNS_OK also when there are none;
 * DNS_NXDOMAIN, DNS_FAILED, DNS_MALFORMED, DNS_TOO_MANY.
 */
enum dns_result answer_read(const void *message, size_t len, const struct host *name, uint16_t type,
	struct answer *out) MUSTCHECK;

#endif
