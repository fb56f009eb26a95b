/* Evaluation of a compiled schema over a document, and the canonical form of what it allowed. */
#include "dockerproxy/schema.h"

#include <stdlib.h>
#include <string.h>

#define MAX_EMBEDDED 8 /* x-json texts read in one document, those of branches that failed included */
#define TRAIL_MAX 65536 /* remarks on one document */
#define EMBEDDED_MAX (64 * 1024) /* bytes of one canonical embedded text */

enum mark { MARK_NONE, MARK_OMIT };

/* What evaluation found out about a node; taken back when the branch that found it fails. */
struct remark {
	struct json_node *node;
	struct json_node *embedded; /* root of the text's document; NULL: the node is left out */
	unsigned slot;
};

struct embedded {
	struct json_doc *doc;
	struct buf text;
};

struct schema_run {
	struct pattern_scratch *scratch;
	struct remark *trail;
	unsigned n_trail;
	unsigned max_trail;
	struct embedded embedded[MAX_EMBEDDED];
	unsigned n_embedded;
	struct schema_step path[SCHEMA_MAX_PATH];
	unsigned depth;
	bool hard; /* a fault that no alternative can mend */
	struct schema_failure *failure;
};

struct schema_run *schema_run_new(void)
{
	struct schema_run *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->scratch = pattern_scratch_new();
	if (r->scratch == NULL) {
		free(r);
		return NULL;
	}
	for (unsigned i = 0; i < MAX_EMBEDDED; i++)
		buf_init(&r->embedded[i].text, EMBEDDED_MAX);
	return r;
}

void schema_run_free(struct schema_run *r)
{
	if (r == NULL)
		return;
	for (unsigned i = 0; i < MAX_EMBEDDED; i++) {
		json_doc_free(r->embedded[i].doc);
		buf_release(&r->embedded[i].text);
	}
	pattern_scratch_free(r->scratch);
	free(r->trail);
	free(r);
}

void schema_run_reset(struct schema_run *r)
{
	r->n_trail = 0;
	r->n_embedded = 0;
	r->depth = 0;
	r->hard = false;
}

/* --- small questions ------------------------------------------------------------------------------------------ */

unsigned schema_types(const struct schema *s)
{
	for (; s != NULL; s = s->ref)
		if (s->types != 0)
			return s->types;
	return 0;
}

static const struct schema_property *find_property(const struct schema *s, struct slice name, uint32_t hash)
{
	if (s->n_properties == 0)
		return NULL;
	for (unsigned i = hash & s->index_mask; s->index[i] != 0; i = (i + 1) & s->index_mask) {
		const struct schema_property *p = &s->properties[s->index[i] - 1];

		if (p->hash == hash && slice_eq(p->name, name))
			return p;
	}
	return NULL;
}

const struct schema_property *schema_property(const struct schema *s, struct slice name)
{
	for (; s != NULL; s = s->ref) {
		const struct schema_property *p = find_property(s, name, json_key_hash(name));

		if (p != NULL && p->declared)
			return p;
	}
	return NULL;
}

size_t schema_fold(struct slice key, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < key.len; i++) {
		if (key.len - i >= 2 && memcmp(key.p + i, "\xc5\xbf", 2) == 0) {
			out[n++] = 's';
			i += 1;
		} else if (key.len - i >= 3 && memcmp(key.p + i, "\xe2\x84\xaa", 3) == 0) {
			out[n++] = 'k';
			i += 2;
		} else {
			out[n++] = slice_lower(key.p[i]);
		}
	}
	return n;
}

bool schema_equal(const struct json_node *a, const struct json_node *b)
{
	const struct json_node *x, *y;

	if (a->type != b->type)
		return false;
	switch (a->type) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return a->boolean == b->boolean;
	case JSON_INT:
		return a->integer == b->integer;
	case JSON_REAL:
		return slice_eq(a->digits, b->digits);
	case JSON_STRING:
		return slice_eq(a->text, b->text);
	case JSON_ARRAY:
		for (x = a->child, y = b->child; x != NULL && y != NULL; x = x->next, y = y->next)
			if (!schema_equal(x, y))
				return false;
		return x == NULL && y == NULL;
	case JSON_OBJECT:
		if (a->count != b->count)
			return false;
		for (x = a->child; x != NULL; x = x->next) {
			for (y = b->child; y != NULL && !slice_eq(x->key, y->key); y = y->next)
				;
			if (y == NULL || !schema_equal(x, y))
				return false;
		}
		return true;
	}
	return false;
}

