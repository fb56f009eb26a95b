/* What comes from a runner: judged by form and size, and never taken for more than it may say. */
#include "controller/runner_core.h"

#include <errno.h>

#include "controller/clock.h"
#include "controller/demux.h"
#include "controller/runner_request.h"

struct exec_op *runner_find(struct runner *r, uint32_t channel)
{
	struct exec_op *op;

	TAILQ_FOREACH (op, &r->ops, link)
		if (op->channel == channel && op->request == NULL)
			return op;
	return NULL;
}

/*
 * Whoever speaks at the other end may be another process of the sandbox, which forged its way into the stream: it fills
 * no memory here.
 */
static bool within_window(struct exec_op *op, const struct frame *f)
{
	op->in_flight += f->payload.len;
	if (op->in_flight <= RUNNER_WINDOW)
		return true;
	runner_lose_link(op->runner, EPROTO, "the runner sent more than its window");
	return false;
}

static void on_output(struct exec_op *op, const struct frame *f)
{
	if (!within_window(op, f))
		return;
	if (op->kind == OP_EXEC)
		op->ev.exec.output(f->type == FRAME_STDOUT ? EXEC_STDOUT : EXEC_STDERR, f->payload, op->arg);
	else if (op->kind == OP_FILE && op->ev.file.data != NULL)
		op->ev.file.data(f->payload, op->arg);
}

static void on_entry(struct exec_op *op, const struct frame *f)
{
	struct slice name = frame_bytes(f, FRAME_ATTR_NAME);
	struct file_info info;

	if (op->kind != OP_FILE || op->ev.file.entry == NULL || name.p == NULL)
		return;
	runner_get_info(f, &info);
	runner_op_acknowledge(op, f->payload.len);
	op->ev.file.entry(name, &info, op->arg);
}

static void on_more_room(struct exec_op *op, const struct frame *f)
{
	uint64_t bytes = frame_num_or(f, FRAME_ATTR_BYTES, 0);

	op->room += bytes < RUNNER_WINDOW ? (size_t)bytes : RUNNER_WINDOW;
	if (op->room > RUNNER_WINDOW)
		op->room = RUNNER_WINDOW;
	runner_op_tell_room(op);
}

static void on_exit_frame(struct exec_op *op, const struct frame *f)
{
	char text[RUNNER_TEXT_MAX];
	struct exec_outcome outcome;

	/* Unsettled it is written down in the sandbox, which is no harm when the stream has no room for this now. */
	if (op->runner->settles)
		(void)runner_put_plain(op->runner, FRAME_SETTLED, op->channel);
	runner_get_exit(f, text, &outcome);
	runner_op_end_exec(op, &outcome);
}

static void on_done_frame(struct exec_op *op, const struct frame *f)
{
	char text[RUNNER_TEXT_MAX];
	struct file_result result;

	runner_get_done(f, text, &result);
	runner_op_unlink(op);
	op->ev.file.done(&result, op->arg);
	runner_op_free(op);
}

static void on_killed_frame(struct exec_op *op, const struct frame *f)
{
	struct kill_result result = {
		/* Which of its errors it was says nothing more: no other one may look like the engine's word. */
		.code = frame_num_or(f, FRAME_ATTR_CODE, 0) == 0 ? 0 : EIO,
		.killed = (unsigned)frame_num_or(f, FRAME_ATTR_COUNT, 0),
		.survivors = (unsigned)frame_num_or(f, FRAME_ATTR_SURVIVORS, 0),
	};

	result.text = result.code == 0 ? "" : "the processes of the sandbox cannot be read";
	runner_op_unlink(op);
	op->ev.kill(&result, op->arg);
	runner_op_free(op);
}

static void on_op_frame(struct runner *r, const struct frame *f)
{
	struct exec_op *op = runner_find(r, f->channel);

	if (op == NULL)
		return; /* given up here before the runner had ended it */
	if (f->type == FRAME_STARTED && op->kind == OP_EXEC && op->ev.exec.started != NULL)
		op->ev.exec.started(op->arg);
	else if (f->type == FRAME_STDOUT || f->type == FRAME_STDERR)
		on_output(op, f);
	else if (f->type == FRAME_ENTRY)
		on_entry(op, f);
	else if (f->type == FRAME_ROOM)
		on_more_room(op, f);
	else if (f->type == FRAME_EXIT && op->kind == OP_EXEC)
		on_exit_frame(op, f);
	else if (f->type == FRAME_DONE && op->kind == OP_FILE)
		on_done_frame(op, f);
	else if (f->type == FRAME_KILLED && op->kind == OP_KILL)
		on_killed_frame(op, f);
}

