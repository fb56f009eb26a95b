/*
 * Patterns as automata: text -> tree -> nondeterministic automaton -> deterministic one.
 *
 * Bytes are what is matched. A code point above U+007F is a lead byte and its continuations, so that '.' and negated classes
 * count characters as the pattern's author does; bytes that are not well-formed UTF-8 match nothing.
 */
#include "dockerproxy/automaton.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 2048
#define MAX_SETS 256
#define MAX_STATES 2048 /* of the nondeterministic automaton */
#define MAX_DETERMINISTIC 512
#define MAX_CELLS 65536 /* of the table: a state is a 16-bit offset into it */
#define MAX_REPEAT 256
#define MAX_STEPS 100000 /* of lay_out(): repetitions of nothing make no states */
#define INFINITE (-1)
#define NONE (-1)

struct set {
	uint64_t bits[4];
};

enum node_type { NODE_EMPTY, NODE_SET, NODE_CAT, NODE_ALT, NODE_REPEAT };

struct node {
	enum node_type type;
	int left; /* a node, or of NODE_SET the set */
	int right;
	int min;
	int max;
};

/* set NONE: a fork to both; else a byte of the set leads to out. */
struct state {
	int set;
	int out;
	int other;
};

/*
 * A state is known by where its row begins, so that a step is an addition and a load. In the row stand the next states by
 * class, and last whether this one accepts. Row 0 is the state without a way on; the second row is the first state.
 */
struct automaton {
	uint16_t classes;
	uint8_t class_of[256];
	uint16_t table[];
};

/* Everything needed while building. */
struct build {
	const char *p;
	const char *end;
	struct node nodes[MAX_NODES];
	int nnodes;
	struct set sets[MAX_SETS];
	int nsets;
	struct state states[MAX_STATES];
	int nstates;
	int start;
	int steps;
	uint8_t class_of[256];
	int classes;
	size_t words; /* of a set of states */
	uint64_t *subsets; /* of each deterministic state */
	int *stack;
	int ndeterministic;
	uint16_t *table;
};

static void set_add(struct set *s, unsigned from, unsigned to)
{
	for (unsigned c = from; c <= to; c++)
		s->bits[c / 64] |= (uint64_t)1 << (c % 64);
}

static bool set_has(const struct set *s, unsigned c)
{
	return s->bits[c / 64] >> (c % 64) & 1;
}

/* --- text to tree --------------------------------------------------------------------------------------------------- */

static int parse_alternatives(struct build *b);

static int new_node(struct build *b, enum node_type type, int left, int right)
{
	if (b->nnodes == MAX_NODES || left == NONE || right == NONE)
		return NONE;
	b->nodes[b->nnodes] = (struct node){ .type = type, .left = left, .right = right };
	return b->nnodes++;
}

static int new_set_node(struct build *b, const struct set *s)
{
	int set = 0;

	while (set < b->nsets && memcmp(&b->sets[set], s, sizeof(*s)) != 0)
		set++;
	if (set == MAX_SETS)
		return NONE;
	if (set == b->nsets)
		b->sets[b->nsets++] = *s;
	return new_node(b, NODE_SET, set, 0);
}

static int new_range_node(struct build *b, unsigned from, unsigned to)
{
	struct set s = { { 0 } };

	set_add(&s, from, to);
	return new_set_node(b, &s);
}

/* A lead byte, a second byte, and so many more. */
struct sequence {
	uint8_t lead[2];
	uint8_t second[2];
	int more;
};

/* The code points above U+007F as UTF-8 writes them (RFC 3629 section 4): no overlong form, no surrogate. */
static const struct sequence sequences[] = {
	{ { 0xc2, 0xdf }, { 0x80, 0xbf }, 0 },
	{ { 0xe0, 0xe0 }, { 0xa0, 0xbf }, 1 },
	{ { 0xe1, 0xec }, { 0x80, 0xbf }, 1 },
	{ { 0xed, 0xed }, { 0x80, 0x9f }, 1 },
	{ { 0xee, 0xef }, { 0x80, 0xbf }, 1 },
	{ { 0xf0, 0xf0 }, { 0x90, 0xbf }, 2 },
	{ { 0xf1, 0xf3 }, { 0x80, 0xbf }, 2 },
	{ { 0xf4, 0xf4 }, { 0x80, 0x8f }, 2 },
};

static int new_sequence(struct build *b, const struct sequence *q)
{
	int node =
		new_node(b, NODE_CAT, new_range_node(b, q->lead[0], q->lead[1]), new_range_node(b, q->second[0], q->second[1]));

	for (int i = 0; i < q->more; i++)
		node = new_node(b, NODE_CAT, node, new_range_node(b, 0x80, 0xbf));
	return node;
}

