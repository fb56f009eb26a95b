/* Moves bytes between a socket and its buffers. */
#include "egressd/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_RUN 65536

/* Of the process: nothing stays in it between two calls, so a connection that waits owns no buffer. */
static char scratch[READ_RUN];

static void charge(struct stream *s)
{
	if (s->pool != NULL)
		stream_pool_charge(s->pool, &s->charged, s->in.cap + s->out.cap);
}

static size_t room(const struct stream *s)
{
	size_t used = buf_len(&s->in), most = stream_pool_spent(s->pool) ? STREAM_SMALL : s->in.max;

	return used >= most ? 0 : most - used;
}

bool stream_starved(const struct stream *s)
{
	return stream_pool_spent(s->pool) && buf_len(&s->in) >= STREAM_SMALL;
}

bool stream_full(const struct stream *s)
{
	return buf_len(&s->out) >= (stream_pool_spent(s->pool) ? STREAM_SMALL : STREAM_HIGH_WATER);
}

static void read_some(struct stream *s)
{
	size_t want = room(s) < sizeof(scratch) ? room(s) : sizeof(scratch);
	ssize_t n;

	if (want == 0) {
		stream_pause(s);
		if (stream_starved(s))
			s->ops->input(s);
		return;
	}
	n = read(s->fd, scratch, want);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 || (n > 0 && buf_put(&s->in, scratch, (size_t)n) != 0)) {
		s->failed = true;
		stream_pause(s);
		s->ops->failed(s, n < 0 ? errno : ENOMEM);
		return;
	}
	if (n == 0) {
		s->eof = true;
		stream_pause(s);
	}
	charge(s);
	s->ops->input(s);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_some(arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;

	(void)fd;
	(void)what;
	if (stream_flush(s) != 0) {
		s->failed = true;
		s->ops->failed(s, errno);
		return;
	}
	if (buf_len(&s->out) == 0)
		s->ops->drained(s);
}

void stream_none(struct stream *s)
{
	*s = (struct stream){ .fd = -1 };
}

void stream_open(struct stream *s, struct event_base *base, struct stream_pool *pool, int fd, size_t max_in,
	size_t max_out, const struct stream_ops *ops, void *owner)
{
	*s = (struct stream){ .fd = fd, .pool = pool, .ops = ops, .owner = owner };
	buf_init(&s->in, max_in);
	buf_init(&s->out, max_out);
	event_assign(&s->readable, base, fd, EV_READ | EV_PERSIST, on_readable, s);
	event_assign(&s->writable, base, fd, EV_WRITE | EV_PERSIST, on_writable, s);
	stream_more(s);
}

int stream_detach(struct stream *s)
{
	int fd = s->fd;

	if (fd >= 0) {
		event_del(&s->readable);
		event_del(&s->writable);
	}
	s->reading = false;
	s->fd = -1;
	return fd;
}

void stream_close(struct stream *s)
{
	int fd = stream_detach(s);

	if (fd >= 0)
		close(fd);
	buf_release(&s->in);
	buf_release(&s->out);
	charge(s);
}

void stream_abort(struct stream *s)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (s->fd >= 0)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	stream_close(s);
}

void stream_pause(struct stream *s)
{
	if (!s->reading)
		return;
	s->reading = false;
	event_del(&s->readable);
}

void stream_more(struct stream *s)
{
	if (buf_len(&s->in) == 0) {
		buf_trim(&s->in);
		charge(s);
	}
	if (s->reading || s->fd < 0 || s->eof || s->failed || room(s) == 0)
		return;
	s->reading = true;
	event_add(&s->readable, NULL);
}

int stream_flush(struct stream *s)
{
	while (buf_len(&s->out) > 0) {
		ssize_t n = send(s->fd, buf_head(&s->out), buf_len(&s->out), MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			event_add(&s->writable, NULL);
			charge(s);
			return 0;
		}
		if (n < 0)
			return -1;
		buf_consume(&s->out, (size_t)n);
	}
	event_del(&s->writable);
	buf_trim(&s->out);
	charge(s);
	return 0;
}
