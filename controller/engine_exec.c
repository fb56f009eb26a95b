/* Runs scripts by engine execs and reads from their streams what happened. */
#include "controller/engine_exec.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <time.h>

#include "controller/clock.h"
#include "controller/demux.h"
#include "controller/engine_exec_parse.h"
#include "controller/hijack.h"
#include "controller/mark.h"
#include "controller/mem.h"
#include "controller/script.h"
#include "libgate/buf.h"

#define REQUEST_MS 120000 /* an exec's create or start: dockerd queues them per container */
#define INPUT_MAX ((size_t)1 << 20) /* input that waits for the sandbox to take it */
#define FRAME_MAX ((size_t)1 << 18) /* input bytes under one "D" */
#define WINDOW ((uint64_t)1 << 20) /* output that the owner has not consumed yet */
#define EARLY_MAX ((size_t)256 * 1024) /* stdout before the script said that it began */
#define NOTES_MAX ((size_t)64 * 1024) /* a file script's stderr */
#define ARGUMENTS_MAX ((size_t)28 * 1024) /* of the exec's JSON; the policy ends at 32 KiB */
#define WATCH_SECONDS 3
#define KILL_GRACE_MS 1500 /* for a kill over the command's own line, before one by another exec */
#define SETTLE_MS 1000 /* the engine reports an exec's end before its container's, though one kill ended both */
#define BACKSTOP_MS 5000 /* the sandbox ends the command that much later than we would */

enum op_kind { OP_COMMAND, OP_TTY, OP_FILE, OP_KILL };

enum op_state {
	OP_CREATING, /* the exec */
	OP_STARTING, /* its stream */
	OP_OPEN,
	OP_ASKING, /* the engine for an exit code */
	OP_OVER,
};

struct exec_op {
	TAILQ_ENTRY(exec_op) link;
	struct engine_backend *backend;
	enum op_kind kind;
	enum op_state state;
	struct engine_call *call;
	struct hijack *hijack;
	struct channel *channel;
	struct event *timer; /* kill grace; time-out of a file operation */
	char exec_id[65];
	struct mark out_mark, err_mark;
	bool started; /* the script's first word was seen */
	bool out_ended, err_ended;
	bool in_last_line; /* of stderr: the words after the second mark */
	struct buf early; /* stdout before started */
	struct buf notes; /* the last line; a file script's whole stderr */
	int64_t started_us;
	/* commands */
	struct exec_events events;
	uint64_t max_output;
	uint64_t bytes[EXEC_STREAMS];
	uint64_t held; /* delivered and not consumed */
	bool input, input_closed;
	bool want_kill, kill_sent, killed;
	char *own_mark; /* "tag/id" */
	time_t began; /* wall clock, to compare with the container's start */
	int leader_code; /* of a script that was killed itself */
	bool watched; /* it was there when the container was last looked at */
	bool settled; /* the container was looked at again since */
	/* files */
	struct file_events file_events;
	struct file_request file;
	struct file_info info;
	bool have_info;
	uint64_t delivered, entries;
	bool truncated;
	struct buf entry; /* a listing's unfinished entry */
	/* kills */
	kill_cb kill_done;
	void *arg;
};

TAILQ_HEAD(op_list, exec_op);

struct engine_backend {
	struct exec_backend base;
	struct engine *engine;
	struct channel_set *channels;
	char *container;
	char *user;
	struct op_list ops;
	struct event *watch; /* looks after the container while commands run */
	struct engine_call *watch_call;
	char started_at[40]; /* of the container, when it was last looked at */
};

static struct engine_backend *backend_of(struct exec_backend *b)
{
	return container_of(b, struct engine_backend, base);
}

static void op_open(struct exec_op *op, int fd, struct slice early);
static void arm(struct exec_op *op, int64_t ms, event_callback_fn fn);
static void send_kill(struct exec_op *op);

/* --- endings ----------------------------------------------------------------------------------------------------- */

static void op_free(struct exec_op *op)
{
	TAILQ_REMOVE(&op->backend->ops, op, link);
	if (op->call != NULL)
		engine_cancel(op->call);
	if (op->hijack != NULL)
		hijack_cancel(op->hijack);
	if (op->channel != NULL)
		channel_end(op->channel);
	if (op->timer != NULL)
		event_free(op->timer);
	buf_release(&op->early);
	buf_release(&op->notes);
	buf_release(&op->entry);
	free(op->own_mark);
	free((char *)op->file.path.p);
	free(op);
}

/* The only way out for a command. */
static void command_over(struct exec_op *op, struct exec_outcome *o)
{
	struct exec_events events = op->events;
	void *arg = op->arg;

	op->state = OP_OVER;
	memcpy(o->bytes, op->bytes, sizeof(o->bytes));
	o->killed = o->killed || op->killed;
	if (o->text == NULL)
		o->text = "";
	op_free(op);
	events.done(o, arg);
}

static void file_over(struct exec_op *op, int code, const char *text, bool lost)
{
	struct file_events events = op->file_events;
	struct file_result r = { .code = code, .text = text, .lost = lost, .info = op->info, .truncated = op->truncated };
	void *arg = op->arg;
	struct buf entry = op->entry; /* a link's target borrows from it */

	buf_init(&op->entry, EARLY_MAX);
	op->state = OP_OVER;
	op_free(op);
	events.done(&r, arg);
	buf_release(&entry);
}

