/* Cuts a byte stream into JSON-RPC messages. */
#include "controller/framing.h"

#include <string.h>

#define HEAD_MAX 1024

void framing_init(struct framing *f)
{
	*f = (struct framing){ .mode = FRAMING_UNKNOWN };
}

static enum framing_result next_line(struct framing *f, struct slice in, struct slice *message, size_t *used)
{
	const char *end = in.len > f->scanned ? memchr(in.p + f->scanned, '\n', in.len - f->scanned) : NULL;

	if (end == NULL) {
		f->scanned = in.len;
		if (!f->skipping && in.len <= FRAMING_MAX)
			return FRAMING_MORE;
		bool first = !f->skipping;
		f->skipping = true;
		f->scanned = 0;
		*used = in.len;
		return first ? FRAMING_TOO_LONG : FRAMING_MORE;
	}
	*used = (size_t)(end - in.p) + 1;
	f->scanned = 0;
	if (f->skipping) {
		f->skipping = false;
		*message = slice_make(in.p, 0);
		return FRAMING_MESSAGE; /* empty: ignored */
	}
	*message = slice_make(in.p, *used - 1);
	while (message->len > 0 && (message->p[message->len - 1] == '\r' || message->p[message->len - 1] == ' '))
		message->len--;
	return message->len > FRAMING_MAX ? FRAMING_TOO_LONG : FRAMING_MESSAGE;
}

/* The number of a Content-Length field; false when the head has none that is right. */
static bool read_head(struct slice head, size_t *length)
{
	bool found = false;

	while (head.len > 0) {
		const char *end = memmem(head.p, head.len, "\r\n", 2);
		struct slice line = end != NULL ? slice_make(head.p, (size_t)(end - head.p)) : head;

		head = slice_skip(head, line.len + 2);
		if (line.len < 16 || !slice_case_is(slice_make(line.p, 15), "Content-Length:"))
			continue;
		line = slice_skip(line, 15);
		while (line.len > 0 && line.p[0] == ' ')
			line = slice_skip(line, 1);
		size_t value = 0;
		for (size_t i = 0; i < line.len; i++) {
			if (line.p[i] < '0' || line.p[i] > '9' || value > FRAMING_MAX)
				return false;
			value = value * 10 + (size_t)(line.p[i] - '0');
		}
		if (line.len == 0 || found || value == 0 || value > FRAMING_MAX)
			return false;
		found = true;
		*length = value;
	}
	return found;
}

static enum framing_result next_head(struct framing *f, struct slice in, struct slice *message, size_t *used)
{
	const char *end = memmem(in.p, in.len < HEAD_MAX ? in.len : HEAD_MAX, "\r\n\r\n", 4);

	if (end == NULL)
		return in.len >= HEAD_MAX ? FRAMING_BROKEN : FRAMING_MORE;
	size_t head = (size_t)(end - in.p) + 4;
	if (f->length == 0 && !read_head(slice_make(in.p, head - 2), &f->length))
		return FRAMING_BROKEN;
	if (in.len - head < f->length)
		return FRAMING_MORE;
	*message = slice_make(in.p + head, f->length);
	*used = head + f->length;
	f->length = 0;
	return FRAMING_MESSAGE;
}

enum framing_result framing_next(struct framing *f, struct slice in, struct slice *message, size_t *used)
{
	*used = 0;
	*message = slice_make(in.p, 0);
	if (in.len == 0)
		return FRAMING_MORE;
	if (f->mode == FRAMING_UNKNOWN)
		f->mode = in.p[0] == 'C' ? FRAMING_HEADS : FRAMING_LINES;
	return f->mode == FRAMING_HEADS ? next_head(f, in, message, used) : next_line(f, in, message, used);
}

int framing_put(enum framing_mode mode, struct buf *out, struct slice message)
{
	if (mode == FRAMING_HEADS)
		return buf_putf(out, "Content-Length: %zu\r\n\r\n", message.len) != 0 ? -1 : buf_put_slice(out, message);
	return buf_put_slice(out, message) != 0 ? -1 : buf_putc(out, '\n');
}
