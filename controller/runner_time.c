/* The limits of operations, and a runner that has gone silent. */
#include "controller/runner_core.h"

#include <errno.h>

#include "controller/clock.h"

#define HELLO_MS 30000
#define SILENCE_MS 300000 /* then the stream counts as lost */
#define CANCEL_MS 5000 /* a runner that is stopped answers no cancel, and nothing else ends a file operation */

static void check_silence(struct runner *r, int64_t now)
{
	if (r->state == LINK_GREETING && now - r->greeting_ms >= HELLO_MS) {
		runner_lose_link(r, ETIMEDOUT, "the runner does not greet");
	} else if (r->state == LINK_UP && now - r->heard_ms >= SILENCE_MS) {
		runner_lose_link(r, ETIMEDOUT, "the runner has not answered for five minutes");
	} else if (r->state == LINK_UP && now - r->heard_ms >= RUNNER_PING_MS) {
		/* Under gVisor the stream of a sandbox that was killed may stay open. */
		if (r->pinged)
			r->owner.suspect(r->owner.arg);
		else
			r->pinged = runner_put_plain(r, FRAME_PING, 0);
	}
}

/* Ends the operation when its time is over, or when it was given up before it was sent. */
static bool expire(struct exec_op *op, int64_t now)
{
	bool sent = op->request == NULL;

	if (!sent && op->killed)
		runner_op_fail(op, false, ECANCELED, "given up before it was started");
	else if (op->killed && op->kind == OP_FILE && now - op->killed_ms >= CANCEL_MS)
		runner_op_fail(op, true, ECANCELED, "cancelled, and the runner does not answer");
	else if (op->deadline_ms > now)
		return false;
	else if (sent)
		runner_op_fail(op, true, ETIMEDOUT, "no report came within 30 s after its own limit of time");
	else
		runner_op_fail(op, false, ETIMEDOUT, "the runner was not reached within the limit of time");
	return true;
}

static void check_deadlines(struct runner *r, int64_t now)
{
	struct exec_op *op;
	bool again = true;

	while (again && !r->doomed) {
		again = false;
		TAILQ_FOREACH (op, &r->ops, link) {
			again = expire(op, now);
			if (again)
				break; /* the callback may have changed the list */
		}
	}
}

void runner_on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct runner *r = arg;
	int64_t now = clock_ms(), next = now + RUNNER_PING_MS;
	struct exec_op *op;

	runner_enter(r);
	if (r->failing) {
		struct err failure = r->failure;

		r->failing = false;
		runner_fail_all(r, OPS_UNSENT, failure.code != 0 ? failure.code : EIO, failure.text);
	}
	if (!r->doomed)
		check_deadlines(r, now);
	if (!r->doomed)
		check_silence(r, now);
	if (!r->doomed) {
		TAILQ_FOREACH (op, &r->ops, link)
			if (op->deadline_ms < next)
				next = op->deadline_ms;
		/* With nothing under way nothing is watched: an idle sandbox costs no wake-up. */
		if (!TAILQ_EMPTY(&r->ops))
			runner_schedule(r, r->failing || next <= now ? 0 : next - now);
	}
	runner_leave(r);
}
