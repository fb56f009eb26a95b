/* Multiplexes the operations of one sandbox over the stream to its runner: what its users call. */
#include "controller/runner.h"

#include <errno.h>

#include "controller/clock.h"
#include "controller/mem.h"
#include "controller/runner_core.h"
#include "controller/runner_request.h"

#define OUT_MAX (4 * 1024 * 1024) /* of the stream: requests and stdin that the engine has not taken */
#define OPS_MAX 240 /* below the runner's own limit, so that a kill always finds a place */
#define KILLS_MAX 8
#define LATE_MS 30000 /* beyond an operation's own limit its outcome is unknown */
#define KILL_MS 60000
#define IDLE_MS 100 /* a stream not heard of for that long is asked before it is given anything */

static struct runner *of(struct exec_backend *b)
{
	return container_of(b, struct runner, backend);
}

static uint32_t new_channel(struct runner *r)
{
	do
		r->next_channel++;
	while (r->next_channel == 0 || runner_find(r, r->next_channel) != NULL);
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

/*
 * Under gVisor the stream of a sandbox that was stopped may stay open. What is sent over it is lost, and nobody can tell that
 * it never ran; what waits for a sign of life is not.
 */
static void op_begin(struct exec_op *op)
{
	struct runner *r = op->runner;
	bool idle = r->state == LINK_UP && clock_ms() - r->heard_ms >= IDLE_MS;
	bool waits = event_pending(r->tick, EV_TIMEOUT, NULL);

	if (!waits) {
		/* Silence counts from when somebody waits for an answer. */
		r->heard_ms = clock_ms();
		r->pinged = false;
		runner_schedule(r, RUNNER_PING_MS);
	}
	if (idle && !r->probing && runner_put_plain(r, FRAME_PING, 0)) {
		r->probing = true;
		r->pinged = r->pinged || !waits;
	}
	runner_op_flush(op);
	if (r->state == LINK_NONE) {
		runner_set_state(r, LINK_ASKED);
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

static void op_close(struct exec_op *op)
{
	op->owes_close = !op->closed;
	op->closed = true;
	runner_op_flush(op);
}

static void op_consumed(struct exec_op *op, size_t bytes)
{
	runner_op_acknowledge(op, bytes);
}

static void op_resize(struct exec_op *op, uint16_t rows, uint16_t cols)
{
	op->rows = rows;
	op->cols = cols;
	op->owes_resize = true;
	runner_op_flush(op);
}

static void op_kill(struct exec_op *op)
{
	if (op->killed)
		return;
	op->killed = op->owes_kill = true;
	op->killed_ms = clock_ms();
	if (op->request != NULL)
		runner_schedule(op->runner, 0); /* it is never sent */
	else
		runner_op_flush(op);
}

static void backend_stopped(struct exec_backend *b)
{
	runner_detach(of(b), "the sandbox was stopped");
}

static bool backend_linked(const struct exec_backend *b)
{
	return container_of(b, const struct runner, backend)->state != LINK_NONE;
}

static void backend_free(struct exec_backend *b)
{
	struct runner *r = of(b);

	runner_enter(r);
	runner_drop_link(r);
	runner_fail_all(r, OPS_ALL, ECANCELED, "the controller lets go of the sandbox");
	r->doomed = true;
	runner_leave(r);
}

struct runner *runner_new(struct channel_set *channels, const struct runner_owner *owner)
{
	static const struct exec_backend_ops ops = {
		.start = start,
		.file = file,
		.kill_tagged = kill_tagged,
		.write = runner_op_write,
		.close = op_close,
		.consumed = op_consumed,
		.resize = op_resize,
		.kill = op_kill,
		.stopped = backend_stopped,
		.linked = backend_linked,
		.free = backend_free,
	};
	struct runner *r = mem_zalloc(sizeof(*r));

	r->backend.ops = &ops;
	r->channels = channels;
	r->owner = *owner;
	r->tick = evtimer_new(channels->base, runner_on_tick, r);
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
	static const struct channel_events events = { runner_on_data, runner_on_room, runner_on_closed };

	if (r->channel != NULL)
		runner_lose_link(r, ECONNRESET, "another stream takes the place of this one");
	r->diagnosis[0] = '\0';
	r->channel = channel_new(r->channels, fd, early, false, OUT_MAX, &events, r);
	runner_set_state(r, LINK_GREETING);
	r->greeting_ms = clock_ms();
	runner_send_hello(r);
}

void runner_no_stream(struct runner *r, const struct err *err)
{
	runner_set_state(r, LINK_NONE);
	r->failing = true;
	r->failure = *err;
	runner_schedule(r, 0);
}

void runner_detach(struct runner *r, const char *why)
{
	if (r->state != LINK_GREETING && r->state != LINK_UP)
		return;
	runner_drop_link(r);
	runner_enter(r);
	/* In this order: what a callback starts now waits for the next stream. */
	runner_fail_all(r, OPS_UNSENT, EBUSY, why);
	if (!r->doomed)
		runner_fail_all(r, OPS_SENT, ECANCELED, why);
	runner_leave(r);
}
