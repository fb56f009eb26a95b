/* One client's socket. */
#include "dockerproxy/client.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define READ_MIN 4096

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	size_t room = c->in.max - buf_len(&c->in);
	char *to = buf_reserve(&c->in, room < READ_MIN ? room : READ_MIN);
	ssize_t n;

	if (to == NULL) {
		c->events->broken(c->arg);
		return;
	}
	room = c->in.cap - c->in.end;
	n = recv(fd, to, room, 0);
	if (n < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			c->events->broken(c->arg);
		return;
	}
	buf_commit(&c->in, (size_t)n);
	c->received += (uint64_t)n;
	c->eof = n == 0;
	if (c->eof || buf_len(&c->in) >= c->in.max) {
		event_del(&c->readable);
		c->reading = false;
	}
	c->events->input(c->arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	ssize_t n = send(fd, buf_head(&c->out), buf_len(&c->out), MSG_NOSIGNAL);

	if (n < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			c->events->broken(c->arg);
		return;
	}
	buf_consume(&c->out, (size_t)n);
	if (buf_len(&c->out) > 0)
		return;
	event_del(&c->writable);
	buf_release(&c->out);
	c->events->drained(c->arg);
}

void client_open(struct client *c, struct event_base *base, int fd, size_t in_max, size_t out_max,
	const struct client_events *events, void *arg)
{
	c->fd = fd;
	c->reading = true;
	c->eof = false;
	c->received = 0;
	c->sent = 0;
	c->events = events;
	c->arg = arg;
	buf_init(&c->in, in_max);
	buf_init(&c->out, out_max);
	event_assign(&c->readable, base, fd, EV_READ | EV_PERSIST, on_readable, c);
	event_assign(&c->writable, base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
	event_add(&c->readable, NULL);
}

int client_release_fd(struct client *c)
{
	int fd = c->fd;

	if (fd < 0)
		return -1;
	event_del(&c->readable);
	event_del(&c->writable);
	c->fd = -1;
	return fd;
}

void client_close(struct client *c)
{
	int fd = client_release_fd(c);

	if (fd >= 0)
		close(fd);
	buf_release(&c->in);
	buf_release(&c->out);
}

void client_consume(struct client *c, size_t n)
{
	buf_consume(&c->in, n);
	if (!c->reading && !c->eof && c->fd >= 0) {
		event_add(&c->readable, NULL);
		c->reading = true;
	}
}

int client_send(struct client *c, struct batch *b)
{
	struct msghdr message = { .msg_iov = b->iov, .msg_iovlen = (size_t)b->pieces };
	size_t sent = 0;

	if (b->total == 0)
		return 0;
	c->sent += b->total;
	if (!client_blocked(c)) {
		/* One piece, which most are, costs the kernel less without a vector. */
		ssize_t n = b->pieces == 1 ? send(c->fd, b->iov[0].iov_base, b->iov[0].iov_len, MSG_NOSIGNAL)
								   : sendmsg(c->fd, &message, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
			batch_clear(b);
			return -1;
		}
		sent = n > 0 ? (size_t)n : 0;
		if (sent == b->total) {
			batch_clear(b);
			return 0;
		}
		event_add(&c->writable, NULL);
	}
	for (int i = 0; i < b->pieces; i++) {
		size_t skip = sent < b->iov[i].iov_len ? sent : b->iov[i].iov_len;

		sent -= skip;
		if (buf_put(&c->out, (char *)b->iov[i].iov_base + skip, b->iov[i].iov_len - skip) < 0) {
			batch_clear(b);
			return -1;
		}
	}
	batch_clear(b);
	return 0;
}

bool client_is_gone(const struct client *c)
{
	struct pollfd p = { .fd = c->fd, .events = 0 };

	return c->fd < 0 || (poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0);
}