static void kill_over(struct exec_op *op, int code, const char *text, unsigned killed, unsigned survivors)
{
	struct kill_result r = { .code = code, .text = text, .killed = killed, .survivors = survivors };
	kill_cb cb = op->kill_done;
	void *arg = op->arg;

	op->state = OP_OVER;
	op_free(op);
	cb(&r, arg);
}

static void op_start_failed(struct exec_op *op, int code, const char *text)
{
	struct exec_outcome o = { .end = EXEC_START_FAILED,
		.exit_code = -1,
		.duration_us = -1,
		.code = code,
		.text = text };
	char copy[ERR_TEXT_MAX];

	snprintf(copy, sizeof(copy), "%s", text);
	o.text = copy;
	switch (op->kind) {
	case OP_COMMAND:
	case OP_TTY:
		command_over(op, &o);
		break;
	case OP_FILE:
		file_over(op, code, copy, false);
		break;
	case OP_KILL:
		kill_over(op, code, copy, 0, 0);
		break;
	}
}

static void op_lost(struct exec_op *op, const char *text)
{
	struct exec_outcome o = { .end = EXEC_LOST,
		.exit_code = -1,
		.oom = EXEC_UNKNOWN,
		.duration_us = -1,
		.code = EINPROGRESS,
		.text = text };

	switch (op->kind) {
	case OP_COMMAND:
	case OP_TTY:
		command_over(op, &o);
		break;
	case OP_FILE:
		file_over(op, EINPROGRESS, text, true);
		break;
	case OP_KILL:
		kill_over(op, EINPROGRESS, text, 0, 0);
		break;
	}
}

/* What the engine wrote into the stream in place of the script's first word. */
static void op_never_started(struct exec_op *op)
{
	char text[256];
	struct slice said = buf_len(&op->early) > 0 ? buf_slice(&op->early) : buf_slice(&op->notes);
	size_t n = 0;

	for (; n < said.len && n < sizeof(text) - 1; n++)
		text[n] = (unsigned char)said.p[n] < ' ' || (unsigned char)said.p[n] >= 0x7f ? ' ' : said.p[n];
	text[n] = '\0';
	while (n > 0 && text[n - 1] == ' ')
		text[--n] = '\0';
	op_start_failed(op, start_failure_code(text), n > 0 ? text : "the engine started no process");
}

static int64_t duration(const struct exec_op *op)
{
	return op->started_us > 0 ? clock_us() - op->started_us : -1;
}

/* --- the last line of a script ----------------------------------------------------------------------------------- */

static void command_ended(struct exec_op *op)
{
	struct exec_outcome o = { .exit_code = -1, .duration_us = duration(op) };
	auto_free char *line = mem_dup(buf_slice(&op->notes));
	char text[128];

	if (strncmp(line, "E cwd ", 6) == 0 || !exec_line_parse(line, &o)) {
		snprintf(text, sizeof(text), "%s",
			strncmp(line, "E cwd ", 6) == 0 ? "the working directory cannot be entered"
											: "the end of the command was not understood");
		op_start_failed(op, strncmp(line, "E cwd ", 6) == 0 ? EINVAL : EPROTO, text);
		return;
	}
	o.killed = op->kill_sent;
	o.timed_out = false;
	/* The script waits for this before it takes its relays away. */
	if (channel_write(op->channel, SLICE_LIT("A\n")) != 0)
		o.text = "";
	command_over(op, &o);
}

static void file_ended(struct exec_op *op)
{
	char text[128];
	int code = file_notes_parse(buf_slice(&op->notes), op->err_mark.nonce, &op->info, text, sizeof(text));

	if (code == 0 && op->file.kind == FILE_READ && op->have_info == false)
		op->have_info = true;
	/* find says what the link itself is when there is nothing behind it. */
	bool dangling = op->file.follow && op->info.type == FILE_TYPE_SYMLINK;
	if (op->file.kind == FILE_STAT && (code == ENOENT || code == ENOTDIR || dangling)) {
		op->info = (struct file_info){ .type = FILE_TYPE_NONE };
		code = 0;
	}
	file_over(op, code, code != 0 ? text : NULL, false);
}

static void kill_ended(struct exec_op *op)
{
	unsigned processes = 0, survivors = 0, commands = 0;
	struct slice line = after_last_mark(buf_slice(&op->notes), op->err_mark.nonce);
	auto_free char *text = mem_dup(line);

	if (!kill_line_parse(text, &processes, &survivors, &commands)) {
		op_lost(op, "the kill script's answer was cut off");
		return;
	}
	kill_over(op, 0, NULL, commands, survivors);
}

/* --- output ------------------------------------------------------------------------------------------------------ */

static void deliver(struct exec_op *op, enum exec_stream stream, struct slice data)
{
	uint64_t before = op->bytes[stream];

	op->bytes[stream] += data.len;
	if (before >= op->max_output)
		return;
	if (data.len > op->max_output - before)
		data.len = (size_t)(op->max_output - before);
	op->held += data.len;
	if (op->held > WINDOW)
		channel_pause(op->channel, true);
	op->events.output(stream, data, op->arg);
}

