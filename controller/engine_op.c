/* Creates execs, opens their streams and gives what comes to the kind of operation. */
#include "controller/engine_op.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "controller/demux.h"
#include "controller/engine_exec_parse.h"
#include "controller/hijack.h"

#define NOTES_MAX ((size_t)64 * 1024) /* a file script's stderr */
#define ARGUMENTS_MAX ((size_t)28 * 1024) /* of the exec's JSON; the policy ends at 32 KiB */
#define FRAME_MAX ((size_t)1 << 18) /* input bytes under one "D" */
#define WINDOW ((uint64_t)1 << 20) /* output that the owner has not consumed yet */
/*
 * Execs of one container that are on their way at once. The engine starts them one after the other; what more of them would
 * do is wait in it, where each has its time limit running, and under gVisor, slow each other down.
 */
#define STARTS_MAX 8

static void start_next(struct engine_backend *b);

static void arrived(struct exec_op *op)
{
	struct engine_backend *b = op->backend;

	if (!op->on_its_way)
		return;
	op->on_its_way = false;
	b->on_their_way--;
	start_next(b);
}

void op_began(struct exec_op *op)
{
	op->started = true;
	arrived(op);
}

void op_free(struct exec_op *op)
{
	TAILQ_REMOVE(&op->backend->ops, op, link);
	arrived(op);
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
	free(op->request);
	free(op->own_mark);
	free(op->words);
	free((char *)op->file.path.p);
	free(op);
}

/* What the engine wrote into the stream in place of the script's first word. */
static void never_started(struct exec_op *op)
{
	char text[256];
	struct slice said = buf_len(&op->early) > 0 ? buf_slice(&op->early) : buf_slice(&op->notes);
	size_t n = 0;

	for (; n < said.len && n < sizeof(text) - 1; n++)
		text[n] = (unsigned char)said.p[n] < ' ' || (unsigned char)said.p[n] >= 0x7f ? ' ' : said.p[n];
	text[n] = '\0';
	while (n > 0 && text[n - 1] == ' ')
		text[--n] = '\0';
	op->kind->start_failed(op, start_failure_code(text), n > 0 ? text : "the engine started no process");
}

static void on_answer(const struct engine_reply *reply, void *arg)
{
	struct exec_op *op = arg;
	int64_t code = -1, pid = 0;
	bool running = false;

	op->call = NULL;
	if (reply->status == 0 || reply->status >= 300) {
		op->kind->lost(op, reply->status == 404 ? "the sandbox stopped while the command ran" : reply->err.text);
		return;
	}
	json_get_bool(reply->json, "Running", &running);
	json_get_int(reply->json, "Pid", &pid);
	bool known = json_get_int(reply->json, "ExitCode", &code) && !running && code >= 0 && code < 65536;
	/* Without an exit code the engine may be about to start it: who was cut off is not waited for. */
	if (!op->started && pid == 0 && known)
		never_started(op);
	else if (!op->started || op->kind->answered == NULL)
		op->kind->lost(op, "the stream to the sandbox was cut");
	else
		op->kind->answered(op, known, (int)code);
}

void op_ask(struct exec_op *op)
{
	auto_free char *path = mem_printf("/exec/%s/json", op->exec_id);

	op->state = OP_ASKING;
	op->call = engine_call(op->backend->engine, "GET", path, NULL, ENGINE_REQUEST_MS, on_answer, op);
}

void op_arm(struct exec_op *op, int64_t ms, void (*fn)(int fd, short what, void *arg))
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	if (op->timer != NULL)
		event_free(op->timer);
	op->timer = evtimer_new(engine_base(op->backend->engine), fn, op);
	if (op->timer == NULL || event_add(op->timer, &tv) != 0)
		abort();
}

static void on_data(unsigned stream, struct slice data, void *arg)
{
	struct exec_op *op = arg;

	op->kind->data(op, stream, data);
}

static void on_closed(bool complete, void *arg)
{
	struct exec_op *op = arg;

	op->kind->closed(op, complete);
}

static void on_room(size_t bytes, void *arg)
{
	struct exec_op *op = arg;
	size_t free_bytes = bytes > 64 ? bytes - 64 : 0; /* the frame's own words */

	if (op->kind->room != NULL && !op->input_closed && free_bytes >= ENGINE_INPUT_MAX / 2)
		op->kind->room(op, free_bytes);
}

/* A terminal has no half-close: its end of file is a character. */
static void end_input(struct exec_op *op)
{
	if (channel_write(op->channel, op->kind->tty ? SLICE_LIT("\004") : SLICE_LIT("E\n")) != 0)
		channel_end(STEAL(op->channel));
}

static void op_open(struct exec_op *op, int fd, struct slice early)
{
	static const struct channel_events events = { on_data, on_room, on_closed };

	op->state = OP_OPEN;
	op->channel =
		channel_new(op->backend->channels, fd, early, op->kind->tty, ENGINE_INPUT_MAX + op->words_len, &events, op);
	if (op->kind->opened != NULL)
		op->kind->opened(op);
	if (op->input_closed && op->channel != NULL)
		end_input(op);
	on_room(ENGINE_INPUT_MAX, op);
}

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
	/* 404 is the exec, which ended with its container after it was made: whether that is gone, resume finds out. */
	if (result->status == 409 || result->status == 404)
		op->kind->start_failed(op, EBUSY, text);
	else if (result->maybe_started)
		op->kind->lost(op, text);
	else
		op->kind->start_failed(op, result->err.code, text);
}

