/* Carries lifecycle operations from request to engine: look, plan, run. */
#include "controller/lifecycle.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <time.h>

#include "controller/clock.h"
#include "controller/mem.h"
#include "controller/pin.h"
#include "controller/remains_ask.h"
#include "controller/survey.h"
#include "libgate/log.h"

/*
 * Another controller that resumes the same sandbox may take away what this plan stands on. Looking again and planning
 * anew ends where both want to be; the waits differ, so that the two do not keep step.
 */
#define RESUME_TRIES 5
#define RESUME_WAIT_MS 200

enum operation {
	OPERATION_CREATE,
	OPERATION_DESTROY,
	OPERATION_SUSPEND,
	OPERATION_RESUME,
	OPERATION_RESTART,
	OPERATION_RECONCILE, /* becomes the one that is needed */
};

struct lifecycle {
	struct controller *controller;
	struct sandbox *sandbox;
	enum operation operation;
	struct spec spec; /* create */
	int64_t min_age; /* reconcile: seconds */
	struct sandbox_wait wait;
	int64_t deadline;
	unsigned tries; /* resume: plans that met a rival */
	struct event *again;
	struct lifecycle_events events;
	void *arg;
};

static void finish(struct lifecycle *l, const struct err *err)
{
	if (l->operation == OPERATION_CREATE || l->operation == OPERATION_DESTROY)
		sandbox_forget(l->sandbox);
	if ((l->operation == OPERATION_SUSPEND || l->operation == OPERATION_RESTART) && err == NULL)
		sandbox_stopped(l->sandbox);
	if (l->operation == OPERATION_CREATE && err == NULL)
		l->sandbox->max_command_ms = l->spec.max_command_seconds * 1000;
	sandbox_leave(l->sandbox);
	l->events.done(err, l->arg);
	sandbox_put(l->sandbox);
	spec_release(&l->spec);
	if (l->again != NULL)
		event_free(l->again);
	free(l);
}

static void on_run_pull(const char *image, const struct json_node *progress, void *arg)
{
	struct lifecycle *l = arg;

	if (l->events.pull != NULL)
		l->events.pull(image, progress, l->arg);
}

static void on_turn(void *arg);

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	on_turn(arg);
}

static bool met_rival(const struct lifecycle *l, const struct err *err)
{
	return l->operation == OPERATION_RESUME && l->tries < RESUME_TRIES && clock_ms() < l->deadline &&
		(err->code == ENOENT || err->code == EEXIST);
}

static void on_run_done(const struct err *err, void *arg)
{
	struct lifecycle *l = arg;
	int64_t ms;
	struct timeval tv;

	if (err == NULL || !met_rival(l, err)) {
		finish(l, err);
		return;
	}
	log_info("resume %s: %s; looking again", l->sandbox->name, err->text);
	ms = RESUME_WAIT_MS * ++l->tries + clock_us() % RESUME_WAIT_MS;
	tv = (struct timeval){ ms / 1000, ms % 1000 * 1000 };
	if (l->again == NULL)
		l->again = evtimer_new(l->controller->base, on_again, l);
	if (l->again == NULL || event_add(l->again, &tv) != 0)
		finish(l, err);
}

static int64_t left_ms(const struct lifecycle *l)
{
	int64_t left = l->deadline - clock_ms();

	return left > 1 ? left : 1;
}

static void execute(struct lifecycle *l, struct plan *plan, unsigned flags)
{
	static const struct run_events events = { on_run_pull, on_run_done };

	run_plan(l->controller->engine, plan, flags, left_ms(l), &events, l);
}

static void on_pinned(const struct err *err, void *arg)
{
	struct lifecycle *l = arg;
	struct plan plan;

	if (err != NULL) {
		finish(l, err);
		return;
	}
	plan_create(&plan, &l->spec, l->controller->config, engine_api_minor(l->controller->engine));
	execute(l, &plan, RUN_UNDO);
}

static void on_ready(const struct engine_reply *reply, void *arg)
{
	struct lifecycle *l = arg;

	if (reply->status != 200)
		finish(l, &reply->err);
	else if (l->spec.tcp_targets == NULL)
		on_pinned(NULL, l);
	else
		pin_targets(l->controller->base, NULL, &l->spec, on_pinned, l);
}

/* Suspended meanwhile it stays so: a restart would start it. */
static void restart(struct lifecycle *l, enum container_state state)
{
	struct err fault = ERR_INIT;
	struct plan plan;

	if (state == CONTAINER_RUNNING || state == CONTAINER_PAUSED) {
		plan_restart(&plan, l->sandbox->name);
		execute(l, &plan, 0);
		return;
	}
	sandbox_stopped(l->sandbox);
	err_set(&fault, EBUSY, "%s does not run", l->sandbox->name);
	finish(l, &fault);
}

