/* Frames in: the only place that knows what they ask for. */
#include "image/runner/dispatch.h"

#include <errno.h>

#define TIMEOUT_MAX_MS (INT64_C(30) * 24 * 3600 * 1000)
#define FRAMES_A_TURN 64 /* then the operations get their turn */

static void fatal(struct runner *r, const char *text)
{
	struct frame_writer fw;

	if (wire_room(&r->wire, &fw)) {
		frame_begin(&fw, FRAME_FATAL, 0);
		frame_put_bytes(&fw, FRAME_ATTR_TEXT, slice_str(text));
		if (frame_end(&fw))
			wire_commit(&r->wire, &fw);
		wire_flush(&r->wire);
	}
	wire_end(&r->wire);
}

void dispatch_hello(struct runner *r)
{
	struct frame_writer fw;

	if (!wire_room(&r->wire, &fw))
		return;
	frame_begin(&fw, FRAME_HELLO, 0);
	frame_put_num(&fw, FRAME_ATTR_VERSION, FRAME_VERSION);
	frame_put_num(&fw, FRAME_ATTR_FEATURES, r->features);
	frame_put_num(&fw, FRAME_ATTR_PID, (uint64_t)getpid());
	frame_put_num(&fw, FRAME_ATTR_MAX_OPS, OP_MAX);
	if (frame_end(&fw))
		wire_commit(&r->wire, &fw);
}

static void on_hello(struct runner *r, const struct frame *f)
{
	if (r->greeted) {
		fatal(r, "a second hello");
		return;
	}
	if (frame_num_or(f, FRAME_ATTR_VERSION, 0) < FRAME_VERSION) {
		fatal(r, "the controller speaks no version of the protocol that this runner knows");
		return;
	}
	r->window = frame_num_or(f, FRAME_ATTR_WINDOW, 0);
	r->greeted = true;
}

/* A refusal in the shape of the operation's own end. */
static void refuse(struct runner *r, const struct frame *f, enum frame_type type, int code, const char *text)
{
	struct frame_writer fw;

	if (!wire_room(&r->wire, &fw))
		return;
	frame_begin(&fw, type, f->channel);
	if (type == FRAME_EXIT)
		frame_put_num(&fw, FRAME_ATTR_END, FRAME_END_START_FAILED);
	frame_put_num(&fw, FRAME_ATTR_CODE, (uint64_t)code);
	frame_put_bytes(&fw, FRAME_ATTR_TEXT, slice_str(text));
	if (frame_end(&fw))
		wire_commit(&r->wire, &fw);
}

static bool limited(const struct frame *f)
{
	uint64_t ms = frame_num_or(f, FRAME_ATTR_TIMEOUT_MS, 0);

	return ms > 0 && ms <= TIMEOUT_MAX_MS;
}

/* A new operation, or NULL when it was refused. */
static struct op *admit(struct runner *r, const struct frame *f, enum op_kind kind, enum frame_type end)
{
	struct op *op;

	if (op_find(r, f->channel) != NULL) {
		fatal(r, "the channel is in use");
		return NULL;
	}
	if (kind != OP_KILL && !limited(f)) {
		refuse(r, f, end, EINVAL, "an operation needs a limit of time, of at most 30 days");
		return NULL;
	}
	op = op_new(r, kind, f->channel);
	if (op == NULL)
		refuse(r, f, end, EAGAIN, "too many operations are under way in this sandbox");
	return op;
}

static void on_start(struct runner *r, const struct frame *f, int64_t now_us)
{
	struct op *op;

	if (frame_bytes(f, FRAME_ATTR_ID).p == NULL || frame_bytes(f, FRAME_ATTR_ARG).p == NULL) {
		refuse(r, f, FRAME_EXIT, EINVAL, "a command needs an id and arguments");
		return;
	}
	op = admit(r, f, OP_COMMAND, FRAME_EXIT);
	if (op != NULL)
		command_start(r, op, f, now_us);
}

static void on_file(struct runner *r, const struct frame *f, int64_t now_us)
{
	struct op *op = admit(r, f, OP_FILE, FRAME_DONE);

	if (op != NULL)
		file_start(r, op, f, now_us);
}

