/*
 * One non-blocking socket with its two bounded buffers. [libevent]
 *
 * Reading stops by itself when `in` is full and goes on after stream_more(); what is written waits in `out`. The callbacks
 * come from the loop; each may release the stream, nothing is touched after it returned.
 */
#ifndef EGRESSD_STREAM_H
#define EGRESSD_STREAM_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>

#include "libgate/buf.h"
#include "libgate/util.h"

struct stream;

struct stream_ops {
	void (*input)(struct stream *s); /* bytes came, or eof was set */
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
	const struct stream_ops *ops;
	void *owner;
};

/* Takes over fd and starts reading. */
void stream_open(struct stream *s, struct event_base *base, int fd, size_t max_in, size_t max_out,
	const struct stream_ops *ops, void *owner);
void stream_none(struct stream *s); /* a stream that has no socket yet */
int stream_detach(struct stream *s); /* gives the descriptor away; the buffers stay */
void stream_close(struct stream *s); /* closes and frees; again: nothing */
void stream_abort(struct stream *s); /* the same, by a reset */

void stream_pause(struct stream *s);
void stream_more(struct stream *s); /* read on, if there is room */

/* Writes what it can at once. 0, or -1 when writing failed (ops->failed is not called). */
int stream_flush(struct stream *s) MUSTCHECK;

#endif
