/* Gives memory back to the system, a while after it was freed. */
#include "controller/heap.h"

#include <event2/event.h>
#include <malloc.h>
#include <stdlib.h>

#define KEEP_SECONDS 5
/* By itself, malloc() would return these at once, and get them page by page for the next answer. */
#define KEEP_BYTES (256 << 20)
#define KEEP_BLOCK (64 << 20)

static void on_time(evutil_socket_t fd, short what, void *arg)
{
	(void)malloc_trim(0);
}

void heap_init(struct heap *h, struct event_base *base)
{
	(void)mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
	(void)mallopt(M_MMAP_THRESHOLD, KEEP_BLOCK);
	h->timer = evtimer_new(base, on_time, NULL);
	if (h->timer == NULL)
		abort();
}

void heap_release(struct heap *h)
{
	event_free(h->timer);
}

void heap_freed(struct heap *h)
{
	static const struct timeval wait = { KEEP_SECONDS, 0 };

	if (!event_pending(h->timer, EV_TIMEOUT, NULL))
		event_add(h->timer, &wait);
}