static bool command_complete(struct exec_op *op)
{
	return op->out_ended && op->err_ended;
}

static void command_stdout(struct exec_op *op, struct slice data)
{
	struct slice run;
	size_t used;

	if (!op->started) {
		if (buf_put_slice(&op->early, data) == 0)
			return;
		op->started = true; /* no engine's message is that long */
	}
	while (!op->out_ended) {
		enum mark_result r = mark_next(&op->out_mark, data.p, data.len, &used, &run);

		data = slice_skip(data, used);
		if (r == MARK_MORE)
			return;
		if (r == MARK_DATA)
			deliver(op, EXEC_STDOUT, run);
		else
			op->out_ended = true;
	}
}

static void command_started(struct exec_op *op)
{
	struct buf early = op->early;

	op->started = true;
	op->started_us = clock_us();
	buf_init(&op->early, EARLY_MAX);
	if (op->events.started != NULL)
		op->events.started(op->arg);
	if (buf_len(&early) > 0)
		command_stdout(op, buf_slice(&early));
	buf_release(&early);
}

static void command_stderr(struct exec_op *op, struct slice data)
{
	struct slice run;
	size_t used;

	while (!op->err_ended && data.len > 0) {
		if (op->in_last_line) {
			const char *end = memchr(data.p, '\n', data.len);
			size_t n = end != NULL ? (size_t)(end - data.p) : data.len;

			if (buf_put(&op->notes, data.p, n) != 0)
				buf_clear(&op->notes);
			op->err_ended = end != NULL;
			return;
		}
		enum mark_result r = mark_next(&op->err_mark, data.p, data.len, &used, &run);
		data = slice_skip(data, used);
		if (r == MARK_DATA && op->started)
			deliver(op, EXEC_STDERR, run);
		else if (r == MARK_DATA && buf_put_slice(&op->notes, run) != 0)
			buf_clear(&op->notes);
		else if (r == MARK_HIT && !op->started) {
			buf_clear(&op->notes);
			command_started(op);
		} else if (r == MARK_HIT)
			op->in_last_line = true;
	}
}

static void tty_output(struct exec_op *op, struct slice data)
{
	struct slice run;
	size_t used;

	if (op->in_last_line) {
		if (buf_put_slice(&op->notes, data) != 0)
			buf_clear(&op->notes);
		return;
	}
	while (data.len > 0) {
		enum mark_result r = mark_next(&op->out_mark, data.p, data.len, &used, &run);

		data = slice_skip(data, used);
		if (r == MARK_MORE)
			return;
		if (r == MARK_DATA && op->started)
			deliver(op, EXEC_STDOUT, run);
		else if (r == MARK_DATA && buf_put_slice(&op->early, run) != 0)
			buf_clear(&op->early);
		else if (r == MARK_HIT && !op->started) {
			op->started = true;
			op->started_us = clock_us();
			if (op->events.started != NULL)
				op->events.started(op->arg);
		} else if (r == MARK_HIT) {
			op->in_last_line = true;
			if (buf_put_slice(&op->notes, data) != 0)
				buf_clear(&op->notes);
			return;
		}
	}
}

static void list_output(struct exec_op *op, struct slice data)
{
	struct slice name;
	struct file_info info;
	size_t used;

	if (buf_put_slice(&op->entry, data) != 0)
		return;
	while ((used = list_entry_parse(buf_slice(&op->entry), &name, &info)) > 0) {
		if (op->file.limit > 0 && op->entries >= op->file.limit)
			op->truncated = true;
		else
			op->file_events.entry(name, &info, op->arg);
		op->entries++;
		buf_consume(&op->entry, used);
	}
}

static void file_stdout(struct exec_op *op, struct slice data)
{
	switch (op->file.kind) {
	case FILE_READ:
		if (op->file.limit > 0 && op->delivered + data.len > op->file.limit) {
			op->truncated = true;
			data.len = (size_t)(op->file.limit - op->delivered);
		}
		if (data.len == 0)
			return;
		op->delivered += data.len;
		op->held += data.len;
		if (op->held > WINDOW)
			channel_pause(op->channel, true);
		op->file_events.data(data, op->arg);
		break;
	case FILE_LIST:
		list_output(op, data);
		break;
	case FILE_STAT:
		if (buf_put_slice(&op->entry, data) == 0 && stat_entry_parse(buf_slice(&op->entry), &op->info))
			op->have_info = true;
		break;
	case FILE_WRITE:
	case FILE_REMOVE:
		break;
	}
}

static void on_data(unsigned stream, struct slice data, void *arg)
{
	struct exec_op *op = arg;

	switch (op->kind) {
	case OP_COMMAND:
		if (stream == DEMUX_STDOUT)
			command_stdout(op, data);
		else if (stream == DEMUX_STDERR)
			command_stderr(op, data);
		if (command_complete(op))
			command_ended(op);
		break;
	case OP_TTY:
		tty_output(op, data);
		break;
	case OP_FILE:
	case OP_KILL:
		if (stream == DEMUX_STDOUT && op->kind == OP_FILE && op->started)
			file_stdout(op, data);
		else if (stream == DEMUX_STDOUT && buf_put_slice(&op->early, data) != 0)
			buf_clear(&op->early);
		else if (stream == DEMUX_STDERR && buf_put_slice(&op->notes, data) != 0)
			buf_clear(&op->notes);
		if (!op->started && stream == DEMUX_STDERR &&
			after_last_mark(buf_slice(&op->notes), op->err_mark.nonce).p != NULL) {
			struct buf early = op->early;

			op->started = true;
			buf_init(&op->early, EARLY_MAX);
			if (op->kind == OP_FILE && buf_len(&early) > 0)
				file_stdout(op, buf_slice(&early));
			buf_release(&early);
		}
		break;
	}
}

