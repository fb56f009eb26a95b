/* Turns requests into frames and the runner's reports into outcomes. */
#include "controller/runner_request.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "controller/kind.h"

#define ATTR_OVERHEAD 5
#define NUMBERS 256 /* above what the numeric attributes of one request take */

static size_t length_of(const struct slice *list, unsigned n)
{
	size_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += list[i].len + ATTR_OVERHEAD;
	return sum;
}

static void put_list(struct frame_writer *w, enum frame_attr attr, const struct slice *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		frame_put_bytes(w, attr, list[i]);
}

static void put_given(struct frame_writer *w, enum frame_attr attr, struct slice s)
{
	if (s.p != NULL)
		frame_put_bytes(w, attr, s);
}

/* Memory for one request of about that size. */
static int open_writer(struct frame_writer *w, enum frame_type type, uint32_t channel, size_t size, struct err *err)
{
	char *p;

	if (size > FRAME_REQUEST_MAX + NUMBERS)
		return err_set(err, E2BIG, "the request is longer than %d bytes", FRAME_REQUEST_MAX);
	p = malloc(size);
	if (p == NULL)
		return err_errno(err, "no memory for a request of %zu bytes", size);
	frame_writer_init(w, p, size);
	frame_begin(w, type, channel);
	return 0;
}

static char *close_writer(struct frame_writer *w, size_t *len, const char *what, struct err *err)
{
	if (!frame_end(w)) {
		free(w->p);
		err_set(err, E2BIG, "%s", what);
		return NULL;
	}
	*len = w->len;
	return w->p;
}

char *runner_put_start(uint32_t channel, const struct exec_request *rq, size_t *len, struct err *err)
{
	size_t size = FRAME_HEAD + NUMBERS + rq->line.len + rq->cwd.len + rq->id.len + rq->tag.len + 4 * ATTR_OVERHEAD +
		length_of(rq->argv, rq->nargv) + length_of(rq->env, rq->nenv);
	struct frame_writer w;

	if (open_writer(&w, FRAME_START, channel, size, err) != 0)
		return NULL;
	put_given(&w, FRAME_ATTR_ID, rq->id);
	put_given(&w, FRAME_ATTR_TAG, rq->tag);
	put_given(&w, FRAME_ATTR_CWD, rq->cwd);
	frame_put_num(&w, FRAME_ATTR_FLAGS,
		(rq->line.p != NULL ? FRAME_START_LINE : 0) | (rq->want_stdin ? FRAME_START_STDIN : 0) |
			(rq->tty ? FRAME_START_TTY : 0));
	frame_put_num(&w, FRAME_ATTR_TIMEOUT_MS, (uint64_t)rq->timeout_ms);
	frame_put_num(&w, FRAME_ATTR_MAX_OUTPUT, rq->max_output);
	if (rq->tty) {
		frame_put_num(&w, FRAME_ATTR_ROWS, rq->rows);
		frame_put_num(&w, FRAME_ATTR_COLS, rq->cols);
	}
	if (rq->line.p != NULL)
		frame_put_bytes(&w, FRAME_ATTR_ARG, rq->line);
	else
		put_list(&w, FRAME_ATTR_ARG, rq->argv, rq->nargv);
	put_list(&w, FRAME_ATTR_ENV, rq->env, rq->nenv);
	return close_writer(&w, len,
		"an argument, variable or path is longer than the kernel takes (131071 bytes; a path "
		"4095), or all of them together than 1 MiB",
		err);
}

char *runner_put_file(uint32_t channel, const struct file_request *rq, size_t *len, struct err *err)
{
	static const enum frame_file_kind kinds[] = {
		[FILE_STAT] = FRAME_FILE_STAT,
		[FILE_READ] = FRAME_FILE_READ,
		[FILE_WRITE] = FRAME_FILE_WRITE,
		[FILE_LIST] = FRAME_FILE_LIST,
		[FILE_REMOVE] = FRAME_FILE_REMOVE,
	};
	size_t size = FRAME_HEAD + NUMBERS + rq->path.len + ATTR_OVERHEAD + length_of(rq->roots, rq->nroots);
	struct frame_writer w;

	if (open_writer(&w, FRAME_FILE, channel, size, err) != 0)
		return NULL;
	frame_put_num(&w, FRAME_ATTR_KIND, kinds[rq->kind]);
	frame_put_bytes(&w, FRAME_ATTR_PATH, rq->path);
	frame_put_num(&w, FRAME_ATTR_FLAGS,
		(rq->follow ? FRAME_FILE_FOLLOW : 0) | (rq->append ? FRAME_FILE_APPEND : 0) |
			(rq->exclusive ? FRAME_FILE_EXCLUSIVE : 0) | (rq->make_parents ? FRAME_FILE_PARENTS : 0) |
			(rq->recursive ? FRAME_FILE_RECURSIVE : 0));
	frame_put_num(&w, FRAME_ATTR_TIMEOUT_MS, (uint64_t)rq->timeout_ms);
	if (rq->kind == FILE_READ)
		frame_put_num(&w, FRAME_ATTR_OFFSET, rq->offset);
	if (rq->limit != 0)
		frame_put_num(&w, FRAME_ATTR_LIMIT, rq->limit);
	if (rq->kind == FILE_WRITE && rq->mode >= 0)
		frame_put_num(&w, FRAME_ATTR_MODE, (uint64_t)rq->mode);
	put_list(&w, FRAME_ATTR_ROOT, rq->roots, rq->nroots);
	return close_writer(&w, len, "a path is longer than 4095 bytes, empty, or holds NUL", err);
}

