/* The engine mode's table, and the life of one backend. */
#include "controller/engine_exec.h"

#include <event2/event.h>
#include <stdlib.h>

#include "controller/engine_op.h"

struct engine_backend *engine_backend_of(struct exec_backend *b)
{
	return container_of(b, struct engine_backend, base);
}

static void backend_free(struct exec_backend *base)
{
	struct engine_backend *b = engine_backend_of(base);
	struct exec_op *op;

	b->ending = true;
	while ((op = TAILQ_FIRST(&b->ops)) != NULL) {
		if (op->state <= OP_CREATING)
			op->kind->start_failed(op, ECANCELED, "the controller ended before it was started");
		else
			op->kind->lost(op, "the controller ended while it ran");
	}
	if (b->watch_call != NULL)
		engine_cancel(b->watch_call);
	event_free(b->watch);
	free(b->container);
	free(b->user);
	free(b);
}

static void backend_kill(struct exec_op *op)
{
	if (op->kind->kill != NULL)
		op->kind->kill(op);
}

bool engine_exec_idle(const struct exec_backend *b)
{
	return TAILQ_EMPTY(&container_of(b, struct engine_backend, base)->ops);
}

struct exec_backend *engine_exec_new(struct engine *e, struct channel_set *channels, const char *container,
	const char *user)
{
	static const struct exec_backend_ops ops = {
		.start = engine_command_start,
		.file = engine_file_start,
		.kill_tagged = engine_kill_tagged,
		.write = op_write,
		.close = op_close,
		.consumed = op_consumed,
		.resize = engine_command_resize,
		.kill = backend_kill,
		.free = backend_free,
	};
	struct engine_backend *b = mem_zalloc(sizeof(*b));

	b->base.ops = &ops;
	b->engine = e;
	b->channels = channels;
	b->container = mem_strdup(container);
	b->user = mem_strdup(user);
	TAILQ_INIT(&b->ops);
	b->watch = evtimer_new(engine_base(e), engine_watch_fired, b);
	if (b->watch == NULL)
		abort();
	return &b->base;
}
