/*
 * Messages between master and worker: fixed size, one a packet of a SEQPACKET socket pair, at most one descriptor each.
 *
 * The master trusts nothing in a worker's message but its type; a message of another size or type ends the worker.
 */
#ifndef DOCKERPROXY_LINK_WIRE_H
#define DOCKERPROXY_LINK_WIRE_H

#include <stdint.h>

#include "libgate/util.h"

enum link_type {
	LINK_READY = 1, /* worker: serves */
	LINK_DIAL, /* worker: connect to the engine; id */
	LINK_DIALED, /* master: id, and a descriptor or an error */
	LINK_RETIRE, /* master: drain without a bound */
	LINK_STOP, /* master: drain within timeouts.drain */
	LINK_AUDIT, /* worker: the audit log is lost; master: a descriptor for it */
};

struct link_msg {
	uint32_t type;
	uint32_t id;
	int32_t error;
};

int link_pair(int fds[2]) MUSTCHECK; /* non-blocking, close-on-exec */

/* fd -1: none; it stays the caller's. 1: sent; 0: the line is full; -1: the other side is gone. */
int link_send(int line, const struct link_msg *msg, int fd) MUSTCHECK;

enum link_result {
	LINK_GOT, /* *msg and *fd are set; fd -1: none, else the caller's */
	LINK_NOTHING, /* now */
	LINK_GONE, /* the other side */
	LINK_BROKEN, /* it sent what is no message */
};

enum link_result link_receive(int line, struct link_msg *msg, int *fd) MUSTCHECK;

#endif