char *runner_put_kill(uint32_t channel, const struct slice *tags, unsigned ntags, size_t *len, struct err *err)
{
	struct frame_writer w;

	if (open_writer(&w, FRAME_KILL_TAGGED, channel, FRAME_HEAD + NUMBERS + length_of(tags, ntags), err) != 0)
		return NULL;
	put_list(&w, FRAME_ATTR_TAG, tags, ntags);
	return close_writer(&w, len, "a tag is longer than 64 bytes, or there are too many", err);
}

/* A number that the sandbox sent, held to a range: it is never believed to be more than a number. */
static uint64_t capped(const struct frame *f, enum frame_attr attr, uint64_t max, uint64_t absent)
{
	uint64_t v = frame_num_or(f, attr, absent);

	return v > max ? max : v;
}

static const char *text_of(const struct frame *f, char text[RUNNER_TEXT_MAX], const char *absent)
{
	struct slice s = frame_bytes(f, FRAME_ATTR_TEXT);

	if (s.p == NULL)
		return absent;
	snprintf(text, RUNNER_TEXT_MAX, "%.*s", SLICE_ARG(s));
	for (char *c = text; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return text;
}

void runner_get_exit(const struct frame *f, char text[RUNNER_TEXT_MAX], struct exec_outcome *out)
{
	uint64_t flags = frame_num_or(f, FRAME_ATTR_FLAGS, 0), oom = frame_num_or(f, FRAME_ATTR_OOM, FRAME_OOM_UNKNOWN);
	uint64_t duration = frame_num_or(f, FRAME_ATTR_DURATION_US, UINT64_MAX);

	*out = (struct exec_outcome){
		.end = EXEC_START_FAILED,
		.exit_code = -1,
		.timed_out = (flags & FRAME_EXIT_TIMED_OUT) != 0,
		.killed = (flags & FRAME_EXIT_KILLED) != 0,
		.oom = oom == FRAME_OOM_NO ? EXEC_NO
			: oom == FRAME_OOM_YES ? EXEC_YES
								   : EXEC_UNKNOWN,
		.survivors = (unsigned)capped(f, FRAME_ATTR_SURVIVORS, UINT_MAX, 0),
		.bytes = { frame_num_or(f, FRAME_ATTR_STDOUT_BYTES, 0), frame_num_or(f, FRAME_ATTR_STDERR_BYTES, 0) },
		.duration_us = duration <= INT64_MAX ? (int64_t)duration : -1,
		.text = "",
	};
	switch (frame_num_or(f, FRAME_ATTR_END, FRAME_END_START_FAILED)) {
	case FRAME_END_EXITED:
		out->end = EXEC_EXITED;
		out->exit_code = (int)capped(f, FRAME_ATTR_STATUS, 255, 255);
		break;
	case FRAME_END_SIGNALED:
		out->end = EXEC_SIGNALED;
		out->signal = (int)capped(f, FRAME_ATTR_STATUS, 64, 9);
		break;
	default:
		out->oom = EXEC_NO;
		out->code = kind_from_inside((int)capped(f, FRAME_ATTR_CODE, 4095, EIO));
		if (out->code == EBUSY) /* which asks for the sandbox to be started */
			out->code = EINVAL;
		out->text = text_of(f, text, "the command cannot be started");
		break;
	}
}

void runner_get_info(const struct frame *f, struct file_info *out)
{
	static const enum file_type types[] = {
		[FRAME_TYPE_NONE] = FILE_TYPE_NONE,
		[FRAME_TYPE_REGULAR] = FILE_TYPE_REGULAR,
		[FRAME_TYPE_DIRECTORY] = FILE_TYPE_DIRECTORY,
		[FRAME_TYPE_SYMLINK] = FILE_TYPE_SYMLINK,
		[FRAME_TYPE_OTHER] = FILE_TYPE_OTHER,
	};

	*out = (struct file_info){
		.type = types[capped(f, FRAME_ATTR_TYPE, ARRAY_SIZE(types) - 1, FRAME_TYPE_NONE)],
		.size = frame_num_or(f, FRAME_ATTR_SIZE, 0),
		.mode = (unsigned)(frame_num_or(f, FRAME_ATTR_MODE, 0) & 07777),
		.uid = (uid_t)frame_num_or(f, FRAME_ATTR_UID, 0),
		.gid = (gid_t)frame_num_or(f, FRAME_ATTR_GID, 0),
		.mtime_ms = (int64_t)frame_num_or(f, FRAME_ATTR_MTIME_MS, 0),
		.target = frame_bytes(f, FRAME_ATTR_TARGET),
	};
}

void runner_get_done(const struct frame *f, char text[RUNNER_TEXT_MAX], struct file_result *out)
{
	*out = (struct file_result){
		.code = (int)capped(f, FRAME_ATTR_CODE, 4095, EIO),
		.text = "",
		.inside = true,
		.truncated = (frame_num_or(f, FRAME_ATTR_FLAGS, 0) & FRAME_DONE_TRUNCATED) != 0,
	};
	if (out->code != 0)
		out->text = text_of(f, text, "the file operation failed");
	runner_get_info(f, &out->info);
}
