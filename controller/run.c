/* Executes plans. */
#include "controller/run.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "controller/clock.h"
#include "controller/kind.h"
#include "controller/mem.h"
#include "controller/pull.h"
#include "libgate/log.h"

#define RETRY_FIRST_MS 25
#define RETRY_MAX_MS 1000
#define UNDO_MS 60000 /* at most, for taking back a failed plan */
#define SETTLE_MS 4000 /* how long a request whose answer was lost is waited for */

enum task_state {
	TASK_IDLE,
	TASK_PROBE, /* asking whether the step is needed */
	TASK_REQUEST,
	TASK_PULL,
	TASK_FOLLOW, /* asking whether something is gone */
	TASK_CHOOSE, /* removing one of several networks of one name, by its id */
	TASK_PAUSE, /* before another try */
	TASK_SETTLED,
	TASK_FAILED,
};

/* One request chain: a step of the plan, or the undoing of one. */
struct task {
	struct run *run;
	const struct step *step;
	enum task_state state;
	enum expect expect;
	const char *method, *path, *gone;
	struct engine_call *call;
	struct event *timer;
	bool taken; /* the request was sent */
	bool unknown; /* and no answer of the engine came back */
	bool pulled;
	unsigned chosen; /* of several networks of one name: which was tried last */
	unsigned choices; /* how often it was looked at whether there is only one */
	bool retry_unavailable; /* a failure to reach the engine is tried again until the deadline */
	int64_t retry_ms;
	int64_t settle_until; /* absence counts only after this */
	struct err err;
};

enum run_phase { RUN_FORWARD, RUN_UNDOING, RUN_OVER };

struct run {
	struct engine *engine;
	struct plan plan;
	unsigned flags;
	enum run_phase phase;
	unsigned stage;
	int64_t deadline;
	struct task tasks[PLAN_MAX_STEPS];
	struct task undo;
	unsigned undo_next; /* steps below this one are still to be undone */
	struct err err; /* of the first step that failed */
	struct run_events events;
	void *arg;
	struct event *starter;
	int64_t timeout_ms;
};

static void task_request(struct task *t);
static void task_probe(struct task *t);
static void task_follow(struct task *t);
static void task_ended(struct task *t);

static int64_t left_ms(const struct run *r)
{
	int64_t left = r->deadline - clock_ms();

	return left > 1 ? left : 1;
}

static bool is_probed(const struct task *t)
{
	return t->step->probe != NULL && t != &t->run->undo;
}

static void set_state(struct task *t, enum task_state s)
{
	t->state = s;
}

static void settle(struct task *t)
{
	set_state(t, TASK_SETTLED);
	task_ended(t);
}

static void give_up(struct task *t, const struct err *err)
{
	t->err = *err;
	err_wrap(&t->err, "%s", step_name(t->step->id));
	set_state(t, TASK_FAILED);
	task_ended(t);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct task *t = arg;

	if (is_probed(t))
		task_probe(t);
	else
		task_request(t);
}

/* Tries the request again after a while; fails with err when there is no time for that. */
static void pause_and_retry(struct task *t, const struct err *err)
{
	struct run *r = t->run;
	int64_t wait = t->retry_ms > 0 ? t->retry_ms : RETRY_FIRST_MS;

	if (clock_ms() + wait >= r->deadline) {
		give_up(t, err);
		return;
	}
	t->retry_ms = wait * 2 < RETRY_MAX_MS ? wait * 2 : RETRY_MAX_MS;
	set_state(t, TASK_PAUSE);
	if (t->timer == NULL)
		t->timer = evtimer_new(engine_base(r->engine), on_pause_over, t);
	struct timeval tv = { wait / 1000, (wait % 1000) * 1000 };
	if (t->timer == NULL || event_add(t->timer, &tv) != 0)
		give_up(t, err);
}

static void on_pull_progress(const char *image, const struct json_node *progress, void *arg)
{
	struct task *t = arg;

	if (t->run->events.pull != NULL)
		t->run->events.pull(image, progress, t->run->arg);
}

static void on_pulled(const struct err *err, void *arg)
{
	struct task *t = arg;

	if (err != NULL)
		give_up(t, err);
	else
		task_request(t);
}

static void start_pull(struct task *t)
{
	t->pulled = true;
	set_state(t, TASK_PULL);
	pull_start(t->run->engine, t->step->image, left_ms(t->run), on_pull_progress, on_pulled, t);
}

/* Absence was seen. Where a lost request may still arrive it has to last. */
static void absent(struct task *t)
{
	struct err err = ERR_INIT;

	if (clock_ms() >= t->settle_until) {
		settle(t);
		return;
	}
	err_set(&err, EINPROGRESS, "an earlier request may still take effect");
	t->retry_ms = 200;
	pause_and_retry(t, &err);
}

