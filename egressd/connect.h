/*
 * A TCP connection to the first of several addresses that answers. [libevent]
 *
 * The addresses are used as they stand: what was checked is what is connected to. Families take turns, IPv6 first; the
 * next address is tried as soon as one fails, or beside the others after the stagger time.
 */
#ifndef EGRESSD_CONNECT_H
#define EGRESSD_CONNECT_H

#include <stdint.h>
#include <sys/socket.h>

#include "egressd/reason.h"
#include "libgate/addr.h"
#include "libgate/util.h"

struct event_base;
struct connector;

#define CONNECT_ADDRS_MAX 16 /* of a longer list the rest is not tried */
#define CONNECT_BESIDE_MAX \
	4 /* attempts at once; for one more the oldest is given up, so that descriptors have a bound */

/* fd >= 0 with REASON_OK and the address that stands; -1 with the reason otherwise. Never called by connect_start(). */
typedef void (*connect_cb)(int fd, enum reason reason, const struct addr *addr, void *arg);

/* NULL on lack of memory. */
struct connector *connect_start(struct event_base *base, const struct addr *addrs, unsigned n, uint16_t port,
	int64_t timeout_ms, int64_t stagger_ms, connect_cb cb, void *arg) MUSTCHECK;
void connect_cancel(struct connector *c); /* closes all attempts; NULL: nothing */

/* Mapped IPv4 is made AF_INET, so that what is checked, logged and connected to is one thing. Returns the length. */
socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *out);
/* False for any family but AF_INET and AF_INET6. */
bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *out, uint16_t *port);

#endif
