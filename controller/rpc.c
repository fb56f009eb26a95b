/* Serves one JSON-RPC client: reads what it sends, for as long as it and its calls last. */
#include "controller/rpc.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/rpc_impl.h"
#include "libgate/log.h"

#define STOP_READING ((size_t)4 << 20)
#define READ_SIZE 65536
#define PIPE_SIZE (1 << 20)
#define STALL_SECONDS 60
#define HURRY_SECONDS 2

/* --- reading ----------------------------------------------------------------------------------------------------- */

void rpc_update_reading(struct rpc *r)
{
	bool want = !r->input_ended && r->shutdown == NULL && buf_len(&r->out_buf) < STOP_READING;

	if (want && !event_pending(r->read_event, EV_READ, NULL))
		event_add(r->read_event, NULL);
	else if (!want)
		event_del(r->read_event);
}

static void take_input(struct rpc *r)
{
	struct slice message;
	size_t used;

	for (;;) {
		switch (framing_next(&r->framing, buf_slice(&r->in_buf), &message, &used)) {
		case FRAMING_MORE:
			buf_consume(&r->in_buf, used);
			buf_trim(&r->in_buf);
			return;
		case FRAMING_MESSAGE:
			rpc_take_message(r, message);
			buf_consume(&r->in_buf, used);
			break;
		case FRAMING_TOO_LONG:
			buf_consume(&r->in_buf, used);
			rpc_answer_error(r, NULL, NULL, RPC_INVALID_REQUEST, "the message is longer than limits.maxMessageBytes");
			break;
		case FRAMING_BROKEN:
			buf_clear(&r->in_buf);
			rpc_answer_error(r, NULL, NULL, RPC_PARSE, "not a Content-Length head; the connection ends");
			rpc_end(r);
			return;
		}
		if (r->output_failed || r->reported)
			return;
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct rpc *r = arg;
	char *room = buf_reserve(&r->in_buf, READ_SIZE);

	if (room == NULL) {
		log_error("a request is larger than the input buffer; the connection ends");
		rpc_end(r);
		return;
	}
	ssize_t n = read(r->in, room, READ_SIZE);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		rpc_end(r);
		return;
	}
	buf_commit(&r->in_buf, (size_t)n);
	take_input(r);
	rpc_update_reading(r);
}

/* --- life -------------------------------------------------------------------------------------------------------- */

/* Nothing more is read, and what runs comes to its end. */
static bool ends(const struct rpc *r)
{
	return r->input_ended || r->shutdown != NULL;
}

void rpc_check_end(struct rpc *r)
{
	struct timeval now = { 0, 0 };

	if (ends(r) && buf_len(&r->out_buf) > 0 && !event_pending(r->stall, EV_TIMEOUT, NULL))
		rpc_watch_stall(r);
	if (r->input_ended && !r->taking && r->ncalls == 0 && (buf_len(&r->out_buf) == 0 || r->output_failed) &&
		!r->reported) {
		r->reported = true;
		event_add(r->close_event, &now);
	}
}

/* What has not begun ends inside its cancel, and with it, when that cannot be told, all others: nothing of the list is kept. */
void rpc_kill_calls(struct rpc *r)
{
	struct call *call;

	TAILQ_FOREACH (call, &r->calls, link)
		call->to_cancel = call->cancel != NULL;
	do {
		TAILQ_FOREACH (call, &r->calls, link)
			if (call->to_cancel)
				break;
		if (call != NULL) {
			call->to_cancel = false;
			if (call->cancel != NULL)
				call->cancel(call);
		}
	} while (call != NULL);
}

static void on_grace_over(evutil_socket_t fd, short what, void *arg)
{
	rpc_kill_calls(arg);
}

static void on_stall(evutil_socket_t fd, short what, void *arg)
{
	struct rpc *r = arg;

	if (buf_len(&r->out_buf) == 0)
		return;
	log_warn("a client has taken none of its answers for %d s after its end and is dropped: %zu bytes wait",
		r->stall_seconds, buf_len(&r->out_buf));
	rpc_drop_output(r);
}

void rpc_watch_stall(struct rpc *r)
{
	struct timeval tv = { r->stall_seconds, 0 };

	if (ends(r))
		event_add(r->stall, &tv);
}

void rpc_hurry(struct rpc *r)
{
	r->stall_seconds = HURRY_SECONDS;
	rpc_watch_stall(r);
}

static void on_close(evutil_socket_t fd, short what, void *arg)
{
	struct rpc *r = arg;

	r->events->closed(r->arg);
}

void rpc_end(struct rpc *r)
{
	struct timeval tv = { r->grace_ms / 1000, (r->grace_ms % 1000) * 1000 };

	if (r->input_ended)
		return;
	r->input_ended = true;
	event_del(r->read_event);
	if (r->ncalls > 0)
		event_add(r->grace, &tv);
	if (r->events->ended != NULL)
		r->events->ended(r->arg);
	rpc_check_end(r);
}

/* A pipe is opened anew: non-blocking then is our end of it alone, and not what others share. */
static int own_output(int fd, bool is_socket)
{
	char path[32];
	struct stat st;

	if (is_socket || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return fd;
	(void)fcntl(own, F_SETPIPE_SZ, PIPE_SIZE); /* fewer turns with large answers; no harm without */
	return own;
}

struct rpc *rpc_new(struct controller *c, int in, int out, int64_t grace_ms, const struct rpc_events *events, void *arg)
{
	struct rpc *r = mem_zalloc(sizeof(*r));
	struct stat st;

	r->controller = c;
	r->in = in;
	r->out_is_socket = fstat(out, &st) == 0 && S_ISSOCK(st.st_mode);
	r->out = own_output(out, r->out_is_socket);
	r->grace_ms = grace_ms;
	r->events = events;
	r->stall_seconds = STALL_SECONDS;
	r->arg = arg;
	framing_init(&r->framing);
	buf_init(&r->in_buf, FRAMING_MAX + READ_SIZE * 2);
	buf_init(&r->out_buf, RPC_OUT_MAX);
	TAILQ_INIT(&r->calls);
	r->read_event = event_new(c->base, in, EV_READ | EV_PERSIST, on_readable, r);
	r->write_event = event_new(c->base, r->out, EV_WRITE, rpc_on_writable, r);
	r->grace = evtimer_new(c->base, on_grace_over, r);
	r->stall = evtimer_new(c->base, on_stall, r);
	r->close_event = evtimer_new(c->base, on_close, r);
	if (r->read_event == NULL || r->write_event == NULL || r->grace == NULL || r->stall == NULL ||
		r->close_event == NULL || event_add(r->read_event, NULL) != 0)
		abort();
	return r;
}

void rpc_free(struct rpc *r)
{
	event_free(r->read_event);
	event_free(r->write_event);
	event_free(r->grace);
	event_free(r->stall);
	event_free(r->close_event);
	close(r->in);
	if (r->out != r->in)
		close(r->out);
	buf_release(&r->in_buf);
	buf_release(&r->out_buf);
	heap_freed(&r->controller->heap);
	free(r);
}
