/*
 * Addresses: the IANA special-purpose registries as a table, and CIDR blocks. [pure]
 *
 * Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries (2025-10-09), multicast and IPv6 address-space
 * registries. IPv6 is refused unless it lies in 2000::/3 and in no refused row; addresses that embed an IPv4 address
 * are judged by it where the mechanism is in use (mapped, NAT64 64:ff9b::/96, 6to4).
 */
#ifndef GATE_ADDR_H
#define GATE_ADDR_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/slice.h"

/* 4 or 16 bytes in network order. */
struct addr {
	uint8_t len; /* 4 or 16 */
	uint8_t bytes[16];
};

struct addr_verdict {
	bool refused;
	const char *block; /* "10.0.0.0/8", "2000::/3", "public" */
	const char *class; /* "private-use", "loopback", "global" … stable words */
	const char *rfc; /* "RFC 1918" */
	const char *via; /* what embeds the IPv4 address that was judged ("nat64"), or NULL */
	const char *hint; /* what such an answer usually means, or NULL */
};

bool addr_parse(struct slice text, struct addr *out) MUSTCHECK; /* strict: dotted quad or RFC 4291 text, no zone */
void addr_format(const struct addr *a, char *out, size_t size); /* RFC 5952; size >= 46 */
struct addr_verdict addr_judge(const struct addr *a);
bool addr_equal(const struct addr *a, const struct addr *b);
/* The IPv4 address that a mapped, NAT64 or 6to4 address embeds; false for every other address. */
bool addr_embedded(const struct addr *a, struct addr *v4);

struct cidr {
	struct addr addr;
	uint8_t bits;
};
bool cidr_parse(struct slice text,
	struct cidr *out) MUSTCHECK; /* host bits must be zero; a bare address is /32 or /128 */
/* An address that embeds an IPv4 address (addr_embedded) is compared by that one too. */
bool cidr_has(const struct cidr *c, const struct addr *a);
void cidr_format(const struct cidr *c, char *out, size_t size); /* size >= 50 */

#endif
