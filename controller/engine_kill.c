/* Kills by an engine exec: one that kills what others started, here or under another controller. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/engine_exec_parse.h"
#include "controller/engine_op.h"

#define KILL_SCRIPT_MS 20000
#define KILL_ANSWER_MS \
	(KILL_SCRIPT_MS + ENGINE_BACKSTOP_MS + 5000) /* a container that is paused lets no limit of its own pass */

static void kill_over(struct exec_op *op, int code, const char *text, unsigned killed, unsigned survivors)
{
	struct kill_result r = { .code = code, .text = text, .killed = killed, .survivors = survivors };
	kill_cb cb = op->kill_done;
	void *arg = op->arg;

	op->state = OP_OVER;
	op_free(op);
	cb(&r, arg);
}

static void kill_start_failed(struct exec_op *op, int code, const char *text)
{
	char copy[ERR_TEXT_MAX];

	snprintf(copy, sizeof(copy), "%s", text);
	kill_over(op, code, copy, 0, 0);
}

static void kill_lost(struct exec_op *op, const char *text)
{
	kill_over(op, EINPROGRESS, text, 0, 0);
}

static void kill_ended(struct exec_op *op)
{
	unsigned processes = 0, survivors = 0, commands = 0;
	struct slice line = after_last_mark(buf_slice(&op->notes), op->err_mark.nonce);
	auto_free char *text = mem_dup(line);

	if (!kill_line_parse(text, &processes, &survivors, &commands)) {
		kill_lost(op, "the kill script's answer was cut off");
		return;
	}
	kill_over(op, 0, NULL, commands, survivors);
}

static void kill_data(struct exec_op *op, unsigned stream, struct slice data)
{
	op_script_data(op, stream, &data); /* it prints nothing else */
}

static void kill_closed(struct exec_op *op, bool complete)
{
	if (!op->started)
		op_ask(op);
	else if (complete)
		kill_ended(op);
	else
		kill_lost(op, "the stream to the sandbox was cut");
}

static void on_kill_unanswered(int fd, short what, void *arg)
{
	kill_lost(arg, "the kill script does not answer");
}

static void kill_opened(struct exec_op *op)
{
	op_arm(op, KILL_ANSWER_MS, on_kill_unanswered);
}

static const struct op_kind kind_kill = {
	.urgent = true,
	.opened = kill_opened,
	.data = kill_data,
	.closed = kill_closed,
	.start_failed = kill_start_failed,
	.lost = kill_lost,
};

/* Commands of ours that a kill was meant for; they learn it before the kill is sent. */
static bool meant(const struct exec_op *op, const struct slice *tags, unsigned ntags)
{
	if (op->own_mark == NULL)
		return false;
	struct slice mark = slice_str(op->own_mark);
	const char *slash = strchr(op->own_mark, '/');

	for (unsigned i = 0; i < ntags; i++)
		if (slice_eq(tags[i], mark) || slice_eq(tags[i], slice_make(op->own_mark, (size_t)(slash - op->own_mark))))
			return true;
	return ntags == 0;
}

int engine_kill_tagged(struct exec_backend *base, const struct slice *tags, unsigned ntags, kill_cb cb, void *arg,
	struct err *err)
{
	struct engine_backend *b = engine_backend_of(base);
	struct exec_op *op = op_new(b, &kind_kill, arg), *other;
	struct json_object *argv = op_argv(SCRIPT_KILL, "capybara-kill", KILL_SCRIPT_MS);

	op->kill_done = cb;
	jadd_cstr(argv, op->err_mark.nonce);
	for (unsigned i = 0; i < ntags; i++)
		op_add(argv, tags[i]);
	if (op_create(op, argv, false, err) != 0) {
		op_free(op);
		return -1;
	}
	TAILQ_FOREACH (other, &b->ops, link)
		if (meant(other, tags, ntags))
			other->killed = true;
	return 0;
}
