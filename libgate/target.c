/* Takes a request-target in origin-form apart, accepting one spelling only. */
#include "libgate/target.h"

#include "libgate/buf.h"
#include "libgate/utf8.h"

static const struct {
	const char *id, *at, *text;
} faults[TARGET_FAULT_COUNT] = {
	[TARGET_OK] = { "ok", "", "" },
#define ROW(sym, id, at, text) [TARGET_FAULT_##sym] = { id, at, text },
#include "libgate/target_fault.def"
#undef ROW
};

const char *target_fault_id(enum target_fault f)
{
	return faults[f].id;
}

const char *target_fault_at(enum target_fault f)
{
	return faults[f].at;
}

const char *target_fault_text(enum target_fault f)
{
	return faults[f].text;
}

enum {
	IN_PATH = 1 << 0, /* pchar (RFC 3986) without ';', which some routers cut at */
	IN_QUERY =
		1 << 1, /* inside a name or value: without the delimiters and '+', which some decoders turn into a space */
	UNRESERVED = 1 << 2,
};

#define BOTH (IN_PATH | IN_QUERY)
static const uint8_t classes[256] = {
	['!'] = BOTH,
	['$'] = BOTH,
	['%'] = BOTH,
	['&'] = IN_PATH,
	['\'' ... '*'] = BOTH,
	['+'] = IN_PATH,
	[','] = BOTH,
	['-'] = BOTH | UNRESERVED,
	['.'] = BOTH | UNRESERVED,
	['/'] = BOTH,
	['0' ... '9'] = BOTH | UNRESERVED,
	[':'] = BOTH,
	['='] = IN_PATH,
	['@'] = BOTH,
	['A' ... 'Z'] = BOTH | UNRESERVED,
	['_'] = BOTH | UNRESERVED,
	['a' ... 'z'] = BOTH | UNRESERVED,
	['~'] = BOTH | UNRESERVED,
};

static bool is(char c, unsigned which)
{
	return (classes[(unsigned char)c] & which) != 0;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = slice_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes s once into the scratch space, or leaves it where it is when it holds no escape. Any byte but NUL. */
static bool decode(struct target *t, struct slice s, struct slice *out)
{
	if (s.len == 0 || memchr(s.p, '%', s.len) == NULL) {
		*out = s;
		return true;
	}
	size_t from = t->scratch_len;
	size_t to = from;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];

		if (c == '%') {
			int high = i + 2 < s.len ? hex_value(s.p[i + 1]) : -1;
			int low = i + 2 < s.len ? hex_value(s.p[i + 2]) : -1;

			if (high < 0 || low < 0 || (high == 0 && low == 0))
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (to == sizeof(t->scratch))
			return false;
		t->scratch[to++] = c;
	}
	t->scratch_len = to;
	*out = slice_make(t->scratch + from, to - from);
	return true;
}

bool target_decode(struct target *t, struct slice s, const char *allowed, struct slice *out)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] != '%')
			continue;
		int high = i + 2 < s.len ? hex_value(s.p[i + 1]) : -1;
		int low = i + 2 < s.len ? hex_value(s.p[i + 2]) : -1;

		if (high < 0 || low < 0)
			return false;
		/* strchr() finds the terminator: %00 stands for nothing that may be allowed. */
		int c = high << 4 | low;
		if (c == 0 || strchr(allowed, c) == NULL)
			return false;
	}
	return decode(t, s, out);
}

static enum target_fault parse_path(struct target *t)
{
	struct slice rest = slice_skip(t->path, 1);

	for (size_t i = 0; i < t->path.len; i++)
		if (!is(t->path.p[i], IN_PATH))
			return TARGET_FAULT_BYTE;
	if (rest.len == 0)
		return TARGET_OK; /* "/" has no segment */
	for (;;) {
		const char *slash = memchr(rest.p, '/', rest.len);
		struct slice segment = slice_make(rest.p, slash != NULL ? (size_t)(slash - rest.p) : rest.len);

		if (segment.len == 0 || slice_is(segment, ".") || slice_is(segment, ".."))
			return TARGET_FAULT_CANONICAL;
		if (t->nsegments == TARGET_MAX_SEGMENTS)
			return TARGET_FAULT_SEGMENTS;
		t->segments[t->nsegments++] = segment;
		if (slash == NULL)
			return TARGET_OK;
		rest = slice_skip(rest, segment.len + 1);
		if (rest.len == 0)
			return TARGET_FAULT_CANONICAL; /* a trailing slash */
	}
}

