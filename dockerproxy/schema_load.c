/* From the text of a schema to its compiled form: one row a keyword. */
#include "dockerproxy/policy_impl.h"

#include <stdlib.h>
#include <string.h>

#include "libgate/plain.h"

#define MAX_DEPTH 64 /* schemas inside each other, $ref followed */
#define MAX_COUNT (UINT32_MAX - 1) /* lengths and numbers of items */

enum def_state { DEF_NEW, DEF_LOADING, DEF_DONE };

/* Under `not` an object is open unless it says otherwise, so that closing it never allows more: two forms of each. */
struct loader_def {
	const struct json_node *node;
	enum def_state state[2];
	const struct schema *schema[2];
};

static const struct schema *load(struct loader *l, const struct json_node *n, bool negated);

static const struct {
	const char *name;
	enum schema_type type;
} type_names[] = {
	{ "null", SCHEMA_NULL },
	{ "boolean", SCHEMA_BOOLEAN },
	{ "integer", SCHEMA_INTEGER },
	{ "string", SCHEMA_STRING },
	{ "array", SCHEMA_ARRAY },
	{ "object", SCHEMA_OBJECT },
};

/* A schema below l's place. x-zero means "counts as absent", which only a member of an object can be. */
static const struct schema *load_below(struct loader *l, struct slice token, const struct json_node *n, bool negated,
	bool member)
{
	size_t mark = loader_enter(l, token);
	const struct schema *s = load(l, n, negated);

	for (const struct schema *z = s; z != NULL && !member; z = z->ref)
		if (z->zero) {
			loader_fail(l, n->offset, "x-zero has a meaning only for a member of an object");
			return NULL;
		}
	if (s != NULL)
		loader_leave(l, mark);
	return s;
}

static int add_type(struct loader *l, struct schema *s, const struct json_node *n)
{
	struct slice word;

	if (loader_string(l, n, &word) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(type_names); i++)
		if (slice_is(word, type_names[i].name)) {
			s->types |= type_names[i].type;
			return 0;
		}
	return loader_fail(l, n->offset, "unknown type \"%.*s\": null, boolean, integer, string, array or object",
		(int)(word.len > 40 ? 40 : word.len), word.p);
}

static int key_type(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	if (n->type != JSON_ARRAY)
		return add_type(l, s, n);
	if (n->count == 0)
		return loader_fail(l, n->offset, "an empty list of types");
	for (const struct json_node *t = n->child; t != NULL; t = t->next)
		if (add_type(l, s, t) < 0)
			return -1;
	return 0;
}

/* Compiles a definition at its own place in the document, which is what messages should show. */
static int load_def(struct loader *l, struct loader_def *d, bool negated)
{
	struct buf outer = l->pointer;

	buf_init(&l->pointer, outer.max);
	loader_enter(l, SLICE_LIT("$defs"));
	loader_enter(l, d->node->key);
	d->state[negated] = DEF_LOADING;
	d->schema[negated] = load(l, d->node, negated);
	d->state[negated] = DEF_DONE;
	buf_release(&l->pointer);
	l->pointer = outer;
	return d->schema[negated] == NULL ? -1 : 0;
}

static int key_ref(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	struct slice target, name;

	if (loader_string(l, n, &target) < 0)
		return -1;
	if (!slice_starts(target, "#/$defs/"))
		return loader_fail(l, n->offset, "$ref must be \"#/$defs/NAME\"");
	name = slice_skip(target, strlen("#/$defs/"));
	for (unsigned i = 0; i < l->n_defs; i++) {
		struct loader_def *d = &l->defs[i];

		if (!slice_eq(d->node->key, name))
			continue;
		if (d->state[negated] == DEF_LOADING)
			return loader_fail(l, n->offset, "$ref leads back to itself");
		if (d->state[negated] == DEF_NEW && load_def(l, d, negated) < 0)
			return -1;
		s->ref = d->schema[negated];
		return 0;
	}
	return loader_fail(l, n->offset, "$ref leads nowhere: there is no such member of $defs");
}