/* The ASCII set and every other code point. */
static int new_wide_node(struct build *b, const struct set *ascii)
{
	int node = new_set_node(b, ascii);

	for (size_t i = 0; i < ARRAY_SIZE(sequences); i++)
		node = new_node(b, NODE_ALT, node, new_sequence(b, &sequences[i]));
	return node;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = slice_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* Behind a backslash: a single byte into *one (else NONE), or a set. False: not in the subset. */
static bool parse_escape(struct build *b, struct set *s, int *one)
{
	char c;

	if (b->p == b->end)
		return false;
	c = *b->p++;
	*one = NONE;
	switch (c) {
	case 'd':
		set_add(s, '0', '9');
		return true;
	case 'w':
		set_add(s, '0', '9');
		set_add(s, 'A', 'Z');
		set_add(s, 'a', 'z');
		set_add(s, '_', '_');
		return true;
	case 's':
		set_add(s, '\t', '\r');
		set_add(s, ' ', ' ');
		return true;
	case 'x':
		if (b->end - b->p < 2 || hex(b->p[0]) < 0 || hex(b->p[1]) < 0)
			return false;
		*one = hex(b->p[0]) * 16 + hex(b->p[1]);
		b->p += 2;
		break;
	default:
		if (is_word(c) || (unsigned char)c >= 0x80)
			return false;
		*one = (unsigned char)c;
		break;
	}
	if (*one >= 0x80)
		return false;
	set_add(s, (unsigned)*one, (unsigned)*one);
	return true;
}

/* One end of a range, or a lone member. */
static bool parse_member(struct build *b, struct set *s, int *one)
{
	char c = *b->p++;

	if (c == '\\')
		return parse_escape(b, s, one);
	if ((unsigned char)c >= 0x80 || (c == '[' && b->p < b->end && strchr(":.=", *b->p) != NULL))
		return false;
	*one = (unsigned char)c;
	set_add(s, (unsigned)*one, (unsigned)*one);
	return true;
}

/* Behind '['. */
static int parse_class(struct build *b)
{
	struct set s = { { 0 } };
	bool negated = b->p < b->end && *b->p == '^';
	bool first = true;
	int from, to;

	b->p += negated;
	for (; b->p < b->end && (*b->p != ']' || first); first = false) {
		if (!parse_member(b, &s, &from))
			return NONE;
		if (b->end - b->p < 2 || b->p[0] != '-' || b->p[1] == ']')
			continue;
		b->p++;
		if (from == NONE || !parse_member(b, &s, &to) || to < from)
			return NONE;
		set_add(&s, (unsigned)from, (unsigned)to);
	}
	if (b->p == b->end)
		return NONE;
	b->p++;
	if (!negated)
		return new_set_node(b, &s);
	s.bits[0] = ~s.bits[0];
	s.bits[1] = ~s.bits[1];
	return new_wide_node(b, &s);
}

static int parse_dot(struct build *b)
{
	struct set s = { { ~((uint64_t)1 << '\n'), ~(uint64_t)0 } };

	return new_wide_node(b, &s);
}

/* Behind '('. */
static int parse_group(struct build *b)
{
	int node;

	if (b->p < b->end && *b->p == '?') {
		if (b->end - b->p < 2 || b->p[1] != ':')
			return NONE;
		b->p += 2;
	}
	node = parse_alternatives(b);
	if (b->p == b->end || *b->p != ')')
		return NONE;
	b->p++;
	return node;
}

static int parse_atom(struct build *b)
{
	struct set s = { { 0 } };
	char c = *b->p++;
	int one;

	switch (c) {
	case '(':
		return parse_group(b);
	case '[':
		return parse_class(b);
	case '.':
		return parse_dot(b);
	case '\\':
		return parse_escape(b, &s, &one) ? new_set_node(b, &s) : NONE;
	case '^':
	case '$':
	case '*':
	case '+':
	case '?':
	case '{':
	case '}':
		return NONE;
	default:
		return (unsigned char)c < 0x80 ? new_range_node(b, (unsigned char)c, (unsigned char)c) : NONE;
	}
}

static bool parse_number(struct build *b, int *out)
{
	const char *from = b->p;

	for (*out = 0; b->p < b->end && *b->p >= '0' && *b->p <= '9' && *out <= MAX_REPEAT; b->p++)
		*out = *out * 10 + (*b->p - '0');
	return b->p > from && *out <= MAX_REPEAT;
}

/* Behind '{'. */
static bool parse_bounds(struct build *b, int *min, int *max)
{
	if (!parse_number(b, min))
		return false;
	*max = *min;
	if (b->p < b->end && *b->p == ',') {
		b->p++;
		*max = INFINITE;
		if (b->p < b->end && *b->p != '}' && !parse_number(b, max))
			return false;
	}
	if (b->p == b->end || *b->p != '}' || (*max != INFINITE && *max < *min))
		return false;
	b->p++;
	return true;
}

/* What may follow an atom. NONE: not in the subset. */
static int parse_quantifier(struct build *b, int atom)
{
	int min = 0, max = INFINITE, node;

	if (b->p == b->end || strchr("*+?{", *b->p) == NULL)
		return atom;
	switch (*b->p++) {
	case '+':
		min = 1;
		break;
	case '?':
		max = 1;
		break;
	case '{':
		if (!parse_bounds(b, &min, &max))
			return NONE;
		break;
	default:
		break;
	}
	if (b->p < b->end && strchr("*+?{", *b->p) != NULL) /* lazy, possessive, or a mistake */
		return NONE;
	node = new_node(b, NODE_REPEAT, atom, 0);
	if (node != NONE) {
		b->nodes[node].min = min;
		b->nodes[node].max = max;
	}
	return node;
}

static int parse_sequence(struct build *b)
{
	int node = new_node(b, NODE_EMPTY, 0, 0);

	while (node != NONE && b->p < b->end && *b->p != '|' && *b->p != ')') {
		int atom = parse_atom(b);

		if (atom != NONE)
			atom = parse_quantifier(b, atom);
		node = new_node(b, NODE_CAT, node, atom);
	}
	return node;
}

static int parse_alternatives(struct build *b)
{
	int node = parse_sequence(b);

	while (node != NONE && b->p < b->end && *b->p == '|') {
		b->p++;
		node = new_node(b, NODE_ALT, node, parse_sequence(b));
	}
	return node;
}

/* --- tree to nondeterministic automaton ----------------------------------------------------------------------------- */

static int new_state(struct build *b, int set, int out, int other)
{
	if (b->nstates == MAX_STATES || out == NONE || other == NONE)
		return NONE;
	b->states[b->nstates] = (struct state){ set, out, other };
	return b->nstates++;
}

/* The state from which `node` and then `next` is matched; NONE: too large. */
static int lay_out(struct build *b, int node, int next)
{
	const struct node *n = &b->nodes[node];
	int entry = next;

	if (next == NONE || ++b->steps > MAX_STEPS)
		return NONE;
	switch (n->type) {
	case NODE_EMPTY:
		return next;
	case NODE_SET:
		return new_state(b, n->left, next, 0);
	case NODE_CAT:
		return lay_out(b, n->left, lay_out(b, n->right, next));
	case NODE_ALT:
		entry = lay_out(b, n->left, next);
		return new_state(b, NONE, entry, lay_out(b, n->right, next));
	case NODE_REPEAT:
		break;
	}
	if (n->max == INFINITE) {
		entry = new_state(b, NONE, next, next);
		if (entry == NONE)
			return NONE;
		b->states[entry].out = lay_out(b, n->left, entry);
		if (b->states[entry].out == NONE)
			return NONE;
	}
	for (int i = n->min; i < n->max && entry != NONE; i++)
		entry = new_state(b, NONE, lay_out(b, n->left, entry), next);
	for (int i = 0; i < n->min && entry != NONE; i++)
		entry = lay_out(b, n->left, entry);
	return entry;
}

/* --- to the deterministic one --------------------------------------------------------------------------------------- */

/* Bytes that no set tells apart share a class. */
static void find_classes(struct build *b)
{
	b->classes = 1;
	for (int i = 0; i < b->nsets; i++) {
		int split[256]; /* the class's half that is in the set */
		int known = b->classes;

		memset(split, -1, sizeof(split));
		for (unsigned c = 0; c < 256; c++)
			if (!set_has(&b->sets[i], c))
				split[b->class_of[c]] = -2; /* the class has a half outside */
		for (unsigned c = 0; c < 256; c++) {
			uint8_t old = b->class_of[c];

			if (old >= known || !set_has(&b->sets[i], c) || split[old] == -1)
				continue;
			if (split[old] == -2)
				split[old] = b->classes++;
			b->class_of[c] = (uint8_t)split[old];
		}
	}
}

static bool subset_has(const uint64_t *subset, int state)
{
	return subset[state / 64] >> (state % 64) & 1;
}

/* Adds a state and what it forks to. */
static void add_state(struct build *b, uint64_t *subset, int state)
{
	int n = 0;

	b->stack[n++] = state;
	while (n > 0) {
		int i = b->stack[--n];

		if (subset_has(subset, i))
			continue;
		subset[i / 64] |= (uint64_t)1 << (i % 64);
		if (b->states[i].set == NONE && i != 0) {
			b->stack[n++] = b->states[i].out;
			b->stack[n++] = b->states[i].other;
		}
	}
}

/* The deterministic state for this set of states, made when it is new; NONE: too many. */
static int intern(struct build *b, const uint64_t *subset)
{
	size_t bytes = b->words * sizeof(uint64_t);

	for (int i = 0; i < b->ndeterministic; i++)
		if (memcmp(b->subsets + (size_t)i * b->words, subset, bytes) == 0)
			return i;
	if (b->ndeterministic == MAX_DETERMINISTIC)
		return NONE;
	memcpy(b->subsets + (size_t)b->ndeterministic * b->words, subset, bytes);
	return b->ndeterministic++;
}

static unsigned byte_of(const struct build *b, int class)
{
	unsigned c = 0;

	while (b->class_of[c] != class)
		c++;
	return c;
}

/* Where the byte c leads from any of a subset's states. */
static void advance(struct build *b, const uint64_t *subset, unsigned c, uint64_t *next)
{
	for (size_t w = 0; w < b->words; w++) {
		for (uint64_t left = subset[w]; left != 0; left &= left - 1) {
			const struct state *s = &b->states[w * 64 + (unsigned)__builtin_ctzll(left)];

			if (s->set != NONE && set_has(&b->sets[s->set], c))
				add_state(b, next, s->out);
		}
	}
}

static bool determine(struct build *b)
{
	uint64_t *next = b->subsets + (size_t)MAX_DETERMINISTIC * b->words; /* one more than is ever kept */

	memset(next, 0, b->words * sizeof(uint64_t));
	(void)intern(b, next);
	add_state(b, next, b->start);
	(void)intern(b, next);
	for (int from = 0; from < b->ndeterministic; from++) {
		for (int class = 0; class < b->classes; class ++) {
			unsigned c = byte_of(b, class);
			int to;

			memset(next, 0, b->words * sizeof(uint64_t));
			advance(b, b->subsets + (size_t)from * b->words, c, next);
			to = intern(b, next);
			if (to == NONE)
				return false;
			b->table[from * b->classes + class] = (uint16_t)to;
		}
	}
	return true;
}

static struct automaton *extract(const struct build *b)
{
	size_t row = (size_t)b->classes + 1;
	size_t cells = (size_t)b->ndeterministic * row;
	struct automaton *a = cells > MAX_CELLS ? NULL : malloc(sizeof(*a) + cells * sizeof(uint16_t));

	if (a == NULL)
		return NULL;
	a->classes = (uint16_t)b->classes;
	memcpy(a->class_of, b->class_of, sizeof(a->class_of));
	for (int i = 0; i < b->ndeterministic; i++) {
		uint16_t *to = a->table + (size_t)i * row;

		for (int class = 0; class < b->classes; class ++)
			to[class] = (uint16_t)(b->table[i * b->classes + class] * row);
		to[b->classes] = subset_has(b->subsets + (size_t)i * b->words, 0);
	}
	return a;
}

static bool build_all(struct build *b)
{
	int root = parse_alternatives(b);

	if (root == NONE || b->p != b->end)
		return false;
	b->nstates = 1; /* state 0: the whole pattern was matched */
	b->states[0] = (struct state){ NONE, 0, 0 };
	b->start = lay_out(b, root, 0);
	if (b->start == NONE)
		return false;
	find_classes(b);
	b->words = ((size_t)b->nstates + 63) / 64;
	b->subsets = malloc((MAX_DETERMINISTIC + 1) * b->words * sizeof(uint64_t));
	b->table = malloc(MAX_DETERMINISTIC * (size_t)b->classes * sizeof(uint16_t));
	/* A state is pushed at most once for each fork that leads to it. */
	b->stack = malloc((2 * (size_t)b->nstates + 1) * sizeof(int));
	return b->subsets != NULL && b->table != NULL && b->stack != NULL && determine(b);
}

struct automaton *automaton_new(struct slice text)
{
	struct build *b = calloc(1, sizeof(*b));
	struct automaton *a = NULL;

	if (b == NULL)
		return NULL;
	b->p = text.p;
	b->end = text.p + text.len;
	if (build_all(b))
		a = extract(b);
	free(b->subsets);
	free(b->table);
	free(b->stack);
	free(b);
	return a;
}

void automaton_free(struct automaton *a)
{
	free(a);
}

bool automaton_match(const struct automaton *a, struct slice subject)
{
	unsigned state = a->classes + 1u;

	for (size_t i = 0; i < subject.len && state != 0; i++)
		state = a->table[state + a->class_of[(unsigned char)subject.p[i]]];
	return a->table[state + a->classes] != 0;
}
