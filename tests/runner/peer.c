/* Speaks the protocol to a runner in a child process. */
#include "tests/runner/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define UID_FIRST 20000
#define UID_SPAN 20000
#define PATIENCE_S 30 /* nothing here takes as long unless it is broken */

static int64_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

uid_t peer_uid(void)
{
	struct stat st;

	return UID_FIRST + (uid_t)(stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino % UID_SPAN : 0);
}

struct peer *peer_new(const char *program)
{
	return peer_new_with(program, NULL);
}

struct peer *peer_new_with(const char *program, const char *outcomes)
{
	struct peer *p = calloc(1, sizeof(*p));
	int in[2], out[2];

	if (p == NULL || pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return NULL;
	p->pid = fork();
	if (p->pid == 0) {
		uid_t uid = peer_uid();

		if (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0)
			_exit(120);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(program, program, outcomes, (char *)NULL);
		_exit(121);
	}
	close(in[0]);
	close(out[1]);
	p->to = in[1];
	p->from = out[0];
	p->next = 1;
	return p;
}

void peer_close(struct peer *p)
{
	util_closep(&p->to);
	util_closep(&p->from);
}

void peer_free(struct peer *p)
{
	peer_close(p);
	waitpid(p->pid, NULL, 0);
	for (size_t i = 0; i < PEER_OPS; i++) {
		free(p->ops[i].out);
		free(p->ops[i].err);
	}
	free(p);
}

void peer_send(struct peer *p, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t w = write(p->to, at, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return;
		at += w;
		n -= (size_t)w;
	}
}

void peer_frame(struct peer *p, const struct frame_writer *w)
{
	peer_send(p, w->p, w->len);
}

void peer_plain(struct peer *p, enum frame_type type, uint32_t channel)
{
	char head[FRAME_HEAD];

	frame_put_head(head, type, channel, 0);
	peer_send(p, head, sizeof(head));
}

void peer_credit(struct peer *p, uint32_t channel, uint64_t bytes)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_CREDIT, channel);
	frame_put_num(&w, FRAME_ATTR_BYTES, bytes);
	if (frame_end(&w))
		peer_frame(p, &w);
}

static void append(char **text, size_t *len, struct slice s)
{
	size_t before = 64, room;

	/* The room is always the power of two above what is there. */
	while (before < *len + 1)
		before *= 2;
	for (room = before; room < *len + s.len + 1;)
		room *= 2;
	if (*text == NULL || room != before)
		*text = realloc(*text, room);
	if (*text == NULL)
		abort();
	memcpy(*text + *len, s.p, s.len);
	*len += s.len;
	(*text)[*len] = '\0';
}

static void take(struct peer *p, const struct frame *f)
{
	struct peer_op *op = peer_op(p, f->channel);
	struct slice name = frame_bytes(f, FRAME_ATTR_NAME);

	switch (f->type) {
	case FRAME_HELLO:
		p->greeted = true;
		p->features = frame_num_or(f, FRAME_ATTR_FEATURES, 0);
		break;
	case FRAME_FATAL:
		snprintf(p->fatal, sizeof(p->fatal), "%.*s", SLICE_ARG(frame_bytes(f, FRAME_ATTR_TEXT)));
		break;
	case FRAME_PONG:
		p->pongs++;
		break;
	case FRAME_STARTED:
		op->started = true;
		break;
	case FRAME_ROOM:
		op->room += frame_num_or(f, FRAME_ATTR_BYTES, 0);
		break;
	case FRAME_STDOUT:
		append(&op->out, &op->out_len, f->payload);
		break;
	case FRAME_STDERR:
		append(&op->err, &op->err_len, f->payload);
		break;
	case FRAME_ENTRY:
		op->entries++;
		if (strlen(op->names) + name.len + 2 < sizeof(op->names)) {
			strncat(op->names, name.p, name.len);
			strcat(op->names, "\n");
		}
		break;
	case FRAME_EXIT:
	case FRAME_DONE:
	case FRAME_KILLED:
		op->ended = true;
		op->end = f->type;
		if (f->payload.len <= sizeof(op->end_text)) {
			memcpy(op->end_text, f->payload.p, f->payload.len);
			op->end_frame = *f;
			op->end_frame.payload.p = op->end_text;
		}
		break;
	case FRAME_PING:
	case FRAME_START:
	case FRAME_STDIN:
	case FRAME_STDIN_END:
	case FRAME_CREDIT:
	case FRAME_RESIZE:
	case FRAME_KILL:
	case FRAME_SETTLED:
	case FRAME_KILL_TAGGED:
	case FRAME_FILE:
		break;
	}
	if ((f->type == FRAME_STDOUT || f->type == FRAME_STDERR || f->type == FRAME_ENTRY) && !op->hold)
		peer_credit(p, f->channel, f->payload.len);
}