/* --- the end of the stream --------------------------------------------------------------------------------------- */

static void ask_container(struct exec_op *op);

static void on_settled(evutil_socket_t fd, short what, void *arg)
{
	struct exec_op *op = arg;

	op->settled = true;
	ask_container(op);
}

/*
 * The script itself was killed, as by `kill -9 -1`: the engine knows by which signal, unless the whole sandbox stopped.
 */
static void on_leader_killed(const struct engine_reply *reply, void *arg)
{
	struct exec_op *op = arg;
	const struct json_node *state = json_get(reply->json, "State");
	struct exec_outcome o = { .end = EXEC_SIGNALED,
		.exit_code = op->leader_code,
		.signal = op->leader_code - 128,
		.oom = EXEC_UNKNOWN,
		.duration_us = duration(op) };
	struct slice status, started;

	op->call = NULL;
	if (reply->status != 200 || !json_get_string(state, "Status", &status) || !slice_is(status, "running") ||
		!json_get_string(state, "StartedAt", &started) || !started_before(started, op->began))
		op_lost(op, "the sandbox stopped while the command ran");
	else if (!op->settled)
		arm(op, SETTLE_MS, on_settled);
	else
		command_over(op, &o);
}

static void ask_container(struct exec_op *op)
{
	auto_free char *path = mem_printf("/containers/%s/json", op->backend->container);

	op->call = engine_call(op->backend->engine, "GET", path, NULL, REQUEST_MS, on_leader_killed, op);
}

static void on_exit_code(const struct engine_reply *reply, void *arg)
{
	struct exec_op *op = arg;
	int64_t code = -1, pid = 0;
	bool running = false;
	struct exec_outcome o = { .end = EXEC_EXITED, .exit_code = -1, .oom = EXEC_UNKNOWN, .duration_us = duration(op) };

	op->call = NULL;
	if (reply->status == 0 || reply->status >= 300) {
		op_lost(op, reply->status == 404 ? "the sandbox stopped while the command ran" : reply->err.text);
		return;
	}
	json_get_bool(reply->json, "Running", &running);
	json_get_int(reply->json, "Pid", &pid);
	bool known = json_get_int(reply->json, "ExitCode", &code) && !running;
	if (!op->started) {
		op_never_started(op);
		return;
	}
	if (op->kind == OP_TTY && op->in_last_line) {
		op_start_failed(op, EINVAL, "the working directory cannot be entered");
		return;
	}
	if (op->kind == OP_COMMAND && known && code > 128 && code <= 128 + 64) {
		op->leader_code = (int)code;
		ask_container(op);
		return;
	}
	if (op->kind != OP_TTY || !known) {
		op_lost(op, "the sandbox stopped, or the stream to it was cut, while the command ran");
		return;
	}
	o.exit_code = (int)code;
	command_over(op, &o);
}

static void ask_exit_code(struct exec_op *op)
{
	auto_free char *path = mem_printf("/exec/%s/json", op->exec_id);

	op->state = OP_ASKING;
	op->call = engine_call(op->backend->engine, "GET", path, NULL, REQUEST_MS, on_exit_code, op);
}

static void on_closed(bool complete, void *arg)
{
	struct exec_op *op = arg;
	struct slice rest;

	if (op->kind == OP_COMMAND && op->started) {
		rest = mark_rest(&op->out_mark);
		if (!op->out_ended && rest.len > 0)
			deliver(op, EXEC_STDOUT, rest);
		rest = mark_rest(&op->err_mark);
		if (!op->err_ended && !op->in_last_line && rest.len > 0)
			deliver(op, EXEC_STDERR, rest);
	}
	if (op->kind == OP_FILE && op->started && complete) {
		if (after_last_mark(buf_slice(&op->notes), op->err_mark.nonce).len > 2) {
			file_ended(op);
			return;
		}
	}
	if (op->kind == OP_KILL && op->started && complete) {
		kill_ended(op);
		return;
	}
	if ((op->kind == OP_FILE || op->kind == OP_KILL) && op->started) {
		op_lost(op, "the stream to the sandbox was cut");
		return;
	}
	ask_exit_code(op);
}

static void on_room(size_t bytes, void *arg)
{
	struct exec_op *op = arg;
	size_t free_bytes = bytes > 64 ? bytes - 64 : 0; /* the frame's own words */

	if (op->input_closed || free_bytes < INPUT_MAX / 2)
		return;
	if (op->kind == OP_FILE && op->file_events.room != NULL)
		op->file_events.room(free_bytes, op->arg);
	else if (op->kind != OP_FILE && op->input && op->events.room != NULL)
		op->events.room(free_bytes, op->arg);
}

/* --- starting ---------------------------------------------------------------------------------------------------- */

