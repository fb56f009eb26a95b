/* Finds a nonce in a stream. */
#include "controller/mark.h"

#include <string.h>

void mark_init(struct mark *m, const uint8_t random[16])
{
	static const char digits[] = "0123456789abcdef";

	*m = (struct mark){ .nonce = "Z" };
	for (size_t i = 0; i < 16; i++) {
		m->nonce[1 + 2 * i] = digits[random[i] >> 4];
		m->nonce[2 + 2 * i] = digits[random[i] & 15];
	}
	m->nonce[MARK_LENGTH] = '\0';
}

static size_t match(const struct mark *m, size_t from, const char *p, size_t len)
{
	size_t n = 0;

	while (n < len && from + n < MARK_LENGTH && p[n] == m->nonce[from + n])
		n++;
	return n;
}

enum mark_result mark_next(struct mark *m, const char *p, size_t len, size_t *used, struct slice *run)
{
	*used = 0;
	if (len == 0)
		return MARK_MORE;
	if (m->matched > 0) {
		size_t n = match(m, m->matched, p, len);

		if (m->matched + n == MARK_LENGTH) {
			m->matched = 0;
			*used = n;
			return MARK_HIT;
		}
		if (n == len) {
			m->matched += n;
			*used = n;
			return MARK_MORE;
		}
		*run = slice_make(m->nonce, m->matched + n);
		*used = n;
		m->matched = 0;
		return MARK_DATA;
	}
	for (const char *at = p; (at = memchr(at, m->nonce[0], len - (size_t)(at - p))) != NULL; at++) {
		size_t before = (size_t)(at - p);
		size_t n = match(m, 0, at, len - before);

		if (n < MARK_LENGTH && before + n < len)
			continue;
		if (before > 0) {
			*run = slice_make(p, before);
			*used = before;
			return MARK_DATA;
		}
		*used = n;
		if (n == MARK_LENGTH)
			return MARK_HIT;
		m->matched = n;
		return MARK_MORE;
	}
	*run = slice_make(p, len);
	*used = len;
	return MARK_DATA;
}

struct slice mark_rest(struct mark *m)
{
	struct slice rest = slice_make(m->nonce, m->matched);

	m->matched = 0;
	return rest;
}
