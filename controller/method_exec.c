/* exec. */
#include "controller/method.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "controller/clock.h"
#include "controller/ensure.h"
#include "controller/lifecycle.h"
#include "controller/name.h"
#include "controller/text.h"
#include "libgate/buf.h"
#include "libgate/log.h"

#define OUTPUT_DEFAULT ((int64_t)1 << 20) /* per stream */
#define OUTPUT_MAX ((int64_t)64 << 20)
#define ARGV_MAX 1024
#define ENV_MAX 256
/*
 * After a kill without effect the sandbox is restarted, which ends every other command too: not before the engine, which
 * starts about nine execs a second and queues them, can have run the exec that kills behind a hundred others.
 */
#define KILL_MS 20000

static void on_output(enum exec_stream stream, struct slice data, void *arg);

static const char *const stream_names[EXEC_STREAMS] = { "stdout", "stderr" };

struct stream {
	struct buf captured;
	char partial[4]; /* of a character, streamed with the next chunk */
	size_t npartial;
};

struct command {
	TAILQ_ENTRY(command) link; /* the sandbox's */
	struct call *call;
	struct sandbox *sandbox;
	struct ensure *ensure;
	struct exec_op *op;
	struct exec_backend *backend;
	struct event *timer;
	/* the request */
	struct slice argv[ARGV_MAX];
	struct slice env[ENV_MAX];
	char *env_text[ENV_MAX];
	struct exec_request request;
	char id[48];
	bool as_root;
	bool stream;
	bool keep_input; /* open for execInput */
	char *input; /* bytes to send first */
	size_t ninput, input_sent;
	/* its course */
	bool recovered; /* was started again once already */
	bool timed_out, aborted, killing, restarted;
	bool overrun; /* more output came than was asked for */
	bool marked; /* a kill by tag or of all was meant for it */
	bool input_closed;
	struct buf later; /* execInput before there was room */
	struct stream streams[EXEC_STREAMS];
	size_t unconsumed;
	uint64_t seq;
	int64_t began_ms;
};

static void start_op(struct command *c);
static void feed(struct command *c);

/* --- the end ----------------------------------------------------------------------------------------------------- */

