/* exec: a command's course, from the call to its end. */
#include "controller/method_exec_impl.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "controller/clock.h"
#include "controller/method.h"

static void on_running(const struct err *err, void *arg);

/* --- the end ----------------------------------------------------------------------------------------------------- */

static void command_free(struct command *c)
{
	if (c->ensure != NULL)
		ensure_cancel(c->ensure);
	if (c->timer != NULL)
		event_free(c->timer);
	method_exec_leave_restart(c);
	for (unsigned i = 0; i < c->request.nenv; i++)
		free(c->env_text[i]);
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		buf_release(&c->streams[i].captured);
	buf_release(&c->later);
	free(c->input);
	TAILQ_REMOVE(&c->sandbox->commands, c, link);
	sandbox_put(c->sandbox);
	free(c);
}

void method_exec_mark(struct sandbox *s, const struct slice *tags, unsigned ntags)
{
	struct command *c;

	TAILQ_FOREACH (c, &s->commands, link) {
		bool meant = ntags == 0;

		for (unsigned i = 0; i < ntags && !meant; i++)
			meant = c->request.tag.p != NULL && slice_eq(c->request.tag, tags[i]);
		c->marked = c->marked || meant;
	}
}

void method_exec_fail(struct command *c, int code, const char *text, struct json_object *data)
{
	struct call *call = c->call;
	struct err err = ERR_INIT;

	err_set(&err, code, "%s", text);
	command_free(c);
	call->cancel = NULL;
	call_error(call, &err, data);
}

static void on_done(const struct exec_outcome *o, void *arg)
{
	struct command *c = arg;
	struct call *call = c->call;
	bool ours = c->timed_out || c->aborted || c->restarted;

	c->op = NULL;
	if (o->end == EXEC_START_FAILED && o->code == EBUSY && ensure_worthwhile(&c->refusals) && !ours) {
		event_del(c->timer); /* its time begins when it is started */
		c->ensure = ensure_running(c->sandbox, &c->refusals, on_running, c);
		return;
	}
	/* It has ended: a client that is found gone while that is told has nothing to cancel here. */
	call->cancel = NULL;
	if (!method_exec_await_restart(c, o))
		method_exec_over(c, o);
}

/* The rest of its output comes before its end; nothing that happens meanwhile changes that. */
static void wait_for_room(struct command *c, const struct exec_outcome *o)
{
	event_del(c->timer);
	c->ended = true;
	c->end = *o;
	snprintf(c->end_text, sizeof(c->end_text), "%s", o->text);
	c->end.text = c->end_text;
}

void method_exec_over(struct command *c, const struct exec_outcome *o)
{
	struct call *call = c->call;
	bool ours = c->timed_out || c->aborted || c->restarted;
	struct exec_outcome as_shell = *o;

	if (call_congested(call) && method_exec_keeps_output(c)) {
		wait_for_room(c, o);
		return;
	}
	call->drained = NULL;
	if (o->end == EXEC_START_FAILED && method_exec_shell_status(c, &as_shell))
		o = &as_shell;
	if (o->end == EXEC_START_FAILED && !(o->code == ECANCELED && ours)) {
		method_exec_fail(c, o->code, o->text, NULL);
		return;
	}
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		method_exec_flush(c, i);
	struct json_object *result = method_exec_result(c, o);
	/* An abort whose kill nobody has answered is no proof; after its limit of time the sandbox itself ends a command. */
	if (o->end == EXEC_LOST && !c->timed_out && !c->restarted) {
		jset_cstr(result, "state", "unknown");
		jset_cstr(result, "execId", c->id); /* by which reconcile tells what became of it */
		method_exec_fail(c, EINPROGRESS, o->text, result);
		return;
	}
	command_free(c);
	call_result(call, result);
}

/* --- starting ---------------------------------------------------------------------------------------------------- */

static void on_started(void *arg)
{
	struct command *c = arg;

	if (c->request.tty && c->request.rows > 0 && c->request.cols > 0)
		c->backend->ops->resize(c->op, c->request.rows, c->request.cols);
}

static const struct exec_events op_events = { on_started, method_exec_on_output, method_exec_on_room, on_done };

static void start_op(struct command *c)
{
	struct err err = ERR_INIT;

	c->backend = sandbox_backend(c->sandbox, c->as_root);
	if (c->request.timeout_ms > c->sandbox->max_command_ms || c->request.timeout_ms == 0)
		c->request.timeout_ms = c->sandbox->max_command_ms;
	c->input_sent = 0;
	c->op = c->backend->ops->start(c->backend, &c->request, &op_events, c, &err);
	if (c->op == NULL) {
		method_exec_fail(c, err.code, err.text, NULL);
		return;
	}
	method_exec_arm(c, c->request.timeout_ms, method_exec_on_timeout);
}

