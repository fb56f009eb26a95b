/* Strict JSON: one pass over the text into a tree of nodes that lives in the document's arena. */
#include "libgate/json.h"

#include <stdlib.h>
#include <string.h>

#include "libgate/plain.h"
#include "libgate/utf8.h"

#define CHUNK_SIZE 16384 /* bytes of an ordinary arena chunk */
#define KEEP_MAX (256 * 1024) /* bytes of arena kept from one document to the next */
#define PAIRWISE_MAX 8 /* members up to which names are compared each with each */

struct chunk {
	struct chunk *next;
	size_t size;
	size_t used;
	_Alignas(max_align_t) char data[];
};

/* The child of an open object or array that is being read. */
struct step {
	enum { STEP_NONE, STEP_MEMBER, STEP_ITEM } type;
	struct slice key;
	uint32_t item;
};

struct json_doc {
	struct chunk *first;
	struct chunk *current;
	struct json_node **table; /* scratch of the search for repeated names */
	size_t table_size;
	struct step path[JSON_MAX_DEPTH];
	unsigned path_depth; /* of the fault */
};

struct parser {
	struct json_doc *doc;
	const unsigned char *base;
	const unsigned char *p;
	const unsigned char *end;
	unsigned flags;
	unsigned depth;
	enum json_fault fault;
	size_t fault_at;
};

static const struct {
	const char *id;
	const char *text;
} faults[JSON_FAULT_COUNT] = {
	[JSON_OK] = { "json-ok", "no fault" },
#define ROW(sym, id_, text_) [JSON_FAULT_##sym] = { id_, text_ },
#include "libgate/json_fault.def"
#undef ROW
};

const char *json_fault_id(enum json_fault f)
{
	return faults[f].id;
}

const char *json_fault_text(enum json_fault f)
{
	return faults[f].text;
}

/* --- arena ---------------------------------------------------------------------------------------------------- */

struct json_doc *json_doc_new(void)
{
	return calloc(1, sizeof(struct json_doc));
}

static void chunks_free(struct chunk *c)
{
	while (c != NULL) {
		struct chunk *next = c->next;

		free(c);
		c = next;
	}
}

void json_doc_free(struct json_doc *doc)
{
	if (doc == NULL)
		return;
	chunks_free(doc->first);
	free(doc->table);
	free(doc);
}

/* Forgets the last document. One unusually large document must not hold its memory for ever. */
static void arena_reset(struct json_doc *doc)
{
	struct chunk **link = &doc->first;
	size_t kept = 0;

	while (*link != NULL && kept + (*link)->size <= KEEP_MAX) {
		kept += (*link)->size;
		(*link)->used = 0;
		link = &(*link)->next;
	}
	chunks_free(*link);
	*link = NULL;
	doc->current = doc->first;
	if (doc->table_size * sizeof(*doc->table) > KEEP_MAX) {
		free(doc->table);
		doc->table = NULL;
		doc->table_size = 0;
	}
}

static void *arena_grow(struct json_doc *doc, size_t n)
{
	struct chunk *c = doc->current;
	size_t size = n > CHUNK_SIZE ? n : CHUNK_SIZE;
	struct chunk *fresh;

	if (c != NULL && c->next != NULL && c->next->size >= n) {
		doc->current = c->next;
		doc->current->used = n;
		return doc->current->data;
	}
	fresh = malloc(sizeof(*fresh) + size);
	if (fresh == NULL)
		return NULL;
	fresh->size = size;
	fresh->used = n;
	if (c == NULL) {
		fresh->next = doc->first;
		doc->first = fresh;
	} else {
		fresh->next = c->next;
		c->next = fresh;
	}
	doc->current = fresh;
	return fresh->data;
}

