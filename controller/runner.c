/* Multiplexes the operations of one sandbox over the stream to its runner. */
#include "controller/runner.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <sys/queue.h>

#include "controller/channel.h"
#include "controller/clock.h"
#include "controller/demux.h"
#include "controller/mem.h"
#include "controller/runner_request.h"
#include "libgate/buf.h"

#define WINDOW (512 * 1024) /* bytes of one operation that its owner may hold back */
#define CREDIT_AT (WINDOW / 8) /* acknowledged together */
#define OUT_MAX (4 * 1024 * 1024) /* of the stream: requests and stdin that the engine has not taken */
#define OUT_RESERVE (FRAME_REQUEST_MAX + 4096) /* kept free of stdin */
#define OPS_MAX 240 /* below the runner's own limit, so that a kill always finds a place */
#define KILLS_MAX 8
#define HELLO_MS 30000
#define PING_MS 2000 /* asked after so long a silence, while operations wait */
#define SILENCE_MS 300000 /* then the stream counts as lost */
#define LATE_MS 30000 /* beyond an operation's own limit its outcome is unknown */
#define KILL_MS 60000
#define DIAGNOSIS_MAX 300

enum op_kind { OP_EXEC, OP_FILE, OP_KILL };

struct exec_op {
	TAILQ_ENTRY(exec_op) link;
	struct runner *runner;
	enum op_kind kind;
	uint32_t channel;
	char *request; /* not yet sent */
	size_t request_len;
	int64_t deadline_ms;
	size_t room; /* bytes of input that the runner takes */
	uint64_t unacknowledged; /* data taken by the owner */
	uint64_t in_flight; /* data that the owner has not taken: an honest runner stays within WINDOW */
	bool starved; /* the owner was told to wait because the stream was full */
	bool closed, owes_close;
	bool killed, owes_kill;
	bool owes_resize;
	uint16_t rows, cols;
	void *arg;
	union {
		struct exec_events exec;
		struct file_events file;
		kill_cb kill;
	} ev;
};

enum link_state { LINK_NONE, LINK_ASKED, LINK_GREETING, LINK_UP };

struct runner {
	struct exec_backend backend;
	struct channel_set *channels;
	struct runner_owner owner;
	enum link_state state;
	struct channel *channel;
	struct buf in;
	struct event *tick; /* deadlines; 0 away when something is to be reported from the loop */
	int64_t heard_ms;
	int64_t greeting_ms;
	bool pinged;
	bool settles; /* the runner keeps ends until it hears of them */
	unsigned busy; /* calls into the owner under way */
	bool doomed; /* freed while one was */
	unsigned epoch; /* of the stream: what is left of an old one is not taken for a new one's */
	bool garbage; /* what came is no greeting: the rest of it is read for the diagnosis until the stream ends */
	char diagnosis[DIAGNOSIS_MAX + 1]; /* what came in place of a runner, or on its stderr */
	bool failing; /* end what is not sent, for this reason: */
	struct err failure;
	uint32_t next_channel;
	unsigned nops, nkills;
	TAILQ_HEAD(, exec_op) ops;
};

static void schedule(struct runner *r, int64_t ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	if (event_add(r->tick, &tv) != 0)
		abort();
}

static void release(struct runner *r)
{
	r->owner.freed(r->owner.arg);
	if (r->channel != NULL)
		channel_end(STEAL(r->channel));
	event_free(r->tick);
	buf_release(&r->in);
	free(r);
}

static void enter(struct runner *r)
{
	r->busy++;
}

/* false: the owner has freed the runner meanwhile, and it is gone now. */
static bool leave(struct runner *r)
{
	if (--r->busy > 0 || !r->doomed)
		return true;
	release(r);
	return false;
}

static void set_state(struct runner *r, enum link_state state)
{
	r->state = state;
	r->heard_ms = clock_ms();
	r->pinged = false;
}

static void op_unlink(struct exec_op *op)
{
	struct runner *r = op->runner;

	TAILQ_REMOVE(&r->ops, op, link);
	if (op->kind == OP_KILL)
		r->nkills--;
	else
		r->nops--;
}