static void command_free(struct command *c)
{
	if (c->ensure != NULL)
		ensure_cancel(c->ensure);
	if (c->timer != NULL)
		event_free(c->timer);
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

static void fail(struct command *c, int code, const char *text, struct json_object *data)
{
	struct call *call = c->call;
	struct err err = ERR_INIT;

	err_set(&err, code, "%s", text);
	command_free(c);
	call->cancel = NULL;
	call_error(call, &err, data);
}

/* A stream as it is told: whole characters when it was cut. */
static struct slice captured(struct stream *s, bool truncated)
{
	struct slice text = buf_slice(&s->captured);

	if (truncated)
		text.len -= text_partial(text);
	return text;
}

static struct json_object *outcome_json(struct command *c, const struct exec_outcome *o)
{
	struct json_object *r = jnew();
	bool cut[EXEC_STREAMS], encoded = false;
	struct slice text[EXEC_STREAMS];
	bool ours = c->timed_out || c->aborted || c->restarted;
	int number = o->end == EXEC_SIGNALED ? o->signal : o->end == EXEC_LOST && ours ? SIGKILL : 0;

	for (unsigned i = 0; i < EXEC_STREAMS; i++) {
		cut[i] = o->bytes[i] > c->request.max_output;
		text[i] = captured(&c->streams[i], cut[i]);
		encoded = encoded || !text_is_utf8(text[i]);
	}
	if (o->end == EXEC_EXITED && o->exit_code >= 0)
		jset_int(r, "exitCode", o->exit_code);
	else
		jset_cstr(r, "exitCode", NULL);
	if (number > 0 && sigabbrev_np(number) != NULL) {
		auto_free char *name = mem_printf("SIG%s", sigabbrev_np(number));
		jset_cstr(r, "signal", name);
	} else if (number > 0) {
		auto_free char *name = mem_printf("SIG%d", number);
		jset_cstr(r, "signal", name);
	} else {
		jset_cstr(r, "signal", NULL);
	}
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		text_set(r, stream_names[i], text[i], encoded);
	jset_cstr(r, "encoding", encoded ? "base64" : "utf8");
	jset_bool(r, "stdoutTruncated", cut[EXEC_STDOUT]);
	jset_bool(r, "stderrTruncated", cut[EXEC_STDERR]);
	jset_bool(r, "timedOut", c->timed_out || o->timed_out);
	jset_bool(r, "aborted",
		!c->timed_out && !o->timed_out && (c->aborted || o->killed || (c->marked && number == SIGKILL)));
	jset_bool(r, "oomKilled", o->oom == EXEC_YES);
	jset_int(r, "durationMs", o->duration_us >= 0 ? o->duration_us / 1000 : clock_ms() - c->began_ms);
	if (o->survivors > 0)
		jset_int(r, "survivors", o->survivors);
	if (c->restarted)
		jset_bool(r, "sandboxRestarted", true);
	return r;
}

/* A program that is not there, or is none, is the command's own fault: it ends as it would under a shell or env. */
static bool shell_status(struct command *c, struct exec_outcome *o)
{
	bool missing = o->code == ENOENT || o->code == ENOTDIR;
	bool none = o->code == EACCES || o->code == ENOEXEC || o->code == EISDIR || o->code == ELIBBAD;

	if (c->request.line.p != NULL || (!missing && !none) || strstr(o->text, "program") == NULL)
		return false;
	auto_free char *text = mem_printf("%.*s: %s\n", SLICE_ARG(c->argv[0]), strerror(o->code));
	on_output(EXEC_STDERR, slice_str(text), c);
	o->bytes[EXEC_STDERR] = strlen(text);
	o->end = EXEC_EXITED;
	o->exit_code = missing ? 127 : 126;
	return true;
}

static void on_running(const struct err *err, void *arg);

static void flush_partial(struct command *c, unsigned stream);

static void on_done(const struct exec_outcome *o, void *arg)
{
	struct command *c = arg;
	struct call *call = c->call;
	bool ours = c->timed_out || c->aborted || c->restarted;

	c->op = NULL;
	if (o->end == EXEC_START_FAILED && o->code == EBUSY && !c->recovered && !ours) {
		c->recovered = true;
		c->ensure = ensure_running(c->sandbox, on_running, c);
		return;
	}
	struct exec_outcome as_shell = *o;
	if (o->end == EXEC_START_FAILED && shell_status(c, &as_shell))
		o = &as_shell;
	if (o->end == EXEC_START_FAILED && !(o->code == ECANCELED && ours)) {
		fail(c, o->code, o->text, NULL);
		return;
	}
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		flush_partial(c, i);
	struct json_object *result = outcome_json(c, o);
	if (o->end == EXEC_LOST && !ours) {
		jset_cstr(result, "state", "unknown");
		jset_cstr(result, "execId", c->id); /* by which reconcile tells what became of it */
		fail(c, EINPROGRESS, o->text, result);
		return;
	}
	command_free(c);
	call->cancel = NULL;
	call_result(call, result);
}

/* --- output ------------------------------------------------------------------------------------------------------ */

static void notify_output(struct command *c, unsigned stream, struct slice data)
{
	struct json_object *o = jnew();
	bool encoded = !text_is_utf8(data);

	jset(o, "requestId", json_object_get(c->call->id));
	jset_cstr(o, "stream", stream_names[stream]);
	text_set(o, "data", data, encoded);
	jset_cstr(o, "encoding", encoded ? "base64" : "utf8");
	jset_int(o, "seq", (int64_t)c->seq++);
	call_notify(c->call, "exec/output", o);
}

static void flush_partial(struct command *c, unsigned stream)
{
	struct stream *s = &c->streams[stream];

	if (s->npartial > 0 && c->stream)
		notify_output(c, stream, slice_make(s->partial, s->npartial));
	s->npartial = 0;
}

/* A character that the chunk's end splits goes with the next chunk. */
static void stream_output(struct command *c, unsigned stream, struct slice data)
{
	struct stream *s = &c->streams[stream];
	auto_free char *joined = NULL;

	if (s->npartial > 0) {
		joined = mem_zalloc(s->npartial + data.len);
		memcpy(joined, s->partial, s->npartial);
		memcpy(joined + s->npartial, data.p, data.len);
		data = slice_make(joined, s->npartial + data.len);
	}
	s->npartial = text_partial(data);
	data.len -= s->npartial;
	memcpy(s->partial, data.p + data.len, s->npartial);
	if (data.len > 0)
		notify_output(c, stream, data);
}

static bool congested(const struct command *c)
{
	return c->call->owner->congested != NULL && c->call->owner->congested(c->call);
}

static void on_output(enum exec_stream stream, struct slice data, void *arg)
{
	struct command *c = arg;

	if (c->call->owner->output != NULL)
		c->call->owner->output(c->call, stream, data);
	else if (c->stream)
		stream_output(c, stream, data);
	else if (buf_put_slice(&c->streams[stream].captured, data) != 0 && !c->overrun) {
		/* Once: the sandbox is not to fill the log. */
		c->overrun = true;
		log_warn("%s: output beyond its limit was dropped", c->sandbox->name);
	}
	c->unconsumed += data.len;
	if (c->op != NULL && !congested(c)) {
		c->backend->ops->consumed(c->op, c->unconsumed);
		c->unconsumed = 0;
	}
}

static void on_drained(struct call *call)
{
	struct command *c = call->state;

	if (c->op != NULL && c->unconsumed > 0) {
		size_t n = c->unconsumed;
		c->unconsumed = 0;
		c->backend->ops->consumed(c->op, n);
	}
}

/* --- input ------------------------------------------------------------------------------------------------------- */

static void feed(struct command *c)
{
	if (c->op == NULL || !c->request.want_stdin)
		return;
	while (c->input_sent < c->ninput) {
		size_t n = c->backend->ops->write(c->op, slice_make(c->input + c->input_sent, c->ninput - c->input_sent));
		if (n == 0)
			return;
		c->input_sent += n;
	}
	while (buf_len(&c->later) > 0) {
		size_t n = c->backend->ops->write(c->op, buf_slice(&c->later));
		if (n == 0)
			return;
		buf_consume(&c->later, n);
	}
	buf_trim(&c->later);
	if (!c->keep_input && !c->input_closed) {
		c->input_closed = true;
		c->backend->ops->close(c->op);
	}
}

static void on_room(size_t bytes, void *arg)
{
	struct command *c = arg;

	feed(c);
	if (c->call->room != NULL && c->op != NULL)
		c->call->room(c->call, bytes);
}

static int take_input(struct call *call, struct slice data, bool close, struct err *err)
{
	struct command *c = call->state;

	if (!c->request.want_stdin || !c->keep_input)
		return err_set(err, EINVAL, "the command was started without an open stdin, or it is closed already");
	if (buf_put_slice(&c->later, data) != 0)
		return err_set(err, E2BIG, "the command does not read: %zu bytes of input wait already", buf_len(&c->later));
	if (close)
		c->keep_input = false;
	feed(c);
	return 0;
}

static int take_size(struct call *call, uint16_t rows, uint16_t cols, struct err *err)
{
	struct command *c = call->state;

	if (!c->request.tty)
		return err_set(err, EINVAL, "the command has no terminal");
	c->request.rows = rows;
	c->request.cols = cols;
	if (c->op != NULL)
		c->backend->ops->resize(c->op, rows, cols);
	return 0;
}

static void on_started(void *arg)
{
	struct command *c = arg;

	if (c->request.tty && c->request.rows > 0 && c->request.cols > 0)
		c->backend->ops->resize(c->op, c->request.rows, c->request.cols);
}

/* --- killing ----------------------------------------------------------------------------------------------------- */

static void arm(struct command *c, int64_t ms, event_callback_fn fn)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	if (c->timer != NULL)
		event_free(c->timer);
	c->timer = evtimer_new(c->call->controller->base, fn, c);
	if (c->timer == NULL || event_add(c->timer, &tv) != 0)
		abort();
}

