/* From an audit log to a proposed policy, second half: writing down what was asked for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dockerproxy/learn_impl.h"
#include "libgate/json.h"

static const char *const patterns[] = {
	[WIDTH_DIGITS] = "^[0-9]{1,18}$",
	[WIDTH_NAME] = "^[A-Za-z0-9_.-]{1,255}$",
	[WIDTH_REFERENCE] = "^[A-Za-z0-9_.:/@-]{1,255}$",
	[WIDTH_ANY] = "^[^\\\\x00-\\\\x1f]{0,4096}$",
};

enum flags { FLAG_NONE, FLAG_OFF, FLAG_ON, FLAG_BOTH };

/* What a parameter was set to when all its values are spellings of a flag. */
static enum flags flags_of(const struct wish *w)
{
	unsigned seen = FLAG_NONE;

	for (unsigned i = 0; i < w->n_values; i++) {
		bool on = strcmp(w->values[i], "1") == 0 || strcmp(w->values[i], "true") == 0;

		if (!on && strcmp(w->values[i], "0") != 0 && strcmp(w->values[i], "false") != 0)
			return FLAG_NONE;
		seen |= on ? FLAG_ON : FLAG_OFF;
	}
	return (enum flags)seen;
}

static int put_flag(struct buf *b, enum flags flags)
{
	if (flags == FLAG_BOTH)
		return buf_puts(b, "{ \"type\": \"boolean\" }");
	return buf_putf(b, "{ \"type\": \"boolean\", \"const\": %s }", flags == FLAG_ON ? "true" : "false");
}

static int put_values(struct buf *b, const struct wish *w)
{
	enum flags flags = w->kind == WISH_QUERY && !w->more_values ? flags_of(w) : FLAG_NONE;

	if (flags != FLAG_NONE)
		return put_flag(b, flags);
	if (w->more_values)
		return buf_putf(b, "{ \"type\": \"string\", \"pattern\": \"%s\" }", patterns[w->width]);
	if (buf_puts(b, "{ \"type\": \"string\", \"enum\": [") < 0)
		return -1;
	for (unsigned i = 0; i < w->n_values; i++)
		if (buf_puts(b, i == 0 ? "" : ", ") < 0 || json_put_string(b, slice_str(w->values[i])) < 0)
			return -1;
	return buf_puts(b, "] }");
}

/* The line above a parameter that was wished for. */
static int put_wish_comment(struct buf *b, const struct wish *w)
{
	return buf_putf(b, "\t\t\t\t// %lu requests%s\n", w->count,
		w->more_values ? ", with more values than are named here: WIDER than what was asked for" : "");
}

/*
 * Was another container's name wished for, in a row that is for owned ones? Such names get rows of their own: opened as a
 * value of this one they would have to be owned, and then every row with an owner would open for them.
 */
static bool names_foreign(const struct row *r, const struct wish *w)
{
	return r->base != NULL && r->base->info.owner == OWNER_CONTAINER && r->base->object == OBJECT_PATH &&
		w->kind == WISH_PATH && slice_is(r->base->object_name, w->name);
}

static const struct json_node *base_row(const struct learn *l, const struct row *r)
{
	const struct json_node *n = json_get(l->base->root, "endpoints")->child;

	for (unsigned i = r->base->info.index; i > 0; i--)
		n = n->next;
	return n;
}

static int put_separator(struct buf *b, bool *first)
{
	bool comma = !*first;

	*first = false;
	return buf_puts(b, comma ? ",\n" : "\n");
}

