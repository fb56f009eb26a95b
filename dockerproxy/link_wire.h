/*
 * Messages between master and worker: fixed size, one a packet of a SEQPACKET socket pair, at most one descriptor each.
 *
 * The master trusts nothing in a worker's message but its type; a message of another size or type ends the worker.
 */
#ifndef DOCKERPROXY_LINK_WIRE_H
#define DOCKERPROXY_LINK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/util.h"

enum link_type {
	LINK_READY = 1, /* worker: serves */
	LINK_DIAL, /* worker: connect to the engine; id */
	LINK_DIALED, /* master: id, and a descriptor or an error */
	LINK_RETIRE, /* master: drain without a bound */
	LINK_STOP, /* master: drain within timeouts.drain */
	LINK_AUDIT, /* master: a descriptor */
};

struct link_msg {
	uint32_t type;
	uint32_t id;
	int32_t error;
};

int link_pair(int fds[2]) MUSTCHECK; /* non-blocking, close-on-exec */

/* fd -1: none; it stays the caller's. False when the other side is gone or does not read. */
bool link_send(int line, const struct link_msg *msg, int fd) MUSTCHECK;

/* 1: *msg and *fd (-1: none; the caller's) are set; 0: nothing now; -1: the other side is gone or broke the protocol. */
int link_receive(int line, struct link_msg *msg, int *fd) MUSTCHECK;

#endif