static void on_restarted(const struct err *err, void *arg)
{
	if (err != NULL)
		log_warn("restart of a sandbox whose commands could not be killed failed: %s", err->text);
}

/* Nothing that would kill the command could be started: the container has to go. */
static void on_kill_failed(evutil_socket_t fd, short what, void *arg)
{
	static const struct lifecycle_events events = { NULL, on_restarted };
	struct command *c = arg;

	if (c->restarted || c->op == NULL)
		return;
	c->restarted = true;
	log_warn("%s: a command could not be killed; restarting the sandbox", c->sandbox->name);
	lifecycle_restart(c->call->controller, slice_str(c->sandbox->name), &events, NULL);
}

static void kill_command(struct command *c)
{
	if (c->killing)
		return;
	c->killing = true;
	if (c->op == NULL)
		return;
	arm(c, KILL_MS, on_kill_failed);
	c->backend->ops->kill(c->op);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct command *c = arg;

	c->timed_out = true;
	kill_command(c);
}

static void abort_command(struct call *call)
{
	struct command *c = call->state;

	c->aborted = true;
	if (c->op == NULL) {
		/* Nothing runs yet, and nothing will. */
		fail(c, ECANCELED, "aborted before the command was started", NULL);
		return;
	}
	kill_command(c);
}