static void op_free(struct exec_op *op)
{
	free(op->request);
	free(op);
}

static void end_exec(struct exec_op *op, const struct exec_outcome *outcome)
{
	op_unlink(op);
	op->ev.exec.done(outcome, op->arg);
	op_free(op);
}

/* Ends an operation for which no report will come. sent: it may have taken effect. */
static void op_fail(struct exec_op *op, bool sent, int code, const char *text)
{
	struct exec_outcome outcome = {
		.end = sent ? EXEC_LOST : EXEC_START_FAILED,
		.exit_code = -1,
		.oom = sent ? EXEC_UNKNOWN : EXEC_NO,
		.duration_us = -1,
		.code = code,
		.text = text,
	};
	struct file_result result = { .code = code, .text = text, .lost = sent };
	struct kill_result killed = { .code = code, .text = text };

	switch (op->kind) {
	case OP_EXEC:
		end_exec(op, &outcome);
		return;
	case OP_FILE:
		op_unlink(op);
		op->ev.file.done(&result, op->arg);
		break;
	case OP_KILL:
		op_unlink(op);
		op->ev.kill(&killed, op->arg);
		break;
	}
	op_free(op);
}

/*
 * Fails every operation there is now, not those that a callback starts meanwhile: the sent ones as lost, the others as
 * never started. only_unsent: leaves the sent ones alone.
 */
static void fail_all(struct runner *r, bool only_unsent, int code, const char *text)
{
	uint32_t last = r->next_channel;
	struct exec_op *op;
	bool again = true;

	while (again) {
		again = false;
		TAILQ_FOREACH (op, &r->ops, link) {
			if ((int32_t)(op->channel - last) > 0 || (only_unsent && op->request == NULL))
				continue;
			op_fail(op, op->request == NULL, code, text);
			again = true; /* the callback may have changed the list */
			break;
		}
	}
}

/* ---- sending ---- */

static bool put(struct runner *r, const struct frame_writer *w)
{
	return channel_room(r->channel) >= w->len && channel_write(r->channel, slice_make(w->p, w->len)) == 0;
}

static bool put_plain(struct runner *r, enum frame_type type, uint32_t channel)
{
	char head[FRAME_HEAD];

	frame_put_head(head, type, channel, 0);
	return channel_room(r->channel) >= sizeof(head) && channel_write(r->channel, slice_make(head, sizeof(head))) == 0;
}

static bool put_credit(struct runner *r, uint32_t channel, uint64_t bytes)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_CREDIT, channel);
	frame_put_num(&w, FRAME_ATTR_BYTES, bytes);
	return frame_end(&w) && put(r, &w);
}

static bool put_resize(struct runner *r, const struct exec_op *op)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_RESIZE, op->channel);
	frame_put_num(&w, FRAME_ATTR_ROWS, op->rows);
	frame_put_num(&w, FRAME_ATTR_COLS, op->cols);
	return frame_end(&w) && put(r, &w);
}

static bool put_request(struct runner *r, struct exec_op *op)
{
	if (channel_room(r->channel) < op->request_len ||
		channel_write(r->channel, slice_make(op->request, op->request_len)) != 0)
		return false;
	free(op->request);
	op->request = NULL;
	return true;
}

/* Sends what the operation owes, as far as the stream takes it; the rest waits for on_room(). */
static void op_flush(struct exec_op *op)
{
	struct runner *r = op->runner;

	if (r->state != LINK_UP || (op->request != NULL && (op->killed || !put_request(r, op))))
		return;
	if (op->owes_kill && put_plain(r, FRAME_KILL, op->channel))
		op->owes_kill = false;
	if (op->owes_close && put_plain(r, FRAME_STDIN_END, op->channel))
		op->owes_close = false;
	if (op->owes_resize && put_resize(r, op))
		op->owes_resize = false;
	if (op->unacknowledged >= CREDIT_AT && put_credit(r, op->channel, op->unacknowledged))
		op->unacknowledged = 0;
}