static enum target_fault parse_pair(struct target *t, struct slice pair)
{
	const char *eq = pair.len == 0 ? NULL : memchr(pair.p, '=', pair.len);
	struct target_param param;

	t->suspect = slice_make(pair.p, eq != NULL ? (size_t)(eq - pair.p) : pair.len);
	for (size_t i = 0; i < pair.len; i++)
		if (!is(pair.p[i], IN_QUERY) && pair.p[i] != '=')
			return TARGET_FAULT_QUERY_BYTE;
	if (eq == NULL || eq == pair.p)
		return TARGET_FAULT_QUERY_PAIR;
	struct slice value = slice_skip(pair, t->suspect.len + 1);
	if (memchr(value.p, '=', value.len) != NULL)
		return TARGET_FAULT_QUERY_PAIR;
	if (!decode(t, t->suspect, &param.name) || !utf8_valid(param.name))
		return TARGET_FAULT_QUERY_ESCAPE;
	t->suspect = param.name;
	if (!decode(t, value, &param.value) || !utf8_valid(param.value))
		return TARGET_FAULT_QUERY_ESCAPE;
	for (unsigned i = 0; i < t->nparams; i++)
		if (slice_eq(t->params[i].name, param.name))
			return TARGET_FAULT_QUERY_DUPLICATE;
	if (t->nparams == TARGET_MAX_PARAMS)
		return TARGET_FAULT_QUERY_COUNT;
	t->params[t->nparams++] = param;
	return TARGET_OK;
}

static enum target_fault parse_query(struct target *t, struct slice query)
{
	for (;;) {
		const char *amp = query.len == 0 ? NULL : memchr(query.p, '&', query.len);
		size_t n = amp != NULL ? (size_t)(amp - query.p) : query.len;
		enum target_fault f = parse_pair(t, slice_make(query.p, n));

		if (f != TARGET_OK || amp == NULL)
			return f;
		query = slice_skip(query, n + 1);
	}
}

enum target_fault target_parse(struct target *t, struct slice raw)
{
	/* The scratch space is written before it is read: clearing it would cost more than parsing. */
	t->raw = raw;
	t->path = slice_make(raw.p, 0);
	t->suspect = slice_make(raw.p, 0);
	t->nsegments = t->nparams = 0;
	t->scratch_len = 0;
	if (raw.len > TARGET_MAX)
		return TARGET_FAULT_SIZE;
	if (raw.len == 0 || raw.p[0] != '/')
		return TARGET_FAULT_FORM;
	const char *mark = memchr(raw.p, '?', raw.len);
	t->path = slice_make(raw.p, mark != NULL ? (size_t)(mark - raw.p) : raw.len);
	enum target_fault f = parse_path(t);
	if (f != TARGET_OK || mark == NULL)
		return f;
	return parse_query(t, slice_skip(raw, t->path.len + 1));
}

struct slice target_param(const struct target *t, const char *name)
{
	for (unsigned i = 0; i < t->nparams; i++)
		if (slice_is(t->params[i].name, name))
			return t->params[i].value;
	return slice_make(NULL, 0);
}

int target_put_query_value(struct buf *b, struct slice s)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t mark = buf_len(b);

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];
		char escape[3] = { '%', hex[c >> 4], hex[c & 15] };
		bool plain = is(s.p[i], UNRESERVED) || c == ':' || c == '/';

		if ((plain ? buf_putc(b, s.p[i]) : buf_put(b, escape, 3)) != 0) {
			b->end = b->start + mark;
			return -1;
		}
	}
	return 0;
}