static int key_const(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	s->constant = n;
	return 0;
}

static int key_enum(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	if (n->type != JSON_ARRAY || n->count == 0)
		return loader_fail(l, n->offset, "enum must be a list of at least one value");
	s->values = n;
	return 0;
}

static int key_pattern(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	struct slice text;

	if (loader_string(l, n, &text) < 0)
		return -1;
	s->pattern = loader_pattern(l, n->offset, text);
	return s->pattern == NULL ? -1 : 0;
}

static int load_count(struct loader *l, const struct json_node *n, uint32_t *out)
{
	uint64_t v;

	if (loader_uint(l, n, 0, MAX_COUNT, &v) < 0)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

static int key_min_length(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_count(l, n, &s->min_length);
}

static int key_max_length(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_count(l, n, &s->max_length);
}

static int key_min_items(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_count(l, n, &s->min_items);
}

static int key_max_items(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_count(l, n, &s->max_items);
}

static int key_max_properties(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_count(l, n, &s->max_properties);
}

static int load_integer(struct loader *l, const struct json_node *n, bool *has, int64_t *out)
{
	if (n->type != JSON_INT)
		return loader_fail(l, n->offset, "must be an integer");
	*has = true;
	*out = n->integer;
	return 0;
}

static int key_minimum(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_integer(l, n, &s->has_minimum, &s->minimum);
}

static int key_maximum(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_integer(l, n, &s->has_maximum, &s->maximum);
}

static int load_one(struct loader *l, const struct json_node *n, bool negated, const struct schema **out)
{
	*out = load_below(l, slice_make(NULL, 0), n, negated, false);
	return *out == NULL ? -1 : 0;
}

static int key_items(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_one(l, n, negated, &s->items);
}

static int key_contains(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_one(l, n, negated, &s->contains);
}

/* Does the schema, or one below it that looks at the same value, read the value's text as JSON? */
static bool reads_json(const struct schema *s)
{
	for (unsigned i = 0; i < s->n_all_of; i++)
		if (reads_json(s->all_of[i]))
			return true;
	for (unsigned i = 0; i < s->n_any_of; i++)
		if (reads_json(s->any_of[i]))
			return true;
	return s->json != NULL || (s->ref != NULL && reads_json(s->ref)) || (s->not != NULL && reads_json(s->not ));
}

/* A name goes on as it is: the canonical form of a text that it held would have no place. */
static int key_names(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	s->map = true;
	if (load_one(l, n, negated, &s->names) < 0)
		return -1;
	return reads_json(s->names) ? loader_fail(l, n->offset, "x-json has no meaning for a name") : 0;
}

static int key_not(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_one(l, n, !negated, &s->not );
}

static int key_json(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_one(l, n, negated, &s->json);
}

static int key_rest(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	if (n->type == JSON_BOOL) {
		s->rest = n->boolean ? SCHEMA_REST_ANY : SCHEMA_REST_REFUSED;
		return 0;
	}
	s->map = true;
	s->rest = SCHEMA_REST_SCHEMA;
	return load_one(l, n, negated, &s->rest_schema);
}

static int load_list(struct loader *l, const struct json_node *n, bool negated, const struct schema ***list,
	unsigned *count)
{
	unsigned i = 0;

	if (n->type != JSON_ARRAY || n->count == 0)
		return loader_fail(l, n->offset, "must be a list of at least one schema");
	*list = loader_alloc(l, n->count * sizeof(**list));
	if (*list == NULL)
		return -1;
	for (const struct json_node *c = n->child; c != NULL; c = c->next, i++) {
		size_t mark = loader_enter_index(l, i);

		if (load_one(l, c, negated, &(*list)[i]) < 0)
			return -1;
		loader_leave(l, mark);
	}
	*count = i;
	return 0;
}

static int key_any_of(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_list(l, n, negated, &s->any_of, &s->n_any_of);
}

static int key_all_of(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return load_list(l, n, negated, &s->all_of, &s->n_all_of);
}

static int key_pattern_properties(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	s->map = true;
	if (loader_object(l, n) < 0)
		return -1;
	s->patterns = loader_alloc(l, n->count * sizeof(*s->patterns));
	if (s->patterns == NULL)
		return -1;
	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		struct schema_pattern_property *p = &s->patterns[s->n_patterns++];

		p->pattern = loader_pattern(l, m->key_offset, m->key);
		if (p->pattern == NULL)
			return -1;
		p->schema = load_below(l, m->key, m, negated, false);
		if (p->schema == NULL)
			return -1;
	}
	return 0;
}