static void on_follow(const struct engine_reply *reply, void *arg)
{
	struct task *t = arg;
	struct err err = ERR_INIT;

	t->call = NULL;
	if (reply->status == 404) {
		absent(t);
		return;
	}
	if (reply->status == 0 && !t->retry_unavailable) {
		give_up(t, &reply->err);
		return;
	}
	if (reply->status == 0)
		err = reply->err;
	else
		err_set(&err, EEXIST, "still there: %s", t->gone);
	pause_and_retry(t, &err);
}

static void task_follow(struct task *t)
{
	set_state(t, TASK_FOLLOW);
	t->call = engine_call(t->run->engine, "GET", t->gone, NULL, left_ms(t->run), on_follow, t);
}

/*
 * An older engine can be made to hold two networks of one name, by two creates at the same moment. No request by name
 * succeeds then; the label finds them, and their ids tell them apart. Of a sandbox's network none is to stay; of the one that
 * all share the oldest is, which others may have joined before there was a second.
 */
#define NETWORKS "/networks"
#define LIST_NETWORKS NETWORKS "?filters=%7B%22label%22%3A%5B%22" LABEL_SANDBOX "%3D1%22%5D%7D"
#define CHOICES_MAX \
	12 /* of a network that is to stay: rivals need a moment, and what is nobody's to remove stays ambiguous */

static void on_one_removed(const struct engine_reply *reply, void *arg)
{
	struct task *t = arg;
	struct err err = ERR_INIT;

	t->call = NULL;
	err_set(&err, EEXIST, "several networks have this name: %s", is_probed(t) ? t->step->probe : t->path);
	if (is_probed(t) && t->choices++ >= CHOICES_MAX)
		give_up(t, &err);
	else
		pause_and_retry(t, &err);
}

/* The engine's time stamps lack the last zeros of their fractions. */
static int compare_stamps(struct slice a, struct slice b)
{
	for (size_t i = 0;; i++) {
		int x = i < a.len && a.p[i] != 'Z' ? a.p[i] : 0;
		int y = i < b.len && b.p[i] != 'Z' ? b.p[i] : 0;

		if (x != y || x == 0)
			return x - y;
	}
}

/* By the time of their making; all controllers come to the same order. */
static bool is_younger(const struct json_node *a, const struct json_node *b)
{
	struct slice x = SLICE_LIT(""), y = SLICE_LIT("");

	json_get_string(a, "Created", &x);
	json_get_string(b, "Created", &y);
	int order = compare_stamps(x, y);
	if (order == 0 && json_get_string(a, "Id", &x) && json_get_string(b, "Id", &y))
		order = compare_stamps(x, y);
	return order > 0;
}

static bool is_called(const struct json_node *network, struct slice name)
{
	struct slice text;

	return json_get_string(network, "Name", &text) && slice_eq(text, name) && json_get_string(network, "Id", &text);
}

/* The next one in turn, from the youngest: one that is in use is passed over that way. */
static bool choose(struct task *t, const struct json_node *networks, struct slice *id)
{
	struct slice wanted = slice_str((is_probed(t) ? t->step->probe : t->path) + sizeof(NETWORKS));
	unsigned n = 0;

	for (const struct json_node *o = networks->child; o != NULL; o = o->next)
		n += is_called(o, wanted);
	if (n < (is_probed(t) ? 2 : 1))
		return false;
	t->chosen %= n;
	for (const struct json_node *o = networks->child; o != NULL; o = o->next) {
		unsigned younger = 0;

		if (!is_called(o, wanted))
			continue;
		for (const struct json_node *other = networks->child; other != NULL; other = other->next)
			younger += is_called(other, wanted) && is_younger(other, o);
		if (younger == t->chosen)
			json_get_string(o, "Id", id);
	}
	t->chosen++;
	return true;
}

static void on_networks(const struct engine_reply *reply, void *arg)
{
	struct task *t = arg;
	struct slice id = { NULL, 0 };

	t->call = NULL;
	if (reply->status != 200 || reply->json == NULL || reply->json->type != JSON_ARRAY) {
		struct err err = reply->err;

		if (reply->status == 200)
			err_set(&err, EPROTO, "the engine's list of networks is none");
		give_up(t, &err);
		return;
	}
	if (!choose(t, reply->json, &id) || id.len == 0) {
		on_one_removed(reply, t); /* somebody else removed them meanwhile */
		return;
	}
	auto_free char *path = mem_printf(NETWORKS "/%.*s", SLICE_ARG(id));
	t->call = engine_call(t->run->engine, "DELETE", path, NULL, left_ms(t->run), on_one_removed, t);
}

