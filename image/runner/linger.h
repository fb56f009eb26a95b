/*
 * Output pipes that a background process still holds after its command has ended.
 *
 * They are read and thrown away, so that a server started with `&` goes on and is not ended by SIGPIPE. Bounded: when
 * there are too many, the oldest is closed.
 */
#ifndef RUNNER_LINGER_H
#define RUNNER_LINGER_H

#include <poll.h>

#define LINGER_MAX 128

struct linger {
	unsigned n;
	int fds[LINGER_MAX]; /* oldest first */
};

void linger_add(struct linger *l, int fd);
unsigned linger_poll(const struct linger *l, struct pollfd *out);
void linger_step(struct linger *l, const struct pollfd *polled);

#endif
