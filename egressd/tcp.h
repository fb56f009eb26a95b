/*
 * Pinned TCP targets. [libevent]
 *
 * A target's addresses are complete and checked before its port listens, and are never asked for again. What connects to the
 * port is relayed to them and to nothing else; nothing of the stream is looked at.
 */
#ifndef EGRESSD_TCP_H
#define EGRESSD_TCP_H

#include "egressd/conf.h"
#include "egressd/egress.h"
#include "libgate/err.h"
#include "libgate/listen.h"
#include "libgate/util.h"

/* Runs the loop until every target has its checked addresses. */
int tcp_pin_targets(struct egress *e, struct err *err) MUSTCHECK;

struct tcp_port; /* one listening port, for the listener's callback */
struct tcp_port *tcp_port_new(struct egress *e, const struct target *target);
void tcp_port_free(struct tcp_port *port);
void tcp_accept(int fd, const struct peer *peer, void *port);

uint64_t tcp_bytes(const struct egress *e); /* moved by the relays that run, both ways */
void tcp_close_all(struct egress *e, const char *why); /* why: for the audit line */

#endif