static void on_created(const struct engine_reply *reply, void *arg)
{
	struct exec_op *op = arg;
	struct slice id;
	struct err err = reply->err;

	op->call = NULL;
	if (reply->status == 404)
		op->kind->start_failed(op, ENXIO, err.text);
	else if (reply->status == 409)
		op->kind->start_failed(op, EBUSY, err.text);
	else if (reply->status != 201)
		op->kind->start_failed(op, err.code != 0 ? err.code : EPROTO, err.text); /* nothing runs before start */
	else if (op->want_kill)
		op->kind->start_failed(op, ECANCELED, "ended before it was started");
	else if (!json_get_string(reply->json, "Id", &id) || id.len == 0 || id.len >= sizeof(op->exec_id))
		op->kind->start_failed(op, EPROTO, "the engine's answer to exec has no Id");
	else {
		memcpy(op->exec_id, id.p, id.len);
		op->exec_id[id.len] = '\0';
		op->made = reply->date;
		op->state = OP_STARTING;
		op->hijack = hijack_exec(op->backend->engine, op->exec_id, op->kind->tty, ENGINE_REQUEST_MS, on_hijacked, op);
	}
}

struct exec_op *op_new(struct engine_backend *b, const struct op_kind *kind, void *arg)
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
	buf_init(&op->early, ENGINE_EARLY_MAX);
	buf_init(&op->notes, NOTES_MAX);
	buf_init(&op->entry, ENGINE_EARLY_MAX);
	TAILQ_INSERT_TAIL(&b->ops, op, link);
	return op;
}

static void send_create(struct exec_op *op)
{
	struct engine_backend *b = op->backend;
	auto_free char *path = mem_printf("/containers/%s/exec", b->container);
	auto_free char *request = STEAL(op->request);

	op->state = OP_CREATING;
	op->call = engine_call(b->engine, "POST", path, request, ENGINE_REQUEST_MS, on_created, op);
	engine_watch(b);
}

static void start_next(struct engine_backend *b)
{
	struct exec_op *op;

	TAILQ_FOREACH (op, &b->ops, link) {
		if (b->on_their_way >= STARTS_MAX || b->ending)
			break;
		if (op->request == NULL)
			continue;
		op->on_its_way = true;
		b->on_their_way++;
		send_create(op);
	}
}

int op_create(struct exec_op *op, struct json_object *argv, bool input, struct err *err)
{
	struct engine_backend *b = op->backend;
	struct json_object *o = jnew();

	jset_bool(o, "AttachStdin", input);
	jset_bool(o, "AttachStdout", true);
	jset_bool(o, "AttachStderr", true);
	jset_bool(o, "Tty", op->kind->tty);
	jset_cstr(o, "User", b->user);
	jset_cstr(o, "WorkingDir", "/");
	jset(o, "Cmd", argv);
	op->request = jtext(o);
	if (strlen(op->request) > ARGUMENTS_MAX)
		return err_set(err, E2BIG, "the command with its environment is longer than one exec request takes (%zu bytes)",
			ARGUMENTS_MAX);
	if (op->kind->urgent)
		send_create(op);
	else
		start_next(b);
	return 0;
}

void op_add(struct json_object *array, struct slice s)
{
	struct json_object *text = json_object_new_string_len(s.len > 0 ? s.p : "", (int)s.len);

	if (text == NULL)
		abort();
	jadd(array, text);
}

struct json_object *op_argv(enum script script, const char *name, int64_t timeout_ms)
{
	struct json_object *argv = json_object_new_array();

	if (argv == NULL)
		abort();
	if (timeout_ms > 0) {
		auto_free char *seconds = mem_printf("%lld", (long long)((timeout_ms + ENGINE_BACKSTOP_MS + 999) / 1000));
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

bool op_has_nul(struct slice s)
{
	return s.len > 0 && memchr(s.p, '\0', s.len) != NULL;
}

bool op_script_data(struct exec_op *op, unsigned stream, struct slice *data)
{
	if (stream == DEMUX_STDOUT && op->started)
		return true;
	if (stream == DEMUX_STDOUT && buf_put_slice(&op->early, *data) != 0)
		buf_clear(&op->early);
	if (stream == DEMUX_STDERR && buf_put_slice(&op->notes, *data) != 0)
		buf_clear(&op->notes);
	if (op->started || stream != DEMUX_STDERR || after_last_mark(buf_slice(&op->notes), op->err_mark.nonce).p == NULL)
		return false;
	op_began(op);
	*data = buf_slice(&op->early);
	return data->len > 0;
}

void op_hold(struct exec_op *op, size_t bytes)
{
	op->held += bytes;
	if (op->held > WINDOW)
		channel_pause(op->channel, true);
}

void op_consumed(struct exec_op *op, size_t bytes)
{
	op->held -= bytes < op->held ? bytes : op->held;
	if (op->held <= WINDOW / 2 && op->channel != NULL)
		channel_pause(op->channel, false);
}

size_t op_write(struct exec_op *op, struct slice data)
{
	size_t taken = 0;

	if (op->channel == NULL || op->input_closed)
		return 0;
	if (op->kind->tty) {
		size_t room = channel_room(op->channel), n = room > 64 ? room - 64 : 0; /* its end finds a place */
		n = n < data.len ? n : data.len;
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

void op_close(struct exec_op *op)
{
	if (op->input_closed)
		return;
	op->input_closed = true;
	if (op->channel != NULL)
		end_input(op); /* others get theirs when the channel opens */
}