static int key_zero(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	if (negated)
		return loader_fail(l, n->offset, "x-zero cannot stand below not");
	if (n->type == JSON_ARRAY) {
		if (n->count == 0)
			return loader_fail(l, n->offset, "an empty list of zeros; [null] takes null alone");
		s->zero = true;
		s->zeros = n;
		return 0;
	}
	if (n->type != JSON_BOOL || !n->boolean)
		return loader_fail(l, n->offset, "x-zero must be true or a list of values");
	s->zero = true;
	return 0;
}

static int key_description(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	struct slice text;

	return loader_string(l, n, &text);
}

/* `properties` and `required` make one table together: load_members(). */
static int key_members(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	return 0;
}

#define ANY_TYPE 0u

static const struct keyword {
	const char *name;
	unsigned types; /* what a schema that uses it must be able to be */
	int (*load)(struct loader *l, struct schema *s, const struct json_node *n, bool negated);
} keywords[] = {
	{ "$ref", ANY_TYPE, key_ref },
	{ "type", ANY_TYPE, key_type },
	{ "enum", ANY_TYPE, key_enum },
	{ "const", ANY_TYPE, key_const },
	{ "pattern", SCHEMA_STRING, key_pattern },
	{ "minLength", SCHEMA_STRING, key_min_length },
	{ "maxLength", SCHEMA_STRING, key_max_length },
	{ "minimum", SCHEMA_INTEGER, key_minimum },
	{ "maximum", SCHEMA_INTEGER, key_maximum },
	{ "items", SCHEMA_ARRAY, key_items },
	{ "minItems", SCHEMA_ARRAY, key_min_items },
	{ "maxItems", SCHEMA_ARRAY, key_max_items },
	{ "contains", SCHEMA_ARRAY, key_contains },
	{ "properties", SCHEMA_OBJECT, key_members },
	{ "required", SCHEMA_OBJECT, key_members },
	{ "patternProperties", SCHEMA_OBJECT, key_pattern_properties },
	{ "propertyNames", SCHEMA_OBJECT, key_names },
	{ "additionalProperties", SCHEMA_OBJECT, key_rest },
	{ "maxProperties", SCHEMA_OBJECT, key_max_properties },
	{ "anyOf", ANY_TYPE, key_any_of },
	{ "allOf", ANY_TYPE, key_all_of },
	{ "not", ANY_TYPE, key_not },
	{ "description", ANY_TYPE, key_description },
	{ "x-zero", ANY_TYPE, key_zero },
	{ "x-json", SCHEMA_STRING, key_json },
};

static const struct keyword *find_keyword(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
		if (slice_is(name, keywords[i].name))
			return &keywords[i];
	return NULL;
}

/* --- properties and required ---------------------------------------------------------------------------------- */

static struct schema_property *named(struct schema *s, struct slice name)
{
	for (unsigned i = 0; i < s->n_properties; i++)
		if (slice_eq(s->properties[i].name, name))
			return &s->properties[i];
	return NULL;
}

static int add_property(struct loader *l, struct schema *s, struct slice name, size_t offset)
{
	struct schema_property *p = &s->properties[s->n_properties];
	char *folded;

	if (name.len == 0 || name.len > SCHEMA_MAX_NAME)
		return loader_fail(l, offset, "the name of a property must have 1 to %d bytes", SCHEMA_MAX_NAME);
	folded = loader_alloc(l, name.len + 1);
	if (folded == NULL)
		return -1;
	p->name = name;
	p->hash = json_key_hash(name);
	p->folded = slice_make(folded, schema_fold(name, folded));
	p->required = -1;
	s->n_properties++;
	return 0;
}

