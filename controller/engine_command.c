/* Commands and terminals by an engine exec: their words, their output between the marks, and how they ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/clock.h"
#include "controller/demux.h"
#include "controller/engine_exec_parse.h"
#include "controller/engine_op.h"

#define INSIDE_MAX ((size_t)3072) /* words in the exec request; JSON may write each byte as six */
#define WORD_MAX ((size_t)131071) /* the kernel's MAX_ARG_STRLEN without the NUL */
#define WORDS_MAX ((size_t)1 << 20)
#define KILL_GRACE_MS 1500 /* for a kill over the command's own line, before one by another exec */
#define SETTLE_MS 1000 /* the engine reports an exec's end before its container's, though one kill ended both */

/* --- endings ----------------------------------------------------------------------------------------------------- */

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

static void command_start_failed(struct exec_op *op, int code, const char *text)
{
	char copy[ERR_TEXT_MAX];
	struct exec_outcome o = {
		.end = EXEC_START_FAILED,
		.exit_code = -1,
		.duration_us = -1,
		.code = code,
		.text = copy,
	};

	snprintf(copy, sizeof(copy), "%s", text);
	command_over(op, &o);
}

static void command_lost(struct exec_op *op, const char *text)
{
	struct exec_outcome o = {
		.end = EXEC_LOST,
		.exit_code = -1,
		.oom = EXEC_UNKNOWN,
		.duration_us = -1,
		.code = EINPROGRESS,
		.text = text,
	};

	command_over(op, &o);
}

static int64_t duration(const struct exec_op *op)
{
	return op->started_us > 0 ? clock_us() - op->started_us : -1;
}

/* --- the last line of the script -------------------------------------------------------------------------------- */

static void command_ended(struct exec_op *op)
{
	struct exec_outcome o = { .exit_code = -1, .duration_us = duration(op) };
	auto_free char *line = mem_dup(buf_slice(&op->notes));
	char text[128];

	if (strncmp(line, "E cwd ", 6) == 0 || !exec_line_parse(line, &o)) {
		snprintf(text, sizeof(text), "%s",
			strncmp(line, "E cwd ", 6) == 0 ? "the working directory cannot be entered"
											: "the end of the command was not understood");
		command_start_failed(op, strncmp(line, "E cwd ", 6) == 0 ? EINVAL : EPROTO, text);
		return;
	}
	o.killed = op->kill_sent;
	o.timed_out = false;
	/* The script waits for this before it takes its relays away. */
	if (channel_write(op->channel, SLICE_LIT("A\n")) != 0)
		o.text = "";
	command_over(op, &o);
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
	op_hold(op, data.len);
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
		op_began(op); /* no engine's message is that long */
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

	op_began(op);
	op->started_us = clock_us();
	buf_init(&op->early, ENGINE_EARLY_MAX);
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
			op_began(op);
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

/* --- the end of the stream --------------------------------------------------------------------------------------- */

static void ask_container(struct exec_op *op);

static void on_settled(int fd, short what, void *arg)
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
		command_lost(op, "the sandbox stopped while the command ran");
	else if (!op->settled)
		op_arm(op, SETTLE_MS, on_settled);
	else
		command_over(op, &o);
}

static void ask_container(struct exec_op *op)
{
	auto_free char *path = mem_printf("/containers/%s/json", op->backend->container);

	op->call = engine_call(op->backend->engine, "GET", path, NULL, ENGINE_REQUEST_MS, on_leader_killed, op);
}

static void command_answered(struct exec_op *op, bool known, int code)
{
	struct exec_outcome o = { .end = EXEC_EXITED, .exit_code = code, .oom = EXEC_UNKNOWN, .duration_us = duration(op) };

	if (op->kind->tty && op->in_last_line) {
		command_start_failed(op, EINVAL, "the working directory cannot be entered");
	} else if (!op->kind->tty && known && code > 128 && code <= 128 + 64) {
		op->leader_code = code;
		ask_container(op);
	} else if (!op->kind->tty || !known) {
		command_lost(op, "the sandbox stopped, or the stream to it was cut, while the command ran");
	} else {
		command_over(op, &o);
	}
}

/* --- resize and kill --------------------------------------------------------------------------------------------- */

static void on_resized(const struct engine_reply *reply, void *arg)
{
	/* A terminal that has just ended has no size; nothing depends on it. */
}

