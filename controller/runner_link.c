/* The engine's side of a runner: exec, stream, and what the engine says when there is doubt. */
#include "controller/runner_link.h"

#include <errno.h>
#include <stdio.h>

#include "controller/engine_exec.h"
#include "controller/engine_exec_parse.h"
#include "controller/hijack.h"
#include "controller/mem.h"
#include "controller/runner.h"

#define REQUEST_MS 60000

struct runner_link {
	struct runner *runner;
	struct engine *engine;
	char *container;
	char *exec_id;
	struct engine_call *call; /* of the start, or of a question */
	struct hijack *hijack;
	time_t made; /* when, by the engine's clock, it had made the exec; 0: not told */
	struct err reason; /* what the runner's absence looked like */
	void (*recover)(void *arg);
	void *arg;
};

static void no_stream(struct runner_link *l, int code, const char *text)
{
	struct err err = ERR_INIT;

	err_set(&err, code, "%s", text);
	runner_no_stream(l->runner, &err);
}

/* The engine's 404, or dockerproxy's for an exec whose container is gone. */
static bool absent(const struct engine_reply *reply)
{
	return reply->status == 404 || reply->err.code == ENOENT;
}

/* As an errno value: EBUSY asks the owner to start the container, ENXIO says that there is none. */
static int code_of(int status, int code)
{
	return status == 404 ? ENXIO : status == 409 ? EBUSY : code != 0 ? code : EPROTO;
}

static void on_hijacked(const struct hijack_result *result, void *arg)
{
	struct runner_link *l = arg;

	l->hijack = NULL;
	if (result->fd >= 0)
		runner_attach(l->runner, result->fd, result->early);
	else if (result->status == 404) /* the exec, which ended with its container after it was made */
		no_stream(l, EBUSY, result->err.text);
	else
		no_stream(l, code_of(result->status, result->err.code), result->err.text);
}

static void on_created(const struct engine_reply *reply, void *arg)
{
	struct runner_link *l = arg;
	struct slice id;

	l->call = NULL;
	if (reply->status != 201) {
		no_stream(l, code_of(reply->status, reply->err.code), reply->err.text);
		return;
	}
	if (!json_get_string(reply->json, "Id", &id) || id.len == 0) {
		no_stream(l, EPROTO, "the engine's answer to exec has no Id");
		return;
	}
	free(l->exec_id);
	l->exec_id = mem_dup(id);
	l->made = reply->date;
	l->hijack = hijack_exec(l->engine, l->exec_id, false, REQUEST_MS, on_hijacked, l);
}

static void want_stream(void *arg)
{
	struct runner_link *l = arg;
	struct json_object *o = jnew();

	jset_bool(o, "AttachStdin", true);
	jset_bool(o, "AttachStdout", true);
	jset_bool(o, "AttachStderr", true);
	jset_bool(o, "Tty", false);
	jset_cstr(o, "User", SANDBOX_USER);
	struct json_object *argv = jarr(o, "Cmd");
	jadd_cstr(argv, RUNNER_PATH);
	jadd_cstr(argv, RUNNER_OUTCOMES);
	auto_free char *body = jtext(o);
	auto_free char *path = mem_printf("/containers/%s/exec", l->container);
	/* What was asked about the stream before is not to be taken for an answer about this one. */
	if (l->call != NULL)
		engine_cancel(l->call);
	l->call = engine_call(l->engine, "POST", path, body, REQUEST_MS, on_created, l);
}

static struct engine_call *inspect(struct runner_link *l, engine_cb cb)
{
	auto_free char *path = mem_printf("/containers/%s/json", l->container);

	return engine_call(l->engine, "GET", path, NULL, REQUEST_MS, cb, l);
}

/* The engine reports a container that has stopped meanwhile as output, too: only its own word tells. */
static void on_container(const struct engine_reply *reply, void *arg)
{
	struct runner_link *l = arg;
	const struct json_node *state = json_get(reply->json, "State");
	bool running = false, paused = false;

	l->call = NULL;
	json_get_bool(state, "Running", &running);
	json_get_bool(state, "Paused", &paused);
	if (reply->status == 404)
		no_stream(l, ENXIO, reply->err.text);
	else if (reply->status == 200 && (!running || paused))
		no_stream(l, EBUSY, "the sandbox does not run");
	else if (start_failure_code(l->reason.text) == EBUSY)
		no_stream(l, EBUSY, l->reason.text); /* the engine does not know yet what its runtime knows */
	else
		runner_no_stream(l->runner, &l->reason);
}

static void no_runner(const struct err *err, void *arg)
{
	struct runner_link *l = arg;

	l->reason = *err;
	if (l->call != NULL)
		engine_cancel(l->call);
	l->call = inspect(l, on_container);
}

/* Was the container started after the exec was made, which then is not of that start? */
static bool restarted(const struct runner_link *l, const struct engine_reply *reply)
{
	struct slice at;

	return json_get_string(json_get(reply->json, "State"), "StartedAt", &at) && started_since(at, l->made, reply->date);
}

/*
 * The exec is there and silent: a paused container answers nothing. One that was killed does neither, and an engine may hold
 * its exec for running all the same.
 */
static void on_silent(const struct engine_reply *reply, void *arg)
{
	struct runner_link *l = arg;
	const struct json_node *state = json_get(reply->json, "State");
	bool paused = false, running = true;

	l->call = NULL;
	json_get_bool(state, "Paused", &paused);
	json_get_bool(state, "Running", &running);
	if (absent(reply) || (reply->status == 200 && !running))
		runner_detach(l->runner, "the sandbox was stopped");
	else if (reply->status == 200 && restarted(l, reply))
		runner_detach(l->runner, "the sandbox was restarted");
	else if (reply->status == 200 && paused)
		l->recover(l->arg);
}

static void on_exec(const struct engine_reply *reply, void *arg)
{
	struct runner_link *l = arg;
	bool running = true;

	l->call = NULL;
	if (reply->status == 200)
		json_get_bool(reply->json, "Running", &running);
	if (absent(reply) || !running)
		runner_detach(l->runner, "the sandbox was stopped or its runner has ended");
	else if (reply->status == 200)
		l->call = inspect(l, on_silent);
}

static void suspect(void *arg)
{
	struct runner_link *l = arg;

	if (l->call != NULL || l->exec_id == NULL)
		return;
	auto_free char *path = mem_printf("/exec/%s/json", l->exec_id);
	l->call = engine_call(l->engine, "GET", path, NULL, REQUEST_MS, on_exec, l);
}

static void freed(void *arg)
{
	struct runner_link *l = arg;

	if (l->call != NULL)
		engine_cancel(l->call);
	if (l->hijack != NULL)
		hijack_cancel(l->hijack);
	free(l->exec_id);
	free(l->container);
	free(l);
}

struct exec_backend *runner_link_new(struct engine *e, struct channel_set *channels, const char *container,
	void (*recover)(void *arg), void *arg)
{
	struct runner_link *l = mem_zalloc(sizeof(*l));
	struct runner_owner owner = { want_stream, no_runner, suspect, freed, l };

	l->engine = e;
	l->container = mem_strdup(container);
	l->recover = recover;
	l->arg = arg;
	l->runner = runner_new(channels, &owner);
	return runner_backend(l->runner);
}
