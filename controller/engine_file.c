/* Files by an engine exec: the script's words for each kind, its output, and how it ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/engine_exec_parse.h"
#include "controller/engine_op.h"

static void file_over(struct exec_op *op, const struct file_result *end)
{
	struct file_events events = op->file_events;
	struct file_result r = *end;
	void *arg = op->arg;
	struct buf entry = op->entry; /* a link's target borrows from it */

	r.info = op->info;
	r.truncated = op->truncated;
	buf_init(&op->entry, ENGINE_EARLY_MAX);
	op->state = OP_OVER;
	op_free(op);
	events.done(&r, arg);
	buf_release(&entry);
}

static void file_start_failed(struct exec_op *op, int code, const char *text)
{
	char copy[ERR_TEXT_MAX];

	snprintf(copy, sizeof(copy), "%s", text);
	file_over(op, &(struct file_result){ .code = code, .text = copy });
}

static void file_lost(struct exec_op *op, const char *text)
{
	file_over(op, &(struct file_result){ .code = EINPROGRESS, .text = text, .lost = true });
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
	file_over(op, &(struct file_result){ .code = code, .text = code != 0 ? text : NULL, .inside = true });
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
		op_hold(op, data.len);
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

/* Not waited for any longer. A write without its last byte leaves no trace. */
static void give_up(struct exec_op *op, int code, const char *text)
{
	bool change = op->file.kind == FILE_REMOVE || (op->file.kind == FILE_WRITE && op->input_closed);

	if (change && op->state > OP_CREATING)
		file_lost(op, text);
	else
		file_over(op, &(struct file_result){ .code = code, .text = text });
}

static void on_file_timeout(int fd, short what, void *arg)
{
	give_up(arg, ETIMEDOUT, "no answer in time");
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
	struct json_object *argv = op_argv(scripts[rq->kind].script, scripts[rq->kind].name, rq->timeout_ms);
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

static void file_data(struct exec_op *op, unsigned stream, struct slice data)
{
	if (op_script_data(op, stream, &data))
		file_stdout(op, data);
}

static void file_closed(struct exec_op *op, bool complete)
{
	if (!op->started)
		op_ask(op);
	else if (complete && after_last_mark(buf_slice(&op->notes), op->err_mark.nonce).len > 2)
		file_ended(op);
	else
		file_lost(op, "the stream to the sandbox was cut");
}

static void file_room(struct exec_op *op, size_t bytes)
{
	if (op->file_events.room != NULL)
		op->file_events.room(bytes, op->arg);
}

static void on_file_killed(int fd, short what, void *arg)
{
	give_up(arg, ECANCELED, "ended on request");
}

static void file_kill(struct exec_op *op)
{
	op_arm(op, 1, on_file_killed);
}

static const struct op_kind kind_file = {
	.data = file_data,
	.room = file_room,
	.closed = file_closed,
	.start_failed = file_start_failed,
	.lost = file_lost,
	.kill = file_kill,
};

struct exec_op *engine_file_start(struct exec_backend *base, const struct file_request *rq,
	const struct file_events *ev, void *arg, struct err *err)
{
	struct engine_backend *b = engine_backend_of(base);

	if (rq->nroots > 0) {
		err_set(err, EOPNOTSUPP, "confinement to directories needs the runner in the image");
		return NULL;
	}
	if (op_has_nul(rq->path)) {
		err_set(err, EINVAL, "a path holds no NUL");
		return NULL;
	}
	struct exec_op *op = op_new(b, &kind_file, arg);
	op->file_events = *ev;
	op->file = *rq;
	op->file.path = slice_make(mem_dup(rq->path), rq->path.len);
	if (op_create(op, file_argv(op, rq), rq->kind == FILE_WRITE, err) != 0) {
		op_free(op);
		return NULL;
	}
	op_arm(op, rq->timeout_ms, on_file_timeout);
	return op;
}