static void send_hello(struct runner *r)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_HELLO, 0);
	frame_put_num(&w, FRAME_ATTR_VERSION, FRAME_VERSION);
	frame_put_num(&w, FRAME_ATTR_WINDOW, WINDOW);
	if (!frame_end(&w) || !put(r, &w))
		abort(); /* the first bytes into an empty buffer */
}

/* ---- the stream ---- */

static void drop_link(struct runner *r)
{
	if (r->channel != NULL)
		channel_end(STEAL(r->channel));
	buf_release(&r->in);
	r->garbage = false;
	r->epoch++;
	set_state(r, LINK_NONE);
}

/* The stream is of no more use: everything sent over it is lost, everything else did not start. */
static void lose_link(struct runner *r, int code, const char *text)
{
	char why[ERR_TEXT_MAX];
	bool greeting = r->state == LINK_GREETING;

	if (r->diagnosis[0] != '\0')
		snprintf(why, sizeof(why), "%s: %s", text, r->diagnosis);
	else
		snprintf(why, sizeof(why), "%s", text);
	drop_link(r);
	enter(r);
	if (greeting) {
		struct err err = ERR_INIT;

		/* Nothing was sent yet. The owner finds out whether it is the image or the sandbox. */
		err_set(&err, code, "%s", why);
		r->state = LINK_ASKED;
		r->owner.no_runner(&err, r->owner.arg);
	} else {
		fail_all(r, false, code, why);
	}
	leave(r);
}

/* Keeps the start of what is no protocol, for a person: the engine reports a failed start as output. */
static void diagnose(struct runner *r, struct slice data)
{
	size_t at = strlen(r->diagnosis);

	for (size_t i = 0; i < data.len && at < DIAGNOSIS_MAX; i++)
		r->diagnosis[at++] = data.p[i] >= ' ' && data.p[i] <= '~' ? data.p[i] : ' ';
	r->diagnosis[at] = '\0';
}

static struct exec_op *find(struct runner *r, uint32_t channel)
{
	struct exec_op *op;

	TAILQ_FOREACH (op, &r->ops, link)
		if (op->channel == channel && op->request == NULL)
			return op;
	return NULL;
}

static void acknowledge(struct exec_op *op, uint64_t bytes)
{
	op->in_flight -= bytes < op->in_flight ? bytes : op->in_flight;
	op->unacknowledged += bytes;
	if (op->unacknowledged >= CREDIT_AT)
		op_flush(op);
}

/*
 * Whoever speaks at the other end may be another process of the sandbox, which forged its way into the stream: it fills
 * no memory here.
 */
static bool within_window(struct exec_op *op, const struct frame *f)
{
	op->in_flight += f->payload.len;
	if (op->in_flight <= WINDOW)
		return true;
	lose_link(op->runner, EPROTO, "the runner sent more than its window");
	return false;
}

static void on_output(struct exec_op *op, const struct frame *f)
{
	if (!within_window(op, f))
		return;
	if (op->kind == OP_EXEC)
		op->ev.exec.output(f->type == FRAME_STDOUT ? EXEC_STDOUT : EXEC_STDERR, f->payload, op->arg);
	else if (op->kind == OP_FILE && op->ev.file.data != NULL)
		op->ev.file.data(f->payload, op->arg);
}

static void on_entry(struct exec_op *op, const struct frame *f)
{
	struct slice name = frame_bytes(f, FRAME_ATTR_NAME);
	struct file_info info;

	if (op->kind != OP_FILE || op->ev.file.entry == NULL || name.p == NULL)
		return;
	runner_get_info(f, &info);
	acknowledge(op, f->payload.len);
	op->ev.file.entry(name, &info, op->arg);
}

static void tell_room(struct exec_op *op)
{
	void (*room)(size_t, void *) = op->kind == OP_EXEC ? op->ev.exec.room
		: op->kind == OP_FILE                          ? op->ev.file.room
													   : NULL;

	if (room != NULL && op->room > 0 && !op->closed)
		room(op->room, op->arg);
}

static void on_more_room(struct exec_op *op, const struct frame *f)
{
	uint64_t bytes = frame_num_or(f, FRAME_ATTR_BYTES, 0);

	op->room += bytes < WINDOW ? (size_t)bytes : WINDOW;
	if (op->room > WINDOW)
		op->room = WINDOW;
	tell_room(op);
}