/* Two names of a struct that the engine cannot tell apart would make its fold check ambiguous. */
static int check_fold(struct loader *l, const struct schema *s, const struct json_node *m)
{
	const struct schema_property *last = &s->properties[s->n_properties - 1];

	if (s->map)
		return 0;
	if (m->key_flags != 0 || plain_run((const unsigned char *)m->key.p, m->key.len) != m->key.len)
		return loader_fail(l, m->key_offset, "the name of a property must be printable ASCII without escapes");
	for (unsigned i = 0; i + 1 < s->n_properties; i++)
		if (slice_eq(s->properties[i].folded, last->folded))
			return loader_fail(l, m->key_offset, "the name differs from another only in case");
	return 0;
}

static int load_properties(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	size_t mark = loader_enter(l, SLICE_LIT("properties"));

	if (loader_object(l, n) < 0)
		return -1;
	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		struct schema_property *p = &s->properties[s->n_properties];

		if (add_property(l, s, m->key, m->key_offset) < 0 || check_fold(l, s, m) < 0)
			return -1;
		p->declared = true;
		p->schema = load_below(l, m->key, m, negated, true);
		if (p->schema == NULL)
			return -1;
	}
	loader_leave(l, mark);
	return 0;
}

static int load_required(struct loader *l, struct schema *s, const struct json_node *n)
{
	size_t mark = loader_enter(l, SLICE_LIT("required"));
	int bit = 0;

	if (n->type != JSON_ARRAY || n->count > SCHEMA_MAX_REQUIRED)
		return loader_fail(l, n->offset, "required must be a list of at most %d names", SCHEMA_MAX_REQUIRED);
	for (const struct json_node *r = n->child; r != NULL; r = r->next) {
		struct schema_property *p;
		struct slice name;

		if (loader_string(l, r, &name) < 0)
			return -1;
		p = named(s, name);
		if (p == NULL) {
			if (!s->map && s->rest == SCHEMA_REST_REFUSED)
				return loader_fail(l, r->offset, "a required name is not among the properties");
			if (add_property(l, s, name, r->offset) < 0)
				return -1;
			p = &s->properties[s->n_properties - 1];
		}
		if (p->required >= 0)
			return loader_fail(l, r->offset, "the name is required twice");
		p->required = bit;
		s->required |= (uint64_t)1 << bit++;
	}
	loader_leave(l, mark);
	return 0;
}

static int index_properties(struct loader *l, struct schema *s)
{
	unsigned size = 4;

	while (size < 2 * s->n_properties)
		size *= 2;
	s->index = loader_alloc(l, size * sizeof(*s->index));
	if (s->index == NULL)
		return -1;
	s->index_mask = size - 1;
	for (unsigned i = 0; i < s->n_properties; i++) {
		unsigned at = s->properties[i].hash & s->index_mask;

		while (s->index[at] != 0)
			at = (at + 1) & s->index_mask;
		s->index[at] = (uint16_t)(i + 1);
	}
	return 0;
}

static int load_members(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	const struct json_node *properties = json_get(n, "properties");
	const struct json_node *required = json_get(n, "required");
	size_t max = (properties == NULL ? 0 : properties->count) + (required == NULL ? 0 : required->count);

	if (max == 0 && properties == NULL && required == NULL)
		return 0;
	if (max > 1000)
		return loader_fail(l, n->offset, "more than 1000 properties");
	s->properties = loader_alloc(l, (max + 1) * sizeof(*s->properties));
	if (s->properties == NULL)
		return -1;
	if (properties != NULL && load_properties(l, s, properties, negated) < 0)
		return -1;
	if (required != NULL && load_required(l, s, required) < 0)
		return -1;
	return index_properties(l, s);
}

/* --- one schema ----------------------------------------------------------------------------------------------- */

