/*
 * Which addresses may be connected to: the special-purpose table, the refuse list, and whatever leads back to this host.
 *
 * Own addresses are found by asking the kernel for the source address towards them (a UDP socket is connected, no packet is
 * sent): it is the address itself exactly when it is local. So addresses that come later are known too.
 */
#ifndef EGRESSD_GUARD_H
#define EGRESSD_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "egressd/conf.h"
#include "egressd/reason.h"
#include "libgate/addr.h"

#define GUARD_KNOWN_MAX 32 /* of each kind */

struct guard {
	const struct cidr_list *refuse; /* of the configuration in force */
	struct addr known[2 * GUARD_KNOWN_MAX]; /* gateways, then resolvers */
	unsigned nknown;
	unsigned ngateways;
	uint16_t ports[CONF_LISTEN_MAX + CONF_TARGETS_MAX + 1]; /* that this process listens on */
	unsigned nports;
};

/* Why one address is refused, for the answer and the audit line. */
struct guard_fault {
	enum reason reason; /* REASON_OK: not refused */
	struct addr addr;
	struct addr_verdict verdict; /* with REASON_ADDRESS_REFUSED */
};

void guard_init(struct guard *g, const struct cidr_list *refuse);
/* In place of the resolvers that were known; n <= GUARD_KNOWN_MAX, more are not kept. */
void guard_know_resolvers(struct guard *g, const struct addr *addrs, unsigned n);
void guard_know_gateway(struct guard *g, const struct addr *addr); /* before the resolvers */
void guard_know_port(struct guard *g, uint16_t port);
void guard_read_gateways(struct guard *g); /* default routes of the network namespace; before files are out of reach */

/*
 * Every address must pass: the first that does not decides for all. exempt: a test host, of which only a connection back to
 * this process's own listeners is refused.
 */
struct guard_fault guard_check(const struct guard *g, const struct addr *addrs, unsigned n, uint16_t port, bool exempt);

/* The same for one address without asking the kernel: by the table, the refuse list, the gateways and the resolvers. */
bool guard_refuses(const struct guard *g, const struct addr *addr);

/* "10.0.0.1 is private-use (10.0.0.0/8, RFC 1918)". */
void guard_explain(const struct guard_fault *fault, char *out, size_t size);

#endif