static inline void *arena_alloc(struct json_doc *doc, size_t n)
{
	struct chunk *c = doc->current;
	void *p;

	n = (n + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	if (c == NULL || c->size - c->used < n)
		return arena_grow(doc, n);
	p = c->data + c->used;
	c->used += n;
	return p;
}

/* --- lexical level -------------------------------------------------------------------------------------------- */

static bool fail(struct parser *ps, enum json_fault fault, const unsigned char *at)
{
	ps->fault = fault;
	ps->fault_at = (size_t)(at - ps->base);
	ps->doc->path_depth = ps->depth;
	return false;
}

/* A byte that cannot stand here: the end and NUL have names of their own. */
static bool fail_byte(struct parser *ps)
{
	if (ps->p == ps->end)
		return fail(ps, JSON_FAULT_END, ps->p);
	return fail(ps, *ps->p == '\0' ? JSON_FAULT_NUL : JSON_FAULT_SYNTAX, ps->p);
}

static bool skip_comment(struct parser *ps)
{
	const unsigned char *p = ps->p + 1;

	if (p == ps->end)
		return fail(ps, JSON_FAULT_END, p);
	if (*p == '/') {
		while (p < ps->end && *p != '\n')
			p++;
		ps->p = p;
		return true;
	}
	if (*p != '*')
		return fail(ps, JSON_FAULT_SYNTAX, ps->p);
	for (p++; p + 1 < ps->end; p++)
		if (p[0] == '*' && p[1] == '/') {
			ps->p = p + 2;
			return true;
		}
	return fail(ps, JSON_FAULT_END, ps->end);
}

static inline bool is_space(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool skip_spaces(struct parser *ps)
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

/* Documents of programs seldom have any. */
static inline bool skip_space(struct parser *ps)
{
	static const bool may_be[256] = { [' '] = true, ['\n'] = true, ['\t'] = true, ['\r'] = true, ['/'] = true };

	return ps->p == ps->end || !may_be[*ps->p] || skip_spaces(ps);
}

static int hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits of an escape that begins at p (the backslash). */
static bool hex4(struct parser *ps, const unsigned char *p, unsigned *out)
{
	unsigned v = 0;

	for (int i = 2; i < 6; i++) {
		int d;

		if (p + i >= ps->end)
			return fail(ps, JSON_FAULT_END, ps->end);
		d = hex_digit(p[i]);
		if (d < 0)
			return fail(ps, JSON_FAULT_ESCAPE, p);
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
static bool escape_unicode(struct parser *ps, const unsigned char **p, unsigned *cp)
{
	const unsigned char *at = *p;
	unsigned low;

	if (!hex4(ps, at, cp))
		return false;
	*p = at + 6;
	if (*cp == 0)
		return fail(ps, JSON_FAULT_NUL, at);
	if (*cp < 0xd800 || *cp > 0xdfff)
		return true;
	if (*cp > 0xdbff)
		return fail(ps, JSON_FAULT_SURROGATE, at);
	if (at[6] != '\\' || at[7] != 'u') /* a quote follows at the latest, and something follows a backslash */
		return fail(ps, JSON_FAULT_SURROGATE, at);
	if (!hex4(ps, at + 6, &low))
		return false;
	if (low < 0xdc00 || low > 0xdfff)
		return fail(ps, JSON_FAULT_SURROGATE, at);
	*cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
	*p = at + 12;
	return true;
}

/* Moves *p behind the escape at *p and appends what it stands for to *out. */
static bool escape(struct parser *ps, const unsigned char **p, char **out, uint8_t *flags)
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
		return fail(ps, JSON_FAULT_END, ps->end);
	if (at[1] == 'u') {
		if (!escape_unicode(ps, p, &cp))
			return false;
		if (cp > 0x7f)
			*flags |= JSON_KEY_NON_ASCII;
		*out = utf8_put(*out, cp);
		return true;
	}
	if (plain[at[1]] == '\0')
		return fail(ps, at[1] == '\0' ? JSON_FAULT_NUL : JSON_FAULT_ESCAPE, at[1] == '\0' ? at + 1 : at);
	*(*out)++ = plain[at[1]];
	*p = at + 2;
	return true;
}

/* The closing quote of the string whose text goes on at p, its bytes checked, or NULL. Escapes are only skipped. */
static const unsigned char *string_end(struct parser *ps, const unsigned char *p, uint8_t *flags)
{
	for (;;) {
		size_t n;

		p += plain_run(p, (size_t)(ps->end - p));
		if (p == ps->end) {
			fail(ps, JSON_FAULT_END, p);
			return NULL;
		}
		if (*p == '"')
			return p;
		if (*p == '\\') {
			*flags |= JSON_KEY_ESCAPED;
			if (p + 1 == ps->end) {
				fail(ps, JSON_FAULT_END, ps->end);
				return NULL;
			}
			/* what follows is judged by escape(); a control byte here must not hide the end */
			p += p[1] < 0x20 || p[1] >= 0x80 ? 1 : 2;
			continue;
		}
		if (*p < 0x20) {
			fail(ps, *p == '\0' ? JSON_FAULT_NUL : JSON_FAULT_CONTROL, p);
			return NULL;
		}
		n = utf8_length((const char *)p, (size_t)(ps->end - p));
		if (n == 0) {
			fail(ps, JSON_FAULT_UTF8, p);
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
static bool string(struct parser *ps, struct slice *out, uint8_t *flags, bool *plain)
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
	text = w = arena_alloc(ps->doc, (size_t)(stop - start)); /* no escape is shorter than what it stands for */
	if (text == NULL)
		return fail(ps, JSON_FAULT_MEMORY, start);
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

static bool number_fault(struct parser *ps, const unsigned char *p)
{
	return fail(ps, p == ps->end ? JSON_FAULT_END : JSON_FAULT_NUMBER, p);
}

static bool number(struct parser *ps, struct json_node *node)
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
			return fail(ps, JSON_FAULT_NUMBER, p);
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

static bool literal(struct parser *ps, const char *word)
{
	for (const char *w = word; *w != '\0'; w++, ps->p++)
		if (ps->p == ps->end || *ps->p != (unsigned char)*w)
			return fail_byte(ps);
	return true;
}

/* --- members -------------------------------------------------------------------------------------------------- */

uint32_t json_key_hash(struct slice key)
{
	const uint64_t k = 0x9e3779b97f4a7c15u;
	uint64_t h = key.len * k;
	const char *p = key.p;
	size_t n = key.len;
	uint64_t w = 0;

	for (; n > 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * k;
		h ^= h >> 29;
	}
	/* The last one to eight bytes; where there are more before them, the eight that end the key. */
	w = 0;
	if (key.len >= 8) {
		memcpy(&w, p + n - 8, 8);
	} else if (n >= 4) {
		uint32_t first, last;

		memcpy(&first, p, 4);
		memcpy(&last, p + n - 4, 4);
		w = (uint64_t)first << 32 | last;
	} else if (n > 0) {
		w = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n / 2] << 8 | (unsigned char)p[n - 1];
	}
	h = (h ^ w) * k;
	return (uint32_t)(h >> 32);
}

static int key_order(const void *a, const void *b)
{
	const struct json_node *x = *(struct json_node *const *)a;
	const struct json_node *y = *(struct json_node *const *)b;
	int order;

	if (x->key.len != y->key.len)
		return x->key.len < y->key.len ? -1 : 1;
	order = memcmp(x->key.p, y->key.p, x->key.len);
	if (order != 0)
		return order;
	return x->key_offset < y->key_offset ? -1 : 1;
}

static const struct json_node *repeated_pairwise(const struct json_node *object)
{
	for (const struct json_node *m = object->child; m != NULL; m = m->next)
		for (const struct json_node *n = object->child; n != m; n = n->next)
			if (n->key_hash == m->key_hash && slice_eq(n->key, m->key))
				return m;
	return NULL;
}

/* Names chosen to collide in the hash cost n log n comparisons here, not n squared. */
static const struct json_node *repeated_sorted(struct json_doc *doc, const struct json_node *object)
{
	const struct json_node *found = NULL;
	size_t n = 0;

	for (struct json_node *m = object->child; m != NULL; m = m->next)
		doc->table[n++] = m;
	qsort(doc->table, n, sizeof(*doc->table), key_order);
	for (size_t i = 1; i < n; i++)
		if (slice_eq(doc->table[i - 1]->key, doc->table[i]->key) &&
			(found == NULL || doc->table[i]->key_offset < found->key_offset))
			found = doc->table[i];
	return found;
}

static const struct json_node *repeated_hashed(struct json_doc *doc, const struct json_node *object, size_t size)
{
	size_t budget = 8 * (size_t)object->count; /* probes; more means chosen collisions */

	memset(doc->table, 0, size * sizeof(*doc->table));
	for (struct json_node *m = object->child; m != NULL; m = m->next) {
		size_t i = m->key_hash & (size - 1);

		for (; doc->table[i] != NULL; i = (i + 1) & (size - 1)) {
			if (doc->table[i]->key_hash == m->key_hash && slice_eq(doc->table[i]->key, m->key))
				return m;
			if (budget-- == 0)
				return repeated_sorted(doc, object);
		}
		doc->table[i] = m;
	}
	return NULL;
}

static bool check_repeated(struct parser *ps, const struct json_node *object)
{
	const struct json_node *found;
	size_t size = 32;

	if (object->count <= PAIRWISE_MAX) {
		found = repeated_pairwise(object);
	} else {
		while (size < 2 * (size_t)object->count)
			size *= 2;
		if (ps->doc->table_size < size) {
			struct json_node **table = realloc(ps->doc->table, size * sizeof(*table));

			if (table == NULL)
				return fail(ps, JSON_FAULT_MEMORY, ps->p);
			ps->doc->table = table;
			ps->doc->table_size = size;
		}
		found = repeated_hashed(ps->doc, object, size);
	}
	if (found == NULL)
		return true;
	ps->doc->path[ps->depth - 1] = (struct step){ .type = STEP_MEMBER, .key = found->key };
	return fail(ps, JSON_FAULT_DUPLICATE, ps->base + found->key_offset);
}

/* --- values --------------------------------------------------------------------------------------------------- */

static bool value(struct parser *ps, struct json_node *node);

static struct json_node *node_new(struct parser *ps)
{
	struct json_node *node = arena_alloc(ps->doc, sizeof(*node));

	if (node == NULL) {
		fail(ps, JSON_FAULT_MEMORY, ps->p);
		return NULL;
	}
	memset(node, 0, sizeof(*node));
	return node;
}

/* Between two elements: true with *more for a comma (space after it skipped), without it at the closing byte. */
static bool separator(struct parser *ps, unsigned char close, bool *more)
{
	if (!skip_space(ps))
		return false;
	if (ps->p == ps->end || (*ps->p != ',' && *ps->p != close))
		return fail_byte(ps);
	*more = *ps->p++ == ',';
	return !*more || skip_space(ps);
}

static bool array(struct parser *ps, struct json_node *node)
{
	struct json_node **link = &node->child;
	bool more = true;

	node->type = JSON_ARRAY;
	node->child = NULL;
	ps->p++;
	if (!skip_space(ps))
		return false;
	if (ps->p < ps->end && *ps->p == ']') {
		ps->p++;
		return true;
	}
	while (more) {
		struct json_node *item = node_new(ps);

		ps->doc->path[ps->depth - 1] = (struct step){ .type = STEP_ITEM, .item = node->count };
		if (item == NULL || !value(ps, item) || !separator(ps, ']', &more))
			return false;
		*link = item;
		link = &item->next;
		node->count++;
	}
	return true;
}

static bool member(struct parser *ps, struct json_node *m)
{
	struct step *step = &ps->doc->path[ps->depth - 1];

	step->type = STEP_NONE;
	if (ps->p == ps->end || *ps->p != '"')
		return fail_byte(ps);
	m->key_offset = (uint32_t)(ps->p - ps->base);
	if (!string(ps, &m->key, &m->key_flags, &m->plain_key))
		return false;
	m->key_hash = json_key_hash(m->key);
	*step = (struct step){ .type = STEP_MEMBER, .key = m->key };
	if (!skip_space(ps))
		return false;
	if (ps->p == ps->end || *ps->p != ':')
		return fail_byte(ps);
	ps->p++;
	return skip_space(ps) && value(ps, m);
}

static bool object(struct parser *ps, struct json_node *node)
{
	struct json_node **link = &node->child;
	bool more = true;

	node->type = JSON_OBJECT;
	node->child = NULL;
	ps->p++;
	if (!skip_space(ps))
		return false;
	if (ps->p < ps->end && *ps->p == '}') {
		ps->p++;
		return true;
	}
	while (more) {
		struct json_node *m = node_new(ps);

		if (m == NULL || !member(ps, m) || !separator(ps, '}', &more))
			return false;
		*link = m;
		link = &m->next;
		node->count++;
	}
	return check_repeated(ps, node);
}

static bool nested(struct parser *ps, struct json_node *node, bool (*read)(struct parser *, struct json_node *))
{
	bool ok;

	if (ps->depth == JSON_MAX_DEPTH)
		return fail(ps, JSON_FAULT_DEPTH, ps->p);
	ps->depth++;
	ok = read(ps, node);
	ps->depth--;
	return ok;
}

static bool value(struct parser *ps, struct json_node *node)
{
	uint8_t flags = 0;

	if (ps->p == ps->end)
		return fail(ps, JSON_FAULT_END, ps->p);
	node->offset = (uint32_t)(ps->p - ps->base);
	switch (*ps->p) {
	case '{':
		return nested(ps, node, object);
	case '[':
		return nested(ps, node, array);
	case '"':
		node->type = JSON_STRING;
		return string(ps, &node->text, &flags, &node->plain_text);
	case 't':
		node->type = JSON_BOOL;
		node->boolean = true;
		return literal(ps, "true");
	case 'f':
		node->type = JSON_BOOL;
		node->boolean = false;
		return literal(ps, "false");
	case 'n':
		node->type = JSON_NULL;
		return literal(ps, "null");
	case '-':
	case '0' ... '9':
		return number(ps, node);
	default:
		return fail_byte(ps);
	}
}

static struct json_node *document(struct parser *ps)
{
	struct json_node *root;

	if (!skip_space(ps))
		return NULL;
	root = node_new(ps);
	if (root == NULL || !value(ps, root) || !skip_space(ps))
		return NULL;
	if (ps->p != ps->end) {
		fail(ps, *ps->p == '\0' ? JSON_FAULT_NUL : JSON_FAULT_TRAILING, ps->p);
		return NULL;
	}
	return root;
}

struct json_node *json_parse(struct json_doc *doc, struct slice input, unsigned flags, enum json_fault *fault,
	size_t *offset)
{
	struct parser ps = {
		.doc = doc,
		.base = (const unsigned char *)input.p,
		.p = (const unsigned char *)input.p,
		.flags = flags,
	};
	struct json_node *root;

	arena_reset(doc);
	doc->path_depth = 0;
	*fault = JSON_OK;
	*offset = 0;
	if (input.len > UINT32_MAX - 1) {
		*fault = JSON_FAULT_SIZE;
		return NULL;
	}
	if (input.len == 0) {
		*fault = JSON_FAULT_END;
		return NULL;
	}
	ps.end = ps.p + input.len;
	root = document(&ps);
	if (root == NULL) {
		*fault = ps.fault;
		*offset = ps.fault_at;
	}
	return root;
}

int json_put_fault_pointer(struct buf *b, const struct json_doc *doc)
{
	for (unsigned i = 0; i < doc->path_depth && doc->path[i].type != STEP_NONE; i++) {
		const struct step *s = &doc->path[i];
		int rc = s->type == STEP_ITEM ? buf_putf(b, "/%u", (unsigned)s->item) : json_pointer_push(b, s->key);

		if (rc < 0)
			return -1;
	}
	return 0;
}

/* --- reading and writing the tree ----------------------------------------------------------------------------- */

void json_position(struct slice input, size_t offset, unsigned *line, unsigned *column)
{
	*line = 1;
	*column = 1;
	if (offset > input.len)
		offset = input.len;
	for (size_t i = 0; i < offset; i++) {
		if (input.p[i] == '\n') {
			++*line;
			*column = 1;
		} else {
			++*column;
		}
	}
}

const struct json_node *json_get(const struct json_node *node, const char *key)
{
	if (node == NULL || node->type != JSON_OBJECT)
		return NULL;
	for (const struct json_node *m = node->child; m != NULL; m = m->next)
		if (slice_is(m->key, key))
			return m;
	return NULL;
}

bool json_get_string(const struct json_node *node, const char *key, struct slice *out)
{
	const struct json_node *m = json_get(node, key);

	if (m == NULL || m->type != JSON_STRING)
		return false;
	*out = m->text;
	return true;
}

bool json_get_int(const struct json_node *node, const char *key, int64_t *out)
{
	const struct json_node *m = json_get(node, key);

	if (m == NULL || m->type != JSON_INT)
		return false;
	*out = m->integer;
	return true;
}

bool json_get_bool(const struct json_node *node, const char *key, bool *out)
{
	const struct json_node *m = json_get(node, key);

	if (m == NULL || m->type != JSON_BOOL)
		return false;
	*out = m->boolean;
	return true;
}

int json_put_string(struct buf *b, struct slice s)
{
	if (buf_putc(b, '"') < 0 || buf_put_json(b, s) < 0)
		return -1;
	return buf_putc(b, '"');
}

static int put_text(struct buf *b, struct slice s, bool plain)
{
	size_t n = s.len + 2;
	char *to;

	if (!plain)
		return json_put_string(b, s);
	to = b->cap - b->end >= n ? b->data + b->end : buf_reserve(b, n);
	if (to == NULL)
		return -1;
	to[0] = '"';
	memcpy(to + 1, s.p, s.len);
	to[s.len + 1] = '"';
	buf_commit(b, n);
	return 0;
}

int json_put_key(struct buf *b, const struct json_node *member)
{
	return put_text(b, member->key, member->plain_key) < 0 ? -1 : buf_putc(b, ':');
}

static int put_children(struct buf *b, const struct json_node *node, char open, char close)
{
	if (buf_putc(b, open) < 0)
		return -1;
	for (const struct json_node *n = node->child; n != NULL; n = n->next) {
		if (n != node->child && buf_putc(b, ',') < 0)
			return -1;
		if (node->type == JSON_OBJECT && json_put_key(b, n) < 0)
			return -1;
		if (json_put(b, n) < 0)
			return -1;
	}
	return buf_putc(b, close);
}

int json_put(struct buf *b, const struct json_node *node)
{
	switch (node->type) {
	case JSON_NULL:
		return buf_puts(b, "null");
	case JSON_BOOL:
		return buf_puts(b, node->boolean ? "true" : "false");
	case JSON_INT:
	case JSON_REAL:
		return buf_put_slice(b, node->digits);
	case JSON_STRING:
		return put_text(b, node->text, node->plain_text);
	case JSON_ARRAY:
		return put_children(b, node, '[', ']');
	case JSON_OBJECT:
		return put_children(b, node, '{', '}');
	}
	return -1;
}

int json_pointer_push(struct buf *b, struct slice token)
{
	size_t run = 0;

	if (buf_putc(b, '/') < 0)
		return -1;
	for (size_t i = 0; i < token.len; i++) {
		if (token.p[i] != '~' && token.p[i] != '/')
			continue;
		if (buf_put(b, token.p + run, i - run) < 0 || buf_puts(b, token.p[i] == '~' ? "~0" : "~1") < 0)
			return -1;
		run = i + 1;
	}
	return buf_put(b, token.p + run, token.len - run);
}
