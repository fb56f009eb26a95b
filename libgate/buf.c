/* A growable run of bytes with a mandatory ceiling. */
#include "libgate/buf.h"

#include <stdio.h>

#include "libgate/plain.h"
#include "libgate/utf8.h"

#define BUF_FIRST 256 /* bytes of the first allocation, where max allows */

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

void buf_clear(struct buf *b)
{
	b->start = b->end = 0;
}

void buf_trim(struct buf *b)
{
	if (b->start == b->end)
		buf_release(b);
}

/* Moves the content to the front: the consumed bytes become free space. */
static void compact(struct buf *b)
{
	size_t len = buf_len(b);

	if (b->start == 0)
		return;
	if (len > 0)
		memmove(b->data, b->data + b->start, len);
	b->start = 0;
	b->end = len;
}

/* At least doubles, within max; need <= max is the caller's check. */
static int grow(struct buf *b, size_t need)
{
	size_t cap = b->cap > b->max / 2 ? b->max : b->cap * 2;

	if (cap < BUF_FIRST)
		cap = BUF_FIRST < b->max ? BUF_FIRST : b->max;
	if (cap < need)
		cap = need;
	char *data = realloc(b->data, cap);
	if (data == NULL)
		return -1;
	b->data = data;
	b->cap = cap;
	return 0;
}

char *buf_reserve(struct buf *b, size_t n)
{
	size_t len = buf_len(b);

	if (n > b->max || len > b->max - n)
		return NULL;
	if (b->data != NULL && b->cap - b->end >= n)
		return b->data + b->end;
	/*
	 * Moving a few bytes over a large consumed run is cheaper than growing; a small consumed run would be moved again
	 * and again, so it only goes when the content alone does not fill the memory.
	 */
	if (b->data != NULL && b->cap - len >= n && b->start >= len) {
		compact(b);
		return b->data + b->end;
	}
	compact(b);
	if ((b->data == NULL || b->cap - b->end < n) && grow(b, len + n > 0 ? len + n : 1) != 0)
		return NULL;
	return b->data + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
	b->end += n;
}

void buf_consume(struct buf *b, size_t n)
{
	b->start += n;
	if (b->start == b->end)
		b->start = b->end = 0;
}

int buf_put_grown(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return 0;
	char *to = buf_reserve(b, n);
	if (to == NULL)
		return -1;
	memcpy(to, p, n);
	b->end += n;
	return 0;
}

int buf_vputf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return -1;
	/* vsnprintf() writes a NUL that is not content: it needs a byte of room beyond the ceiling's accounting. */
	char *to = buf_reserve(b, (size_t)n + 1);
	if (to != NULL) {
		vsnprintf(to, (size_t)n + 1, fmt, ap);
		b->end += (size_t)n;
		return 0;
	}
	auto_free char *text = malloc((size_t)n + 1);
	if (text == NULL)
		return -1;
	vsnprintf(text, (size_t)n + 1, fmt, ap);
	return buf_put(b, text, (size_t)n);
}

int buf_putf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = buf_vputf(b, fmt, ap);
	va_end(ap);
	return r;
}

int buf_put_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	return buf_put(b, digits + at, sizeof(digits) - at);
}

/*
 * Bytes at p that stand for themselves inside a JSON string, 0 when the first needs an escape. The C1 controls
 * (U+0080 to U+009F) are escaped as well: a terminal that shows a log line obeys them.
 */
static size_t json_plain(const unsigned char *p, size_t len)
{
	if (p[0] < 0x80)
		return (size_t)plain_is(p[0]);
	size_t n = utf8_length((const char *)p, len);
	return n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : n;
}

/* Writes the escape of the byte or C1 control at p; *used: bytes of input it stands for. Returns its length. */
static size_t json_escape(const unsigned char *p, size_t len, char out[6], size_t *used)
{
	static const char hex[] = "0123456789abcdef";
	static const struct {
		char byte, letter;
	} brief[] = { { '"', '"' }, { '\\', '\\' }, { '\n', 'n' }, { '\r', 'r' }, { '\t', 't' } };
	bool c1 = p[0] == 0xc2 && len > 1 && p[1] >= 0x80 && p[1] < 0xa0;
	unsigned char c = c1 ? p[1] : p[0];

	*used = c1 ? 2 : 1;
	out[0] = '\\';
	for (size_t i = 0; i < ARRAY_SIZE(brief); i++) {
		if ((unsigned char)brief[i].byte == c) {
			out[1] = brief[i].letter;
			return 2;
		}
	}
	memcpy(out + 1, "u00", 3);
	out[4] = hex[c >> 4];
	out[5] = hex[c & 15];
	return 6;
}

int buf_put_json(struct buf *b, struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t mark = buf_len(b);
	size_t i = 0;

	while (i < s.len) {
		size_t from = i;
		size_t n;

		i += plain_run(p + i, s.len - i);
		while (i < s.len && (n = json_plain(p + i, s.len - i)) > 0)
			i += n;
		if (buf_put(b, p + from, i - from) != 0)
			goto full;
		if (i == s.len)
			break;
		char escape[6];
		size_t len = json_escape(p + i, s.len - i, escape, &n);
		if (buf_put(b, escape, len) != 0)
			goto full;
		i += n;
	}
	return 0;
full:
	b->end = b->start + mark;
	return -1;
}