static unsigned node_type(const struct json_node *n)
{
	switch (n->type) {
	case JSON_NULL:
		return SCHEMA_NULL;
	case JSON_BOOL:
		return SCHEMA_BOOLEAN;
	case JSON_INT:
		return SCHEMA_INTEGER;
	case JSON_REAL:
		return 0; /* no integer of the engine's is written like this */
	case JSON_STRING:
		return SCHEMA_STRING;
	case JSON_ARRAY:
		return SCHEMA_ARRAY;
	case JSON_OBJECT:
		return SCHEMA_OBJECT;
	}
	return 0;
}

static bool is_zero_of_type(const struct json_node *n)
{
	switch (n->type) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return !n->boolean;
	case JSON_INT:
		return n->integer == 0;
	case JSON_REAL:
		return false;
	case JSON_STRING:
		return n->text.len == 0;
	case JSON_ARRAY:
	case JSON_OBJECT:
		return n->count == 0;
	}
	return false;
}

/* Does the member ask for nothing? Said by the schema itself or by one that it refers to. */
static bool is_zero(const struct schema *s, const struct json_node *n)
{
	const struct schema *z = s;

	while (z != NULL && !z->zero)
		z = z->ref;
	if (z == NULL)
		return false;
	if (n->type == JSON_NULL)
		return true;
	if (z->zeros == NULL)
		return (node_type(n) & schema_types(s)) != 0 && is_zero_of_type(n);
	for (const struct json_node *v = z->zeros->child; v != NULL; v = v->next)
		if (schema_equal(v, n))
			return true;
	return false;
}

/* --- failures ------------------------------------------------------------------------------------------------- */

static bool refuse(struct schema_run *r, enum schema_fault fault, const struct schema *s, const struct json_node *node,
	const struct schema_property *property)
{
	struct schema_failure *f = r->failure;

	f->fault = fault;
	f->schema = s;
	f->node = node;
	f->property = property;
	f->depth = r->depth;
	memcpy(f->path, r->path, r->depth * sizeof(r->path[0]));
	return false;
}

static bool refuse_hard(struct schema_run *r, enum schema_fault fault, const struct schema *s,
	const struct json_node *node, const struct schema_property *property)
{
	r->hard = true;
	return refuse(r, fault, s, node, property);
}

static bool push(struct schema_run *r, const struct schema *s, const struct json_node *node,
	const struct schema_property *property, uint32_t item)
{
	if (r->depth == SCHEMA_MAX_PATH)
		return refuse_hard(r, SCHEMA_FAULT_MEMORY, s, node, NULL);
	r->path[r->depth++] = (struct schema_step){ node, property, item };
	return true;
}

static bool remark(struct schema_run *r, const struct schema *s, struct json_node *node, struct json_node *embedded,
	unsigned slot)
{
	if (r->n_trail == r->max_trail) {
		unsigned max = r->max_trail == 0 ? 128 : 2 * r->max_trail;
		struct remark *trail = max > TRAIL_MAX ? NULL : realloc(r->trail, max * sizeof(*trail));

		if (trail == NULL)
			return refuse_hard(r, SCHEMA_FAULT_MEMORY, s, node, NULL);
		r->trail = trail;
		r->max_trail = max;
	}
	r->trail[r->n_trail++] = (struct remark){ node, embedded, slot };
	return true;
}

/* --- keywords ------------------------------------------------------------------------------------------------- */

static bool eval(struct schema_run *r, const struct schema *s, struct json_node *n);

/*
 * Evaluates a branch whose failure is not yet the document's: what it remarked is kept only when it holds. The texts that it
 * read are kept in any case: its failure may point into one and be the one that is reported.
 */
static bool eval_branch(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	unsigned n_trail = r->n_trail;
	unsigned depth = r->depth;

	if (eval(r, s, n))
		return true;
	r->n_trail = n_trail;
	r->depth = depth;
	return false;
}

static size_t code_points(struct slice s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++)
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return n;
}

static bool eval_embedded(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	struct embedded *e;
	struct json_node *root;
	enum json_fault fault;
	size_t offset;

	if (r->n_embedded == MAX_EMBEDDED)
		return refuse_hard(r, SCHEMA_FAULT_MEMORY, s, n, NULL);
	e = &r->embedded[r->n_embedded];
	if (e->doc == NULL && (e->doc = json_doc_new()) == NULL)
		return refuse_hard(r, SCHEMA_FAULT_MEMORY, s, n, NULL);
	root = json_parse(e->doc, n->text, JSON_STRICT, &fault, &offset);
	if (root == NULL) {
		refuse(r, SCHEMA_FAULT_JSON, s, n, NULL);
		r->failure->json = fault;
		return false;
	}
	return remark(r, s, n, root, r->n_embedded++) && eval(r, s->json, root);
}