/* The limits of the commands under way that bear one of the tags, behind the tags. */
static void add_limits(struct runner *r, struct op *op, struct kill_target *target, size_t used)
{
	size_t at = (used + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
	uint64_t *limits = (uint64_t *)(void *)(op->buf + at);

	target->limits = limits;
	for (unsigned i = 0; i < OP_MAX && at + (target->nlimits + 1) * sizeof(uint64_t) <= OP_BUF; i++)
		if (r->ops[i].kind == OP_COMMAND && kill_target_has_tag(target, r->ops[i].u.command.tag))
			limits[target->nlimits++] = r->ops[i].u.command.limit;
}

static void on_kill_tagged(struct runner *r, const struct frame *f, int64_t now_us)
{
	struct op *op = admit(r, f, OP_KILL, FRAME_KILLED);
	struct kill_target target = { 0 };
	struct slice tag;
	size_t at = 0, used = 0;

	if (op == NULL)
		return;
	/* The tags of a frame, each with its NUL, are never longer than the frame's payload. */
	while (frame_each(f, FRAME_ATTR_TAG, &at, &tag)) {
		memcpy(op->buf + used, tag.p, tag.len);
		op->buf[used + tag.len] = '\0';
		used += tag.len + 1;
		target.ntags++;
	}
	target.all = target.ntags == 0;
	target.tags = op->buf;
	add_limits(r, op, &target, used);
	tree_start(&r->tree, &op->kill, &target, now_us);
}

void dispatch_kill_step(struct runner *r, struct op *op)
{
	struct frame_writer fw;

	op->wake_us = CLOCK_NEVER;
	if (op->kill.phase != KILL_DONE || !wire_room(&r->wire, &fw))
		return;
	frame_begin(&fw, FRAME_KILLED, op->channel);
	frame_put_num(&fw, FRAME_ATTR_COUNT, op->kill.killed);
	frame_put_num(&fw, FRAME_ATTR_SURVIVORS, op->kill.survivors);
	frame_put_num(&fw, FRAME_ATTR_CODE, (uint64_t)op->kill.code);
	if (op->kill.code != 0)
		frame_put_bytes(&fw, FRAME_ATTR_TEXT, slice_str("the processes of the sandbox cannot be read"));
	if (frame_end(&fw))
		wire_commit(&r->wire, &fw);
	op_free(op);
}

/* For an operation under way. One that has ended meanwhile makes the frame late, not wrong. */
static void on_op(struct runner *r, const struct frame *f, int64_t now_us)
{
	struct op *op = op_find(r, f->channel);
	bool command = op != NULL && op->kind == OP_COMMAND, file = op != NULL && op->kind == OP_FILE;

	if (f->type == FRAME_SETTLED)
		outcomes_settled(&r->outcomes, f->channel);
	else if (f->type == FRAME_STDIN && command)
		command_stdin(op, f->payload);
	else if (f->type == FRAME_STDIN && file)
		file_data(op, f->payload);
	else if (f->type == FRAME_STDIN_END && command)
		command_stdin_end(op);
	else if (f->type == FRAME_STDIN_END && file)
		file_data_end(op);
	else if (f->type == FRAME_CREDIT && op != NULL)
		op->credit += frame_num_or(f, FRAME_ATTR_BYTES, 0) & UINT32_MAX;
	else if (f->type == FRAME_RESIZE && command)
		command_resize(op, f);
	else if (f->type == FRAME_KILL && command)
		command_kill(r, op, now_us);
	else if (f->type == FRAME_KILL && file)
		file_kill(op);
}

static void on_frame(struct runner *r, const struct frame *f, int64_t now_us)
{
	if (!r->greeted && f->type != FRAME_HELLO) {
		fatal(r, "the first frame is no hello");
		return;
	}
	switch (f->type) {
	case FRAME_HELLO:
		on_hello(r, f);
		break;
	case FRAME_PING:
		r->owes_pong = true;
		break;
	case FRAME_START:
		on_start(r, f, now_us);
		break;
	case FRAME_FILE:
		on_file(r, f, now_us);
		break;
	case FRAME_KILL_TAGGED:
		on_kill_tagged(r, f, now_us);
		break;
	case FRAME_STDIN:
	case FRAME_STDIN_END:
	case FRAME_CREDIT:
	case FRAME_RESIZE:
	case FRAME_KILL:
	case FRAME_SETTLED:
		on_op(r, f, now_us);
		break;
	case FRAME_FATAL:
	case FRAME_PONG:
	case FRAME_STARTED:
	case FRAME_ROOM:
	case FRAME_STDOUT:
	case FRAME_STDERR:
	case FRAME_EXIT:
	case FRAME_KILLED:
	case FRAME_ENTRY:
	case FRAME_DONE:
		break; /* a controller does not send these: the reader has refused them */
	}
}

bool dispatch_ready(struct runner *r)
{
	struct frame_writer fw;

	return wire_room(&r->wire, &fw);
}

static void pay_pong(struct runner *r)
{
	struct frame_writer fw;

	if (!r->owes_pong || !wire_room(&r->wire, &fw))
		return;
	frame_begin(&fw, FRAME_PONG, 0);
	r->owes_pong = !frame_end(&fw);
	wire_commit(&r->wire, &fw);
}

bool dispatch(struct runner *r, int64_t now_us)
{
	struct frame f;
	enum frame_fault fault;
	int handled;

	for (handled = 0; handled < FRAMES_A_TURN && !r->wire.gone && dispatch_ready(r); handled++) {
		int got = wire_next(&r->wire, &f, &fault);

		if (got < 0)
			fatal(r, frame_fault_text(fault));
		if (got <= 0)
			break;
		on_frame(r, &f, now_us);
	}
	pay_pong(r);
	return handled > 0 || r->wire.gone;
}
