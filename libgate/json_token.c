/* The tokens of strict JSON: spaces and comments, strings, numbers, words. */
#include "libgate/json_impl.h"

#include "libgate/plain.h"
#include "libgate/utf8.h"

bool json_fail(struct json_reader *ps, enum json_fault fault, const unsigned char *at)
{
	ps->fault = fault;
	ps->fault_at = (size_t)(at - ps->base);
	ps->doc->path_depth = ps->depth;
	return false;
}

/* A byte that cannot stand here: the end and NUL have names of their own. */
bool json_fail_byte(struct json_reader *ps)
{
	if (ps->p == ps->end)
		return json_fail(ps, JSON_FAULT_END, ps->p);
	return json_fail(ps, *ps->p == '\0' ? JSON_FAULT_NUL : JSON_FAULT_SYNTAX, ps->p);
}

static bool skip_comment(struct json_reader *ps)
{
	const unsigned char *p = ps->p + 1;

	if (p == ps->end)
		return json_fail(ps, JSON_FAULT_END, p);
	if (*p == '/') {
		while (p < ps->end && *p != '\n')
			p++;
		ps->p = p;
		return true;
	}
	if (*p != '*')
		return json_fail(ps, JSON_FAULT_SYNTAX, ps->p);
	for (p++; p + 1 < ps->end; p++)
		if (p[0] == '*' && p[1] == '/') {
			ps->p = p + 2;
			return true;
		}
	return json_fail(ps, JSON_FAULT_END, ps->end);
}

