/* Makes sure that there is a running container under an operation. */
#include "controller/ensure.h"

#include <errno.h>

#include "controller/lifecycle.h"
#include "controller/mem.h"
#include "controller/survey.h"
#include "libgate/log.h"

struct ensure {
	struct sandbox *sandbox;
	struct sandbox_wait wait;
	bool waiting;
	bool cancelled;
	unsigned generation; /* of the sandbox when the look began */
	ensure_cb cb;
	void *arg;
};

static void on_turn(void *arg);

static void finish(struct ensure *e, const struct err *err)
{
	if (!e->cancelled)
		e->cb(err, e->arg);
	sandbox_put(e->sandbox);
	free(e);
}

static void on_resumed(const struct err *err, void *arg)
{
	finish(arg, err);
}

static void recover(struct ensure *e)
{
	static const struct lifecycle_events events = { NULL, on_resumed };

	log_info("%s does not run: starting it again", e->sandbox->name);
	lifecycle_resume(e->sandbox->controller, slice_str(e->sandbox->name), &events, e);
}

static void wait_turn(struct ensure *e)
{
	e->wait = (struct sandbox_wait){ .go = on_turn, .arg = e };
	e->waiting = true;
	sandbox_enter(e->sandbox, &e->wait);
}

static void learn(struct sandbox *s, const struct survey_result *r)
{
	/* Another controller has made it anew, of an image of another kind. */
	if (s->runner_known && s->has_runner != r->has_runner)
		sandbox_forget(s);
	s->max_command_ms = r->spec.max_command_seconds * 1000;
	s->has_runner = r->has_runner;
	s->runner_known = true;
}

static void on_surveyed(struct survey_result *r, const struct err *err, void *arg)
{
	struct ensure *e = arg;
	struct err fault = ERR_INIT;

	if (e->generation != e->sandbox->generation && !e->cancelled) {
		wait_turn(e); /* it was made anew meanwhile, or removed */
		return;
	}
	if (err != NULL) {
		finish(e, err);
		return;
	}
	if (!r->have_spec) {
		err_set(&fault, ENXIO, "there is no sandbox %s", e->sandbox->name);
		finish(e, &fault);
		return;
	}
	learn(e->sandbox, r);
	if (r->inventory.sandbox.state == CONTAINER_RUNNING)
		finish(e, NULL);
	else
		recover(e);
}

static void on_turn(void *arg)
{
	struct ensure *e = arg;

	e->waiting = false;
	e->generation = e->sandbox->generation;
	if (sandbox_known(e->sandbox))
		finish(e, NULL);
	else
		survey_start(e->sandbox->controller->engine, e->sandbox->name, e->sandbox->controller->engine_timeout_ms,
			on_surveyed, e);
}

static struct ensure *begin(struct sandbox *s, ensure_cb cb, void *arg)
{
	struct ensure *e = mem_zalloc(sizeof(*e));

	s->users++;
	e->sandbox = s;
	e->cb = cb;
	e->arg = arg;
	return e;
}

struct ensure *ensure_known(struct sandbox *s, ensure_cb cb, void *arg)
{
	struct ensure *e = begin(s, cb, arg);

	wait_turn(e);
	return e;
}

struct ensure *ensure_running(struct sandbox *s, ensure_cb cb, void *arg)
{
	struct ensure *e = begin(s, cb, arg);

	recover(e);
	return e;
}

void ensure_cancel(struct ensure *e)
{
	e->cancelled = true;
	if (e->waiting) {
		sandbox_unwait(e->sandbox, &e->wait);
		finish(e, NULL);
	}
}
