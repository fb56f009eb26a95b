/* The table of operations. */
#include "image/runner/op.h"

#include <sys/mman.h>

struct op *op_find(struct runner *r, uint32_t channel)
{
	for (unsigned i = 0; i < OP_MAX; i++)
		if (r->ops[i].kind != OP_FREE && r->ops[i].channel == channel)
			return &r->ops[i];
	return NULL;
}

struct op *op_new(struct runner *r, enum op_kind kind, uint32_t channel)
{
	for (unsigned i = 0; i < OP_MAX; i++) {
		struct op *op = &r->ops[i];
		char *buf = op->buf;

		if (op->kind != OP_FREE)
			continue;
		memset(op, 0, sizeof(*op));
		op->kind = kind;
		op->channel = channel;
		op->credit = r->window;
		op->deadline_us = CLOCK_NEVER;
		op->wake_us = CLOCK_NEVER;
		op->buf = buf;
		return op;
	}
	return NULL;
}

void op_free(struct op *op)
{
	op->kind = OP_FREE;
	madvise(op->buf, OP_BUF, MADV_DONTNEED);
}

unsigned op_kill_jobs(struct runner *r, struct kill_job **out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < OP_MAX; i++)
		if (r->ops[i].kind != OP_FREE && kill_active(&r->ops[i].kill))
			out[n++] = &r->ops[i].kill;
	return n;
}