/* --- starting ---------------------------------------------------------------------------------------------------- */

static const struct exec_events op_events = { on_started, on_output, on_room, on_done };

static void start_op(struct command *c)
{
	struct err err = ERR_INIT;

	c->backend = sandbox_backend(c->sandbox, c->as_root);
	if (c->request.timeout_ms > c->sandbox->max_command_ms || c->request.timeout_ms == 0)
		c->request.timeout_ms = c->sandbox->max_command_ms;
	c->input_sent = 0;
	c->op = c->backend->ops->start(c->backend, &c->request, &op_events, c, &err);
	if (c->op == NULL) {
		fail(c, err.code, err.text, NULL);
		return;
	}
	arm(c, c->request.timeout_ms, on_timeout);
}

static void on_running(const struct err *err, void *arg)
{
	struct command *c = arg;

	c->ensure = NULL;
	if (err != NULL)
		fail(c, err->code, err->text, NULL);
	else
		start_op(c);
}

/* --- the request ------------------------------------------------------------------------------------------------- */

static int read_command(struct command *c, const struct json_node *p, struct err *err)
{
	const struct json_node *argv = json_get(p, "argv");
	bool line = json_get_string(p, "command", &c->request.line);

	if (line == (argv != NULL))
		return err_set(err, EINVAL, "exec: exactly one of command and argv is needed");
	if (argv == NULL)
		return 0;
	if (argv->count == 0 || argv->count > ARGV_MAX)
		return err_set(err, EINVAL, "exec: argv has 1 to %d strings", ARGV_MAX);
	for (const struct json_node *a = argv->child; a != NULL; a = a->next)
		c->argv[c->request.nargv++] = a->text;
	c->request.argv = c->argv;
	return 0;
}

static int read_env(struct command *c, const struct json_node *p, struct err *err)
{
	const struct json_node *env = json_get(p, "env");

	for (const struct json_node *m = env != NULL ? env->child : NULL; m != NULL; m = m->next) {
		if (c->request.nenv == ENV_MAX)
			return err_set(err, E2BIG, "exec: env has at most %d variables", ENV_MAX);
		if (m->key.len == 0 || memchr(m->key.p, '=', m->key.len) != NULL)
			return err_set(err, EINVAL, "exec: a variable's name is not empty and holds no =");
		unsigned i = c->request.nenv++;
		c->env_text[i] = mem_printf("%.*s=%.*s", SLICE_ARG(m->key), SLICE_ARG(m->text));
		c->env[i] = slice_make(c->env_text[i], m->key.len + 1 + m->text.len);
		if (strlen(c->env_text[i]) != c->env[i].len)
			return err_set(err, EINVAL, "exec: a variable holds no NUL");
	}
	c->request.env = c->env;
	return 0;
}

static int read_input(struct command *c, const struct json_node *p, struct err *err)
{
	const struct json_node *input = json_get(p, "stdin");
	struct slice encoding = { NULL, 0 };
	bool open;

	json_get_string(p, "stdinEncoding", &encoding);
	c->keep_input = input == NULL && (c->stream || c->request.tty);
	if (json_get_bool(p, "openStdin", &open))
		c->keep_input = open;
	if (input != NULL && input->type == JSON_STRING) {
		c->input = text_bytes(input->text, encoding, &c->ninput);
		if (c->input == NULL)
			return err_set(err, EINVAL, "exec: stdin is not base64");
	}
	c->request.want_stdin = c->keep_input || c->ninput > 0;
	return 0;
}