static void on_exit_frame(struct exec_op *op, const struct frame *f)
{
	char text[RUNNER_TEXT_MAX];
	struct exec_outcome outcome;

	/* Unsettled it is written down in the sandbox, which is no harm when the stream has no room for this now. */
	if (op->runner->settles)
		(void)put_plain(op->runner, FRAME_SETTLED, op->channel);
	runner_get_exit(f, text, &outcome);
	end_exec(op, &outcome);
}

static void on_done_frame(struct exec_op *op, const struct frame *f)
{
	char text[RUNNER_TEXT_MAX];
	struct file_result result;

	runner_get_done(f, text, &result);
	op_unlink(op);
	op->ev.file.done(&result, op->arg);
	op_free(op);
}

static void on_killed_frame(struct exec_op *op, const struct frame *f)
{
	struct kill_result result = {
		.code = (int)(frame_num_or(f, FRAME_ATTR_CODE, 0) & 4095),
		.killed = (unsigned)frame_num_or(f, FRAME_ATTR_COUNT, 0),
		.survivors = (unsigned)frame_num_or(f, FRAME_ATTR_SURVIVORS, 0),
	};

	result.text = result.code == 0 ? "" : "the processes of the sandbox cannot be read";
	op_unlink(op);
	op->ev.kill(&result, op->arg);
	op_free(op);
}

static void on_op_frame(struct runner *r, const struct frame *f)
{
	struct exec_op *op = find(r, f->channel);

	if (op == NULL)
		return; /* given up here before the runner had ended it */
	if (f->type == FRAME_STARTED && op->kind == OP_EXEC && op->ev.exec.started != NULL)
		op->ev.exec.started(op->arg);
	else if (f->type == FRAME_STDOUT || f->type == FRAME_STDERR)
		on_output(op, f);
	else if (f->type == FRAME_ENTRY)
		on_entry(op, f);
	else if (f->type == FRAME_ROOM)
		on_more_room(op, f);
	else if (f->type == FRAME_EXIT && op->kind == OP_EXEC)
		on_exit_frame(op, f);
	else if (f->type == FRAME_DONE && op->kind == OP_FILE)
		on_done_frame(op, f);
	else if (f->type == FRAME_KILLED && op->kind == OP_KILL)
		on_killed_frame(op, f);
}

static void on_hello(struct runner *r, const struct frame *f)
{
	struct exec_op *op;

	if (frame_num_or(f, FRAME_ATTR_VERSION, 0) < FRAME_VERSION) {
		lose_link(r, EPROTO, "the image's runner is older than this controller: make the image anew");
		return;
	}
	r->settles = (frame_num_or(f, FRAME_ATTR_FEATURES, 0) & FRAME_FEATURE_OUTCOMES) != 0;
	r->diagnosis[0] = '\0';
	set_state(r, LINK_UP);
	TAILQ_FOREACH (op, &r->ops, link)
		op_flush(op);
}

static void on_frame(struct runner *r, const struct frame *f)
{
	if (r->state == LINK_GREETING && f->type != FRAME_HELLO && f->type != FRAME_FATAL) {
		lose_link(r, EPROTO, "the runner's first frame is no hello");
	} else if (f->type == FRAME_HELLO) {
		if (r->state == LINK_GREETING)
			on_hello(r, f);
	} else if (f->type == FRAME_FATAL) {
		diagnose(r, frame_bytes(f, FRAME_ATTR_TEXT));
		lose_link(r, EPROTO, "the runner has ended the stream");
	} else if (f->type != FRAME_PONG) {
		on_op_frame(r, f);
	}
}

/* Handles the whole frames in data and returns how many bytes they took; all of them when the stream is gone. */
static size_t take_frames(struct runner *r, struct slice data)
{
	unsigned epoch = r->epoch;
	size_t at = 0;

	while (epoch == r->epoch && !r->doomed) {
		struct frame f;
		enum frame_fault fault;
		size_t used;

		switch (frame_read(FRAME_RUNNER, data.p + at, data.len - at, &f, &used, &fault)) {
		case FRAME_MORE:
			return at;
		case FRAME_WHOLE:
			at += used;
			on_frame(r, &f);
			break;
		case FRAME_BAD:
			if (r->state == LINK_GREETING) {
				r->garbage = true;
				diagnose(r, slice_skip(data, at));
			} else {
				lose_link(r, EPROTO, frame_fault_text(fault));
			}
			return data.len;
		}
	}
	return data.len;
}