/* One read, and all frames in it. false: the stream ended or nothing came in time. */
static bool turn(struct peer *p, int64_t until)
{
	struct pollfd pfd = { .fd = p->from, .events = POLLIN };
	size_t at = 0;
	ssize_t n;

	if (p->eof || poll(&pfd, 1, (int)(until > now_s() ? (until - now_s()) * 1000 : 0)) <= 0)
		return false;
	n = read(p->from, p->in + p->in_len, sizeof(p->in) - p->in_len);
	if (n <= 0) {
		p->eof = true;
		return false;
	}
	p->in_len += (size_t)n;
	for (;;) {
		struct frame f;
		enum frame_fault fault;
		size_t used;
		enum frame_result r = frame_read(FRAME_RUNNER, p->in + at, p->in_len - at, &f, &used, &fault);

		if (r == FRAME_MORE)
			break;
		if (r == FRAME_BAD) {
			fprintf(stderr, "peer: the runner sent a bad frame: %s\n", frame_fault_id(fault));
			abort();
		}
		at += used;
		take(p, &f);
	}
	memmove(p->in, p->in + at, p->in_len - at);
	p->in_len -= at;
	return true;
}

#define WAIT(cond) \
	int64_t until = now_s() + PATIENCE_S; \
	while (!(cond)) \
		if (!turn(p, until)) \
			return (cond); \
	return true

bool peer_wait(struct peer *p, uint32_t channel)
{
	WAIT(peer_op(p, channel)->ended);
}

bool peer_wait_started(struct peer *p, uint32_t channel)
{
	WAIT(peer_op(p, channel)->started || peer_op(p, channel)->ended);
}

bool peer_wait_out(struct peer *p, uint32_t channel, size_t bytes)
{
	WAIT(peer_op(p, channel)->out_len >= bytes);
}

bool peer_wait_eof(struct peer *p)
{
	WAIT(p->eof);
}

bool peer_wait_pong(struct peer *p)
{
	unsigned before = p->pongs;

	peer_plain(p, FRAME_PING, 0);
	WAIT(p->pongs > before);
}

static bool wait_hello(struct peer *p)
{
	WAIT(p->greeted);
}

void peer_hello(struct peer *p, uint64_t window)
{
	char space[64];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_HELLO, 0);
	frame_put_num(&w, FRAME_ATTR_VERSION, FRAME_VERSION);
	frame_put_num(&w, FRAME_ATTR_WINDOW, window);
	if (frame_end(&w))
		peer_frame(p, &w);
	if (!wait_hello(p)) {
		fprintf(stderr, "peer: the runner does not greet\n");
		abort();
	}
}

void peer_stdin(struct peer *p, uint32_t channel, const void *bytes, size_t n)
{
	struct peer_op *op = peer_op(p, channel);
	const char *at = bytes;
	int64_t until = now_s() + PATIENCE_S;

	while (n > 0 && !op->ended) {
		size_t run = n < FRAME_DATA_MAX ? n : FRAME_DATA_MAX;
		char head[FRAME_HEAD];

		if (op->room == 0) {
			if (!turn(p, until))
				return;
			continue;
		}
		if (run > op->room)
			run = (size_t)op->room;
		frame_put_head(head, FRAME_STDIN, channel, run);
		peer_send(p, head, sizeof(head));
		peer_send(p, at, run);
		op->room -= run;
		at += run;
		n -= run;
	}
}