/* One object of parameters: what the base has, and what was wished for, beside it or in its place. */
static int put_params(struct buf *b, const struct row *r, enum wish_kind kind, const struct json_node *have)
{
	bool first = true;

	if (buf_puts(b, "{") < 0)
		return -1;
	for (const struct json_node *m = have == NULL ? NULL : have->child; m != NULL; m = m->next) {
		const struct wish *wish = NULL;

		for (unsigned i = 0; i < r->n_wishes; i++)
			if (r->wishes[i].kind == kind && slice_is(m->key, r->wishes[i].name) && !names_foreign(r, &r->wishes[i]))
				wish = &r->wishes[i];
		if (put_separator(b, &first) < 0 || (wish != NULL && put_wish_comment(b, wish) < 0) ||
			buf_puts(b, "\t\t\t\t") < 0 || json_put_string(b, m->key) < 0 || buf_puts(b, ": ") < 0 ||
			(wish != NULL && buf_puts(b, "{ \"anyOf\": [") < 0) || json_put(b, m) < 0)
			return -1;
		if (wish != NULL && (buf_puts(b, ", ") < 0 || put_values(b, wish) < 0 || buf_puts(b, "] }") < 0))
			return -1;
	}
	for (unsigned i = 0; i < r->n_wishes; i++) {
		const struct wish *w = &r->wishes[i];

		if (w->kind != kind || json_get(have, w->name) != NULL)
			continue;
		if (put_separator(b, &first) < 0 || put_wish_comment(b, w) < 0 || buf_puts(b, "\t\t\t\t") < 0 ||
			json_put_string(b, slice_str(w->name)) < 0 || buf_puts(b, ": ") < 0 || put_values(b, w) < 0)
			return -1;
	}
	return buf_puts(b, first ? "}" : "\n\t\t\t}");
}

static bool wishes(const struct row *r, enum wish_kind kind)
{
	for (unsigned i = 0; i < r->n_wishes; i++)
		if (r->wishes[i].kind == kind)
			return true;
	return false;
}

static int put_key(struct buf *b, const char *key)
{
	return buf_putf(b, ",\n\t\t\t\"%s\": ", key);
}

static int put_query(struct buf *b, const struct row *r, const struct json_node *have)
{
	const struct json_node *properties = json_get(have, "properties");

	if (buf_puts(b, "{ \"type\": \"object\", \"properties\": ") < 0 || put_params(b, r, WISH_QUERY, properties) < 0)
		return -1;
	for (const struct json_node *m = have == NULL ? NULL : have->child; m != NULL; m = m->next) {
		if (slice_is(m->key, "type") || slice_is(m->key, "properties"))
			continue;
		if (buf_puts(b, ", ") < 0 || json_put_string(b, m->key) < 0 || buf_puts(b, ": ") < 0 || json_put(b, m) < 0)
			return -1;
	}
	return buf_puts(b, " }");
}

static int put_base_row(struct buf *b, const struct learn *l, const struct row *r)
{
	const struct json_node *row = base_row(l, r);
	bool first = true;

	for (const struct json_node *m = row->child; m != NULL; m = m->next) {
		int rc;

		if (!first && buf_puts(b, ",\n\t\t\t") < 0)
			return -1;
		if (json_put_string(b, m->key) < 0 || buf_puts(b, ": ") < 0)
			return -1;
		if (slice_is(m->key, "params") && wishes(r, WISH_PATH))
			rc = put_params(b, r, WISH_PATH, m);
		else if (slice_is(m->key, "query") && wishes(r, WISH_QUERY))
			rc = put_query(b, r, m);
		else
			rc = json_put(b, m);
		if (rc < 0)
			return -1;
		first = false;
	}
	if (json_get(row, "query") == NULL && wishes(r, WISH_QUERY))
		return put_key(b, "query") < 0 ? -1 : put_query(b, r, NULL);
	return 0;
}

/* Ids of the proposal are distinct, also when its base is an earlier proposal. */
static bool id_is_taken(const struct learn *l, unsigned number)
{
	char id[32];

	snprintf(id, sizeof(id), "learned.%u", number);
	for (unsigned i = 0; i < l->base->n_endpoints; i++)
		if (strcmp(l->base->endpoints[i].info.id, id) == 0)
			return true;
	return false;
}

static int put_id(struct buf *b, const struct learn *l, unsigned *number)
{
	while (id_is_taken(l, *number))
		++*number;
	return buf_putf(b, "\"id\": \"learned.%u\"", (*number)++);
}