static bool eval_string(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	if (s->max_length != UINT32_MAX && n->text.len > s->max_length && code_points(n->text) > s->max_length)
		return refuse(r, SCHEMA_FAULT_LENGTH, s, n, NULL);
	if (s->min_length != 0 && code_points(n->text) < s->min_length)
		return refuse(r, SCHEMA_FAULT_LENGTH, s, n, NULL);
	if (s->pattern != NULL) {
		switch (pattern_match(s->pattern, n->text, r->scratch)) {
		case PATTERN_YES:
			break;
		case PATTERN_NO:
			return refuse(r, SCHEMA_FAULT_PATTERN, s, n, NULL);
		case PATTERN_LIMIT:
			return refuse_hard(r, SCHEMA_FAULT_LIMIT, s, n, NULL);
		}
	}
	return s->json == NULL || eval_embedded(r, s, n);
}

static bool eval_array(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	uint32_t i = 0;

	if (n->count < s->min_items || n->count > s->max_items)
		return refuse(r, SCHEMA_FAULT_ITEMS, s, n, NULL);
	if (s->items != NULL) {
		for (struct json_node *item = n->child; item != NULL; item = item->next) {
			if (!push(r, s, item, NULL, i++) || !eval(r, s->items, item))
				return false;
			r->depth--;
		}
	}
	if (s->contains != NULL) {
		bool found = false;

		for (struct json_node *item = n->child; item != NULL && !found; item = item->next) {
			found = eval_branch(r, s->contains, item);
			if (r->hard)
				return false;
		}
		if (!found)
			return refuse(r, SCHEMA_FAULT_CONTAINS, s, n, NULL);
	}
	return true;
}

/* The declared property whose name key folds to, or NULL. */
static const struct schema_property *find_folded(const struct schema *s, struct slice key)
{
	char folded[3 * SCHEMA_MAX_NAME]; /* at most three bytes fold to one */
	size_t n;

	if (key.len > sizeof(folded))
		return NULL;
	n = schema_fold(key, folded);
	for (unsigned i = 0; i < s->n_properties; i++)
		if (s->properties[i].declared && slice_eq(s->properties[i].folded, slice_make(folded, n)))
			return &s->properties[i];
	return NULL;
}

static bool eval_rest(struct schema_run *r, const struct schema *s, struct json_node *m)
{
	switch (s->rest) {
	case SCHEMA_REST_REFUSED:
		return refuse(r, SCHEMA_FAULT_UNKNOWN, s, m, NULL);
	case SCHEMA_REST_ANY:
		return true;
	case SCHEMA_REST_SCHEMA:
		return eval(r, s->rest_schema, m);
	}
	return false;
}

static bool eval_data_key(struct schema_run *r, const struct schema *s, struct json_node *m, bool known)
{
	bool matched = known;

	if (s->names != NULL) {
		struct json_node key = { .type = JSON_STRING, .text = m->key, .offset = m->key_offset };

		if (!eval_branch(r, s->names, &key)) {
			if (!r->hard)
				return refuse(r, SCHEMA_FAULT_NAME, s, m, NULL);
			r->failure->node = m;
			return false;
		}
	}
	for (unsigned i = 0; i < s->n_patterns; i++) {
		enum pattern_result result = pattern_match(s->patterns[i].pattern, m->key, r->scratch);

		if (result == PATTERN_LIMIT)
			return refuse_hard(r, SCHEMA_FAULT_LIMIT, s, m, NULL);
		if (result == PATTERN_NO)
			continue;
		matched = true;
		if (!eval(r, s->patterns[i].schema, m))
			return false;
	}
	return matched || eval_rest(r, s, m);
}

static bool eval_struct_key(struct schema_run *r, const struct schema *s, struct json_node *m)
{
	const struct schema_property *folded = find_folded(s, m->key);

	if (folded != NULL)
		return refuse_hard(r, SCHEMA_FAULT_FOLDED, s, m, folded);
	return eval_rest(r, s, m);
}

/*
 * Is the member an object that may be zero, and nothing but members that were left out? Then it asks for nothing, too, and
 * goes with them: what is sent on would otherwise become less when it is judged once more. Their remarks begin at `from`.
 */
