/*
 * Pinned TCP targets of a sandbox: how they are spelled, and what its egress proxy is told of them. [pure]
 *
 * A list is one string, entries separated by blanks: "5432=db.example.org:5432@192.0.2.7,2001:db8::7". What stands behind the
 * @ are the addresses that the relay may connect to; without it nobody has resolved the name yet.
 */
#ifndef CONTROLLER_TCP_TARGET_H
#define CONTROLLER_TCP_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/slice.h"

#define TCP_TARGETS_MAX 16
#define TCP_TARGET_ADDRS_MAX 16 /* of one target; with these limits a list fits into a request to the engine */

struct tcp_target {
	struct slice text; /* the whole entry */
	struct slice host; /* lower-case */
	uint16_t listen;
	uint16_t port;
	bool pinned; /* addresses stand behind it */
};

/*
 * Judges "HOST:PORT" or "LISTENPORT=HOST:PORT" and appends it to *list (NULL: a new one; the caller frees). No address, no
 * wildcard, no UDP, no range of ports; a listening port once, and not `taken`. -1 with EINVAL.
 */
int tcp_target_add(char **list, struct slice entry, uint16_t taken, struct err *err) MUSTCHECK;

/* The next entry of a list that tcp_target_add() made; false at its end. */
bool tcp_target_next(const char **rest, struct tcp_target *out) MUSTCHECK;

#endif