static void remove_by_id(struct task *t)
{
	set_state(t, TASK_CHOOSE);
	t->call = engine_call(t->run->engine, "GET", LIST_NETWORKS, NULL, left_ms(t->run), on_networks, t);
}

static bool is_2xx(int status)
{
	return status >= 200 && status < 300;
}

/* Is this status what the step wanted? Statuses of removals are judged by what follows. */
static bool settles(const struct task *t, int status)
{
	switch (t->expect) {
	case EXPECT_CREATED:
		return is_2xx(status);
	case EXPECT_ENSURED:
		return is_2xx(status) || status == 409;
	case EXPECT_STARTED:
		return is_2xx(status) || status == 304;
	case EXPECT_STOPPED:
		return is_2xx(status) || status == 304 || (status == 404 && t->step->may_lack);
	case EXPECT_UNPAUSED:
		return is_2xx(status) || status == 409 || status == 500;
	case EXPECT_ATTACHED:
		return is_2xx(status) || status == 403 || status == 409;
	case EXPECT_DETACHED:
		return is_2xx(status) || status == 403 || status == 404 || status == 500;
	case EXPECT_REMOVED:
		return false;
	}
	return false;
}

static void on_request(const struct engine_reply *reply, void *arg)
{
	struct task *t = arg;
	struct err err = reply->err;

	t->call = NULL;
	if (reply->status == 0) {
		t->unknown = reply->maybe_done;
		t->taken = t->taken && reply->maybe_done;
		if (t->retry_unavailable && kind_of(err.code) == KIND_UNAVAILABLE)
			pause_and_retry(t, &err);
		else
			give_up(t, &err);
		return;
	}
	t->unknown = false;
	if (settles(t, reply->status)) {
		if (is_probed(t) && t->choices++ < CHOICES_MAX)
			task_probe(t); /* whether it is the only one */
		else
			settle(t);
		return;
	}
	if (t->expect == EXPECT_REMOVED) {
		if (reply->status == 404)
			absent(t);
		else if (is_2xx(reply->status) || reply->status == 403 || reply->status == 409 || reply->status == 500)
			task_follow(t); /* 403 and 409: in use, or another removal is under way */
		else if (engine_says_ambiguous(reply) && strncmp(t->path, NETWORKS "/", sizeof(NETWORKS)) == 0)
			remove_by_id(t);
		else
			give_up(t, &err);
		return;
	}
	t->taken = false;
	if (reply->status == 404 && t->step->image != NULL && !t->pulled) {
		start_pull(t);
		return;
	}
	if (engine_says_ambiguous(reply)) {
		err.code = EEXIST; /* another controller makes a sandbox of this name at this moment */
		/* Of the shared network whoever made the second removes it. */
		if (t->step->id == STEP_CONNECT_EGRESS && t->choices++ < CHOICES_MAX) {
			pause_and_retry(t, &err);
			return;
		}
	}
	if (reply->status == 404 && (t->expect == EXPECT_STARTED || t->expect == EXPECT_ATTACHED))
		err.code = EEXIST; /* or takes away what was there a step ago */
	if (reply->status == 404 && t->expect == EXPECT_STOPPED)
		err_set(&err, ENXIO, "there is no such sandbox");
	give_up(t, &err);
}

static void task_request(struct task *t)
{
	const char *body = t == &t->run->undo ? NULL : t->step->body;

	set_state(t, TASK_REQUEST);
	t->taken = true;
	t->call = engine_call(t->run->engine, t->method, t->path, body, left_ms(t->run), on_request, t);
}

static void on_probe(const struct engine_reply *reply, void *arg)
{
	struct task *t = arg;

	t->call = NULL;
	if (reply->status == 200)
		settle(t);
	else if (reply->status == 404)
		task_request(t);
	else if (engine_says_ambiguous(reply))
		remove_by_id(t);
	else
		give_up(t, &reply->err);
}

static void task_probe(struct task *t)
{
	set_state(t, TASK_PROBE);
	t->call = engine_call(t->run->engine, "GET", t->step->probe, NULL, left_ms(t->run), on_probe, t);
}

