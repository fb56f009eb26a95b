/* Connecting to the engine: at once where that works, with retries while its queue is full, with a deadline always. */
#include "dockerproxy/dial.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

#define DIAL_RETRY_MS 5 /* pause while the queue of a unix listener is full */

struct dial {
	struct event_base *base;
	const struct engine_addrs *to;
	unsigned tried; /* addresses before the one at hand */
	int fd;
	struct event *event;
	int64_t deadline;
	dial_cb cb;
	void *arg;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void finish(struct dial *dial, int error)
{
	dial_cb cb = dial->cb;
	void *arg = dial->arg;
	int fd = error == 0 ? STEAL_FD(dial->fd) : -1;

	dial_cancel(dial);
	cb(fd, error, arg);
}

static bool attempt(struct dial *dial);

/* One address did not answer: the next has its turn, within the same deadline. True when the dial is gone. */
static bool end_attempt(struct dial *dial, int error)
{
	if (error != 0 && dial->tried + 1 < dial->to->n && now_ms() < dial->deadline) {
		dial->tried++;
		close(STEAL_FD(dial->fd));
		return attempt(dial);
	}
	finish(dial, error);
	return true;
}

static int open_socket(const struct dial *dial)
{
	int family = dial->to->at[dial->tried].addr.ss_family;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd >= 0 && family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* Waits for the outcome of connect(), or to try again, but not beyond the deadline. False when there is no memory. */
static bool wait_for(struct dial *dial, short what, int64_t ms, event_callback_fn cb)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	if (dial->event != NULL)
		event_free(dial->event);
	dial->event = event_new(dial->base, dial->fd, what, cb, dial);
	return dial->event != NULL && event_add(dial->event, &tv) == 0;
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
	struct dial *dial = arg;
	int error = 0;
	socklen_t len = sizeof(error);

	if ((what & EV_TIMEOUT) != 0)
		error = ETIMEDOUT;
	else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	end_attempt(dial, error);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	attempt(arg);
}

/* True when the outcome is known and the dial gone. */
static bool attempt(struct dial *dial)
{
	const struct sockaddr *to = (const struct sockaddr *)&dial->to->at[dial->tried].addr;
	int64_t left = dial->deadline - now_ms();
	int error = 0;

	if (dial->fd < 0)
		dial->fd = open_socket(dial);
	if (dial->fd < 0 || connect(dial->fd, to, dial->to->at[dial->tried].len) < 0)
		error = errno;
	if (left < 1)
		left = 1;
	if (error == EINPROGRESS || error == EINTR)
		error = wait_for(dial, EV_WRITE, left, on_connected) ? -1 : ENOMEM;
	else if (error == EAGAIN && left > DIAL_RETRY_MS)
		error = wait_for(dial, 0, DIAL_RETRY_MS, on_retry) ? -1 : ENOMEM;
	else if (error == EAGAIN)
		error = ETIMEDOUT;
	return error < 0 ? false : end_attempt(dial, error);
}

struct dial *dial_start(struct event_base *base, const struct engine_addrs *to, int64_t timeout_ms, dial_cb cb,
	void *arg)
{
	struct dial *dial = calloc(1, sizeof(*dial));

	if (dial == NULL) {
		cb(-1, ENOMEM, arg);
		return NULL;
	}
	dial->base = base;
	dial->cb = cb;
	dial->arg = arg;
	dial->deadline = now_ms() + timeout_ms;
	dial->to = to;
	dial->fd = -1;
	return attempt(dial) ? NULL : dial;
}

void dial_cancel(struct dial *dial)
{
	if (dial == NULL)
		return;
	if (dial->event != NULL)
		event_free(dial->event);
	if (dial->fd >= 0)
		close(dial->fd);
	free(dial);
}
