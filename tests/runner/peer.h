/* The controller's side of the runner's protocol for tests: plain, blocking, one runner at the end of two pipes. */
#ifndef TESTS_RUNNER_PEER_H
#define TESTS_RUNNER_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libgate/frame.h"

#define PEER_OPS 512

/* What has come for one operation. */
struct peer_op {
	bool ended;
	bool started;
	bool hold; /* give no credit for its data */
	enum frame_type end; /* EXIT, DONE or KILLED */
	uint64_t room; /* bytes of stdin it takes */
	char *out; /* both streams apart, terminated */
	char *err;
	size_t out_len, err_len;
	unsigned entries;
	char names[2048]; /* of ENTRY frames, each with a newline */
	char end_text[1200]; /* copy of the end's payload */
	struct frame end_frame;
};

struct peer {
	pid_t pid;
	int to; /* the runner's stdin */
	int from;
	bool eof;
	char fatal[600];
	uint64_t features;
	bool greeted;
	unsigned pongs;
	uint32_t next;
	struct peer_op ops[PEER_OPS]; /* by channel */
	size_t in_len;
	char in[1 << 20];
};

/*
 * Whom the runner runs as: a user of this process namespace alone. The kernel's limit of processes counts a user's over the
 * whole machine, where other tests may have a sandbox full of them.
 */
uid_t peer_uid(void);
struct peer *peer_new(const char *program); /* starts it as the sandbox user; NULL on failure */
struct peer *peer_new_with(const char *program, const char *outcomes); /* NULL: it keeps none */
void peer_hello(struct peer *p, uint64_t window); /* and waits for the runner's */
void peer_free(struct peer *p); /* closes, waits for the runner's end */
void peer_close(struct peer *p); /* closes the stream only */

void peer_send(struct peer *p, const void *bytes, size_t n);
void peer_frame(struct peer *p, const struct frame_writer *w);
void peer_stdin(struct peer *p, uint32_t channel, const void *bytes, size_t n); /* waits for room */
void peer_plain(struct peer *p, enum frame_type type, uint32_t channel); /* a frame without payload */
void peer_credit(struct peer *p, uint32_t channel, uint64_t bytes);

struct peer_command {
	const char *line;
	const char *const *argv; /* instead of line */
	const char *cwd;
	const char *const *env;
	const char *tag;
	const char *id; /* NULL: made up */
	int64_t timeout_ms; /* 0: a minute */
	uint64_t max_output; /* 0: none */
	bool want_stdin, tty;
	bool hold;
};
uint32_t peer_start(struct peer *p, const struct peer_command *c);
uint32_t peer_kill_tagged(struct peer *p, const char *const *tags); /* NULL: all */

struct peer_file {
	enum frame_file_kind kind;
	const char *path;
	uint64_t flags;
	uint64_t offset, limit;
	int64_t mode; /* -1: none */
	const char *const *roots;
};
uint32_t peer_file(struct peer *p, const struct peer_file *f);

/* Reads until the operation has ended, or started, or has that much stdout. false: the stream ended or time is up. */
bool peer_wait(struct peer *p, uint32_t channel);
bool peer_wait_started(struct peer *p, uint32_t channel);
bool peer_wait_out(struct peer *p, uint32_t channel, size_t bytes);
bool peer_wait_eof(struct peer *p);
bool peer_wait_pong(struct peer *p);

static inline struct peer_op *peer_op(struct peer *p, uint32_t channel)
{
	return &p->ops[channel % PEER_OPS];
}

static inline uint64_t peer_num(struct peer *p, uint32_t channel, enum frame_attr attr)
{
	return frame_num_or(&peer_op(p, channel)->end_frame, attr, UINT64_MAX);
}

#endif