static void on_running(const struct err *err, void *arg)
{
	struct command *c = arg;

	c->ensure = NULL;
	if (err != NULL)
		method_exec_fail(c, err->code, err->text, NULL);
	else
		start_op(c);
}

static void name_command(struct command *c)
{
	static uint64_t count;

	/* Unique in the sandbox across controllers: time, process, number. */
	snprintf(c->id, sizeof(c->id), "%llx-%x-%llx", (unsigned long long)clock_us(), (unsigned)getpid(),
		(unsigned long long)++count);
	c->request.id = slice_str(c->id);
}

static void start_exec(struct call *call)
{
	struct slice name;
	struct err err = ERR_INIT;

	if (call_sandbox_name(call, "id", &name) != 0)
		return;
	struct command *c = mem_zalloc(sizeof(*c));
	c->call = call;
	c->sandbox = sandbox_get(call->controller, name);
	TAILQ_INSERT_TAIL(&c->sandbox->commands, c, link);
	c->began_ms = clock_ms();
	buf_init(&c->later, 1 << 20);
	if (method_exec_read(c, call->params, &err) != 0) {
		method_exec_fail(c, err.code, err.text, NULL);
		return;
	}
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		buf_init(&c->streams[i].captured, (size_t)c->request.max_output);
	name_command(c);
	call->state = c;
	call->cancel = method_exec_abort;
	call->drained = method_exec_on_drained;
	call->input = method_exec_take_input;
	call->resize = method_exec_take_size;
	c->ensure = ensure_known(c->sandbox, on_running, c);
}

const struct method method_exec = {
	.name = "exec",
	.start = start_exec,
	.help = "Runs a command as the sandbox user. It ends at its time-out, when cancelled, or by itself.",
	.result = "{\"type\":\"object\",\"required\":[\"exitCode\",\"signal\",\"stdout\",\"stderr\",\"encoding\","
		"\"stdoutTruncated\",\"stderrTruncated\",\"timedOut\",\"aborted\",\"oomKilled\",\"durationMs\"],\"properties\":{"
		"\"exitCode\":{\"type\":[\"integer\",\"null\"]},\"signal\":{\"type\":[\"string\",\"null\"]},"
		"\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},\"encoding\":{\"enum\":[\"utf8\",\"base64\"]},"
		"\"stdoutTruncated\":{\"type\":\"boolean\"},\"stderrTruncated\":{\"type\":\"boolean\"},"
		"\"timedOut\":{\"type\":\"boolean\"},\"aborted\":{\"type\":\"boolean\"},\"oomKilled\":{\"type\":\"boolean\"},"
		"\"durationMs\":{\"type\":\"integer\"},\"survivors\":{\"type\":\"integer\"},"
		"\"sandboxRestarted\":{\"type\":\"boolean\"}}}",
	.params = {
		{ "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" },
		{ "command", PARAM_STRING, 0, "a bash line; or argv" },
		{ "argv", PARAM_ARGV, 0, "a program and its arguments" },
		{ "cwd", PARAM_PATH, 0, "an absolute directory; /workspace without it" },
		{ "env", PARAM_ENV, 0, "added to the sandbox's environment" },
		{ "stdin", PARAM_STRING_OR_NULL, 0,
			"all of the input; null or, without stream and tty, nothing: the command reads from /dev/null" },
		{ "stdinEncoding", PARAM_ENCODING, 0, "of stdin" },
		{ "openStdin", PARAM_BOOLEAN, 0, "input goes on by execInput; the default with stream or tty and no stdin" },
		{ "timeoutMs", PARAM_POSITIVE, 0, "at most the sandbox's maxCommandSeconds, which holds without it" },
		{ "tag", PARAM_TAG, 0, "for killTagged" },
		{ "user", PARAM_USER, 0, "sandbox, or root (without any capability)" },
		{ "maxOutputBytes", PARAM_INTEGER, 0, "per stream; 1 MiB without it and 64 MiB at most; with stream no limit" },
		{ "stream", PARAM_BOOLEAN, 0, "output by exec/output notifications; stdout and stderr of the result are empty" },
		{ "tty", PARAM_BOOLEAN, 0, "a terminal; all output is stdout" },
		{ "rows", PARAM_INTEGER, 0, "of the terminal; 24 without it" },
		{ "cols", PARAM_INTEGER, 0, "of the terminal; 80 without it" },
	},
};
