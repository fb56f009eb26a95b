/* Writes to a descriptor of the command line without waiting for whoever reads it. */
#include "controller/outlet.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAITING_MAX ((size_t)16 * 1024 * 1024) /* windows keep what comes far below it */

/* What went out: data.len unless the reader is slow. */
static size_t write_some(struct outlet *o, struct slice data)
{
	size_t done = 0;

	while (done < data.len && !o->broken) {
		ssize_t n = o->socket ? send(o->fd, data.p + done, data.len - done, MSG_DONTWAIT | MSG_NOSIGNAL)
							  : write(o->fd, data.p + done, data.len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			o->broken = true; /* the command learns it when it is killed or ends */
	}
	return o->broken ? data.len : done;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct outlet *o = arg;

	buf_consume(&o->waiting, write_some(o, buf_slice(&o->waiting)));
	if (buf_len(&o->waiting) > 0)
		event_add(o->event, NULL);
	o->written(o->arg);
}

/* A descriptor of the same pipe or terminal whose flags nobody shares; -1: there is none. */
static int open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void outlet_init(struct outlet *o, struct event_base *base, int fd, void (*written)(void *arg), void *arg)
{
	struct stat st;
	int own;

	*o = (struct outlet){ .fd = fd, .written = written, .arg = arg };
	buf_init(&o->waiting, WAITING_MAX);
	if (fstat(fd, &st) != 0) {
		o->broken = true;
		return;
	}
	o->socket = S_ISSOCK(st.st_mode);
	if (S_ISFIFO(st.st_mode) || isatty(fd)) {
		own = open_again(fd);
		o->waits = own < 0;
		o->fd = own >= 0 ? own : fd;
	}
	if (o->socket || o->fd != fd) {
		o->event = event_new(base, o->fd, EV_WRITE, on_writable, o);
		if (o->event == NULL)
			abort();
	}
}

void outlet_release(struct outlet *o)
{
	bool own = o->event != NULL && !o->socket;

	if (o->event != NULL)
		event_free(o->event);
	if (own)
		close(o->fd);
	buf_release(&o->waiting);
}

/* The end of what the buffer may hold: the order of bytes comes before the loop. */
static void wait_until_written(struct outlet *o, struct slice data)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };

	while (data.len > 0) {
		data = slice_skip(data, write_some(o, data));
		if (data.len > 0)
			poll(&p, 1, -1);
	}
}

void outlet_put(struct outlet *o, struct slice data)
{
	if (buf_len(&o->waiting) == 0)
		data = slice_skip(data, write_some(o, data));
	if (data.len == 0)
		return;
	if (o->event != NULL && buf_put_slice(&o->waiting, data) == 0) {
		event_add(o->event, NULL);
		return;
	}
	wait_until_written(o, buf_slice(&o->waiting));
	buf_clear(&o->waiting);
	wait_until_written(o, data);
}
