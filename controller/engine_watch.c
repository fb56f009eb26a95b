/* The container under the operations: a stream does not always end with it. */
#include <event2/event.h>
#include <string.h>

#include "controller/engine_exec_parse.h"
#include "controller/engine_op.h"

#define WATCH_SECONDS 3

/*
 * A stream does not always end with its container (gVisor): whoever runs in one that stopped, or of which there is another
 * start by now, is told. With the last operation the backend may go.
 */
static void end_outlived(struct engine_backend *b, const char *stopped, struct slice started, time_t now)
{
	struct exec_op *op, *next;

	TAILQ_FOREACH_SAFE (op, &b->ops, link, next) {
		if (op->state != OP_OPEN)
			continue;
		if (stopped != NULL)
			op->kind->lost(op, stopped);
		else if (started_since(started, op->made, now))
			op->kind->lost(op, "the sandbox was restarted meanwhile");
	}
}

static void on_watched(const struct engine_reply *reply, void *arg)
{
	struct engine_backend *b = arg;
	const struct json_node *state = json_get(reply->json, "State");
	struct slice status = { NULL, 0 }, started = { NULL, 0 };

	b->watch_call = NULL;
	engine_watch(b);
	json_get_string(state, "Status", &status);
	json_get_string(state, "StartedAt", &started);
	if (reply->status == 404)
		end_outlived(b, "the sandbox was removed meanwhile", started, 0);
	else if (reply->status == 200 && (slice_is(status, "exited") || slice_is(status, "dead")))
		end_outlived(b, "the sandbox stopped meanwhile", started, 0);
	else if (reply->status == 200)
		end_outlived(b, NULL, started, reply->date);
}

void engine_watch_fired(int fd, short what, void *arg)
{
	struct engine_backend *b = arg;
	auto_free char *path = mem_printf("/containers/%s/json", b->container);

	if (b->watch_call == NULL && !TAILQ_EMPTY(&b->ops))
		b->watch_call = engine_call(b->engine, "GET", path, NULL, ENGINE_REQUEST_MS, on_watched, b);
}

void engine_watch(struct engine_backend *b)
{
	struct timeval tv = { WATCH_SECONDS, 0 };

	if (b->watch_call == NULL && !event_pending(b->watch, EV_TIMEOUT, NULL))
		event_add(b->watch, &tv);
}
