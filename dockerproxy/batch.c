/* Gathers the pieces of one client's output. */
#include "dockerproxy/batch.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static void add_piece(struct batch *b, char *p, size_t len)
{
	assert(b->pieces < BATCH_PIECES);
	b->iov[b->pieces++] = (struct iovec){ .iov_base = p, .iov_len = len };
}

void batch_copy(struct batch *b, struct slice s)
{
	char *to = b->copy + b->used;
	struct iovec *last = b->pieces > 0 ? &b->iov[b->pieces - 1] : NULL;

	if (s.len == 0)
		return;
	assert(b->used + s.len <= BATCH_COPY_MAX);
	memcpy(to, s.p, s.len);
	b->used += s.len;
	b->total += s.len;
	if (last != NULL && (char *)last->iov_base + last->iov_len == to)
		last->iov_len += s.len;
	else
		add_piece(b, to, s.len);
}

void batch_refer(struct batch *b, struct slice s)
{
	if (s.len == 0)
		return;
	add_piece(b, (char *)(uintptr_t)s.p, s.len);
	b->total += s.len;
}

void batch_add(struct batch *b, struct slice s)
{
	if (s.len < BATCH_REFER_FROM && b->used + s.len <= BATCH_COPY_MAX)
		batch_copy(b, s);
	else
		batch_refer(b, s);
}