static void on_hijacked(const struct hijack_result *result, void *arg)
{
	struct exec_op *op = arg;
	char text[ERR_TEXT_MAX];

	op->hijack = NULL;
	if (result->fd >= 0) {
		op_open(op, result->fd, result->early);
		return;
	}
	snprintf(text, sizeof(text), "%s", result->err.text);
	if (result->status == 409)
		op_start_failed(op, EBUSY, text);
	else if (result->status == 404)
		op_start_failed(op, ENXIO, text);
	else if (result->maybe_started)
		op_lost(op, text);
	else
		op_start_failed(op, result->err.code, text);
}

static void on_created(const struct engine_reply *reply, void *arg)
{
	struct exec_op *op = arg;
	struct slice id;
	struct err err = reply->err;

	op->call = NULL;
	if (reply->status == 404)
		op_start_failed(op, ENXIO, err.text);
	else if (reply->status == 409)
		op_start_failed(op, EBUSY, err.text);
	else if (reply->status != 201)
		op_start_failed(op, err.code != 0 ? err.code : EPROTO, err.text); /* nothing runs before start */
	else if (op->want_kill)
		op_start_failed(op, ECANCELED, "ended before it was started");
	else if (!json_get_string(reply->json, "Id", &id) || id.len == 0 || id.len >= sizeof(op->exec_id))
		op_start_failed(op, EPROTO, "the engine's answer to exec has no Id");
	else {
		memcpy(op->exec_id, id.p, id.len);
		op->exec_id[id.len] = '\0';
		op->state = OP_STARTING;
		op->hijack =
			hijack_exec(op->backend->engine, op->exec_id, op->kind == OP_TTY, REQUEST_MS, on_hijacked, op, &err);
		if (op->hijack == NULL)
			op_start_failed(op, err.code, err.text);
	}
}

static void op_open(struct exec_op *op, int fd, struct slice early)
{
	static const struct channel_events events = { on_data, on_room, on_closed };

	op->state = OP_OPEN;
	op->channel = channel_new(op->backend->channels, fd, early, op->kind == OP_TTY, INPUT_MAX, &events, op);
	if (op->input_closed && channel_write(op->channel, SLICE_LIT("E\n")) != 0)
		op->input_closed = true;
	if (op->want_kill)
		send_kill(op);
	on_room(INPUT_MAX, op);
}

static struct exec_op *op_new(struct engine_backend *b, enum op_kind kind, void *arg)
{
	struct exec_op *op = mem_zalloc(sizeof(*op));
	uint8_t random[16];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort();
	op->backend = b;
	op->kind = kind;
	op->began = time(NULL);
	op->arg = arg;
	mark_init(&op->out_mark, random);
	mark_init(&op->err_mark, random);
	buf_init(&op->early, EARLY_MAX);
	buf_init(&op->notes, NOTES_MAX);
	buf_init(&op->entry, EARLY_MAX);
	TAILQ_INSERT_TAIL(&b->ops, op, link);
	return op;
}

/* Sends the exec's create. body is json-c's, put here. */
static int op_create(struct exec_op *op, struct json_object *argv, bool input, struct err *err)
{
	struct engine_backend *b = op->backend;
	struct json_object *o = jnew();

	jset_bool(o, "AttachStdin", input);
	jset_bool(o, "AttachStdout", true);
	jset_bool(o, "AttachStderr", true);
	jset_bool(o, "Tty", op->kind == OP_TTY);
	jset_cstr(o, "User", b->user);
	jset_cstr(o, "WorkingDir", "/");
	jset(o, "Cmd", argv);
	auto_free char *body = jtext(o);
	auto_free char *path = mem_printf("/containers/%s/exec", b->container);
	if (strlen(body) > ARGUMENTS_MAX)
		return err_set(err, E2BIG, "the command with its environment is longer than one exec request takes (%zu bytes)",
			ARGUMENTS_MAX);
	op->call = engine_call(b->engine, "POST", path, body, REQUEST_MS, on_created, op);
	return 0;
}

static void add_slice(struct json_object *array, struct slice s)
{
	struct json_object *text = json_object_new_string_len(s.len > 0 ? s.p : "", (int)s.len);

	if (text == NULL)
		abort();
	jadd(array, text);
}

static struct json_object *script_argv(enum script script, const char *name, int64_t timeout_ms)
{
	struct json_object *argv = json_object_new_array();

	if (argv == NULL)
		abort();
	if (timeout_ms > 0) {
		auto_free char *seconds = mem_printf("%lld", (long long)((timeout_ms + BACKSTOP_MS + 999) / 1000));
		jadd_cstr(argv, "timeout");
		jadd_cstr(argv, "-s");
		jadd_cstr(argv, "KILL");
		jadd_cstr(argv, seconds);
	}
	jadd_cstr(argv, "bash");
	jadd_cstr(argv, "-c");
	jadd_cstr(argv, script_text(script));
	jadd_cstr(argv, name);
	return argv;
}

static bool has_nul(struct slice s)
{
	return s.len > 0 && memchr(s.p, '\0', s.len) != NULL;
}