static int put_new_row(struct buf *b, const struct learn *l, const struct row *r, unsigned *number)
{
	if (put_id(b, l, number) < 0 || buf_putf(b, ",\n\t\t\t\"method\": \"%s\",\n\t\t\t\"path\": ", r->method) < 0 ||
		json_put_string(b, slice_str(r->path)) < 0)
		return -1;
	if (wishes(r, WISH_PATH) && (put_key(b, "params") < 0 || put_params(b, r, WISH_PATH, NULL) < 0))
		return -1;
	if (wishes(r, WISH_QUERY) && (put_key(b, "query") < 0 || put_query(b, r, NULL) < 0))
		return -1;
	if (r->body &&
		buf_puts(b, ",\n\t\t\t// the log does not hold bodies: describe what it may ask for\n\t\t\t\"body\": false") <
			0)
		return -1;
	return strcmp(r->response, "plain") == 0 ? 0 : buf_putf(b, ",\n\t\t\t\"response\": \"%s\"", r->response);
}

/* Can the name stand in a path as it is? */
static bool is_word(const char *s)
{
	return s[0] != '\0' && s[0] != '.' && strlen(s) < LEARN_MAX_TEXT &&
		s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")] == '\0';
}

/* The row's path with a name in its object's place. */
static int put_named_path(struct buf *b, const struct endpoint *e, const char *name)
{
	if (buf_putc(b, '"') < 0)
		return -1;
	for (unsigned i = 0; i < e->n_segments; i++) {
		const struct endpoint_segment *s = &e->segments[i];
		bool literal = s->type == SEGMENT_LITERAL || slice_eq(s->text, e->object_name);
		struct slice text = s->type != SEGMENT_LITERAL && literal ? slice_str(name) : s->text;

		if (buf_puts(b, literal ? "/" : "/{") < 0 || buf_put_slice(b, text) < 0 ||
			buf_puts(b,
				literal                             ? ""
					: s->type == SEGMENT_PARAM_REST ? "...}"
													: "}") < 0)
			return -1;
	}
	return buf_putc(b, '"');
}

/* What is left of the row's params. */
static int put_other_params(struct buf *b, const struct endpoint *e, const struct json_node *params)
{
	bool first = true;

	if (put_key(b, "params") < 0 || buf_putc(b, '{') < 0)
		return -1;
	for (const struct json_node *m = params->child; m != NULL; m = m->next) {
		if (slice_eq(m->key, e->object_name))
			continue;
		if (put_separator(b, &first) < 0 || buf_puts(b, "\t\t\t\t") < 0 || json_put_string(b, m->key) < 0 ||
			buf_puts(b, ": ") < 0 || json_put(b, m) < 0)
			return -1;
	}
	return buf_putc(b, '}');
}

/* The base's row for one container that is not owned: by its name, and so without an owner to be asked for. */
static int put_named_row(struct buf *b, const struct learn *l, const struct row *r, const char *name, unsigned *number)
{
	const struct endpoint *e = r->base;

	if (buf_puts(b, ",\n\t\t{ ") < 0 || put_id(b, l, number) < 0 || put_key(b, "path") < 0 ||
		put_named_path(b, e, name) < 0)
		return -1;
	for (const struct json_node *m = base_row(l, r)->child; m != NULL; m = m->next) {
		int rc = 0;

		if (slice_is(m->key, "id") || slice_is(m->key, "path") || slice_is(m->key, "owner") ||
			slice_is(m->key, "object"))
			continue;
		if (slice_is(m->key, "params"))
			rc = m->child->next == NULL ? 0 : put_other_params(b, e, m);
		else if (buf_puts(b, ",\n\t\t\t") < 0 || json_put_string(b, m->key) < 0 || buf_puts(b, ": ") < 0)
			rc = -1;
		else
			rc = slice_is(m->key, "query") ? put_query(b, r, m) : json_put(b, m);
		if (rc < 0)
			return -1;
	}
	if (json_get(base_row(l, r), "query") == NULL && wishes(r, WISH_QUERY) &&
		(put_key(b, "query") < 0 || put_query(b, r, NULL) < 0))
		return -1;
	return buf_puts(b, " }");
}

static int put_named_rows(struct buf *b, const struct learn *l, const struct row *r, unsigned *number)
{
	for (unsigned i = 0; i < r->n_wishes; i++) {
		const struct wish *w = &r->wishes[i];

		for (unsigned k = 0; k < w->n_values && names_foreign(r, w); k++)
			if (is_word(w->values[k]) && put_named_row(b, l, r, w->values[k], number) < 0)
				return -1;
	}
	return 0;
}