void engine_command_resize(struct exec_op *op, uint16_t rows, uint16_t cols)
{
	if (!op->kind->tty || op->state != OP_OPEN)
		return;
	auto_free char *path = mem_printf("/exec/%s/resize?h=%u&w=%u", op->exec_id, rows, cols);
	engine_call(op->backend->engine, "POST", path, NULL, ENGINE_REQUEST_MS, on_resized, NULL);
}

static void on_second_kill(const struct kill_result *result, void *arg)
{
	/* The command's own end says whether it worked; its owner restarts the sandbox when there is none. */
}

static void on_kill_grace(int fd, short what, void *arg)
{
	struct exec_op *op = arg;
	struct slice mark = slice_str(op->own_mark);
	struct err err = ERR_INIT;

	/* How it ended is known; the mark behind its stdout is not coming: a child has read that output back. */
	if (op->err_ended) {
		command_ended(op);
		return;
	}
	if (engine_kill_tagged(&op->backend->base, &mark, 1, on_second_kill, NULL, &err) != 0)
		command_lost(op, "the command was to be killed, and the engine cannot be reached");
}

static void send_kill(struct exec_op *op)
{
	op->kill_sent = true;
	/* Over the command's own line no process has to start; a terminal has no such line. */
	if (!op->kind->tty && channel_write(op->channel, SLICE_LIT("K\n")) == 0)
		op_arm(op, KILL_GRACE_MS, on_kill_grace);
	else
		op_arm(op, 1, on_kill_grace);
}

static void on_kill_unstarted(int fd, short what, void *arg)
{
	struct exec_op *op = arg;

	if (op->state <= OP_CREATING)
		command_start_failed(op, ECANCELED, "ended before it was started");
}

static void command_kill(struct exec_op *op)
{
	op->want_kill = true;
	if (op->state == OP_OPEN && !op->kill_sent)
		send_kill(op);
	else if (op->state <= OP_CREATING)
		op_arm(op, 1, on_kill_unstarted); /* nothing runs before the start: an engine that hangs is not waited for */
}

/* --- the kinds --------------------------------------------------------------------------------------------------- */

static void command_data(struct exec_op *op, unsigned stream, struct slice data)
{
	if (stream == DEMUX_STDOUT)
		command_stdout(op, data);
	else if (stream == DEMUX_STDERR)
		command_stderr(op, data);
	if (command_complete(op))
		command_ended(op);
}

static void tty_data(struct exec_op *op, unsigned stream, struct slice data)
{
	tty_output(op, data);
}

static void command_closed(struct exec_op *op, bool complete)
{
	struct slice rest;

	if (!op->kind->tty && op->started) {
		rest = mark_rest(&op->out_mark);
		if (!op->out_ended && rest.len > 0)
			deliver(op, EXEC_STDOUT, rest);
		rest = mark_rest(&op->err_mark);
		if (!op->err_ended && !op->in_last_line && rest.len > 0)
			deliver(op, EXEC_STDERR, rest);
	}
	op_ask(op);
}

static void command_room(struct exec_op *op, size_t bytes)
{
	if (op->input && op->events.room != NULL)
		op->events.room(bytes, op->arg);
}

static void command_opened(struct exec_op *op)
{
	if (op->words != NULL && channel_write(op->channel, slice_make(op->words, op->words_len)) != 0)
		abort(); /* the first bytes into a buffer made for them */
	free(STEAL(op->words));
	op->words_len = 0;
	if (op->want_kill)
		send_kill(op);
}

static const struct op_kind kind_command = {
	.opened = command_opened,
	.data = command_data,
	.room = command_room,
	.closed = command_closed,
	.answered = command_answered,
	.start_failed = command_start_failed,
	.lost = command_lost,
	.kill = command_kill,
};

static const struct op_kind kind_tty = {
	.tty = true,
	.opened = command_opened,
	.data = tty_data,
	.room = command_room,
	.closed = command_closed,
	.answered = command_answered,
	.start_failed = command_start_failed,
	.lost = command_lost,
	.kill = command_kill,
};

/* --- starting ---------------------------------------------------------------------------------------------------- */