static int read_user(struct command *c, const struct json_node *p, struct err *err)
{
	struct slice user;

	if (!json_get_string(p, "user", &user) || slice_is(user, "sandbox") || slice_is(user, "1000") ||
		slice_is(user, "1000:1000"))
		return 0;
	if (!slice_is(user, "root") && !slice_is(user, "0") && !slice_is(user, "0:0"))
		return err_set(err, EINVAL, "exec: user is sandbox or root (which has no capability)");
	c->as_root = true;
	return 0;
}

static int read_request(struct command *c, const struct json_node *p, struct err *err)
{
	struct slice tag, cwd;
	int64_t n;

	if (read_command(c, p, err) != 0 || read_env(c, p, err) != 0)
		return -1;
	json_get_bool(p, "stream", &c->stream);
	json_get_bool(p, "tty", &c->request.tty);
	if (read_input(c, p, err) != 0 || read_user(c, p, err) != 0)
		return -1;
	if (json_get_string(p, "tag", &tag)) {
		if (name_check_tag(tag, err) != 0)
			return err_wrap(err, "exec");
		c->request.tag = tag;
	}
	if (json_get_string(p, "cwd", &cwd)) {
		if (name_check_path(cwd, err) != 0)
			return err_wrap(err, "exec: cwd");
		c->request.cwd = cwd;
	}
	c->request.max_output = c->stream ? UINT64_MAX : (uint64_t)OUTPUT_DEFAULT;
	if (json_get_int(p, "maxOutputBytes", &n)) {
		if (n > OUTPUT_MAX && !c->stream)
			return err_set(err, EINVAL, "exec: maxOutputBytes is at most %lld; stream takes more",
				(long long)OUTPUT_MAX);
		c->request.max_output = (uint64_t)n;
	}
	if (json_get_int(p, "timeoutMs", &n)) {
		if (n < 1)
			return err_set(err, EINVAL, "exec: timeoutMs is at least 1");
		c->request.timeout_ms = n;
	}
	if (json_get_int(p, "rows", &n))
		c->request.rows = n <= 10000 ? (uint16_t)n : 10000;
	if (json_get_int(p, "cols", &n))
		c->request.cols = n <= 10000 ? (uint16_t)n : 10000;
	return 0;
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
	if (read_request(c, call->params, &err) != 0) {
		fail(c, err.code, err.text, NULL);
		return;
	}
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		buf_init(&c->streams[i].captured, (size_t)c->request.max_output);
	name_command(c);
	call->state = c;
	call->cancel = abort_command;
	call->drained = on_drained;
	call->input = take_input;
	call->resize = take_size;
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
		{ "argv", PARAM_STRINGS, 0, "a program and its arguments" },
		{ "cwd", PARAM_STRING, 0, "an absolute directory; /workspace without it" },
		{ "env", PARAM_STRING_MAP, 0, "added to the sandbox's environment" },
		{ "stdin", PARAM_STRING_OR_NULL, 0,
			"all of the input; null or, without stream and tty, nothing: the command reads from /dev/null" },
		{ "stdinEncoding", PARAM_ENCODING, 0, "of stdin" },
		{ "openStdin", PARAM_BOOLEAN, 0, "input goes on by execInput; the default with stream or tty and no stdin" },
		{ "timeoutMs", PARAM_INTEGER, 0, "at most the sandbox's maxCommandSeconds, which holds without it" },
		{ "tag", PARAM_TAG, 0, "for killTagged" },
		{ "user", PARAM_STRING, 0, "sandbox, or root (without any capability)" },
		{ "maxOutputBytes", PARAM_INTEGER, 0, "per stream; 1 MiB without it, no limit with stream" },
		{ "stream", PARAM_BOOLEAN, 0, "output by exec/output notifications; stdout and stderr of the result are empty" },
		{ "tty", PARAM_BOOLEAN, 0, "a terminal; all output is stdout" },
		{ "rows", PARAM_INTEGER, 0, "of the terminal" },
		{ "cols", PARAM_INTEGER, 0, "of the terminal" },
	},
};
