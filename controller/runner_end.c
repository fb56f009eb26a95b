/* How operations and the stream to a runner end. */
#include "controller/runner_core.h"

#include <errno.h>
#include <stdio.h>

#include "controller/clock.h"

void runner_schedule(struct runner *r, int64_t ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	if (event_add(r->tick, &tv) != 0)
		abort();
}

static void release(struct runner *r)
{
	r->owner.freed(r->owner.arg);
	if (r->channel != NULL)
		channel_end(STEAL(r->channel));
	event_free(r->tick);
	buf_release(&r->in);
	free(r);
}

void runner_enter(struct runner *r)
{
	r->busy++;
}

bool runner_leave(struct runner *r)
{
	if (--r->busy > 0 || !r->doomed)
		return true;
	release(r);
	return false;
}

void runner_set_state(struct runner *r, enum link_state state)
{
	r->state = state;
	r->heard_ms = clock_ms();
	r->pinged = r->probing = false;
}

void runner_op_unlink(struct exec_op *op)
{
	struct runner *r = op->runner;

	TAILQ_REMOVE(&r->ops, op, link);
	if (op->kind == OP_KILL)
		r->nkills--;
	else
		r->nops--;
}

void runner_op_free(struct exec_op *op)
{
	free(op->request);
	free(op);
}

void runner_op_end_exec(struct exec_op *op, const struct exec_outcome *outcome)
{
	runner_op_unlink(op);
	op->ev.exec.done(outcome, op->arg);
	runner_op_free(op);
}

void runner_op_fail(struct exec_op *op, bool sent, int code, const char *text)
{
	struct exec_outcome outcome = {
		.end = sent ? EXEC_LOST : EXEC_START_FAILED,
		.exit_code = -1,
		.oom = sent ? EXEC_UNKNOWN : EXEC_NO,
		.duration_us = -1,
		.code = code,
		.text = text,
	};
	struct file_result result = { .code = code, .text = text, .lost = sent };
	struct kill_result killed = { .code = code, .text = text };

	switch (op->kind) {
	case OP_EXEC:
		runner_op_end_exec(op, &outcome);
		return;
	case OP_FILE:
		runner_op_unlink(op);
		op->ev.file.done(&result, op->arg);
		break;
	case OP_KILL:
		runner_op_unlink(op);
		op->ev.kill(&killed, op->arg);
		break;
	}
	runner_op_free(op);
}

static bool chosen(const struct exec_op *op, enum op_choice choice)
{
	bool sent = op->request == NULL;

	return choice == OPS_ALL || sent == (choice == OPS_SENT);
}

void runner_fail_all(struct runner *r, enum op_choice choice, int code, const char *text)
{
	uint32_t last = r->next_channel;
	struct exec_op *op;
	bool again = true;

	while (again) {
		again = false;
		TAILQ_FOREACH (op, &r->ops, link) {
			if ((int32_t)(op->channel - last) > 0 || !chosen(op, choice))
				continue;
			runner_op_fail(op, op->request == NULL, code, text);
			again = true; /* the callback may have changed the list */
			break;
		}
	}
}

void runner_drop_link(struct runner *r)
{
	if (r->channel != NULL)
		channel_end(STEAL(r->channel));
	buf_release(&r->in);
	r->garbage = false;
	r->epoch++;
	runner_set_state(r, LINK_NONE);
}

void runner_diagnose(struct runner *r, struct slice data)
{
	size_t at = strlen(r->diagnosis);

	for (size_t i = 0; i < data.len && at < RUNNER_DIAGNOSIS_MAX; i++)
		r->diagnosis[at++] = data.p[i] >= ' ' && data.p[i] <= '~' ? data.p[i] : ' ';
	r->diagnosis[at] = '\0';
}

void runner_lose_link(struct runner *r, int code, const char *text)
{
	char why[ERR_TEXT_MAX];
	bool greeting = r->state == LINK_GREETING;

	if (r->diagnosis[0] != '\0')
		snprintf(why, sizeof(why), "%s: %s", text, r->diagnosis);
	else
		snprintf(why, sizeof(why), "%s", text);
	runner_drop_link(r);
	runner_enter(r);
	if (greeting) {
		struct err err = ERR_INIT;

		/* Nothing was sent yet. The owner finds out whether it is the image or the sandbox. */
		err_set(&err, code, "%s", why);
		r->state = LINK_ASKED;
		r->owner.no_runner(&err, r->owner.arg);
	} else {
		runner_fail_all(r, OPS_ALL, code, why);
	}
	runner_leave(r);
}