static int check_request(const struct exec_request *rq, struct err *err)
{
	bool nul = op_has_nul(rq->line) || op_has_nul(rq->cwd);

	for (unsigned i = 0; i < rq->nargv; i++)
		nul = nul || op_has_nul(rq->argv[i]);
	for (unsigned i = 0; i < rq->nenv; i++)
		nul = nul || op_has_nul(rq->env[i]);
	if (nul)
		return err_set(err, EINVAL, "a command, its environment and its directory hold no NUL");
	if (rq->line.p == NULL && rq->nargv == 0)
		return err_set(err, EINVAL, "there is no command");
	return 0;
}

static unsigned count_words(const struct exec_request *rq)
{
	return rq->nenv + (rq->line.p != NULL ? 3 : rq->nargv);
}

static struct slice word_at(const struct exec_request *rq, unsigned i)
{
	const struct slice line[] = { SLICE_LIT("bash"), SLICE_LIT("-c"), rq->line };

	if (i < rq->nenv)
		return rq->env[i];
	return rq->line.p != NULL ? line[i - rq->nenv] : rq->argv[i - rq->nenv];
}

/* The bytes of all words, each with its NUL; 0 with err when it is more than a process can be given. */
static size_t words_size(const struct exec_request *rq, struct err *err)
{
	size_t size = 0;

	for (unsigned i = 0; i < count_words(rq); i++) {
		size_t len = word_at(rq, i).len;

		if (len > WORD_MAX) {
			err_set(err, E2BIG,
				"an argument or variable of %zu bytes is longer than Linux takes (%zu); give it by stdin", len,
				WORD_MAX);
			return 0;
		}
		size += len + 1;
	}
	if (size <= WORDS_MAX)
		return size;
	err_set(err, E2BIG, "the command with its environment has %zu bytes; %zu are possible, more by stdin", size,
		WORDS_MAX);
	return 0;
}

/* Words that go over the script's line. */
static void pack_words(struct exec_op *op, const struct exec_request *rq, size_t size)
{
	char head[80];
	int n = snprintf(head, sizeof(head), "C %zu %u %u\n", size + 2, rq->nenv, count_words(rq));
	char *at = op->words = mem_zalloc((size_t)n + size + 2);

	memcpy(at, head, (size_t)n);
	at += n;
	for (unsigned i = 0; i < count_words(rq); i++) {
		struct slice word = word_at(rq, i);

		if (word.len > 0)
			memcpy(at, word.p, word.len);
		at += word.len + 1;
	}
	*at = '.';
	op->words_len = (size_t)n + size + 2;
}

struct exec_op *engine_command_start(struct exec_backend *base, const struct exec_request *rq,
	const struct exec_events *ev, void *arg, struct err *err)
{
	struct engine_backend *b = engine_backend_of(base);

	if (check_request(rq, err) != 0)
		return NULL;
	size_t size = words_size(rq, err);
	if (size == 0)
		return NULL;
	bool inside = rq->tty || size + rq->cwd.len <= INSIDE_MAX;
	struct exec_op *op = op_new(b, rq->tty ? &kind_tty : &kind_command, arg);
	struct slice tag = rq->tag.p != NULL ? rq->tag : SLICE_LIT("_");
	auto_free char *limit = mem_printf("%.3f", (double)(rq->timeout_ms + ENGINE_BACKSTOP_MS) / 1000);
	auto_free char *nenv = mem_printf("%u", rq->nenv);

	op->events = *ev;
	op->max_output = rq->max_output;
	op->input = rq->want_stdin;
	op->own_mark = mem_printf("%.*s/%.*s", SLICE_ARG(tag), SLICE_ARG(rq->id));
	struct json_object *argv =
		op_argv(rq->tty ? SCRIPT_TTY : SCRIPT_EXEC, rq->tty ? "capybara-tty" : "capybara-exec", 0);
	jadd_cstr(argv, op->out_mark.nonce);
	op_add(argv, rq->id);
	op_add(argv, tag);
	jadd_cstr(argv, limit);
	op_add(argv, rq->cwd.p != NULL ? rq->cwd : SLICE_LIT("/workspace"));
	if (!rq->tty)
		jadd_cstr(argv, rq->want_stdin ? "1" : "0");
	jadd_cstr(argv, inside ? nenv : "-");
	for (unsigned i = 0; inside && i < count_words(rq); i++)
		op_add(argv, word_at(rq, i));
	if (!inside)
		pack_words(op, rq, size);
	/* The line to the script is its stdin, also when the command has none. */
	if (op_create(op, argv, rq->tty ? rq->want_stdin : true, err) != 0) {
		op_free(op);
		return NULL;
	}
	return op;
}