static bool empties(const struct schema_run *r, const struct schema *s, const struct json_node *n, unsigned from)
{
	static const struct json_node nothing = { .type = JSON_OBJECT };

	if (n->type != JSON_OBJECT || n->child == NULL || !is_zero(s, &nothing))
		return false;
	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		unsigned i = from;

		while (i < r->n_trail && (r->trail[i].node != m || r->trail[i].embedded != NULL))
			i++;
		if (i == r->n_trail)
			return false;
	}
	return true;
}

static bool eval_member(struct schema_run *r, const struct schema *s, struct json_node *m, uint64_t *seen)
{
	const struct schema_property *p = find_property(s, m->key, m->key_hash);
	bool declared = p != NULL && p->declared;
	unsigned n_trail = r->n_trail;

	if (!push(r, s, m, declared && !s->map ? p : NULL, UINT32_MAX))
		return false;
	if (!s->map && m->key_flags != 0) {
		const struct schema_property *folded = declared ? NULL : find_folded(s, m->key);

		if (folded != NULL)
			return refuse_hard(r, SCHEMA_FAULT_FOLDED, s, m, folded);
		return refuse_hard(r, SCHEMA_FAULT_SPELLING, s, m, NULL);
	}
	if (declared && is_zero(p->schema, m)) {
		r->depth--;
		return remark(r, s, m, NULL, 0);
	}
	if (declared && !eval(r, p->schema, m))
		return false;
	if (declared && empties(r, p->schema, m, n_trail)) {
		r->depth--;
		return remark(r, s, m, NULL, 0);
	}
	if (s->map ? !eval_data_key(r, s, m, declared) : !declared && !eval_struct_key(r, s, m))
		return false;
	if (p != NULL && p->required >= 0)
		*seen |= (uint64_t)1 << p->required;
	r->depth--;
	return true;
}

static bool eval_object(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	uint64_t seen = 0;

	if (n->count > s->max_properties)
		return refuse(r, SCHEMA_FAULT_PROPERTIES, s, n, NULL);
	for (struct json_node *m = n->child; m != NULL; m = m->next)
		if (!eval_member(r, s, m, &seen))
			return false;
	if ((s->required & ~seen) == 0)
		return true;
	for (unsigned i = 0; i < s->n_properties; i++) {
		const struct schema_property *p = &s->properties[i];

		if (p->required >= 0 && !(seen & (uint64_t)1 << p->required))
			return refuse(r, SCHEMA_FAULT_REQUIRED, s, NULL, p);
	}
	return true;
}

static bool has_values(const struct schema *s)
{
	for (; s != NULL; s = s->ref)
		if (s->has_values)
			return true;
	return false;
}

/* Does every branch say which values the member may have? Then it is what tells the branches apart. */
static bool tells_apart(const struct schema *any, struct slice member)
{
	for (unsigned i = 0; i < any->n_any_of; i++) {
		const struct schema_property *p = schema_property(any->any_of[i], member);

		if (p == NULL || !has_values(p->schema))
			return false;
	}
	return true;
}

/* A branch that failed on the value that tells branches apart was not meant. */
static bool not_meant(const struct schema *any, const struct schema_failure *f, unsigned depth)
{
	bool value = f->fault == SCHEMA_FAULT_CONST || f->fault == SCHEMA_FAULT_ENUM || f->fault == SCHEMA_FAULT_TYPE;

	if (!value || f->depth > depth + 1)
		return false;
	return f->depth == depth || (f->path[depth].item == UINT32_MAX && tells_apart(any, f->path[depth].node->key));
}

/* Does failure a say more about what was meant than b? */
static bool says_more(const struct schema *any, const struct schema_failure *a, const struct schema_failure *b,
	unsigned depth)
{
	bool a_off = not_meant(any, a, depth);
	bool b_off = not_meant(any, b, depth);

	return a_off == b_off ? a->depth > b->depth : b_off;
}

/* Of all branches that failed, the one that came furthest says why. */
static bool eval_any_of(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	struct schema_failure *outer = r->failure;
	struct schema_failure branch;
	bool first = true;

	for (unsigned i = 0; i < s->n_any_of; i++) {
		bool ok;

		r->failure = &branch;
		ok = eval_branch(r, s->any_of[i], n);
		r->failure = outer;
		if (ok)
			return true;
		if (r->hard || first || says_more(s, &branch, outer, r->depth))
			*outer = branch;
		if (r->hard)
			return false;
		first = false;
	}
	return first;
}

