/* Decodes a message body by its framing, from wherever the bytes were split. */
#include "libgate/http1.h"

#include "libgate/http1_class.h"

#define SKIP_MAX 8192 /* bytes of extensions and trailers of one lenient body */
#define CHUNK_DIGITS 15 /* below 2^60: adding to a total cannot overflow */

enum body_state {
	BODY_LENGTH, /* left bytes of a known length */
	BODY_EOF,
	BODY_SIZE, /* digits of a chunk size */
	BODY_EXTENSION, /* lenient: up to the end of the size's line */
	BODY_SIZE_LF,
	BODY_CHUNK, /* left bytes of a chunk */
	BODY_CHUNK_CR,
	BODY_CHUNK_LF,
	BODY_LAST_CR, /* after the last chunk: the empty line, as there are no trailers */
	BODY_LAST_LF,
	BODY_TRAILER, /* lenient: a field line up to its end */
	BODY_TRAILER_LF,
	BODY_END,
	BODY_REFUSED,
};

static enum http_result bad(struct http_body *b, enum http_reason reason)
{
	b->state = BODY_REFUSED;
	b->reason = reason;
	return HTTP_BAD;
}

void http_body_init(struct http_body *b, enum http_framing framing, uint64_t length, uint64_t max)
{
	*b = (struct http_body){ .framing = framing, .max = max };
	switch (framing) {
	case HTTP_BODY_NONE:
		b->state = BODY_END;
		break;
	case HTTP_BODY_LENGTH:
		b->left = length;
		b->state = length > 0 ? BODY_LENGTH : BODY_END;
		if (length > max)
			bad(b, HTTP_REASON_BODY_SIZE);
		break;
	case HTTP_BODY_CHUNKED:
		b->state = BODY_SIZE;
		break;
	case HTTP_BODY_EOF:
		b->state = BODY_EOF;
		break;
	}
}

