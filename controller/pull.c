/* Pulls an image and reads the progress stream for what really happened. */
#include "controller/pull.h"

#include <errno.h>
#include <string.h>

#include "controller/mem.h"
#include "libgate/buf.h"

#define LINE_MAX_BYTES ((size_t)64 * 1024)

struct pull {
	struct json_doc *doc;
	struct buf line;
	char *image;
	bool settled; /* a final status was seen */
	struct err fault; /* what the stream said */
	pull_progress_cb progress;
	pull_done_cb done;
	void *arg;
};

static void pull_free(struct pull *p)
{
	json_doc_free(p->doc);
	buf_release(&p->line);
	free(p->image);
	free(p);
}

static void take_line(struct pull *p, struct slice line)
{
	enum json_fault fault;
	size_t offset;
	struct slice text;

	while (line.len > 0 && (line.p[line.len - 1] == '\r' || line.p[line.len - 1] == ' '))
		line.len--;
	if (line.len == 0)
		return;
	const struct json_node *o = json_parse(p->doc, line, JSON_STRICT, &fault, &offset);
	if (o == NULL) {
		err_set(&p->fault, EPROTO, "a line of the pull's progress is not JSON");
		return;
	}
	if (json_get_string(json_get(o, "errorDetail"), "message", &text) || json_get_string(o, "error", &text)) {
		if (text.len > 300)
			text.len = 300;
		err_set(&p->fault, EAGAIN, "%.*s", SLICE_ARG(text));
		return;
	}
	if (json_get_string(o, "status", &text) && slice_starts(text, "Status: "))
		p->settled = true;
	if (p->progress != NULL)
		p->progress(p->image, o, p->arg);
}

static void on_data(struct slice data, void *arg)
{
	struct pull *p = arg;

	while (data.len > 0) {
		const char *end = memchr(data.p, '\n', data.len);
		size_t n = end != NULL ? (size_t)(end - data.p) : data.len;

		if (buf_put(&p->line, data.p, n) != 0) {
			err_set(&p->fault, EMSGSIZE, "a line of the pull's progress is too long");
			buf_clear(&p->line);
		}
		if (end != NULL) {
			take_line(p, buf_slice(&p->line));
			buf_clear(&p->line);
			n++;
		}
		data = slice_skip(data, n);
	}
}

static void on_done(const struct engine_reply *reply, void *arg)
{
	struct pull *p = arg;
	struct err err = ERR_INIT;
	bool failed = true;

	if (reply->status == 200 && buf_len(&p->line) > 0)
		take_line(p, buf_slice(&p->line));
	if (reply->status != 200)
		err_set(&err, reply->err.code == ENOENT ? EAGAIN : reply->err.code, "%s", reply->err.text);
	else if (p->fault.text[0] != '\0')
		err = p->fault;
	else if (!p->settled)
		err_set(&err, EAGAIN, "the pull ended without a final status");
	else
		failed = false;
	if (failed)
		err_wrap(&err, "the image %s is not on the engine and cannot be pulled (load or pull it ahead)", p->image);
	p->done(failed ? &err : NULL, p->arg);
	pull_free(p);
}

void pull_start(struct engine *e, const char *image, int64_t timeout_ms, pull_progress_cb progress, pull_done_cb done,
	void *arg)
{
	struct pull *p = mem_zalloc(sizeof(*p));
	auto_free char *escaped = engine_escape(slice_str(image));
	auto_free char *path = mem_printf("/images/create?fromImage=%s", escaped);

	p->image = mem_strdup(image);
	p->progress = progress;
	p->done = done;
	p->arg = arg;
	buf_init(&p->line, LINE_MAX_BYTES);
	p->doc = json_doc_new();
	if (p->doc == NULL)
		abort();
	engine_stream(e, "POST", path, timeout_ms, on_data, on_done, p);
}
