/* What goes to a runner, as far as the stream takes it. */
#include "controller/runner_core.h"

#define CREDIT_AT (RUNNER_WINDOW / 2) /* acknowledged together: each takes a turn of five programs */
#define OUT_RESERVE (FRAME_REQUEST_MAX + 4096) /* kept free of stdin */
#define OUT_ENOUGH (OUT_RESERVE + FRAME_DATA_MAX + FRAME_HEAD) /* any write of stdin gets something off */

static bool put(struct runner *r, const struct frame_writer *w)
{
	return channel_room(r->channel) >= w->len && channel_write(r->channel, slice_make(w->p, w->len)) == 0;
}

bool runner_put_plain(struct runner *r, enum frame_type type, uint32_t channel)
{
	char head[FRAME_HEAD];

	frame_put_head(head, type, channel, 0);
	return channel_room(r->channel) >= sizeof(head) && channel_write(r->channel, slice_make(head, sizeof(head))) == 0;
}

static bool put_credit(struct runner *r, uint32_t channel, uint64_t bytes)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_CREDIT, channel);
	frame_put_num(&w, FRAME_ATTR_BYTES, bytes);
	return frame_end(&w) && put(r, &w);
}

static bool put_resize(struct runner *r, const struct exec_op *op)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_RESIZE, op->channel);
	frame_put_num(&w, FRAME_ATTR_ROWS, op->rows);
	frame_put_num(&w, FRAME_ATTR_COLS, op->cols);
	return frame_end(&w) && put(r, &w);
}

static bool put_request(struct runner *r, struct exec_op *op)
{
	if (channel_room(r->channel) < op->request_len ||
		channel_write(r->channel, slice_make(op->request, op->request_len)) != 0)
		return false;
	free(op->request);
	op->request = NULL;
	return true;
}

/* Sends what the operation owes, as far as the stream takes it; the rest waits for runner_on_room(). */
void runner_op_flush(struct exec_op *op)
{
	struct runner *r = op->runner;

	if (r->state != LINK_UP || (op->request != NULL && (op->killed || r->probing || !put_request(r, op))))
		return;
	if (op->owes_kill && runner_put_plain(r, FRAME_KILL, op->channel))
		op->owes_kill = false;
	if (op->owes_close && runner_put_plain(r, FRAME_STDIN_END, op->channel))
		op->owes_close = false;
	if (op->owes_resize && put_resize(r, op))
		op->owes_resize = false;
	if (op->unacknowledged >= CREDIT_AT && put_credit(r, op->channel, op->unacknowledged))
		op->unacknowledged = 0;
}

void runner_send_hello(struct runner *r)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_HELLO, 0);
	frame_put_num(&w, FRAME_ATTR_VERSION, FRAME_VERSION);
	frame_put_num(&w, FRAME_ATTR_WINDOW, RUNNER_WINDOW);
	if (!frame_end(&w) || !put(r, &w))
		abort(); /* the first bytes into an empty buffer */
}

void runner_op_acknowledge(struct exec_op *op, uint64_t bytes)
{
	op->in_flight -= bytes < op->in_flight ? bytes : op->in_flight;
	op->unacknowledged += bytes;
	if (op->unacknowledged >= CREDIT_AT)
		runner_op_flush(op);
}

void runner_op_tell_room(struct exec_op *op)
{
	void (*room)(size_t, void *) = op->kind == OP_EXEC ? op->ev.exec.room
		: op->kind == OP_FILE                          ? op->ev.file.room
													   : NULL;

	if (room != NULL && op->room > 0 && !op->closed)
		room(op->room, op->arg);
}

void runner_on_room(size_t bytes, void *arg)
{
	struct runner *r = arg;
	struct exec_op *op;
	bool again = true;

	TAILQ_FOREACH (op, &r->ops, link)
		runner_op_flush(op);
	runner_enter(r);
	/* Told of less, a write could take nothing and be told again, for ever. */
	while (again && !r->doomed && r->channel != NULL && channel_room(r->channel) >= OUT_ENOUGH) {
		again = false;
		TAILQ_FOREACH (op, &r->ops, link) {
			if (!op->starved)
				continue;
			op->starved = false;
			runner_op_tell_room(op);
			again = true; /* the callback may have changed the list */
			break;
		}
	}
	runner_leave(r);
}

size_t runner_op_write(struct exec_op *op, struct slice data)
{
	struct runner *r = op->runner;
	size_t taken = 0;

	if (op->closed || r->state != LINK_UP)
		return 0;
	while (taken < data.len && op->room > 0) {
		size_t n = data.len - taken;
		char head[FRAME_HEAD];

		if (n > FRAME_DATA_MAX)
			n = FRAME_DATA_MAX;
		if (n > op->room)
			n = op->room;
		if (channel_room(r->channel) < OUT_RESERVE + n + sizeof(head)) {
			op->starved = true;
			break;
		}
		frame_put_head(head, FRAME_STDIN, op->channel, n);
		if (channel_write(r->channel, slice_make(head, sizeof(head))) != 0 ||
			channel_write(r->channel, slice_make(data.p + taken, n)) != 0)
			abort(); /* there was room */
		op->room -= n;
		taken += n;
	}
	return taken;
}