static bool eval_not(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	struct schema_failure *outer = r->failure;
	struct schema_failure ignored;
	unsigned n_trail = r->n_trail;
	bool held;

	r->failure = &ignored;
	held = eval_branch(r, s->not, n);
	r->failure = outer;
	r->n_trail = n_trail;
	if (r->hard) {
		*outer = ignored;
		return false;
	}
	return !held || refuse(r, SCHEMA_FAULT_NOT, s, n, NULL);
}

static bool eval_values(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	if (s->constant != NULL && !schema_equal(s->constant, n))
		return refuse(r, SCHEMA_FAULT_CONST, s, n, NULL);
	if (s->values != NULL) {
		const struct json_node *v = s->values->child;

		while (v != NULL && !schema_equal(v, n))
			v = v->next;
		if (v == NULL)
			return refuse(r, SCHEMA_FAULT_ENUM, s, n, NULL);
	}
	return true;
}

static bool eval_by_type(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	switch (n->type) {
	case JSON_NULL:
	case JSON_BOOL:
		return true;
	case JSON_INT:
		if ((s->has_minimum && n->integer < s->minimum) || (s->has_maximum && n->integer > s->maximum))
			return refuse(r, SCHEMA_FAULT_RANGE, s, n, NULL);
		return true;
	case JSON_REAL:
		if (s->has_minimum || s->has_maximum)
			return refuse(r, SCHEMA_FAULT_RANGE, s, n, NULL);
		return true;
	case JSON_STRING:
		return eval_string(r, s, n);
	case JSON_ARRAY:
		return eval_array(r, s, n);
	case JSON_OBJECT:
		return !s->object || eval_object(r, s, n);
	}
	return false;
}

static bool eval_combined(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	for (unsigned i = 0; i < s->n_all_of; i++)
		if (!eval(r, s->all_of[i], n))
			return false;
	if (s->n_any_of > 0 && !eval_any_of(r, s, n))
		return false;
	return s->not == NULL || eval_not(r, s, n);
}

static bool eval(struct schema_run *r, const struct schema *s, struct json_node *n)
{
	/* Most schemas are a definition's name. */
	while (!s->judges && s->ref != NULL)
		s = s->ref;
	if (s->never)
		return refuse(r, SCHEMA_FAULT_NEVER, s, n, NULL);
	if (s->ref != NULL && !eval(r, s->ref, n))
		return false;
	if (s->types != 0 && !(node_type(n) & s->types))
		return refuse(r, SCHEMA_FAULT_TYPE, s, n, NULL);
	if ((s->has_values && !eval_values(r, s, n)) || !eval_by_type(r, s, n))
		return false;
	return !s->combines || eval_combined(r, s, n);
}

/* --- result --------------------------------------------------------------------------------------------------- */

/* Applies the remarks. Later ones are deeper: an embedded text is written after what is inside it was marked. */
static bool settle(struct schema_run *r, const struct schema *s)
{
	for (unsigned i = r->n_trail; i-- > 0;) {
		struct remark *m = &r->trail[i];
		struct buf *text;

		if (m->embedded == NULL) {
			m->node->mark = MARK_OMIT;
			continue;
		}
		text = &r->embedded[m->slot].text;
		buf_clear(text);
		if (schema_put(text, m->embedded) < 0)
			return refuse_hard(r, SCHEMA_FAULT_MEMORY, s, m->node, NULL);
		m->node->text = buf_slice(text);
		m->node->plain_text = false;
	}
	return true;
}

bool schema_eval(struct schema_run *r, const struct schema *s, struct json_node *root, struct schema_failure *failure)
{
	r->failure = failure;
	r->depth = 0;
	r->n_trail = 0;
	r->hard = false;
	return eval(r, s, root) && settle(r, s);
}

static int put_children(struct buf *b, const struct json_node *node, char open, char close)
{
	bool first = true;

	if (buf_putc(b, open) < 0)
		return -1;
	for (const struct json_node *n = node->child; n != NULL; n = n->next) {
		if (n->mark == MARK_OMIT)
			continue;
		if (!first && buf_putc(b, ',') < 0)
			return -1;
		first = false;
		if (node->type == JSON_OBJECT && json_put_key(b, n) < 0)
			return -1;
		if (schema_put(b, n) < 0)
			return -1;
	}
	return buf_putc(b, close);
}

int schema_put(struct buf *b, const struct json_node *root)
{
	if (root->type == JSON_ARRAY)
		return put_children(b, root, '[', ']');
	if (root->type == JSON_OBJECT)
		return put_children(b, root, '{', '}');
	return json_put(b, root);
}