static int check_request(const struct exec_request *rq, struct err *err)
{
	bool nul = has_nul(rq->line) || has_nul(rq->cwd);

	for (unsigned i = 0; i < rq->nargv; i++)
		nul = nul || has_nul(rq->argv[i]);
	for (unsigned i = 0; i < rq->nenv; i++)
		nul = nul || has_nul(rq->env[i]);
	if (nul)
		return err_set(err, EINVAL, "a command, its environment and its directory hold no NUL");
	if (rq->line.p == NULL && rq->nargv == 0)
		return err_set(err, EINVAL, "there is no command");
	return 0;
}

/* --- the table --------------------------------------------------------------------------------------------------- */

static void watch_container(struct engine_backend *b);

static struct exec_op *backend_start(struct exec_backend *base, const struct exec_request *rq,
	const struct exec_events *ev, void *arg, struct err *err)
{
	struct engine_backend *b = backend_of(base);

	if (check_request(rq, err) != 0)
		return NULL;
	struct exec_op *op = op_new(b, rq->tty ? OP_TTY : OP_COMMAND, arg);
	struct slice tag = rq->tag.p != NULL ? rq->tag : SLICE_LIT("_");
	auto_free char *limit = mem_printf("%.3f", (double)(rq->timeout_ms + BACKSTOP_MS) / 1000);
	auto_free char *nenv = mem_printf("%u", rq->nenv);

	op->events = *ev;
	op->max_output = rq->max_output;
	op->input = rq->want_stdin;
	op->own_mark = mem_printf("%.*s/%.*s", SLICE_ARG(tag), SLICE_ARG(rq->id));
	struct json_object *argv =
		script_argv(rq->tty ? SCRIPT_TTY : SCRIPT_EXEC, rq->tty ? "capybara-tty" : "capybara-exec", 0);
	jadd_cstr(argv, op->out_mark.nonce);
	add_slice(argv, rq->id);
	add_slice(argv, tag);
	jadd_cstr(argv, limit);
	add_slice(argv, rq->cwd.p != NULL ? rq->cwd : SLICE_LIT("/workspace"));
	if (!rq->tty)
		jadd_cstr(argv, rq->want_stdin ? "1" : "0");
	jadd_cstr(argv, nenv);
	for (unsigned i = 0; i < rq->nenv; i++)
		add_slice(argv, rq->env[i]);
	if (rq->line.p != NULL) {
		jadd_cstr(argv, "bash");
		jadd_cstr(argv, "-c");
		add_slice(argv, rq->line);
	}
	for (unsigned i = 0; rq->line.p == NULL && i < rq->nargv; i++)
		add_slice(argv, rq->argv[i]);
	/* The line to the script is its stdin, also when the command has none. */
	if (op_create(op, argv, rq->tty ? rq->want_stdin : true, err) != 0) {
		op_free(op);
		return NULL;
	}
	watch_container(b);
	return op;
}

static void on_file_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct exec_op *op = arg;
	bool change = op->file.kind == FILE_WRITE || op->file.kind == FILE_REMOVE;

	if (change && op->state > OP_CREATING)
		op_lost(op, "no answer in time");
	else
		file_over(op, ETIMEDOUT, "no answer in time", false);
}

static void arm(struct exec_op *op, int64_t ms, event_callback_fn fn)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	if (op->timer != NULL)
		event_free(op->timer);
	op->timer = evtimer_new(engine_base(op->backend->engine), fn, op);
	if (op->timer == NULL || event_add(op->timer, &tv) != 0)
		abort();
}

/* Bytes outside ASCII as \0ooo: a path need not be UTF-8, and the request has to be. */
static char *script_path(struct slice path)
{
	char *out = mem_zalloc(path.len * 5 + 1);
	size_t n = 0;

	for (size_t i = 0; i < path.len; i++) {
		unsigned char c = (unsigned char)path.p[i];

		if (c < 0x80 && c != '\\')
			out[n++] = (char)c;
		else
			n += (size_t)snprintf(out + n, 6, "\\0%03o", c);
	}
	return out;
}

static struct json_object *file_argv(const struct exec_op *op, const struct file_request *rq)
{
	static const struct {
		enum script script;
		const char *name;
	} scripts[] = {
		[FILE_STAT] = { SCRIPT_STAT, "capybara-stat" },
		[FILE_READ] = { SCRIPT_READ, "capybara-read" },
		[FILE_WRITE] = { SCRIPT_WRITE, "capybara-write" },
		[FILE_LIST] = { SCRIPT_LIST, "capybara-list" },
		[FILE_REMOVE] = { SCRIPT_REMOVE, "capybara-remove" },
	};
	struct json_object *argv = script_argv(scripts[rq->kind].script, scripts[rq->kind].name, rq->timeout_ms);
	char number[32];

	auto_free char *path = script_path(rq->path);

