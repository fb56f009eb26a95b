/*
 * One non-blocking socket with its two bounded buffers. [libevent]
 *
 * Reading stops by itself when `in` is full and goes on after stream_more(); what is written waits in `out`. The callbacks
 * come from the loop; each may release the stream, nothing is touched after it returned.
 *
 * All streams share a pool. While it is used up, each still gets STREAM_SMALL bytes each way, so that everything moves on,
 * slowly; what needs more at once (a long head) is refused by its owner, see stream_starved().
 */
#ifndef EGRESSD_STREAM_H
#define EGRESSD_STREAM_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>

#include "libgate/buf.h"
#include "libgate/util.h"

struct stream;

#define STREAM_SMALL 2048
#define STREAM_HIGH_WATER (64 * 1024) /* of out: then whoever fills it waits */

struct stream_pool {
	size_t used; /* bytes of memory, in and out of all streams and what their owners charge beside */
	size_t max; /* of the configuration in force; may be below used after a reload */
};

static inline bool stream_pool_spent(const struct stream_pool *p)
{
	return p->used >= p->max;
}

/* Something beside the streams holds `now` bytes; *charged remembers it between two calls. */
static inline void stream_pool_charge(struct stream_pool *p, size_t *charged, size_t now)
{
	p->used = p->used - *charged + now;
	*charged = now;
}

struct stream_ops {
	void (*input)(struct stream *s); /* bytes came, eof was set, or nothing more fits and the pool is why */
	void (*drained)(struct stream *s); /* out became empty */
	void (*failed)(struct stream *s, int error); /* reading or writing failed; it will not be called again */
};

struct stream {
	int fd; /* -1: none */
	bool eof; /* the peer sends no more */
	bool failed;
	bool reading;
	struct event readable;
	struct event writable;
	struct buf in;
	struct buf out;
	struct stream_pool *pool;
	size_t charged;
	const struct stream_ops *ops;
	void *owner;
};

/* Takes over fd and starts reading. */
void stream_open(struct stream *s, struct event_base *base, struct stream_pool *pool, int fd, size_t max_in,
	size_t max_out, const struct stream_ops *ops, void *owner);
void stream_none(struct stream *s); /* a stream that has no socket yet */
int stream_detach(struct stream *s); /* gives the descriptor away; the buffers stay until stream_close() */
void stream_close(struct stream *s); /* closes and frees; again: nothing */
void stream_abort(struct stream *s); /* the same, by a reset */

void stream_pause(struct stream *s);
void stream_more(struct stream *s); /* read on, if there is room */
bool stream_starved(const struct stream *s); /* in takes no more until it is consumed, because the pool is used up */
bool stream_full(const struct stream *s); /* out holds as much as it should: fill it no further */

/* Writes what it can at once. 0, or -1 when writing failed (ops->failed is not called). */
int stream_flush(struct stream *s) MUSTCHECK;

#endif
