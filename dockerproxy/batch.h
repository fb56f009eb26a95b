/*
 * What one turn of the loop has for one client, gathered so that it leaves in one system call. [pure]
 *
 * Short pieces are copied, long runs are referred to and must stay where they are until the batch was sent. One batch
 * serves a whole loop: it is empty whenever control returns to the loop.
 */
#ifndef DOCKERPROXY_BATCH_H
#define DOCKERPROXY_BATCH_H

#include <stdbool.h>
#include <sys/uio.h>

#include "libgate/slice.h"
#include "libgate/util.h"

#define BATCH_PIECES 64
#define BATCH_COPY_MAX 32768
#define BATCH_REFER_FROM 4096 /* runs from this length on are not copied */

struct batch {
	struct iovec iov[BATCH_PIECES];
	int pieces;
	size_t used; /* of copy */
	size_t total;
	char copy[BATCH_COPY_MAX];
};

static inline void batch_clear(struct batch *b)
{
	b->pieces = 0;
	b->used = 0;
	b->total = 0;
}

/* Is there room for `copied` bytes in up to `pieces` pieces? Ask before adding; adding does not fail then. */
static inline bool batch_has_room(const struct batch *b, size_t copied, int pieces)
{
	return b->pieces + pieces <= BATCH_PIECES && b->used + copied <= BATCH_COPY_MAX;
}

void batch_copy(struct batch *b, struct slice s);
void batch_refer(struct batch *b, struct slice s);
void batch_add(struct batch *b, struct slice s); /* whichever of the two suits its length */

#endif