	jadd_cstr(argv, op->err_mark.nonce);
	jadd_cstr(argv, path);
	switch (rq->kind) {
	case FILE_STAT:
		jadd_cstr(argv, rq->follow ? "1" : "0");
		break;
	case FILE_READ:
		snprintf(number, sizeof(number), "%llu", (unsigned long long)rq->offset);
		jadd_cstr(argv, number);
		/* One byte more than asked for tells whether there is more. */
		snprintf(number, sizeof(number), "%llu", (unsigned long long)(rq->limit > 0 ? rq->limit + 1 : 0));
		jadd_cstr(argv, number);
		break;
	case FILE_WRITE:
		snprintf(number, sizeof(number), "%.24s", op->err_mark.nonce);
		jadd_cstr(argv, number);
		if (rq->mode >= 0)
			snprintf(number, sizeof(number), "%o", (unsigned)rq->mode);
		jadd_cstr(argv, rq->mode >= 0 ? number : "");
		jadd_cstr(argv, rq->append ? "1" : "0");
		jadd_cstr(argv, rq->exclusive ? "1" : "0");
		jadd_cstr(argv, rq->make_parents ? "1" : "0");
		break;
	case FILE_LIST:
		snprintf(number, sizeof(number), "%llu", (unsigned long long)(rq->limit > 0 ? rq->limit + 1 : 1000000));
		jadd_cstr(argv, number);
		break;
	case FILE_REMOVE:
		jadd_cstr(argv, rq->recursive ? "1" : "0");
		break;
	}
	return argv;
}

static struct exec_op *backend_file(struct exec_backend *base, const struct file_request *rq,
	const struct file_events *ev, void *arg, struct err *err)
{
	struct engine_backend *b = backend_of(base);

	if (rq->nroots > 0) {
		err_set(err, EOPNOTSUPP, "confinement to directories needs the runner in the image");
		return NULL;
	}
	if (has_nul(rq->path)) {
		err_set(err, EINVAL, "a path holds no NUL");
		return NULL;
	}
	struct exec_op *op = op_new(b, OP_FILE, arg);
	op->file_events = *ev;
	op->file = *rq;
	op->file.path = slice_make(mem_dup(rq->path), rq->path.len);
	if (op_create(op, file_argv(op, rq), rq->kind == FILE_WRITE, err) != 0) {
		op_free(op);
		return NULL;
	}
	arm(op, rq->timeout_ms, on_file_timeout);
	return op;
}

/* Commands of ours that a kill was meant for; they learn it before the kill is sent. */
static bool meant(const struct exec_op *op, const struct slice *tags, unsigned ntags)
{
	if (op->own_mark == NULL)
		return false;
	struct slice mark = slice_str(op->own_mark);
	const char *slash = strchr(op->own_mark, '/');

	for (unsigned i = 0; i < ntags; i++)
		if (slice_eq(tags[i], mark) || slice_eq(tags[i], slice_make(op->own_mark, (size_t)(slash - op->own_mark))))
			return true;
	return ntags == 0;
}

static int backend_kill_tagged(struct exec_backend *base, const struct slice *tags, unsigned ntags, kill_cb cb,
	void *arg, struct err *err)
{
	struct engine_backend *b = backend_of(base);
	struct exec_op *op = op_new(b, OP_KILL, arg), *other;
	struct json_object *argv = script_argv(SCRIPT_KILL, "capybara-kill", 20000);

	op->kill_done = cb;
	jadd_cstr(argv, op->err_mark.nonce);
	for (unsigned i = 0; i < ntags; i++)
		add_slice(argv, tags[i]);
	if (op_create(op, argv, false, err) != 0) {
		op_free(op);
		return -1;
	}
	TAILQ_FOREACH (other, &b->ops, link)
		if (meant(other, tags, ntags))
			other->killed = true;
	return 0;
}

static size_t backend_write(struct exec_op *op, struct slice data)
{
	size_t taken = 0;

	if (op->channel == NULL || op->input_closed)
		return 0;
	if (op->kind == OP_TTY) {
		size_t n = channel_room(op->channel) < data.len ? channel_room(op->channel) : data.len;
		return channel_write(op->channel, slice_make(data.p, n)) == 0 ? n : 0;
	}
	while (taken < data.len && channel_room(op->channel) > 64) {
		size_t n = data.len - taken;
		char head[32];

		if (n > FRAME_MAX)
			n = FRAME_MAX;
		if (n > channel_room(op->channel) - 64)
			n = channel_room(op->channel) - 64;
		int len = snprintf(head, sizeof(head), "D %zu\n", n);
		if (channel_write(op->channel, slice_make(head, (size_t)len)) != 0 ||
			channel_write(op->channel, slice_make(data.p + taken, n)) != 0)
			break;
		taken += n;
	}
	return taken;
}

static void backend_close(struct exec_op *op)
{
	if (op->input_closed)
		return;
	op->input_closed = true;
	/* A terminal has no half-close: its end of file is a character. Others get theirs when the channel opens. */
	if (op->channel != NULL &&
		channel_write(op->channel, op->kind == OP_TTY ? SLICE_LIT("\004") : SLICE_LIT("E\n")) != 0)
		channel_end(STEAL(op->channel));
}

static void backend_consumed(struct exec_op *op, size_t bytes)
{
	op->held -= bytes < op->held ? bytes : op->held;
	if (op->held <= WINDOW / 2 && op->channel != NULL)
		channel_pause(op->channel, false);
}

static void on_resized(const struct engine_reply *reply, void *arg)
{
	/* A terminal that has just ended has no size; nothing depends on it. */
}

static void backend_resize(struct exec_op *op, uint16_t rows, uint16_t cols)
{
	if (op->kind != OP_TTY || op->state != OP_OPEN)
		return;
	auto_free char *path = mem_printf("/exec/%s/resize?h=%u&w=%u", op->exec_id, rows, cols);
	engine_call(op->backend->engine, "POST", path, NULL, REQUEST_MS, on_resized, NULL);
}

