/* The container under the commands: a stream does not always end with it. */
#include <event2/event.h>
#include <string.h>

#include "controller/engine_op.h"

#define WATCH_SECONDS 3

/* A stream does not always end with its container (gVisor): whoever runs in one that stopped is told. */
static void end_commands(struct engine_backend *b, bool only_watched, const char *text)
{
	struct exec_op *op, *next;

	TAILQ_FOREACH_SAFE (op, &b->ops, link, next)
		if (op->kind->command && op->state == OP_OPEN && (op->watched || !only_watched))
			op->kind->lost(op, text);
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
	engine_watch(b);
}

void engine_watch_fired(int fd, short what, void *arg)
{
	struct engine_backend *b = arg;
	auto_free char *path = mem_printf("/containers/%s/json", b->container);

	if (b->watch_call == NULL && !TAILQ_EMPTY(&b->ops))
		b->watch_call = engine_call(b->engine, "GET", path, NULL, ENGINE_REQUEST_MS, on_watched, b);
	else
		b->started_at[0] = '\0';
}

void engine_watch(struct engine_backend *b)
{
	struct timeval tv = { WATCH_SECONDS, 0 };

	if (b->watch_call == NULL && !event_pending(b->watch, EV_TIMEOUT, NULL))
		event_add(b->watch, &tv);
}