static void take_output(struct runner *r, struct slice data)
{
	unsigned epoch = r->epoch;
	size_t n;

	if (r->garbage) {
		diagnose(r, data);
		return;
	}
	if (buf_len(&r->in) == 0) {
		data = slice_skip(data, take_frames(r, data));
		if (r->doomed || epoch != r->epoch || data.len == 0)
			return;
	}
	if (buf_put_slice(&r->in, data) != 0) {
		lose_link(r, EPROTO, "a frame of the runner is longer than any may be");
		return;
	}
	n = take_frames(r, buf_slice(&r->in));
	if (r->doomed || epoch != r->epoch)
		return;
	buf_consume(&r->in, n);
	buf_trim(&r->in);
}

static void on_data(unsigned stream, struct slice data, void *arg)
{
	struct runner *r = arg;

	r->heard_ms = clock_ms();
	r->pinged = false;
	enter(r);
	if (r->doomed || r->channel == NULL)
		;
	else if (stream == DEMUX_STDOUT)
		take_output(r, data);
	else
		diagnose(r, data);
	leave(r);
}

/* The stream takes more: first what operations owe, then their input. */
static void on_room(size_t bytes, void *arg)
{
	struct runner *r = arg;
	struct exec_op *op;
	bool again = true;

	TAILQ_FOREACH (op, &r->ops, link)
		op_flush(op);
	enter(r);
	while (again && !r->doomed && r->channel != NULL && channel_room(r->channel) > OUT_RESERVE) {
		again = false;
		TAILQ_FOREACH (op, &r->ops, link) {
			if (!op->starved)
				continue;
			op->starved = false;
			tell_room(op);
			again = true; /* the callback may have changed the list */
			break;
		}
	}
	leave(r);
}

static void on_closed(bool complete, void *arg)
{
	struct runner *r = arg;

	if (r->state == LINK_GREETING && buf_len(&r->in) > 0)
		diagnose(r, buf_slice(&r->in)); /* shorter than a frame's head */
	if (r->state == LINK_GREETING)
		lose_link(r, ENOEXEC, "the runner did not start");
	else
		lose_link(r, ECONNRESET, "the stream to the runner has ended");
}

/* ---- time ---- */

static void check_silence(struct runner *r, int64_t now)
{
	if (r->state == LINK_GREETING && now - r->greeting_ms >= HELLO_MS) {
		lose_link(r, ETIMEDOUT, "the runner does not greet");
	} else if (r->state == LINK_UP && now - r->heard_ms >= SILENCE_MS) {
		lose_link(r, ETIMEDOUT, "the runner has not answered for five minutes");
	} else if (r->state == LINK_UP && now - r->heard_ms >= PING_MS) {
		/* Under gVisor the stream of a sandbox that was killed may stay open. */
		if (r->pinged)
			r->owner.suspect(r->owner.arg);
		else
			r->pinged = put_plain(r, FRAME_PING, 0);
	}
}

/* Ends the operation when its time is over, or when it was given up before it was sent. */
static bool expire(struct exec_op *op, int64_t now)
{
	bool sent = op->request == NULL;

	if (!sent && op->killed)
		op_fail(op, false, ECANCELED, "given up before it was started");
	else if (op->deadline_ms > now)
		return false;
	else if (sent)
		op_fail(op, true, ETIMEDOUT, "no report came within 30 s after its own limit of time");
	else
		op_fail(op, false, ETIMEDOUT, "the runner was not reached within the limit of time");
	return true;
}