static void on_second_kill(const struct kill_result *result, void *arg)
{
	/* The command's own end says whether it worked; its owner restarts the sandbox when there is none. */
}

static void on_kill_grace(evutil_socket_t fd, short what, void *arg)
{
	struct exec_op *op = arg;
	struct slice mark = slice_str(op->own_mark);
	struct err err = ERR_INIT;

	if (backend_kill_tagged(&op->backend->base, &mark, 1, on_second_kill, NULL, &err) != 0)
		op_lost(op, "the command was to be killed, and the engine cannot be reached");
}

static void send_kill(struct exec_op *op)
{
	op->kill_sent = true;
	/* Over the command's own line no process has to start; a terminal has no such line. */
	if (op->kind == OP_COMMAND && channel_write(op->channel, SLICE_LIT("K\n")) == 0)
		arm(op, KILL_GRACE_MS, on_kill_grace);
	else
		arm(op, 1, on_kill_grace);
}

static void on_file_killed(evutil_socket_t fd, short what, void *arg)
{
	file_over(arg, ECANCELED, "ended on request", false);
}

static void backend_kill(struct exec_op *op)
{
	if (op->kind == OP_FILE) {
		arm(op, 1, on_file_killed);
		return;
	}
	op->want_kill = true;
	if (op->state == OP_OPEN && !op->kill_sent)
		send_kill(op);
}

/* --- the container under the commands ---------------------------------------------------------------------------- */

/* A stream does not always end with its container (gVisor): whoever runs in one that stopped is told. */
static void end_commands(struct engine_backend *b, bool only_watched, const char *text)
{
	struct exec_op *op, *next;

	TAILQ_FOREACH_SAFE (op, &b->ops, link, next)
		if ((op->kind == OP_COMMAND || op->kind == OP_TTY) && op->state == OP_OPEN && (op->watched || !only_watched))
			op_lost(op, text);
}

static void on_watched(const struct engine_reply *reply, void *arg)
{
	struct engine_backend *b = arg;
	const struct json_node *state = json_get(reply->json, "State");
	struct slice status = { NULL, 0 }, started = { NULL, 0 };
	char before[sizeof(b->started_at)];
	struct exec_op *op;

	b->watch_call = NULL;
	memcpy(before, b->started_at, sizeof(before));
	if (reply->status == 404) {
		end_commands(b, false, "the sandbox was removed while the command ran");
		return;
	}
	if (reply->status == 200 && json_get_string(state, "Status", &status) &&
		json_get_string(state, "StartedAt", &started)) {
		if (started.len < sizeof(b->started_at)) {
			memcpy(b->started_at, started.p, started.len);
			b->started_at[started.len] = '\0';
		}
		if (slice_is(status, "exited") || slice_is(status, "dead"))
			end_commands(b, false, "the sandbox stopped while the command ran");
		else if (before[0] != '\0' && strcmp(before, b->started_at) != 0)
			/* A command that was not there at the last look may have begun after the restart. */
			end_commands(b, true, "the sandbox was restarted while the command ran");
	}
	TAILQ_FOREACH (op, &b->ops, link)
		op->watched = true;
	watch_container(b);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
	struct engine_backend *b = arg;
	auto_free char *path = mem_printf("/containers/%s/json", b->container);

	if (b->watch_call == NULL && !TAILQ_EMPTY(&b->ops))
		b->watch_call = engine_call(b->engine, "GET", path, NULL, REQUEST_MS, on_watched, b);
	else
		b->started_at[0] = '\0';
}

static void watch_container(struct engine_backend *b)
{
	struct timeval tv = { WATCH_SECONDS, 0 };

	if (b->watch_call == NULL && !event_pending(b->watch, EV_TIMEOUT, NULL))
		event_add(b->watch, &tv);
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static void backend_free(struct exec_backend *base)
{
	struct engine_backend *b = backend_of(base);

	while (!TAILQ_EMPTY(&b->ops))
		op_lost(TAILQ_FIRST(&b->ops), "the controller ended while the command ran");
	if (b->watch_call != NULL)
		engine_cancel(b->watch_call);
	event_free(b->watch);
	free(b->container);
	free(b->user);
	free(b);
}

bool engine_exec_idle(const struct exec_backend *b)
{
	return TAILQ_EMPTY(&container_of(b, struct engine_backend, base)->ops);
}

struct exec_backend *engine_exec_new(struct engine *e, struct channel_set *channels, const char *container,
	const char *user)
{
	static const struct exec_backend_ops ops = {
		.start = backend_start,
		.file = backend_file,
		.kill_tagged = backend_kill_tagged,
		.write = backend_write,
		.close = backend_close,
		.consumed = backend_consumed,
		.resize = backend_resize,
		.kill = backend_kill,
		.free = backend_free,
	};
	struct engine_backend *b = mem_zalloc(sizeof(*b));

	b->base.ops = &ops;
	b->engine = e;
	b->channels = channels;
	b->container = mem_strdup(container);
	b->user = mem_strdup(user);
	TAILQ_INIT(&b->ops);
	b->watch = evtimer_new(engine_base(e), on_watch, b);
	if (b->watch == NULL)
		abort();
	return &b->base;
}