static void on_surveyed(struct survey_result *r, const struct err *err, void *arg)
{
	struct lifecycle *l = arg;
	struct err fault = ERR_INIT;
	struct plan plan;

	if (err == NULL && r->inventory.sandbox.state == CONTAINER_ABSENT) {
		err_set(&fault, ENXIO, "there is no sandbox %s", l->sandbox->name);
		err = &fault;
	}
	if (err != NULL) {
		finish(l, err);
		return;
	}
	l->sandbox->max_command_ms = r->spec.max_command_seconds * 1000;
	if (l->operation == OPERATION_RESTART) {
		restart(l, r->inventory.sandbox.state);
		return;
	}
	if (l->operation == OPERATION_SUSPEND) {
		plan_suspend(&plan, l->sandbox->name, &r->inventory);
		execute(l, &plan, 0);
		return;
	}
	if (r->inventory.sandbox.state != CONTAINER_RUNNING && r->inventory.sandbox.state != CONTAINER_PAUSED)
		sandbox_stopped(l->sandbox);
	if (plan_resume(&plan, &r->spec, l->controller->config, engine_api_minor(l->controller->engine), &r->inventory,
			&fault) != 0) {
		plan_release(&plan);
		finish(l, &fault);
		return;
	}
	execute(l, &plan, 0);
}

static void on_remains(struct remains_list *list, const struct err *err, void *arg)
{
	struct lifecycle *l = arg;
	enum remains_verdict verdict = REMAINS_WHOLE;
	struct err fault = ERR_INIT;
	const struct remains *r;

	if (err != NULL) {
		finish(l, err);
		return;
	}
	TAILQ_FOREACH (r, list, link)
		if (strcmp(r->name, l->sandbox->name) == 0)
			verdict = remains_judge(r, (int64_t)time(NULL), l->min_age);
	if (verdict == REMAINS_REMOVE || verdict == REMAINS_REPAIR) {
		l->operation = verdict == REMAINS_REMOVE ? OPERATION_DESTROY : OPERATION_RESUME;
		on_turn(l);
		return;
	}
	err_set(&fault, ESTALE, "%s is no longer as it was", l->sandbox->name);
	finish(l, &fault);
}

/* What forbids the operation before anything is asked. */
static int check_turn(const struct lifecycle *l, struct err *err)
{
	auto_free char *network = mem_printf("%s-net", l->sandbox->name);

	if (clock_ms() >= l->deadline)
		return err_set(err, ETIMEDOUT, "what else is done to %s took all of its time: nothing was begun",
			l->sandbox->name);
	if (strcmp(network, l->controller->config->network) == 0)
		return err_set(err, EINVAL,
			"%s would be this sandbox's own network, and is the deployment's: choose another name", network);
	return 0;
}

static void on_turn(void *arg)
{
	struct lifecycle *l = arg;
	struct err fault = ERR_INIT;
	struct plan plan;

	if (check_turn(l, &fault) != 0) {
		finish(l, &fault);
		return;
	}
	switch (l->operation) {
	case OPERATION_CREATE:
		engine_ready(l->controller->engine, left_ms(l), on_ready, l);
		break;
	case OPERATION_DESTROY:
		plan_destroy(&plan, l->sandbox->name);
		execute(l, &plan, 0);
		break;
	case OPERATION_RESTART:
	case OPERATION_SUSPEND:
	case OPERATION_RESUME:
		survey_start(l->controller->engine, l->sandbox->name, left_ms(l), on_surveyed, l);
		break;
	case OPERATION_RECONCILE:
		remains_ask(l->controller->engine, left_ms(l), on_remains, l);
		break;
	}
}

static struct lifecycle *begin(struct controller *c, enum operation operation, struct slice name,
	const struct lifecycle_events *ev, void *arg)
{
	struct lifecycle *l = mem_zalloc(sizeof(*l));

	l->controller = c;
	l->sandbox = sandbox_get(c, name);
	l->operation = operation;
	l->events = *ev;
	l->arg = arg;
	l->deadline = clock_ms() + c->engine_timeout_ms;
	l->wait = (struct sandbox_wait){ .go = on_turn, .arg = l, .exclusive = true };
	sandbox_enter(l->sandbox, &l->wait);
	return l;
}

void lifecycle_create(struct controller *c, struct spec *spec, const struct lifecycle_events *ev, void *arg)
{
	struct lifecycle *l = begin(c, OPERATION_CREATE, slice_str(spec->name), ev, arg);

	l->spec = *spec;
	*spec = (struct spec){ .nlabels = 0 };
	if (l->spec.disk_unlimited)
		log_warn("create %s: diskMb limits only /tmp: there is no volumeDriver that could limit the workspace",
			l->spec.name);
}

void lifecycle_destroy(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg)
{
	begin(c, OPERATION_DESTROY, name, ev, arg);
}

void lifecycle_suspend(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg)
{
	begin(c, OPERATION_SUSPEND, name, ev, arg);
}

void lifecycle_resume(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg)
{
	begin(c, OPERATION_RESUME, name, ev, arg);
}

void lifecycle_reconcile(struct controller *c, struct slice name, int64_t min_age, const struct lifecycle_events *ev,
	void *arg)
{
	begin(c, OPERATION_RECONCILE, name, ev, arg)->min_age = min_age;
}

void lifecycle_restart(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg)
{
	begin(c, OPERATION_RESTART, name, ev, arg);
}