static void task_start(struct task *t)
{
	t->err = (struct err)ERR_INIT;
	if (is_probed(t))
		task_probe(t);
	else
		task_request(t);
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static void run_free(struct run *r)
{
	for (unsigned i = 0; i < PLAN_MAX_STEPS; i++)
		if (r->tasks[i].timer != NULL)
			event_free(r->tasks[i].timer);
	if (r->undo.timer != NULL)
		event_free(r->undo.timer);
	event_free(r->starter);
	plan_release(&r->plan);
	free(r);
}

static void run_over(struct run *r)
{
	r->phase = RUN_OVER;
	r->events.done(r->err.text[0] != '\0' ? &r->err : NULL, r->arg);
	run_free(r);
}

static void undo_next(struct run *r)
{
	while (r->undo_next > 0) {
		const struct task *done = &r->tasks[--r->undo_next];
		struct task *t = &r->undo;

		if (!done->taken || done->step->undo == NULL)
			continue;
		struct event *timer = t->timer;
		*t = (struct task){
			.run = r,
			.step = done->step,
			.expect = EXPECT_REMOVED,
			.method = "DELETE",
			.path = done->step->undo,
			.gone = done->step->undo_gone,
			.timer = timer,
			.retry_unavailable = true,
			.settle_until = done->unknown ? clock_ms() + SETTLE_MS : 0,
		};
		task_start(t);
		return;
	}
	run_over(r);
}

static void start_stage(struct run *r)
{
	unsigned n = 0;

	for (; r->stage <= PLAN_MAX_STEPS && n == 0; r->stage++)
		for (unsigned i = 0; i < r->plan.nsteps; i++)
			n += r->plan.steps[i].stage == r->stage;
	if (n == 0) {
		run_over(r);
		return;
	}
	unsigned stage = --r->stage;
	/* Callbacks come from the loop, so the stage cannot end while its tasks are being started. */
	for (unsigned i = 0; i < r->plan.nsteps; i++)
		if (r->plan.steps[i].stage == stage)
			task_start(&r->tasks[i]);
}

/* Has anything of the plan been done? */
static bool begun(const struct run *r)
{
	for (unsigned i = 0; i < r->plan.nsteps; i++)
		if (r->tasks[i].state == TASK_SETTLED || r->tasks[i].taken)
			return true;
	return false;
}

static void stage_ended(struct run *r)
{
	for (unsigned i = 0; i < r->plan.nsteps; i++) {
		struct task *t = &r->tasks[i];

		if (t->step->stage == r->stage && t->state == TASK_FAILED && r->err.text[0] == '\0')
			r->err = t->err;
	}
	/* Given up in its middle: nobody has looked at what there is now. */
	if (r->err.code == ECANCELED && begun(r))
		r->err.code = EINPROGRESS;
	if (r->err.text[0] == '\0') {
		r->stage++;
		start_stage(r);
		return;
	}
	if ((r->flags & RUN_UNDO) == 0) {
		run_over(r);
		return;
	}
	log_info("%s failed, taking back what was done: %s", r->plan.name, r->err.text);
	r->phase = RUN_UNDOING;
	r->deadline = clock_ms() + (r->timeout_ms < UNDO_MS ? r->timeout_ms + SETTLE_MS : UNDO_MS);
	r->undo_next = r->plan.nsteps;
	undo_next(r);
}

static void task_ended(struct task *t)
{
	struct run *r = t->run;

	if (r->phase == RUN_UNDOING) {
		if (t->state == TASK_FAILED) {
			struct err first = r->err;
			err_set(&r->err, first.code, "%s; and what it had made could not be removed (%s): run reconcile",
				first.text, t->err.text);
		}
		undo_next(r);
		return;
	}
	for (unsigned i = 0; i < r->plan.nsteps; i++) {
		const struct task *other = &r->tasks[i];
		if (other->step->stage == r->stage && other->state != TASK_SETTLED && other->state != TASK_FAILED)
			return;
	}
	stage_ended(r);
}

static void on_start(evutil_socket_t fd, short what, void *arg)
{
	start_stage(arg);
}

struct run *run_plan(struct engine *e, struct plan *plan, unsigned flags, int64_t timeout_ms,
	const struct run_events *events, void *arg)
{
	struct run *r = mem_zalloc(sizeof(*r));

	r->engine = e;
	r->plan = *plan;
	*plan = (struct plan){ .name = plan->name };
	r->flags = flags;
	r->timeout_ms = timeout_ms;
	r->deadline = clock_ms() + timeout_ms;
	r->events = *events;
	r->arg = arg;
	for (unsigned i = 0; i < r->plan.nsteps; i++) {
		const struct step *s = &r->plan.steps[i];
		r->tasks[i] = (struct task){
			.run = r,
			.step = s,
			.expect = s->expect,
			.method = s->method,
			.path = s->path,
			.gone = s->gone,
			.retry_unavailable = s->expect == EXPECT_REMOVED && (flags & RUN_UNDO) == 0,
		};
	}
	r->starter = evtimer_new(engine_base(e), on_start, r);
	if (r->starter == NULL)
		abort();
	struct timeval now = { 0, 0 };
	event_add(r->starter, &now);
	return r;
}
