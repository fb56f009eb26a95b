/* Words about a refusal, made from the failure and the schema that refused. */
#include "dockerproxy/verdict_text.h"

#include <string.h>

#define SHOWN_KEY 64
#define SHOWN_VALUE 48
#define SHOWN_PATTERN 120

int verdict_put_shown(struct buf *b, struct slice s, size_t max)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];
		int rc;

		if (i >= max)
			return buf_puts(b, "...");
		if (c == '"' || c == '\\')
			rc = buf_putc(b, '\\') < 0 ? -1 : buf_putc(b, (char)c);
		else if (c >= 0x20 && c < 0x7f)
			rc = buf_putc(b, (char)c);
		else
			rc = buf_putf(b, "\\x%02x", c);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* --- where ---------------------------------------------------------------------------------------------------- */

static int put_index_pointer(struct buf *b, uint32_t item)
{
	return buf_putf(b, "/%u", (unsigned)item);
}

int verdict_put_param_at(struct buf *b, enum verdict_part part, struct slice param)
{
	if (buf_puts(b, part == PART_PATH ? "path." : "query.") < 0)
		return -1;
	return verdict_put_shown(b, param, SHOWN_KEY);
}

int verdict_put_at(struct buf *b, enum verdict_part part, struct slice param, const struct schema_failure *f)
{
	bool parameter = part != PART_BODY;
	const char *prefix = part == PART_PATH ? "path" : "query";

	if (parameter && buf_puts(b, prefix) < 0)
		return -1;
	if (param.len > 0 && (buf_putc(b, '.') < 0 || verdict_put_shown(b, param, SHOWN_KEY) < 0))
		return -1;
	for (unsigned i = 0; i < f->depth; i++) {
		const struct schema_step *s = &f->path[i];
		bool named = part == PART_QUERY && i == 0;
		int rc;

		if (named && buf_putc(b, '.') < 0)
			return -1;
		if (named)
			rc = verdict_put_shown(b, s->node->key, SHOWN_KEY);
		else if (s->item != UINT32_MAX)
			rc = put_index_pointer(b, s->item);
		else
			rc = json_pointer_push(b, s->node->key);
		if (rc < 0)
			return -1;
	}
	if (f->fault != SCHEMA_FAULT_REQUIRED)
		return 0;
	if (part == PART_QUERY && f->depth == 0)
		return buf_putc(b, '.') < 0 ? -1 : buf_put_slice(b, f->property->name);
	return json_pointer_push(b, f->property->name);
}

static int put_lower(struct buf *b, struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (buf_putc(b, slice_lower(s.p[i])) < 0)
			return -1;
	return 0;
}

int verdict_put_id(struct buf *b, const char *prefix, struct slice name)
{
	if (buf_puts(b, prefix) < 0 || (prefix[0] != '\0' && buf_putc(b, '-') < 0))
		return -1;
	return put_lower(b, name);
}

int verdict_put_field_id(struct buf *b, enum verdict_part part, struct slice param, const struct schema_failure *f)
{
	size_t start = buf_len(b);
	unsigned names = 0;
	const struct schema_property *last = NULL;

	if (part == PART_PATH)
		return verdict_put_id(b, "path", param);
	if (part == PART_QUERY && buf_puts(b, "query") < 0)
		return -1;
	for (unsigned i = 0; i <= f->depth; i++) {
		const struct schema_property *p;

		if (i < f->depth)
			p = f->path[i].property;
		else
			p = f->fault == SCHEMA_FAULT_REQUIRED && !f->schema->map ? f->property : NULL;
		if (p == NULL)
			continue;
		if (buf_len(b) > start && buf_putc(b, '-') < 0)
			return -1;
		if (put_lower(b, p->name) < 0)
			return -1;
		last = p;
		names++;
	}
	if (part != PART_BODY || names != 1)
		return 0;
	/* A single name could be that of anything: say what it is part of. */
	b->end = b->start + start;
	return verdict_put_id(b, "body", last->name);
}

/* --- what ----------------------------------------------------------------------------------------------------- */

static bool is_plain_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = slice_lower(s.p[i]);

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
			return false;
	}
	return s.len > 0;
}

static int put_name(struct buf *b, struct slice key, bool first)
{
	if (is_plain_name(key)) {
		if (!first && buf_putc(b, '.') < 0)
			return -1;
		return buf_put_slice(b, slice_make(key.p, key.len > SHOWN_KEY ? SHOWN_KEY : key.len));
	}
	if (buf_puts(b, "[\"") < 0 || verdict_put_shown(b, key, SHOWN_KEY) < 0)
		return -1;
	return buf_puts(b, "\"]");
}

