/*
 * A growable run of bytes with a mandatory ceiling, consumed from the front.
 *
 *      data          data+start            data+end             data+cap
 *       |  consumed    |   content           |   free             |
 *
 * 0 <= start <= end <= cap <= max. Nothing is allocated before the first write and buf_trim() gives memory back, so an
 * idle connection holds no buffer. A write that would exceed max fails and leaves the content as it was.
 */
#ifndef GATE_BUF_H
#define GATE_BUF_H

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "libgate/slice.h"
#include "libgate/util.h"

struct buf {
	char *data;
	size_t start;
	size_t end;
	size_t cap;
	size_t max;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b); /* frees; the buffer may be used again with the same max */
void buf_clear(struct buf *b); /* forgets the content, keeps the memory */
void buf_trim(struct buf *b); /* frees the memory when there is no content */

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->start;
}

static inline char *buf_head(const struct buf *b)
{
	return b->data + b->start;
}

static inline struct slice buf_slice(const struct buf *b)
{
	return slice_make(b->data == NULL ? "" : b->data + b->start, b->end - b->start);
}

/* Makes room for n more bytes and returns where to put them, or NULL (ceiling or memory). Commit with buf_commit(). */
char *buf_reserve(struct buf *b, size_t n) MUSTCHECK;
void buf_commit(struct buf *b, size_t n);
void buf_consume(struct buf *b, size_t n);

/* What buf_put() does when there is no room yet. */
int buf_put_grown(struct buf *b, const void *p, size_t n) MUSTCHECK;

/* 0, or -1 when the ceiling or memory is reached. Inline: messages are made of many short pieces, most of known length. */
static inline int MUSTCHECK buf_put(struct buf *b, const void *p, size_t n)
{
	if (n - 1 >= b->cap - b->end) /* n is 0, or there is no room */
		return buf_put_grown(b, p, n);
	memcpy(b->data + b->end, p, n);
	b->end += n;
	return 0;
}

static inline int MUSTCHECK buf_puts(struct buf *b, const char *cstr)
{
	return buf_put(b, cstr, strlen(cstr));
}

static inline int MUSTCHECK buf_putc(struct buf *b, char c)
{
	return buf_put(b, &c, 1);
}

static inline int MUSTCHECK buf_put_slice(struct buf *b, struct slice s)
{
	return buf_put(b, s.p, s.len);
}

int buf_putf(struct buf *b, const char *fmt, ...) PRINTF(2, 3) MUSTCHECK;
int buf_vputf(struct buf *b, const char *fmt, va_list ap) PRINTF(2, 0) MUSTCHECK;
int buf_put_u64(struct buf *b, uint64_t v) MUSTCHECK; /* decimal */

/*
 * Appends s as the inside of a JSON string (no quotes): control bytes, quote, backslash, DEL and every byte that is not
 * part of well-formed UTF-8 (as \u00xx) are escaped, so that the result is one line of valid JSON whatever s holds.
 */
int buf_put_json(struct buf *b, struct slice s) MUSTCHECK;

#endif
