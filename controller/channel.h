/*
 * The stream of one exec after the hijack: multiplexed (or raw, with a TTY) output in, input out. [libevent]
 *
 * Reading stops while paused; what is to be written waits in a buffer with a ceiling, and room() says when it has space
 * again. After channel_end() nothing is reported any more: the channel delivers what is buffered, half-closes, reads the
 * rest away for a bounded time and frees itself.
 */
#ifndef CONTROLLER_CHANNEL_H
#define CONTROLLER_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "libgate/slice.h"
#include "libgate/util.h"

struct event_base;
struct channel;

struct channel_events {
	void (*data)(unsigned stream /* enum demux_stream */, struct slice data, void *arg);
	void (*room)(size_t bytes, void *arg);
	/* complete: the peer closed between two frames. Once; the channel is freed by channel_end() only. */
	void (*closed)(bool complete, void *arg);
};

/* All channels of a program, those that only linger included: what is left is closed with it. */
struct channel_set {
	struct event_base *base;
	TAILQ_HEAD(channel_list, channel) list;
};

void channel_set_init(struct channel_set *set, struct event_base *base);
void channel_set_release(struct channel_set *set);

struct channel *channel_new(struct channel_set *set, int fd, struct slice early, bool raw, size_t out_max,
	const struct channel_events *events, void *arg) MUSTCHECK;
size_t channel_room(const struct channel *c);
/* -1 when it does not fit; nothing is written then. */
int channel_write(struct channel *c, struct slice data) MUSTCHECK;
void channel_pause(struct channel *c, bool paused);
void channel_end(struct channel *c);

#endif
