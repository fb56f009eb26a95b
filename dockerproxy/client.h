/*
 * The socket of one client: bytes in, bytes out, back-pressure. Knows nothing of HTTP. [libevent]
 *
 * Writes are tried at once; what the socket does not take waits in `out`, and the owner is told by drained(). An idle client
 * holds no buffer. Reading stops while `in` is full and goes on after client_consume().
 */
#ifndef DOCKERPROXY_CLIENT_H
#define DOCKERPROXY_CLIENT_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "dockerproxy/batch.h"
#include "libgate/buf.h"

struct event_base;

/* broken(): the connection failed; no event follows. ended is told by input() with client.eof set. */
struct client_events {
	void (*input)(void *arg);
	void (*drained)(void *arg);
	void (*broken)(void *arg);
};

struct client {
	int fd; /* -1 when closed or handed over */
	struct event readable;
	struct event writable;
	struct buf in; /* received and not yet consumed */
	struct buf out; /* to be sent when the socket takes it */
	bool reading; /* the read event is on */
	bool eof; /* the client will send no more */
	uint64_t received;
	uint64_t sent; /* or queued */
	const struct client_events *events;
	void *arg;
};

void client_open(struct client *c, struct event_base *base, int fd, size_t in_max, size_t out_max,
	const struct client_events *events, void *arg);
void client_close(struct client *c);
int client_release_fd(struct client *c); /* for a tunnel: the descriptor is the caller's now */

void client_consume(struct client *c, size_t n);

/* Sends or queues all of it, and empties the batch. -1: broken or over out's ceiling; the caller closes. */
int client_send(struct client *c, struct batch *b) MUSTCHECK;

static inline bool client_blocked(const struct client *c)
{
	return buf_len(&c->out) > 0;
}

/* A unix peer that closed both ways is gone, one that only stopped sending is not. TCP cannot tell: false. */
bool client_is_gone(const struct client *c);

#endif