static void check_deadlines(struct runner *r, int64_t now)
{
	struct exec_op *op;
	bool again = true;

	while (again && !r->doomed) {
		again = false;
		TAILQ_FOREACH (op, &r->ops, link) {
			again = expire(op, now);
			if (again)
				break; /* the callback may have changed the list */
		}
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct runner *r = arg;
	int64_t now = clock_ms(), next = now + PING_MS;
	struct exec_op *op;

	enter(r);
	if (r->failing) {
		struct err failure = r->failure;

		r->failing = false;
		fail_all(r, true, failure.code != 0 ? failure.code : EIO, failure.text);
	}
	if (!r->doomed)
		check_deadlines(r, now);
	if (!r->doomed)
		check_silence(r, now);
	if (!r->doomed) {
		TAILQ_FOREACH (op, &r->ops, link)
			if (op->deadline_ms < next)
				next = op->deadline_ms;
		/* With nothing under way nothing is watched: an idle sandbox costs no wake-up. */
		if (!TAILQ_EMPTY(&r->ops))
			schedule(r, r->failing || next <= now ? 0 : next - now);
	}
	leave(r);
}

/* ---- operations ---- */

static struct runner *of(struct exec_backend *b)
{
	return container_of(b, struct runner, backend);
}

static uint32_t new_channel(struct runner *r)
{
	do
		r->next_channel++;
	while (r->next_channel == 0 || find(r, r->next_channel) != NULL);
	return r->next_channel;
}

static int admit(struct runner *r, enum op_kind kind, struct err *err)
{
	if (kind == OP_KILL ? r->nkills >= KILLS_MAX : r->nops >= OPS_MAX)
		return err_set(err, EAGAIN, "%u operations are under way in this sandbox: wait for one to end",
			kind == OP_KILL ? r->nkills : r->nops);
	return 0;
}

static struct exec_op *op_new(struct runner *r, enum op_kind kind, uint32_t channel, char *request, size_t len,
	int64_t limit_ms, void *arg)
{
	struct exec_op *op = mem_zalloc(sizeof(*op));

	op->runner = r;
	op->kind = kind;
	op->channel = channel;
	op->request = request;
	op->request_len = len;
	op->deadline_ms = clock_ms() + limit_ms + LATE_MS;
	op->arg = arg;
	TAILQ_INSERT_TAIL(&r->ops, op, link);
	if (kind == OP_KILL)
		r->nkills++;
	else
		r->nops++;
	return op;
}

static void op_begin(struct exec_op *op)
{
	struct runner *r = op->runner;

	if (!event_pending(r->tick, EV_TIMEOUT, NULL)) {
		/* Silence counts from when somebody waits for an answer. */
		r->heard_ms = clock_ms();
		r->pinged = false;
		schedule(r, PING_MS);
	}
	op_flush(op);
	if (r->state == LINK_NONE) {
		set_state(r, LINK_ASKED);
		r->owner.want_stream(r->owner.arg);
	}
}

static struct exec_op *start(struct exec_backend *b, const struct exec_request *rq, const struct exec_events *ev,
	void *arg, struct err *err)
{
	struct runner *r = of(b);
	struct exec_op *op;
	char *request;
	uint32_t channel;
	size_t len;

	if (admit(r, OP_EXEC, err) != 0)
		return NULL;
	channel = new_channel(r);
	request = runner_put_start(channel, rq, &len, err);
	if (request == NULL)
		return NULL;
	op = op_new(r, OP_EXEC, channel, request, len, rq->timeout_ms, arg);
	op->ev.exec = *ev;
	op_begin(op);
	return op;
}

static struct exec_op *file(struct exec_backend *b, const struct file_request *rq, const struct file_events *ev,
	void *arg, struct err *err)
{
	struct runner *r = of(b);
	struct exec_op *op;
	char *request;
	uint32_t channel;
	size_t len;

	if (admit(r, OP_FILE, err) != 0)
		return NULL;
	channel = new_channel(r);
	request = runner_put_file(channel, rq, &len, err);
	if (request == NULL)
		return NULL;
	op = op_new(r, OP_FILE, channel, request, len, rq->timeout_ms, arg);
	op->ev.file = *ev;
	op_begin(op);
	return op;
}

static int kill_tagged(struct exec_backend *b, const struct slice *tags, unsigned ntags, kill_cb cb, void *arg,
	struct err *err)
{
	struct runner *r = of(b);
	struct exec_op *op;
	char *request;
	uint32_t channel;
	size_t len;

	if (admit(r, OP_KILL, err) != 0)
		return -1;
	channel = new_channel(r);
	request = runner_put_kill(channel, tags, ntags, &len, err);
	if (request == NULL)
		return -1;
	op = op_new(r, OP_KILL, channel, request, len, KILL_MS, arg);
	op->ev.kill = cb;
	op_begin(op);
	return 0;
}

static size_t op_write(struct exec_op *op, struct slice data)
{
	struct runner *r = op->runner;
	size_t taken = 0;

	if (op->closed || r->state != LINK_UP)
		return 0;
	while (taken < data.len && op->room > 0) {
		size_t n = data.len - taken;
		char head[FRAME_HEAD];

		if (n > FRAME_DATA_MAX)
			n = FRAME_DATA_MAX;
		if (n > op->room)
			n = op->room;
		if (channel_room(r->channel) < OUT_RESERVE + n + sizeof(head)) {
			op->starved = true;
			break;
		}
		frame_put_head(head, FRAME_STDIN, op->channel, n);
		if (channel_write(r->channel, slice_make(head, sizeof(head))) != 0 ||
			channel_write(r->channel, slice_make(data.p + taken, n)) != 0)
			abort(); /* there was room */
		op->room -= n;
		taken += n;
	}
	return taken;
}

static void op_close(struct exec_op *op)
{
	op->owes_close = !op->closed;
	op->closed = true;
	op_flush(op);
}

static void op_consumed(struct exec_op *op, size_t bytes)
{
	acknowledge(op, bytes);
}

static void op_resize(struct exec_op *op, uint16_t rows, uint16_t cols)
{
	op->rows = rows;
	op->cols = cols;
	op->owes_resize = true;
	op_flush(op);
}

static void op_kill(struct exec_op *op)
{
	if (op->killed)
		return;
	op->killed = op->owes_kill = true;
	if (op->request != NULL)
		schedule(op->runner, 0); /* it is never sent */
	else
		op_flush(op);
}

static void backend_free(struct exec_backend *b)
{
	struct runner *r = of(b);

	enter(r);
	drop_link(r);
	fail_all(r, false, ECANCELED, "the controller lets go of the sandbox");
	r->doomed = true;
	leave(r);
}

/* ---- the owner ---- */

struct runner *runner_new(struct channel_set *channels, const struct runner_owner *owner)
{
	static const struct exec_backend_ops ops = {
		.start = start,
		.file = file,
		.kill_tagged = kill_tagged,
		.write = op_write,
		.close = op_close,
		.consumed = op_consumed,
		.resize = op_resize,
		.kill = op_kill,
		.free = backend_free,
	};
	struct runner *r = mem_zalloc(sizeof(*r));

	r->backend.ops = &ops;
	r->channels = channels;
	r->owner = *owner;
	r->tick = evtimer_new(channels->base, on_tick, r);
	if (r->tick == NULL)
		abort();
	buf_init(&r->in, FRAME_HEAD + FRAME_DATA_MAX + 65536);
	TAILQ_INIT(&r->ops);
	return r;
}

struct exec_backend *runner_backend(struct runner *r)
{
	return &r->backend;
}

void runner_attach(struct runner *r, int fd, struct slice early)
{
	static const struct channel_events events = { on_data, on_room, on_closed };

	if (r->channel != NULL)
		lose_link(r, ECONNRESET, "another stream takes the place of this one");
	r->diagnosis[0] = '\0';
	r->channel = channel_new(r->channels, fd, early, false, OUT_MAX, &events, r);
	set_state(r, LINK_GREETING);
	r->greeting_ms = clock_ms();
	send_hello(r);
}

void runner_no_stream(struct runner *r, const struct err *err)
{
	set_state(r, LINK_NONE);
	r->failing = true;
	r->failure = *err;
	schedule(r, 0);
}

void runner_detach(struct runner *r, const char *why)
{
	if (r->state == LINK_GREETING || r->state == LINK_UP)
		lose_link(r, ECANCELED, why);
}
