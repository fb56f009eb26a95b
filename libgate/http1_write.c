/* Writes heads from judged values; refuses whatever could end a line early. */
#include "libgate/http1.h"

#include "libgate/http1_class.h"

static bool all(struct slice s, unsigned classes)
{
	for (size_t i = 0; i < s.len; i++)
		if (!http_is(s.p[i], classes))
			return false;
	return true;
}

/* Undoes what a failed writer appended: a buffer holds whole lines or none. */
static int undo(struct buf *b, size_t len)
{
	b->end = b->start + len;
	return -1;
}

int http_put_request_line(struct buf *b, struct slice method, struct slice target)
{
	size_t mark = buf_len(b);

	if (!http_is_token(method) || target.len == 0 || !all(target, HTTP_C_VISIBLE))
		return -1;
	if (buf_put_slice(b, method) != 0 || buf_putc(b, ' ') != 0 || buf_put_slice(b, target) != 0 ||
		buf_puts(b, " HTTP/1.1\r\n") != 0)
		return undo(b, mark);
	return 0;
}

int http_put_status_line(struct buf *b, int status, const char *reason_phrase)
{
	size_t mark = buf_len(b);

	if (reason_phrase == NULL)
		reason_phrase = http_status_text(status);
	if (status < 100 || status > 599 || !all(slice_str(reason_phrase), HTTP_C_TEXT))
		return -1;
	if (buf_puts(b, "HTTP/1.1 ") != 0 || buf_put_u64(b, (uint64_t)status) != 0 || buf_putc(b, ' ') != 0 ||
		buf_puts(b, reason_phrase) != 0 || buf_put(b, "\r\n", 2) != 0)
		return undo(b, mark);
	return 0;
}

int http_put_field(struct buf *b, const char *name, struct slice value)
{
	size_t mark = buf_len(b);

	if (!http_is_token(slice_str(name)) || !all(value, HTTP_C_TEXT))
		return -1;
	if (buf_puts(b, name) != 0 || buf_put(b, ": ", 2) != 0 || buf_put_slice(b, value) != 0 ||
		buf_put(b, "\r\n", 2) != 0)
		return undo(b, mark);
	return 0;
}

int http_put_field_u64(struct buf *b, const char *name, uint64_t value)
{
	size_t mark = buf_len(b);

	if (!http_is_token(slice_str(name)))
		return -1;
	if (buf_puts(b, name) != 0 || buf_put(b, ": ", 2) != 0 || buf_put_u64(b, value) != 0 || buf_put(b, "\r\n", 2) != 0)
		return undo(b, mark);
	return 0;
}

int http_put_end(struct buf *b)
{
	return buf_put(b, "\r\n", 2);
}