/* The field as a person calls it: HostConfig.Mounts[3].Type. */
static int put_field(struct buf *b, enum verdict_part part, struct slice param, const struct schema_failure *f,
	unsigned depth, struct slice missing)
{
	bool first = true;

	if (part == PART_PATH)
		return buf_putf(b, "path parameter %.*s", SLICE_ARG(param));
	if (part == PART_QUERY && (depth > 0 || missing.len > 0) && buf_puts(b, "query parameter ") < 0)
		return -1;
	for (unsigned i = 0; i < depth; i++) {
		const struct schema_step *s = &f->path[i];
		int rc = s->item != UINT32_MAX ? buf_putf(b, "[%u]", (unsigned)s->item) : put_name(b, s->node->key, first);

		if (rc < 0)
			return -1;
		first = false;
	}
	if (missing.len > 0)
		return put_name(b, missing, first);
	return depth > 0 ? 0 : buf_puts(b, part == PART_BODY ? "the body" : "the query");
}

static int put_value(struct buf *b, const struct json_node *n)
{
	switch (n->type) {
	case JSON_NULL:
		return buf_puts(b, "null");
	case JSON_BOOL:
		return buf_puts(b, n->boolean ? "true" : "false");
	case JSON_INT:
	case JSON_REAL:
		return verdict_put_shown(b, n->digits, SHOWN_VALUE);
	case JSON_STRING:
		if (buf_putc(b, '"') < 0 || verdict_put_shown(b, n->text, SHOWN_VALUE) < 0)
			return -1;
		return buf_putc(b, '"');
	case JSON_ARRAY:
		return buf_puts(b, n->count == 0 ? "[]" : "a list");
	case JSON_OBJECT:
		return buf_puts(b, n->count == 0 ? "{}" : "an object");
	}
	return -1;
}

static int put_list(struct buf *b, const struct json_node *values)
{
	for (const struct json_node *v = values->child; v != NULL; v = v->next) {
		if (v != values->child && buf_puts(b, v->next == NULL ? " or " : ", ") < 0)
			return -1;
		if (put_value(b, v) < 0)
			return -1;
	}
	return 0;
}

static int put_types(struct buf *b, unsigned types)
{
	static const struct {
		unsigned type;
		const char *text;
	} names[] = {
		{ SCHEMA_NULL, "null" },
		{ SCHEMA_BOOLEAN, "true or false" },
		{ SCHEMA_INTEGER, "an integer" },
		{ SCHEMA_STRING, "a string" },
		{ SCHEMA_ARRAY, "a list" },
		{ SCHEMA_OBJECT, "an object" },
	};
	bool first = true;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!(types & names[i].type))
			continue;
		if (!first && buf_puts(b, " or ") < 0)
			return -1;
		if (buf_puts(b, names[i].text) < 0)
			return -1;
		first = false;
	}
	return 0;
}

static int put_range(struct buf *b, const struct schema *s)
{
	if (s->has_minimum && s->has_maximum)
		return buf_putf(b, "%lld to %lld", (long long)s->minimum, (long long)s->maximum);
	if (s->has_minimum)
		return buf_putf(b, "%lld or more", (long long)s->minimum);
	return buf_putf(b, "%lld or less", (long long)s->maximum);
}

static int put_counts(struct buf *b, uint32_t min, uint32_t max, const char *what)
{
	if (max == UINT32_MAX)
		return buf_putf(b, "%u or more %s", (unsigned)min, what);
	if (min == 0)
		return buf_putf(b, "at most %u %s", (unsigned)max, what);
	return buf_putf(b, "%u to %u %s", (unsigned)min, (unsigned)max, what);
}

static int put_pattern(struct buf *b, const struct schema *s)
{
	if (buf_puts(b, "match ") < 0)
		return -1;
	return verdict_put_shown(b, slice_str(pattern_text(s->pattern)), SHOWN_PATTERN);
}

/* What the schema wants, behind "must ": the strongest of what it says. */
static int put_wanted(struct buf *b, const struct schema *s)
{
	while (s->ref != NULL && s->constant == NULL && s->values == NULL && s->pattern == NULL && !s->has_minimum &&
		!s->has_maximum)
		s = s->ref;
	if (s->constant != NULL)
		return buf_puts(b, "be ") < 0 ? -1 : put_value(b, s->constant);
	if (s->values != NULL)
		return buf_puts(b, "be ") < 0 ? -1 : put_list(b, s->values);
	if (s->pattern != NULL)
		return put_pattern(b, s);
	if (s->has_minimum || s->has_maximum)
		return buf_puts(b, "be ") < 0 ? -1 : put_range(b, s);
	if (s->contains != NULL)
		return buf_puts(b, "hold a value that must ") < 0 ? -1 : put_wanted(b, s->contains);
	if (s->types != 0)
		return buf_puts(b, "be ") < 0 ? -1 : put_types(b, s->types);
	return buf_puts(b, "be allowed by the policy");
}

static int put_empty(struct buf *b)
{
	return buf_puts(b, " must be empty");
}

