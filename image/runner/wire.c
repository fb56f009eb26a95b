/* Frames in and out of the engine's pipes. */
#include "image/runner/wire.h"

#include <errno.h>

void wire_init(struct wire *w, int rfd, int wfd)
{
	w->rfd = rfd;
	w->wfd = wfd;
	w->gone = false;
	w->in_at = w->in_end = 0;
	w->out_at = w->out_end = 0;
}

void wire_end(struct wire *w)
{
	if (!w->gone) {
		/* Closed, so that the other side learns of it while commands run on. */
		close(w->rfd);
		close(w->wfd);
	}
	w->gone = true;
	w->out_at = w->out_end = 0;
	w->in_at = w->in_end = 0;
}

void wire_fill(struct wire *w)
{
	ssize_t n;

	if (w->gone)
		return;
	if (w->in_at > 0) {
		memmove(w->in, w->in + w->in_at, w->in_end - w->in_at);
		w->in_end -= w->in_at;
		w->in_at = 0;
	}
	if (w->in_end == sizeof(w->in))
		return;
	n = read(w->rfd, w->in + w->in_end, sizeof(w->in) - w->in_end);
	if (n > 0)
		w->in_end += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		wire_end(w);
}

void wire_flush(struct wire *w)
{
	while (wire_pending(w)) {
		ssize_t n = write(w->wfd, w->out + w->out_at, w->out_end - w->out_at);

		if (n > 0) {
			w->out_at += (size_t)n;
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else {
			if (n < 0 && errno != EAGAIN)
				wire_end(w);
			return;
		}
	}
	w->out_at = w->out_end = 0;
}

int wire_next(struct wire *w, struct frame *f, enum frame_fault *fault)
{
	size_t used;

	switch (frame_read(FRAME_CONTROLLER, w->in + w->in_at, w->in_end - w->in_at, f, &used, fault)) {
	case FRAME_WHOLE:
		w->in_at += used;
		return 1;
	case FRAME_MORE:
		return 0;
	case FRAME_BAD:
		break;
	}
	return -1;
}

/* Free bytes at the end, after moving the content down when that gains enough. */
static size_t tail(struct wire *w, size_t wanted)
{
	if (w->gone)
		w->out_at = w->out_end = 0;
	if (w->out_at > 0 && WIRE_OUT_MAX - w->out_end < wanted) {
		memmove(w->out, w->out + w->out_at, w->out_end - w->out_at);
		w->out_end -= w->out_at;
		w->out_at = 0;
	}
	return WIRE_OUT_MAX - w->out_end;
}

bool wire_room(struct wire *w, struct frame_writer *fw)
{
	if (tail(w, WIRE_REPORT_MAX) < WIRE_REPORT_MAX)
		return false;
	frame_writer_init(fw, w->out + w->out_end, WIRE_REPORT_MAX);
	return true;
}

void wire_commit(struct wire *w, const struct frame_writer *fw)
{
	if (!w->gone)
		w->out_end += fw->len;
}

char *wire_data(struct wire *w, size_t *cap)
{
	size_t room = tail(w, FRAME_HEAD + FRAME_DATA_MAX + WIRE_RESERVE);

	if (room <= FRAME_HEAD + WIRE_RESERVE) {
		*cap = 0;
		return NULL;
	}
	room -= FRAME_HEAD + WIRE_RESERVE;
	*cap = room < FRAME_DATA_MAX ? room : FRAME_DATA_MAX;
	return w->out + w->out_end + FRAME_HEAD;
}

void wire_data_commit(struct wire *w, enum frame_type type, uint32_t channel, size_t n)
{
	if (w->gone)
		return;
	frame_put_head(w->out + w->out_end, type, channel, n);
	w->out_end += FRAME_HEAD + n;
}