/* What of the row stays closed, and why. */
static int put_closed(struct buf *b, const struct row *r)
{
	for (unsigned i = 0; i < r->n_wishes; i++) {
		const struct wish *w = &r->wishes[i];
		bool whole = w->name[0] == '\0';

		if (w->kind == WISH_FIELD && whole && strcmp(w->reason, "owner-not-allowed") == 0) {
			if (buf_putf(b,
					"\n\t\t// NOT opened: %lu were about a container that is not owned (owner-not-allowed); a name that\n"
					"\t\t// containerName is widened by is owned in every row with an owner",
					w->count) < 0)
				return -1;
		} else if (w->kind == WISH_FIELD) {
			if (buf_putf(b, "\n\t\t// NOT opened: body %s was refused %lu times (%s)", whole ? "as a whole" : w->name,
					w->count, w->reason) < 0)
				return -1;
		} else if (names_foreign(r, w) && w->more_values) {
			if (buf_putf(b, "\n\t\t// NOT opened: containers beyond the %d that have a row of their own below",
					LEARN_MAX_VALUES) < 0)
				return -1;
		}
	}
	if (r->left_out == 0)
		return 0;
	return buf_putf(b,
		"\n\t\t// NOT opened: %lu parameters or fields more than are kept here, or of no name that a row can have",
		r->left_out);
}

static int put_row_comment(struct buf *b, const struct row *r)
{
	if (buf_putf(b, "\t\t// %lu allowed, %lu would have been denied", r->allowed, r->denied) < 0)
		return -1;
	if (r->denied > 0 && buf_putf(b, "; the first: %s", r->request) < 0)
		return -1;
	return put_closed(b, r) < 0 ? -1 : buf_puts(b, "\n\t\t{ ");
}

static int put_policy(const struct learn *l, struct buf *b)
{
	const struct json_node *root = l->base->root;
	const struct json_node *defs = json_get(root, "$defs");
	const struct json_node *names = json_get(root, "containerName");
	unsigned number = 0;
	bool first = true;

	if (buf_putf(b,
			"// Proposed by dockerproxy learn from %lu lines of audit log, of which %lu taught nothing.\n"
			"// Read every row that says what would have been denied before you use this: it opens what was asked for,\n"
			"// by whomever.\n",
			l->lines, l->skipped) < 0 ||
		(l->left_out > 0 &&
			buf_putf(b, "// NOT opened: %lu requests of more than %d endpoints that the base policy does not have.\n",
				l->left_out, LEARN_MAX_NEW) < 0) ||
		buf_puts(b, "{\n\t\"apiVersions\": ") < 0 || json_put(b, json_get(root, "apiVersions")) < 0 ||
		buf_puts(b, ",\n") < 0)
		return -1;
	if (names != NULL && (buf_puts(b, "\t\"containerName\": ") < 0 || json_put(b, names) < 0 || buf_puts(b, ",\n") < 0))
		return -1;
	if (defs != NULL && (buf_puts(b, "\t\"$defs\": {") < 0))
		return -1;
	for (const struct json_node *d = defs == NULL ? NULL : defs->child; d != NULL; d = d->next)
		if (put_separator(b, &first) < 0 || buf_puts(b, "\t\t") < 0 || json_put_string(b, d->key) < 0 ||
			buf_puts(b, ": ") < 0 || json_put(b, d) < 0)
			return -1;
	if ((defs != NULL && buf_puts(b, "\n\t},\n") < 0) || buf_puts(b, "\t\"endpoints\": [") < 0)
		return -1;
	first = true;
	for (unsigned i = 0; i < l->n_rows; i++) {
		const struct row *r = &l->rows[i];

		if (put_separator(b, &first) < 0 || put_row_comment(b, r) < 0 ||
			(r->base != NULL ? put_base_row(b, l, r) : put_new_row(b, l, r, &number)) < 0 || buf_puts(b, " }") < 0 ||
			put_named_rows(b, l, r, &number) < 0)
			return -1;
	}
	return buf_puts(b, "\n\t]\n}\n");
}

int learn_print(const struct learn *l, struct buf *out, struct err *err)
{
	if (l->n_rows == 0)
		return err_set(err, EINVAL, "learn: no line of %lu says what was allowed or would have been denied", l->lines);
	if (put_policy(l, out) < 0)
		return err_set(err, ENOMEM, "learn: the proposal is too large");
	return 0;
}
