/* Where a command's output goes: told as it comes, or kept for the result, and held back while the client does not keep up. */
#include "controller/method_exec_impl.h"

#include <string.h>

#include "controller/text.h"
#include "libgate/log.h"

#define PIECE 65536 /* bytes told at once of what was kept */

const char *const method_exec_streams[EXEC_STREAMS] = { "stdout", "stderr" };

static void notify_output(struct command *c, unsigned stream, struct slice data)
{
	struct json_object *o = jnew();
	bool encoded = !text_is_utf8(data);

	jset(o, "requestId", json_object_get(c->call->id));
	jset_cstr(o, "stream", method_exec_streams[stream]);
	text_set(o, "data", data, encoded);
	jset_cstr(o, "encoding", encoded ? "base64" : "utf8");
	jset_int(o, "seq", (int64_t)c->seq++);
	call_notify(c->call, "exec/output", o);
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

void method_exec_flush(struct command *c, unsigned stream)
{
	struct stream *s = &c->streams[stream];

	if (!c->stream)
		return;
	if (buf_len(&s->captured) > 0)
		stream_output(c, stream, buf_slice(&s->captured));
	buf_clear(&s->captured);
	if (s->npartial > 0)
		notify_output(c, stream, slice_make(s->partial, s->npartial));
	s->npartial = 0;
}

bool method_exec_keeps_output(const struct command *c)
{
	bool any = false;

	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		any = any || buf_len(&c->streams[i].captured) > 0;
	return c->stream && any;
}

/*
 * What the client had no room for was kept as bytes, of which there are no more than the operation's window: as notifications
 * they could be a hundred times as many, and a sandbox that writes byte by byte would fill the connection of a slow client.
 */
static void tell_kept(struct command *c, unsigned stream)
{
	struct buf *kept = &c->streams[stream].captured;

	while (buf_len(kept) > 0 && !call_congested(c->call)) {
		size_t n = buf_len(kept) < PIECE ? buf_len(kept) : PIECE;
		auto_free char *piece = mem_dup(slice_make(buf_head(kept), n));

		buf_consume(kept, n);
		stream_output(c, stream, slice_make(piece, n));
	}
	buf_trim(kept);
}

void method_exec_on_output(enum exec_stream stream, struct slice data, void *arg)
{
	struct command *c = arg;

	if (c->stream)
		tell_kept(c, stream);
	if (c->call->owner->output != NULL)
		c->call->owner->output(c->call, stream, data);
	else if (c->stream && !call_congested(c->call))
		stream_output(c, stream, data);
	else if (buf_put_slice(&c->streams[stream].captured, data) != 0 && !c->overrun) {
		/* Once: the sandbox is not to fill the log. */
		c->overrun = true;
		log_warn("%s: output beyond its limit was dropped", c->sandbox->name);
	}
	c->unconsumed += data.len;
	if (c->op != NULL && !call_congested(c->call)) {
		c->backend->ops->consumed(c->op, c->unconsumed);
		c->unconsumed = 0;
	}
}

void method_exec_on_drained(struct call *call)
{
	struct command *c = call->state;

	if (c->stream && (c->op != NULL || c->ended)) {
		for (unsigned i = 0; i < EXEC_STREAMS; i++)
			tell_kept(c, i);
		if (method_exec_keeps_output(c))
			return;
	}
	if (c->ended) {
		method_exec_over(c, &c->end);
		return;
	}
	if (c->op != NULL && c->unconsumed > 0) {
		size_t n = c->unconsumed;
		c->unconsumed = 0;
		c->backend->ops->consumed(c->op, n);
	}
}
