/* A borrowed run of bytes: pointer and length, not terminated, may hold NUL. The currency of the parsers. */
#ifndef GATE_SLICE_H
#define GATE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
	const char *p;
	size_t len;
};

/* printf("%.*s", SLICE_ARG(s)) - only for bytes already known to be printable. */
#define SLICE_ARG(s) (int)(s).len, (s).p
#define SLICE_LIT(lit) ((struct slice){ (lit), sizeof(lit) - 1 })

static inline struct slice slice_make(const char *p, size_t len)
{
	return (struct slice){ p, len };
}

static inline struct slice slice_str(const char *cstr)
{
	return (struct slice){ cstr, cstr != NULL ? strlen(cstr) : 0 };
}

static inline bool slice_eq(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *cstr)
{
	return slice_eq(a, slice_str(cstr));
}

static inline char slice_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* ASCII case-insensitive; bytes above 0x7f compare as they are. */
static inline bool slice_case_eq(struct slice a, struct slice b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (slice_lower(a.p[i]) != slice_lower(b.p[i]))
			return false;
	return true;
}

static inline bool slice_case_is(struct slice a, const char *cstr)
{
	return slice_case_eq(a, slice_str(cstr));
}

static inline bool slice_starts(struct slice a, const char *prefix)
{
	size_t n = strlen(prefix);

	return a.len >= n && memcmp(a.p, prefix, n) == 0;
}

static inline struct slice slice_skip(struct slice a, size_t n)
{
	if (n > a.len)
		n = a.len;
	return (struct slice){ a.p + n, a.len - n };
}

#endif