static uint32_t channel_new(struct peer *p)
{
	uint32_t channel = p->next++;
	struct peer_op *op = peer_op(p, channel);

	free(op->out);
	free(op->err);
	memset(op, 0, sizeof(*op));
	append(&op->out, &op->out_len, SLICE_LIT(""));
	append(&op->err, &op->err_len, SLICE_LIT(""));
	return channel;
}

static char request[FRAME_HEAD + FRAME_REQUEST_MAX];

static void put_list(struct frame_writer *w, enum frame_attr attr, const char *const *list)
{
	for (; list != NULL && *list != NULL; list++)
		frame_put_bytes(w, attr, slice_str(*list));
}

static void send_request(struct peer *p, struct frame_writer *w)
{
	if (!frame_end(w)) {
		fprintf(stderr, "peer: the request is too long\n");
		abort();
	}
	peer_frame(p, w);
}

uint32_t peer_start(struct peer *p, const struct peer_command *c)
{
	uint32_t channel = channel_new(p);
	struct frame_writer w;
	char id[32];

	peer_op(p, channel)->hold = c->hold;
	snprintf(id, sizeof(id), "t%d-%u", (int)p->pid, (unsigned)channel);
	frame_writer_init(&w, request, sizeof(request));
	frame_begin(&w, FRAME_START, channel);
	frame_put_bytes(&w, FRAME_ATTR_ID, slice_str(c->id != NULL ? c->id : id));
	frame_put_num(&w, FRAME_ATTR_FLAGS,
		(c->argv == NULL ? FRAME_START_LINE : 0) | (c->want_stdin ? FRAME_START_STDIN : 0) |
			(c->tty ? FRAME_START_TTY : 0));
	if (c->argv == NULL)
		frame_put_bytes(&w, FRAME_ATTR_ARG, slice_str(c->line));
	put_list(&w, FRAME_ATTR_ARG, c->argv);
	put_list(&w, FRAME_ATTR_ENV, c->env);
	if (c->cwd != NULL)
		frame_put_bytes(&w, FRAME_ATTR_CWD, slice_str(c->cwd));
	if (c->tag != NULL)
		frame_put_bytes(&w, FRAME_ATTR_TAG, slice_str(c->tag));
	frame_put_num(&w, FRAME_ATTR_TIMEOUT_MS, (uint64_t)(c->timeout_ms != 0 ? c->timeout_ms : 60000));
	if (c->max_output != 0)
		frame_put_num(&w, FRAME_ATTR_MAX_OUTPUT, c->max_output);
	if (c->tty) {
		frame_put_num(&w, FRAME_ATTR_ROWS, 33);
		frame_put_num(&w, FRAME_ATTR_COLS, 101);
	}
	send_request(p, &w);
	return channel;
}

uint32_t peer_kill_tagged(struct peer *p, const char *const *tags)
{
	uint32_t channel = channel_new(p);
	struct frame_writer w;

	frame_writer_init(&w, request, sizeof(request));
	frame_begin(&w, FRAME_KILL_TAGGED, channel);
	put_list(&w, FRAME_ATTR_TAG, tags);
	send_request(p, &w);
	return channel;
}

uint32_t peer_file(struct peer *p, const struct peer_file *f)
{
	uint32_t channel = channel_new(p);
	struct frame_writer w;

	frame_writer_init(&w, request, sizeof(request));
	frame_begin(&w, FRAME_FILE, channel);
	frame_put_num(&w, FRAME_ATTR_KIND, f->kind);
	frame_put_bytes(&w, FRAME_ATTR_PATH, slice_str(f->path));
	frame_put_num(&w, FRAME_ATTR_FLAGS, f->flags);
	frame_put_num(&w, FRAME_ATTR_TIMEOUT_MS, 60000);
	if (f->offset != 0)
		frame_put_num(&w, FRAME_ATTR_OFFSET, f->offset);
	if (f->limit != 0)
		frame_put_num(&w, FRAME_ATTR_LIMIT, f->limit);
	if (f->mode >= 0)
		frame_put_num(&w, FRAME_ATTR_MODE, (uint64_t)f->mode);
	put_list(&w, FRAME_ATTR_ROOT, f->roots);
	send_request(p, &w);
	return channel;
}
