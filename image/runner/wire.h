/*
 * The stream to the controller: frames in from one descriptor, frames out to another, both through fixed buffers.
 *
 * Nobody writes a frame without asking for room first; what finds none stays state of its operation and is tried in
 * the next turn. A reader that is slow therefore never makes the runner grow, lose or block.
 */
#ifndef RUNNER_WIRE_H
#define RUNNER_WIRE_H

#include "libgate/frame.h"

#define WIRE_OUT_MAX (512 * 1024)
#define WIRE_RESERVE (64 * 1024) /* kept free of data, for the frames that report */
#define WIRE_REPORT_MAX 16384 /* no frame that is not data is longer */

struct wire {
	int rfd;
	int wfd;
	bool gone; /* the stream has ended; what is written goes nowhere */
	size_t in_at; /* consumed */
	size_t in_end;
	size_t out_at; /* sent */
	size_t out_end;
	char in[FRAME_HEAD + FRAME_REQUEST_MAX];
	char out[WIRE_OUT_MAX];
};

void wire_init(struct wire *w, int rfd, int wfd);
void wire_fill(struct wire *w); /* reads once; end and failure of the stream set gone */
void wire_flush(struct wire *w); /* writes what the descriptor takes */
void wire_end(struct wire *w);

static inline bool wire_pending(const struct wire *w)
{
	return !w->gone && w->out_end > w->out_at;
}

/* 1: *f is the next frame, borrowed until wire_fill(); 0: more bytes are needed; -1: broken, *fault says how. */
int wire_next(struct wire *w, struct frame *f, enum frame_fault *fault) MUSTCHECK;

/* Room for a report. Then: frame_begin(), frame_put_*(), frame_end() on *fw, and wire_commit(). */
bool wire_room(struct wire *w, struct frame_writer *fw) MUSTCHECK;
void wire_commit(struct wire *w, const struct frame_writer *fw);

/* Where up to *cap bytes of a data frame's payload go (0: none now); wire_data_commit() puts its head in front. */
char *wire_data(struct wire *w, size_t *cap);
void wire_data_commit(struct wire *w, enum frame_type type, uint32_t channel, size_t n);

#endif