static inline bool is_space(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool json_skip_spaces(struct json_reader *ps)
{
	for (;;) {
		while (ps->p < ps->end && is_space(*ps->p))
			ps->p++;
		if (ps->p == ps->end || *ps->p != '/' || !(ps->flags & JSON_COMMENTS))
			return true;
		if (!skip_comment(ps))
			return false;
	}
}

static int hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of an escape that begins at p (the backslash). */
static bool hex4(struct json_reader *ps, const unsigned char *p, unsigned *out)
{
	unsigned v = 0;

	for (int i = 2; i < 6; i++) {
		int d;

		if (p + i >= ps->end)
			return json_fail(ps, JSON_FAULT_END, ps->end);
		d = hex_digit(p[i]);
		if (d < 0)
			return json_fail(ps, JSON_FAULT_ESCAPE, p);
		v = v << 4 | (unsigned)d;
	}
	*out = v;
	return true;
}

static char *utf8_put(char *out, unsigned cp)
{
	if (cp < 0x80) {
		*out++ = (char)cp;
	} else if (cp < 0x800) {
		*out++ = (char)(0xc0 | cp >> 6);
		*out++ = (char)(0x80 | (cp & 0x3f));
	} else if (cp < 0x10000) {
		*out++ = (char)(0xe0 | cp >> 12);
		*out++ = (char)(0x80 | (cp >> 6 & 0x3f));
		*out++ = (char)(0x80 | (cp & 0x3f));
	} else {
		*out++ = (char)(0xf0 | cp >> 18);
		*out++ = (char)(0x80 | (cp >> 12 & 0x3f));
		*out++ = (char)(0x80 | (cp >> 6 & 0x3f));
		*out++ = (char)(0x80 | (cp & 0x3f));
	}
	return out;
}

/* Decodes the \u escape at *p, a pair of them for a code point above U+FFFF, and moves *p behind it. */
static bool escape_unicode(struct json_reader *ps, const unsigned char **p, unsigned *cp)
{
	const unsigned char *at = *p;
	unsigned low;

	if (!hex4(ps, at, cp))
		return false;
	*p = at + 6;
	if (*cp == 0 && (ps->flags & JSON_NULS) == 0)
		return json_fail(ps, JSON_FAULT_NUL, at);
	if (*cp < 0xd800 || *cp > 0xdfff)
		return true;
	if (*cp > 0xdbff)
		return json_fail(ps, JSON_FAULT_SURROGATE, at);
	if (at[6] != '\\' || at[7] != 'u') /* a quote follows at the latest, and something follows a backslash */
		return json_fail(ps, JSON_FAULT_SURROGATE, at);
	if (!hex4(ps, at + 6, &low))
		return false;
	if (low < 0xdc00 || low > 0xdfff)
		return json_fail(ps, JSON_FAULT_SURROGATE, at);
	*cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
	*p = at + 12;
	return true;
}

/* Moves *p behind the escape at *p and appends what it stands for to *out. */
static bool escape(struct json_reader *ps, const unsigned char **p, char **out, uint8_t *flags)
{
	static const char plain[256] = {
		['"'] = '"',
		['\\'] = '\\',
		['/'] = '/',
		['b'] = '\b',
		['f'] = '\f',
		['n'] = '\n',
		['r'] = '\r',
		['t'] = '\t',
	};
	const unsigned char *at = *p;
	unsigned cp;

	if (at + 1 == ps->end)
		return json_fail(ps, JSON_FAULT_END, ps->end);
	if (at[1] == 'u') {
		if (!escape_unicode(ps, p, &cp))
			return false;
		if (cp > 0x7f)
			*flags |= JSON_KEY_NON_ASCII;
		*out = utf8_put(*out, cp);
		return true;
	}
	if (plain[at[1]] == '\0')
		return json_fail(ps, at[1] == '\0' ? JSON_FAULT_NUL : JSON_FAULT_ESCAPE, at[1] == '\0' ? at + 1 : at);
	*(*out)++ = plain[at[1]];
	*p = at + 2;
	return true;
}

/* The closing quote of the string whose text goes on at p, its bytes checked, or NULL. Escapes are only skipped. */
static const unsigned char *string_end(struct json_reader *ps, const unsigned char *p, uint8_t *flags)
{
	for (;;) {
		size_t n;

		p += plain_run(p, (size_t)(ps->end - p));
		if (p == ps->end) {
			json_fail(ps, JSON_FAULT_END, p);
			return NULL;
		}
		if (*p == '"')
			return p;
		if (*p == '\\') {
			*flags |= JSON_KEY_ESCAPED;
			if (p + 1 == ps->end) {
				json_fail(ps, JSON_FAULT_END, ps->end);
				return NULL;
			}
			/* what follows is judged by escape(); a control byte here must not hide the end */
			p += p[1] < 0x20 || p[1] >= 0x80 ? 1 : 2;
			continue;
		}
		if (*p < 0x20) {
			json_fail(ps, *p == '\0' ? JSON_FAULT_NUL : JSON_FAULT_CONTROL, p);
			return NULL;
		}
		n = utf8_length((const char *)p, (size_t)(ps->end - p));
		if (n == 0) {
			json_fail(ps, JSON_FAULT_UTF8, p);
			return NULL;
		}
		if (n > 1)
			*flags |= JSON_KEY_NON_ASCII;
		p += n;
	}
}

/*
 * Reads the string whose opening quote is at ps->p. Without an escape the result is a slice of the input. *plain: there is
 * nothing in it that an escape would be needed for.
 */
bool json_read_string(struct json_reader *ps, struct slice *out, uint8_t *flags, bool *plain)
{
	const unsigned char *start = ps->p + 1;
	const unsigned char *p = start;
	const unsigned char *stop = start + plain_run(start, (size_t)(ps->end - start));
	char *text, *w;

	*plain = stop < ps->end && *stop == '"';
	if (!*plain)
		stop = string_end(ps, stop, flags);
	if (stop == NULL)
		return false;
	ps->p = stop + 1;
	if (!(*flags & JSON_KEY_ESCAPED)) {
		*out = slice_make((const char *)start, (size_t)(stop - start));
		return true;
	}
	text = w = json_alloc(ps->doc, (size_t)(stop - start)); /* no escape is shorter than what it stands for */
	if (text == NULL)
		return json_fail(ps, JSON_FAULT_MEMORY, start);
	while (p < stop) {
		if (*p != '\\')
			*w++ = (char)*p++;
		else if (!escape(ps, &p, &w, flags))
			return false;
	}
	*out = slice_make(text, (size_t)(w - text));
	return true;
}

static inline bool is_digit(const unsigned char *p, const unsigned char *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

/* The value of a run of digits, false when it does not fit int64. */
static bool integer_value(const unsigned char *p, const unsigned char *end, bool negative, int64_t *out)
{
	uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	uint64_t v = 0;

	for (; p < end; p++) {
		unsigned d = *p - '0';

		if (v > (limit - d) / 10)
			return false;
		v = v * 10 + d;
	}
	*out = negative ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

static bool number_fault(struct json_reader *ps, const unsigned char *p)
{
	return json_fail(ps, p == ps->end ? JSON_FAULT_END : JSON_FAULT_NUMBER, p);
}

bool json_read_number(struct json_reader *ps, struct json_node *node)
{
	const unsigned char *start = ps->p;
	const unsigned char *p = start;
	const unsigned char *digits;
	bool negative = *p == '-';
	bool whole = true;

	if (negative)
		p++;
	digits = p;
	if (!is_digit(p, ps->end))
		return number_fault(ps, p);
	if (*p++ == '0') {
		if (is_digit(p, ps->end))
			return json_fail(ps, JSON_FAULT_NUMBER, p);
	} else {
		while (is_digit(p, ps->end))
			p++;
	}
	/* -0: decoders differ on whether an unsigned field takes it */
	if (!integer_value(digits, p, negative, &node->integer) || (negative && node->integer == 0))
		whole = false;
	if (p < ps->end && *p == '.') {
		whole = false;
		if (!is_digit(++p, ps->end))
			return number_fault(ps, p);
		while (is_digit(p, ps->end))
			p++;
	}
	if (p < ps->end && (*p == 'e' || *p == 'E')) {
		whole = false;
		p++;
		if (p < ps->end && (*p == '+' || *p == '-'))
			p++;
		if (!is_digit(p, ps->end))
			return number_fault(ps, p);
		while (is_digit(p, ps->end))
			p++;
	}
	node->type = whole ? JSON_INT : JSON_REAL;
	node->digits = slice_make((const char *)start, (size_t)(p - start));
	ps->p = p;
	return true;
}

bool json_read_literal(struct json_reader *ps, const char *word)
{
	for (const char *w = word; *w != '\0'; w++, ps->p++)
		if (ps->p == ps->end || *ps->p != (unsigned char)*w)
			return json_fail_byte(ps);
	return true;
}
