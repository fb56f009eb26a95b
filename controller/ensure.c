/* Makes sure that there is a running container under an operation. */
#include "controller/ensure.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

#include "controller/lifecycle.h"
#include "controller/mem.h"
#include "controller/survey.h"
#include "libgate/log.h"

#define REFUSALS_MAX 6
#define PAUSE_MS 200 /* before the second try, twice that before the third, and so on: six seconds in all */

struct ensure {
	TAILQ_ENTRY(ensure) link; /* the sandbox's */
	struct sandbox *sandbox;
	struct sandbox_wait wait;
	bool waiting; /* for its turn */
	bool looking;
	bool cancelled;
	struct event *pause; /* NULL: there is none */
	ensure_cb cb;
	void *arg;
};

/* A look at a sandbox, whoever waits for it. */
struct look {
	struct sandbox *sandbox;
	struct survey *survey;
	unsigned generation; /* of the sandbox when it began */
};

static void on_turn(void *arg);

static void finish(struct ensure *e, const struct err *err)
{
	if (!e->cancelled)
		e->cb(err, e->arg);
	sandbox_put(e->sandbox);
	if (e->pause != NULL)
		event_free(e->pause);
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

static void leave_look(struct ensure *e)
{
	TAILQ_REMOVE(&e->sandbox->looking, e, link);
	e->looking = false;
}

static void on_surveyed(struct survey_result *r, const struct err *err, void *arg)
{
	auto_free struct look *look = arg;
	struct sandbox *s = look->sandbox;
	bool outdated = look->generation != s->generation; /* it was made anew meanwhile, or removed */
	bool runs = r->inventory.sandbox.state == CONTAINER_RUNNING;
	struct err fault = ERR_INIT;
	struct ensure *e;

	s->look = NULL;
	if (err == NULL && !r->have_spec) {
		err_set(&fault, ENXIO, "there is no sandbox %s", s->name);
		err = &fault;
	}
	if (err == NULL && !outdated)
		learn(s, r);
	/* A callback may cancel others; nobody joins before the next turn of the loop. */
	while ((e = TAILQ_FIRST(&s->looking)) != NULL) {
		leave_look(e);
		if (outdated)
			wait_turn(e);
		else if (err != NULL || runs)
			finish(e, err);
		else
			recover(e);
	}
	sandbox_put(s);
}

/* One question at a time is asked about a sandbox: an engine that hangs over it has connections left for the others. */
static void join_look(struct ensure *e)
{
	struct sandbox *s = e->sandbox;
	struct look *look;

	TAILQ_INSERT_TAIL(&s->looking, e, link);
	e->looking = true;
	if (s->look != NULL)
		return;
	look = mem_zalloc(sizeof(*look));
	look->sandbox = s;
	look->generation = s->generation;
	s->look = look;
	s->users++;
	look->survey = survey_start(s->controller->engine, s->name, s->controller->engine_timeout_ms, on_surveyed, look);
}

static void on_turn(void *arg)
{
	struct ensure *e = arg;

	e->waiting = false;
	if (sandbox_known(e->sandbox))
		finish(e, NULL);
	else
		join_look(e);
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

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	recover(arg);
}

bool ensure_worthwhile(const struct refusals *r)
{
	return r->count < REFUSALS_MAX;
}

struct ensure *ensure_running(struct sandbox *s, struct refusals *r, ensure_cb cb, void *arg)
{
	struct ensure *e = begin(s, cb, arg);
	int64_t ms = r->count == 0 ? 0 : PAUSE_MS << (r->count - 1);
	struct timeval pause = { ms / 1000, ms % 1000 * 1000 };

	if (r->count++ == 0) {
		recover(e);
		return e;
	}
	e->pause = evtimer_new(s->controller->base, on_pause_over, e);
	if (e->pause == NULL || event_add(e->pause, &pause) != 0)
		abort();
	return e;
}

void ensure_cancel(struct ensure *e)
{
	e->cancelled = true;
	if (e->waiting)
		sandbox_unwait(e->sandbox, &e->wait);
	else if (e->looking)
		leave_look(e);
	else if (e->pause == NULL || !event_pending(e->pause, EV_TIMEOUT, NULL))
		return; /* it is being started: that goes on */
	finish(e, NULL);
}

void ensure_look_no_more(struct sandbox *s)
{
	if (s->look == NULL)
		return;
	survey_cancel(s->look->survey);
	free(s->look);
	s->look = NULL;
}
