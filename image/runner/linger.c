/* Drains what nobody reads any more. */
#include "image/runner/linger.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void drop(struct linger *l, unsigned i)
{
	close(l->fds[i]);
	memmove(&l->fds[i], &l->fds[i + 1], (l->n - i - 1) * sizeof(l->fds[0]));
	l->n--;
}

void linger_add(struct linger *l, int fd)
{
	if (l->n == LINGER_MAX)
		drop(l, 0);
	l->fds[l->n++] = fd;
}

unsigned linger_poll(const struct linger *l, struct pollfd *out)
{
	for (unsigned i = 0; i < l->n; i++)
		out[i] = (struct pollfd){ .fd = l->fds[i], .events = POLLIN };
	return l->n;
}

void linger_step(struct linger *l, const struct pollfd *polled)
{
	static char scratch[65536];

	/* From the end: dropping one leaves the places of those before it. */
	for (unsigned i = l->n; i-- > 0;) {
		ssize_t n;

		if (polled[i].revents == 0)
			continue;
		n = read(l->fds[i], scratch, sizeof(scratch));
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			drop(l, i);
	}
}