static int put_const(struct buf *b, const struct schema_failure *f)
{
	const struct json_node *c = f->schema->constant;

	/* "must not be true" is what a person looks for, where false is the only other value. */
	if (c->type == JSON_BOOL && f->node->type == JSON_BOOL)
		return buf_puts(b, f->node->boolean ? " must not be true" : " must be true");
	if (c->type == JSON_STRING && c->text.len == 0)
		return put_empty(b);
	return buf_puts(b, " must be ") < 0 ? -1 : put_value(b, c);
}

static int put_items(struct buf *b, const struct schema *s)
{
	if (s->max_items == 0)
		return put_empty(b);
	return buf_puts(b, " must have ") < 0 ? -1 : put_counts(b, s->min_items, s->max_items, "items");
}

static int put_not(struct buf *b, const struct schema_failure *f)
{
	if (f->schema->not ->pattern == NULL)
		return buf_puts(b, " is of a kind that the policy refuses");
	return buf_puts(b, " must not ") < 0 ? -1 : put_pattern(b, f->schema->not );
}

static int put_required(struct buf *b, const struct schema_failure *f)
{
	const struct schema *s = f->property->schema;

	if (s == NULL || s->never)
		return buf_puts(b, " is required");
	return buf_puts(b, " is required and must ") < 0 ? -1 : put_wanted(b, s);
}

static int put_complaint(struct buf *b, const struct schema_failure *f)
{
	const struct schema *s = f->schema;

	switch (f->fault) {
	case SCHEMA_FAULT_NEVER:
		return buf_puts(b, " is not allowed");
	case SCHEMA_FAULT_TYPE:
		return buf_puts(b, " must be ") < 0 ? -1 : put_types(b, s->types);
	case SCHEMA_FAULT_CONST:
		return put_const(b, f);
	case SCHEMA_FAULT_ENUM:
		return buf_puts(b, " must be ") < 0 ? -1 : put_list(b, s->values);
	case SCHEMA_FAULT_PATTERN:
		return buf_puts(b, " must ") < 0 ? -1 : put_pattern(b, s);
	case SCHEMA_FAULT_LENGTH:
		return buf_puts(b, " must have ") < 0 ? -1 : put_counts(b, s->min_length, s->max_length, "characters");
	case SCHEMA_FAULT_RANGE:
		return buf_puts(b, " must be ") < 0 ? -1 : put_range(b, s);
	case SCHEMA_FAULT_ITEMS:
		return put_items(b, s);
	case SCHEMA_FAULT_CONTAINS:
		return buf_puts(b, " must hold a value that must ") < 0 ? -1 : put_wanted(b, s->contains);
	case SCHEMA_FAULT_REQUIRED:
		return put_required(b, f);
	case SCHEMA_FAULT_UNKNOWN:
		return buf_puts(b, s->map ? " is not an allowed key" : " is not in the policy");
	case SCHEMA_FAULT_PROPERTIES:
		if (s->max_properties == 0)
			return put_empty(b);
		return buf_puts(b, " must have ") < 0 ? -1 : put_counts(b, 0, s->max_properties, "members");
	case SCHEMA_FAULT_NAME:
		return buf_puts(b, " is not an allowed key; it must ") < 0 ? -1 : put_wanted(b, s->names);
	case SCHEMA_FAULT_NOT:
		return put_not(b, f);
	case SCHEMA_FAULT_JSON:
		return buf_putf(b, " must be strict JSON: %s", json_fault_text(f->json));
	case SCHEMA_FAULT_FOLDED:
		return buf_putf(b, " is another spelling of %.*s", SLICE_ARG(f->property->name));
	case SCHEMA_FAULT_SPELLING:
		return buf_puts(b, " must be named in plain ASCII without escapes");
	case SCHEMA_FAULT_LIMIT:
		return buf_puts(b, " is too complex for the policy's patterns");
	case SCHEMA_FAULT_MEMORY:
		return buf_puts(b, " is too complex");
	}
	return -1;
}

/* Is the value worth showing? Not where the complaint already says it. */
static bool shows_value(const struct schema_failure *f)
{
	if (f->node == NULL || f->fault == SCHEMA_FAULT_UNKNOWN || f->fault == SCHEMA_FAULT_NAME ||
		f->fault >= SCHEMA_FAULT_JSON)
		return false;
	return !(f->fault == SCHEMA_FAULT_CONST && f->node->type == JSON_BOOL) && f->node->type != JSON_ARRAY &&
		f->node->type != JSON_OBJECT;
}

int verdict_put_message(struct buf *b, enum verdict_part part, struct slice param, const struct schema_failure *f)
{
	struct slice missing = f->fault == SCHEMA_FAULT_REQUIRED ? f->property->name : slice_make(NULL, 0);

	if (put_field(b, part, param, f, f->depth, missing) < 0 || put_complaint(b, f) < 0)
		return -1;
	if (!shows_value(f))
		return 0;
	return buf_puts(b, ", not ") < 0 ? -1 : put_value(b, f->node);
}
