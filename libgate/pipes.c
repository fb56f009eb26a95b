/* A few pipes of the process, lent to whoever has much to move. */
#include "libgate/pipes.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

/*
 * Each page of this is a place for one fragment of a packet, however long. Root's pipes and those of a user with few pages
 * in pipes get it; others keep the kernel's own 16 places, which do for the large packets of a local network.
 */
#define PIPE_SIZE (256 * 1024)

/* Kept when nobody needs them: a user's pipes are counted together, and one user may run many proxies. */
#define SPARE 2

static struct pipes_pipe pipes[PIPES_MAX];
static unsigned nfree;

static struct pipes_pipe *make(struct pipes_pipe *p)
{
	if (pipe2(p->fd, O_CLOEXEC | O_NONBLOCK) != 0)
		return NULL;
	(void)fcntl(p->fd[1], F_SETPIPE_SZ, PIPE_SIZE);
	p->state = PIPES_TAKEN;
	return p;
}

struct pipes_pipe *pipes_take(void)
{
	struct pipes_pipe *absent = NULL;

	for (size_t i = 0; i < PIPES_MAX; i++) {
		struct pipes_pipe *p = &pipes[i];
		if (p->state == PIPES_FREE) {
			p->state = PIPES_TAKEN;
			nfree--;
			return p;
		}
		if (p->state == PIPES_ABSENT && absent == NULL)
			absent = p;
	}
	return absent != NULL ? make(absent) : NULL;
}

void pipes_drop(struct pipes_pipe *p)
{
	close(p->fd[0]);
	close(p->fd[1]);
	p->state = PIPES_ABSENT;
}

void pipes_give(struct pipes_pipe *p)
{
	if (nfree >= SPARE) {
		pipes_drop(p);
		return;
	}
	p->state = PIPES_FREE;
	nfree++;
}

ssize_t pipes_fill(const struct pipes_pipe *p, int from, size_t n)
{
	return splice(from, NULL, p->fd[1], NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

ssize_t pipes_drain(const struct pipes_pipe *p, int to, size_t n)
{
	return splice(p->fd[0], NULL, to, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}
