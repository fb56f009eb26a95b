/* Moves the bytes of one exec. */
#include "controller/channel.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "controller/demux.h"
#include "controller/mem.h"
#include "libgate/buf.h"

#define READ_SIZE 65536
#define LINGER_SECONDS 5

struct channel {
	TAILQ_ENTRY(channel) link;
	struct channel_set *set;
	struct event *read_event;
	struct event *write_event;
	struct event *timer; /* delivers what came with the head, from the loop; later ends the lingering */
	int fd;
	bool raw;
	bool paused;
	bool ended; /* by the owner */
	bool closed; /* reported */
	bool in_callback;
	struct demux demux;
	struct buf early;
	struct buf out;
	struct channel_events events;
	void *arg;
};

static void channel_free(struct channel *c)
{
	TAILQ_REMOVE(&c->set->list, c, link);
	event_free(c->read_event);
	event_free(c->write_event);
	event_free(c->timer);
	close(c->fd);
	buf_release(&c->early);
	buf_release(&c->out);
	free(c);
}

static void report_closed(struct channel *c)
{
	event_del(c->read_event);
	event_del(c->write_event);
	if (c->ended) {
		channel_free(c);
		return;
	}
	if (!c->closed) {
		c->closed = true;
		c->events.closed(c->raw || demux_complete(&c->demux), c->arg);
	}
}

/* False when the channel is no more. */
static bool deliver(struct channel *c, struct slice data)
{
	size_t used;
	uint8_t stream;
	struct slice run;

	if (c->raw) {
		if (!c->ended)
			c->events.data(DEMUX_STDOUT, data, c->arg);
		return true;
	}
	while (data.len > 0) {
		bool more = demux_next(&c->demux, data.p, data.len, &used, &stream, &run);

		data = slice_skip(data, used);
		if (!more)
			break;
		if (!c->ended)
			c->events.data(stream, run, c->arg);
	}
	if (c->demux.broken) {
		report_closed(c);
		return false;
	}
	return true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct channel *c = arg;

	if (c->ended) {
		channel_free(c);
		return;
	}
	if (buf_len(&c->early) > 0 && !deliver(c, buf_slice(&c->early)))
		return;
	buf_release(&c->early);
	if (!c->paused)
		event_add(c->read_event, NULL);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
	static char block[READ_SIZE]; /* one loop, and no callback keeps what it is given */
	struct channel *c = arg;

	ssize_t n = recv(c->fd, block, sizeof(block), 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		report_closed(c);
		return;
	}
	deliver(c, slice_make(block, (size_t)n));
}

static void flush(struct channel *c)
{
	bool sent = false;

	while (buf_len(&c->out) > 0) {
		ssize_t n = send(c->fd, buf_head(&c->out), buf_len(&c->out), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			event_add(c->write_event, NULL);
			break;
		}
		if (n < 0) {
			/* The reading side says what became of it. */
			buf_clear(&c->out);
			break;
		}
		buf_consume(&c->out, (size_t)n);
		sent = true;
	}
	if (buf_len(&c->out) == 0) {
		buf_trim(&c->out);
		if (c->ended)
			shutdown(c->fd, SHUT_WR);
	}
	if (sent && !c->ended && !c->closed && c->events.room != NULL && !c->in_callback)
		c->events.room(channel_room(c), c->arg);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
	flush(arg);
}

void channel_set_init(struct channel_set *set, struct event_base *base)
{
	set->base = base;
	TAILQ_INIT(&set->list);
}

void channel_set_release(struct channel_set *set)
{
	while (!TAILQ_EMPTY(&set->list))
		channel_free(TAILQ_FIRST(&set->list));
}

struct channel *channel_new(struct channel_set *set, int fd, struct slice early, bool raw, size_t out_max,
	const struct channel_events *events, void *arg)
{
	struct channel *c = mem_zalloc(sizeof(*c));
	struct timeval now = { 0, 0 };

	c->set = set;
	TAILQ_INSERT_TAIL(&set->list, c, link);
	c->fd = fd;
	c->raw = raw;
	c->events = *events;
	c->arg = arg;
	demux_init(&c->demux);
	buf_init(&c->early, 1 << 20);
	buf_init(&c->out, out_max);
	c->read_event = event_new(set->base, fd, EV_READ | EV_PERSIST, on_read, c);
	c->write_event = event_new(set->base, fd, EV_WRITE, on_write, c);
	c->timer = evtimer_new(set->base, on_timer, c);
	if (c->read_event == NULL || c->write_event == NULL || c->timer == NULL || buf_put_slice(&c->early, early) != 0 ||
		event_add(c->timer, &now) != 0)
		abort();
	return c;
}

size_t channel_room(const struct channel *c)
{
	return c->out.max - buf_len(&c->out);
}

int channel_write(struct channel *c, struct slice data)
{
	if (c->closed)
		return 0;
	if (buf_put_slice(&c->out, data) != 0)
		return -1;
	/* room() must not be called from inside the owner's own call. */
	c->in_callback = true;
	flush(c);
	c->in_callback = false;
	return 0;
}

void channel_pause(struct channel *c, bool paused)
{
	if (c->paused == paused || c->ended || c->closed)
		return;
	c->paused = paused;
	if (paused)
		event_del(c->read_event);
	else if (!event_pending(c->timer, EV_TIMEOUT, NULL))
		event_add(c->read_event, NULL);
}

void channel_end(struct channel *c)
{
	struct timeval linger = { LINGER_SECONDS, 0 };

	c->ended = true;
	if (c->closed) {
		channel_free(c);
		return;
	}
	flush(c);
	event_add(c->read_event, NULL);
	event_add(c->timer, &linger);
}