static void on_hello(struct runner *r, const struct frame *f)
{
	struct exec_op *op;

	if (frame_num_or(f, FRAME_ATTR_VERSION, 0) < FRAME_VERSION) {
		runner_lose_link(r, EPROTO, "the image's runner is older than this controller: make the image anew");
		return;
	}
	r->settles = (frame_num_or(f, FRAME_ATTR_FEATURES, 0) & FRAME_FEATURE_OUTCOMES) != 0;
	r->diagnosis[0] = '\0';
	runner_set_state(r, LINK_UP);
	TAILQ_FOREACH (op, &r->ops, link)
		runner_op_flush(op);
}

static void on_frame(struct runner *r, const struct frame *f)
{
	if (r->state == LINK_GREETING && f->type != FRAME_HELLO && f->type != FRAME_FATAL) {
		runner_lose_link(r, EPROTO, "the runner's first frame is no hello");
	} else if (f->type == FRAME_HELLO) {
		if (r->state == LINK_GREETING)
			on_hello(r, f);
	} else if (f->type == FRAME_FATAL) {
		runner_diagnose(r, frame_bytes(f, FRAME_ATTR_TEXT));
		runner_lose_link(r, EPROTO, "the runner has ended the stream");
	} else if (f->type != FRAME_PONG) {
		on_op_frame(r, f);
	}
}

/* Handles the whole frames in data and returns how many bytes they took; all of them when the stream is gone. */
static size_t take_frames(struct runner *r, struct slice data)
{
	unsigned epoch = r->epoch;
	size_t at = 0;

	while (epoch == r->epoch && !r->doomed) {
		struct frame f;
		enum frame_fault fault;
		size_t used;

		switch (frame_read(FRAME_RUNNER, data.p + at, data.len - at, &f, &used, &fault)) {
		case FRAME_MORE:
			return at;
		case FRAME_WHOLE:
			at += used;
			on_frame(r, &f);
			break;
		case FRAME_BAD:
			if (r->state == LINK_GREETING) {
				r->garbage = true;
				runner_diagnose(r, slice_skip(data, at));
			} else {
				runner_lose_link(r, EPROTO, frame_fault_text(fault));
			}
			return data.len;
		}
	}
	return data.len;
}

static void take_output(struct runner *r, struct slice data)
{
	unsigned epoch = r->epoch;
	size_t n;

	if (r->garbage) {
		runner_diagnose(r, data);
		return;
	}
	if (buf_len(&r->in) == 0) {
		data = slice_skip(data, take_frames(r, data));
		if (r->doomed || epoch != r->epoch || data.len == 0)
			return;
	}
	if (buf_put_slice(&r->in, data) != 0) {
		runner_lose_link(r, EPROTO, "a frame of the runner is longer than any may be");
		return;
	}
	n = take_frames(r, buf_slice(&r->in));
	if (r->doomed || epoch != r->epoch)
		return;
	buf_consume(&r->in, n);
	buf_trim(&r->in);
}

void runner_on_data(unsigned stream, struct slice data, void *arg)
{
	struct runner *r = arg;

	bool probed = r->probing;
	struct exec_op *op;

	r->heard_ms = clock_ms();
	r->pinged = r->probing = false;
	runner_enter(r);
	if (probed)
		TAILQ_FOREACH (op, &r->ops, link)
			runner_op_flush(op);
	if (r->doomed || r->channel == NULL)
		;
	else if (stream == DEMUX_STDOUT)
		take_output(r, data);
	else
		runner_diagnose(r, data);
	runner_leave(r);
}

void runner_on_closed(bool complete, void *arg)
{
	struct runner *r = arg;

	if (r->state == LINK_GREETING && buf_len(&r->in) > 0)
		runner_diagnose(r, buf_slice(&r->in)); /* shorter than a frame's head */
	if (r->state == LINK_GREETING)
		runner_lose_link(r, ENOEXEC, "the runner did not start");
	else
		runner_lose_link(r, ECONNRESET, "the stream to the runner has ended");
}
