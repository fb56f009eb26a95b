/* How a command is ended before it ends by itself: at its time-out, or when the call is cancelled. */
#include "controller/method_exec_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "controller/lifecycle.h"
#include "libgate/log.h"

/*
 * After a kill without effect the sandbox is restarted, which ends every other command too: not before the engine, which
 * starts about nine execs a second and queues them, can have run the exec that kills behind a hundred others.
 */
#define KILL_MS 20000

void method_exec_arm(struct command *c, int64_t ms, event_callback_fn fn)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	if (c->timer != NULL)
		event_free(c->timer);
	c->timer = evtimer_new(c->call->controller->base, fn, c);
	if (c->timer == NULL || event_add(c->timer, &tv) != 0)
		abort();
}

/* It goes on when the command has ended. */
struct restart {
	struct command *command; /* NULL: its end was told */
	bool ended;
	struct exec_outcome end;
};

static void on_restarted(const struct err *err, void *arg)
{
	auto_free struct restart *restart = arg;
	struct command *c = restart->command;

	if (err != NULL)
		log_warn("restart of a sandbox whose commands could not be killed failed: %s", err->text);
	if (c == NULL)
		return;
	c->restart = NULL;
	c->restarted = err == NULL;
	if (restart->ended)
		method_exec_over(c, &restart->end);
}

bool method_exec_await_restart(struct command *c, const struct exec_outcome *o)
{
	if (o->end != EXEC_LOST || c->restart == NULL)
		return false;
	c->restart->ended = true;
	c->restart->end = *o;
	c->restart->end.text = "the stream to the command ended before it could be killed";
	return true;
}

void method_exec_leave_restart(struct command *c)
{
	if (c->restart != NULL)
		c->restart->command = NULL;
}

/* Nothing that would kill the command could be started: the container has to go. */
static void on_kill_failed(evutil_socket_t fd, short what, void *arg)
{
	static const struct lifecycle_events events = { NULL, on_restarted };
	struct command *c = arg;

	if (c->op == NULL)
		return;
	c->restart = mem_zalloc(sizeof(*c->restart));
	c->restart->command = c;
	log_warn("%s: a command could not be killed; restarting the sandbox", c->sandbox->name);
	lifecycle_restart(c->call->controller, slice_str(c->sandbox->name), &events, c->restart);
}

static void kill_command(struct command *c)
{
	if (c->killing)
		return;
	c->killing = true;
	if (c->op == NULL)
		return;
	method_exec_arm(c, KILL_MS, on_kill_failed);
	c->backend->ops->kill(c->op);
}

void method_exec_on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct command *c = arg;

	c->timed_out = true;
	kill_command(c);
}

void method_exec_abort(struct call *call)
{
	struct command *c = call->state;

	c->aborted = true;
	if (c->op == NULL) {
		/* Nothing runs yet, and nothing will. */
		method_exec_fail(c, ECANCELED, "aborted before the command was started", NULL);
		return;
	}
	kill_command(c);
}
