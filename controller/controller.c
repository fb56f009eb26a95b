/* Keeps the sandboxes of one process and gives work on a name its turn. */
#include "controller/controller.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "controller/engine_exec.h"
#include "controller/ensure.h"
#include "controller/mem.h"
#include "controller/runner_link.h"
#include "libgate/log.h"

#define ENGINE_TIMEOUT_MS 300000
#define SANDBOXES_KEPT 1024 /* idle entries beyond this are dropped */

int controller_init(struct controller *c, struct event_base *base, const struct config *config, struct err *err)
{
	*c = (struct controller){ .base = base, .config = config, .engine_timeout_ms = ENGINE_TIMEOUT_MS };
	TAILQ_INIT(&c->sandboxes);
	channel_set_init(&c->channels, base);
	heap_init(&c->heap, base);
	c->engine = engine_new(base, config, err);
	return c->engine != NULL ? 0 : -1;
}

static void drop_backends(struct sandbox *s)
{
	struct exec_backend *user = STEAL(s->as_user), *root = STEAL(s->as_root);

	if (user != NULL)
		user->ops->free(user);
	if (root != NULL)
		root->ops->free(root);
}

static void sandbox_free(struct sandbox *s)
{
	TAILQ_REMOVE(&s->controller->sandboxes, s, link);
	s->controller->nsandboxes--;
	if (s->recovery != NULL)
		ensure_cancel(s->recovery);
	ensure_look_no_more(s);
	drop_backends(s);
	event_free(s->turn);
	free(s->name);
	free(s);
}

void controller_release(struct controller *c)
{
	while (!TAILQ_EMPTY(&c->sandboxes))
		sandbox_free(TAILQ_FIRST(&c->sandboxes));
	if (c->engine != NULL)
		engine_free(c->engine);
	channel_set_release(&c->channels);
	heap_release(&c->heap);
}

void controller_close(struct controller *c)
{
	struct sandbox *s, *next;

	engine_close(c->engine);
	for (s = TAILQ_FIRST(&c->sandboxes); s != NULL; s = next) {
		s->users++; /* the last of its commands lets go of it */
		drop_backends(s);
		next = TAILQ_NEXT(s, link);
		sandbox_put(s);
	}
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct sandbox *s = arg;
	struct sandbox_wait *w;

	s->users++; /* who has his turn may be the last one to hold it */
	while (!s->busy && (w = TAILQ_FIRST(&s->waiting)) != NULL) {
		TAILQ_REMOVE(&s->waiting, w, link);
		s->busy = w->exclusive;
		w->go(w->arg);
	}
	sandbox_put(s);
}

static void wake(struct sandbox *s)
{
	struct timeval now = { 0, 0 };

	if (!event_pending(s->turn, EV_TIMEOUT, NULL))
		event_add(s->turn, &now);
}

struct sandbox *sandbox_get(struct controller *c, struct slice name)
{
	struct sandbox *s;

	TAILQ_FOREACH (s, &c->sandboxes, link)
		if (slice_is(name, s->name))
			break;
	if (s == NULL) {
		s = mem_zalloc(sizeof(*s));
		s->controller = c;
		s->name = mem_dup(name);
		TAILQ_INIT(&s->waiting);
		TAILQ_INIT(&s->commands);
		TAILQ_INIT(&s->looking);
		s->turn = evtimer_new(c->base, on_turn, s);
		if (s->turn == NULL)
			abort();
		TAILQ_INSERT_HEAD(&c->sandboxes, s, link);
		c->nsandboxes++;
	}
	s->users++;
	return s;
}

void sandbox_put(struct sandbox *s)
{
	if (--s->users == 0 && s->controller->nsandboxes > SANDBOXES_KEPT)
		sandbox_free(s);
}

void sandbox_enter(struct sandbox *s, struct sandbox_wait *w)
{
	TAILQ_INSERT_TAIL(&s->waiting, w, link);
	wake(s);
}

void sandbox_leave(struct sandbox *s)
{
	s->busy = false;
	wake(s);
}

void sandbox_unwait(struct sandbox *s, struct sandbox_wait *w)
{
	TAILQ_REMOVE(&s->waiting, w, link);
}

bool sandbox_known(const struct sandbox *s)
{
	const struct exec_backend *user = s->as_user;

	if (user != NULL && user->ops->linked != NULL && !user->ops->linked(user))
		return false;
	return s->max_command_ms > 0 && (s->runner_known || s->controller->config->exec_mode != EXEC_MODE_AUTO);
}

static bool by_runner(const struct sandbox *s)
{
	enum exec_mode mode = s->controller->config->exec_mode;

	return mode == EXEC_MODE_RUNNER || (mode == EXEC_MODE_AUTO && s->has_runner);
}

static void on_recovered(const struct err *err, void *arg)
{
	struct sandbox *s = arg;

	s->recovery = NULL;
	if (err != NULL)
		log_warn("%s is paused and cannot be made to run: %s", s->name, err->text);
}

static void recover(void *arg)
{
	struct sandbox *s = arg;
	struct refusals first = { 0 };

	if (s->recovery == NULL)
		s->recovery = ensure_running(s, &first, on_recovered, s);
}

struct exec_backend *sandbox_backend(struct sandbox *s, bool root)
{
	struct exec_backend **slot = root ? &s->as_root : &s->as_user;
	struct controller *c = s->controller;

	if (*slot == NULL && !root && by_runner(s))
		*slot = runner_link_new(c->engine, &c->channels, s->name, recover, s);
	else if (*slot == NULL)
		*slot = engine_exec_new(c->engine, &c->channels, s->name, root ? "0:0" : SANDBOX_USER);
	return *slot;
}

void sandbox_stopped(struct sandbox *s)
{
	/* Root's commands are the engine's execs, whose streams end with the container. */
	if (s->as_user != NULL && s->as_user->ops->stopped != NULL)
		s->as_user->ops->stopped(s->as_user);
}

void sandbox_forget(struct sandbox *s)
{
	s->generation++;
	s->max_command_ms = 0;
	s->runner_known = s->has_runner = false;
	/* A new container may be of another image, and the old one's runner is gone with it. */
	drop_backends(s);
}