static unsigned hex_value(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* A byte that follows the size where CR should. */
static enum http_reason after_size(char c)
{
	return c == ';' ? HTTP_REASON_CHUNK_EXTENSION : c == '\n' ? HTTP_REASON_BARE_LF : HTTP_REASON_CHUNK_SIZE;
}

/* The line of a chunk size ends. */
static enum http_result size_known(struct http_body *b)
{
	if (b->left > b->max - b->total)
		return bad(b, HTTP_REASON_BODY_SIZE);
	b->state = BODY_SIZE_LF;
	return HTTP_MORE;
}

/* A byte of what is read past; strict in all but being there. */
static enum http_result skip_byte(struct http_body *b, char c, enum http_reason too_much)
{
	if (c == '\n')
		return bad(b, HTTP_REASON_BARE_LF);
	if (!http_is(c, HTTP_C_TEXT))
		return bad(b, HTTP_REASON_CONTROL);
	return ++b->skipped > SKIP_MAX ? bad(b, too_much) : HTTP_MORE;
}

/* One byte of chunk framing. HTTP_MORE: taken. */
static enum http_result framing_byte(struct http_body *b, char c)
{
	switch ((enum body_state)b->state) {
	case BODY_SIZE:
		if (http_is(c, HTTP_C_HEX)) {
			if (b->digits == CHUNK_DIGITS)
				return bad(b, HTTP_REASON_CHUNK_SIZE);
			b->digits++;
			b->left = b->left << 4 | hex_value(c);
			return HTTP_MORE;
		}
		if (b->digits == 0)
			return bad(b, HTTP_REASON_CHUNK_SIZE);
		if (c == '\r')
			return size_known(b);
		if (!b->lenient || (c != ';' && c != ' ' && c != '\t'))
			return bad(b, after_size(c));
		b->state = BODY_EXTENSION;
		return HTTP_MORE;
	case BODY_EXTENSION:
		return c == '\r' ? size_known(b) : skip_byte(b, c, HTTP_REASON_CHUNK_EXTENSION);
	case BODY_SIZE_LF:
		if (c != '\n')
			return bad(b, HTTP_REASON_BARE_CR);
		b->digits = 0;
		b->state = b->left > 0 ? BODY_CHUNK : BODY_LAST_CR;
		return HTTP_MORE;
	case BODY_CHUNK_CR:
		if (c != '\r')
			return bad(b, HTTP_REASON_CHUNK_END);
		b->state = BODY_CHUNK_LF;
		return HTTP_MORE;
	case BODY_CHUNK_LF:
		if (c != '\n')
			return bad(b, HTTP_REASON_CHUNK_END);
		b->state = BODY_SIZE;
		return HTTP_MORE;
	case BODY_LAST_CR:
		if (b->lenient && http_is(c, HTTP_C_TOKEN)) {
			b->state = BODY_TRAILER;
			return skip_byte(b, c, HTTP_REASON_TRAILER);
		}
		if (c != '\r')
			return bad(b, c == '\n' ? HTTP_REASON_BARE_LF : HTTP_REASON_TRAILER);
		b->state = BODY_LAST_LF;
		return HTTP_MORE;
	case BODY_TRAILER:
		if (c != '\r')
			return skip_byte(b, c, HTTP_REASON_TRAILER);
		b->state = BODY_TRAILER_LF;
		return HTTP_MORE;
	case BODY_TRAILER_LF:
		if (c != '\n')
			return bad(b, HTTP_REASON_BARE_CR);
		b->state = BODY_LAST_CR;
		return HTTP_MORE;
	case BODY_LAST_LF:
		if (c != '\n')
			return bad(b, HTTP_REASON_BARE_CR);
		b->state = BODY_END;
		return HTTP_DONE;
	case BODY_LENGTH:
	case BODY_EOF:
	case BODY_CHUNK:
	case BODY_END:
	case BODY_REFUSED:
		break;
	}
	return bad(b, HTTP_REASON_CHUNK_END);
}

/* Hands out what there is of a run of b->left bytes. */
static enum http_result run(struct http_body *b, const char *p, size_t len, enum body_state then, struct slice *data)
{
	size_t n = b->left < len ? (size_t)b->left : len;

	if (n == 0)
		return HTTP_MORE;
	b->left -= n;
	b->total += n;
	if (b->left == 0)
		b->state = (uint8_t)then;
	*data = slice_make(p, n);
	return HTTP_DATA;
}

enum http_result http_body_read(struct http_body *b, const char *p, size_t len, size_t *used, struct slice *data)
{
	enum http_result r;
	size_t at = 0;

	*used = 0;
	*data = slice_make(p, 0);
	for (;;) {
		switch ((enum body_state)b->state) {
		case BODY_LENGTH:
			r = run(b, p, len, BODY_END, data);
			*used = data->len;
			return r;
		case BODY_CHUNK:
			r = run(b, p + at, len - at, BODY_CHUNK_CR, data);
			*used = at + data->len;
			return r;
		case BODY_EOF:
			if (len > b->max - b->total)
				return bad(b, HTTP_REASON_BODY_SIZE);
			b->total += len;
			*data = slice_make(p, len);
			*used = len;
			return len > 0 ? HTTP_DATA : HTTP_MORE;
		case BODY_END:
			*used = at;
			return HTTP_DONE;
		case BODY_REFUSED:
			return HTTP_BAD;
		case BODY_SIZE:
		case BODY_EXTENSION:
		case BODY_SIZE_LF:
		case BODY_CHUNK_CR:
		case BODY_CHUNK_LF:
		case BODY_LAST_CR:
		case BODY_LAST_LF:
		case BODY_TRAILER:
		case BODY_TRAILER_LF:
			if (at == len) {
				*used = at;
				return HTTP_MORE;
			}
			r = framing_byte(b, p[at++]);
			if (r == HTTP_BAD)
				return r;
			break;
		}
	}
}