static struct schema *schema_new(struct loader *l, bool negated)
{
	struct schema *s = loader_alloc(l, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->max_length = UINT32_MAX;
	s->max_items = UINT32_MAX;
	s->max_properties = UINT32_MAX;
	s->rest = negated ? SCHEMA_REST_ANY : SCHEMA_REST_REFUSED;
	return s;
}

static int load_keywords(struct loader *l, struct schema *s, const struct json_node *n, bool negated)
{
	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		const struct keyword *k = find_keyword(m->key);
		size_t mark = loader_enter(l, m->key);

		if (k == NULL)
			return loader_fail(l, m->key_offset, "unknown keyword");
		if (k->load(l, s, m, negated) < 0)
			return -1;
		loader_leave(l, mark);
		if (k->types == SCHEMA_OBJECT)
			s->object = true;
		if (k->load != key_ref && k->load != key_zero && k->load != key_description)
			s->judges = true;
	}
	s->has_values = s->constant != NULL || s->values != NULL;
	s->combines = s->n_all_of > 0 || s->n_any_of > 0 || s->not != NULL;
	return 0;
}

static int check_schema(struct loader *l, const struct schema *s, const struct json_node *n)
{
	unsigned types = schema_types(s);

	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		const struct keyword *k = find_keyword(m->key);

		if (k->types != ANY_TYPE && types != 0 && !(types & k->types))
			return loader_fail(l, m->key_offset, "the keyword has no meaning for the schema's type");
	}
	if (s->has_minimum && s->has_maximum && s->minimum > s->maximum)
		return loader_fail(l, n->offset, "minimum is above maximum");
	if (s->min_length > s->max_length || s->min_items > s->max_items)
		return loader_fail(l, n->offset, "the minimum is above the maximum");
	if (s->zero && s->zeros == NULL && types == 0)
		return loader_fail(l, n->offset, "x-zero needs a type: whose zero is meant?");
	return 0;
}

static const struct schema *load_object(struct loader *l, const struct json_node *n, bool negated)
{
	struct schema *s = schema_new(l, negated);

	if (s == NULL || load_keywords(l, s, n, negated) < 0)
		return NULL;
	if (s->types & SCHEMA_OBJECT)
		s->object = true;
	if (load_members(l, s, n, negated) < 0 || check_schema(l, s, n) < 0)
		return NULL;
	return s;
}

static const struct schema *load(struct loader *l, const struct json_node *n, bool negated)
{
	const struct schema *s;

	if (n->type == JSON_BOOL) {
		struct schema *fixed = schema_new(l, negated);

		if (fixed != NULL)
			fixed->never = fixed->judges = !n->boolean;
		return fixed;
	}
	if (n->type != JSON_OBJECT) {
		loader_fail(l, n->offset, "a schema must be an object or a boolean");
		return NULL;
	}
	if (l->depth == MAX_DEPTH) {
		loader_fail(l, n->offset, "schemas are nested too deeply");
		return NULL;
	}
	l->depth++;
	s = load_object(l, n, negated);
	l->depth--;
	return s;
}

const struct schema *schema_load(struct loader *l, const struct json_node *n)
{
	return load_below(l, slice_make(NULL, 0), n, false, false);
}

const struct schema *schema_load_member(struct loader *l, const struct json_node *n)
{
	return load_below(l, slice_make(NULL, 0), n, false, true);
}

int schema_load_defs(struct loader *l, const struct json_node *n)
{
	if (n == NULL)
		return 0;
	if (loader_object(l, n) < 0)
		return -1;
	l->defs = loader_alloc(l, n->count * sizeof(*l->defs));
	if (l->defs == NULL)
		return -1;
	for (const struct json_node *m = n->child; m != NULL; m = m->next)
		l->defs[l->n_defs++].node = m;
	for (unsigned i = 0; i < l->n_defs; i++)
		if (l->defs[i].state[0] == DEF_NEW && load_def(l, &l->defs[i], false) < 0)
			return -1;
	return 0;
}
