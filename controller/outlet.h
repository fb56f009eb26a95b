/*
 * Standard output and error of the command line, written without waiting: who reads a pipe slowly, or not at all, keeps the
 * loop from neither its signals nor the engine. [libevent]
 *
 * O_NONBLOCK is never set on a descriptor that other processes share. A pipe or terminal is opened once more by
 * /proc/self/fd, to a socket goes send(MSG_DONTWAIT), and a file or device takes what it gets. Where a pipe cannot be
 * opened once more (another user's, no /proc), writing to it waits.
 */
#ifndef CONTROLLER_OUTLET_H
#define CONTROLLER_OUTLET_H

#include <stdbool.h>

#include "libgate/buf.h"

struct event;
struct event_base;

#define OUTLET_FULL ((size_t)256 * 1024) /* bytes that wait: the owner holds back what makes more */

struct outlet {
	int fd;
	bool waits; /* the descriptor's writes wait: it could not be had otherwise */
	bool socket;
	bool broken; /* nobody reads any more */
	struct buf waiting;
	struct event *event; /* NULL: what it takes, it takes at once */
	void (*written)(void *arg); /* something of what waited went out, or never will */
	void *arg;
};

/* fd stays the caller's. */
void outlet_init(struct outlet *o, struct event_base *base, int fd, void (*written)(void *arg), void *arg);
void outlet_release(struct outlet *o);

/* All of it is taken; beyond the buffer's ceiling by waiting. */
void outlet_put(struct outlet *o, struct slice data);

static inline size_t outlet_waiting(const struct outlet *o)
{
	return buf_len(&o->waiting);
}

#endif
