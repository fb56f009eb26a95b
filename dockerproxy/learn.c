/* From an audit log to a proposed policy: collecting what was asked for, and writing it down. */
#include "dockerproxy/learn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/policy_impl.h"
#include "dockerproxy/verdict_text.h"
#include "libgate/target.h"

#define MAX_ROWS 1000 /* different endpoints in one log */
#define MAX_WISHES 200 /* different parameters and fields of one endpoint */
#define MAX_VALUES 8 /* values named one by one; more make a pattern */
#define MAX_TEXT 256

enum wish_kind { WISH_PATH, WISH_QUERY, WISH_FIELD };

/* Something of an endpoint that the base policy does not grant. */
struct wish {
	enum wish_kind kind;
	char name[MAX_TEXT]; /* parameter, or pointer into the body */
	char reason[MAX_TEXT]; /* fields */
	char *values[MAX_VALUES];
	unsigned n_values;
	bool more_values;
	unsigned long count;
};

struct row {
	const struct endpoint *base; /* NULL: not in the base policy */
	char method[16];
	char path[MAX_TEXT]; /* template, when not in the base policy */
	char request[MAX_TEXT]; /* the first that needed it: "id METHOD TARGET" */
	bool body;
	const char *response;
	unsigned long allowed;
	unsigned long denied;
	struct wish *wishes;
	unsigned n_wishes;
};

struct learn {
	const struct policy *base;
	struct json_doc *doc;
	struct schema_run *run;
	struct target target;
	struct row *rows;
	unsigned n_rows;
	unsigned long lines;
	unsigned long skipped;
};

static const struct known_row {
	const char *method;
	const char *path;
	const char *response;
	bool body;
} known_rows[] = {
#define ROW(variable, id, method, path, response, body) { method, path, response, body },
#include "dockerproxy/import_row.def"
#undef ROW
};

/* --- life ----------------------------------------------------------------------------------------------------- */

struct learn *learn_new(const struct policy *base, struct err *err)
{
	struct learn *l = calloc(1, sizeof(*l));

	if (l != NULL) {
		l->base = base;
		l->doc = json_doc_new();
		l->run = schema_run_new();
	}
	if (l == NULL || l->doc == NULL || l->run == NULL) {
		err_errno(err, "learn");
		learn_free(l);
		return NULL;
	}
	return l;
}

void learn_free(struct learn *l)
{
	if (l == NULL)
		return;
	for (unsigned i = 0; i < l->n_rows; i++) {
		for (unsigned j = 0; j < l->rows[i].n_wishes; j++)
			for (unsigned k = 0; k < l->rows[i].wishes[j].n_values; k++)
				free(l->rows[i].wishes[j].values[k]);
		free(l->rows[i].wishes);
	}
	free(l->rows);
	schema_run_free(l->run);
	json_doc_free(l->doc);
	free(l);
}

/* Copies printable ASCII, cut to fit: these texts go into comments and strings of a file that a person edits. */
static void put_plain(char *out, size_t size, struct slice s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.len && n + 1 < size; i++)
		out[n++] = s.p[i] >= 0x20 && s.p[i] < 0x7f ? s.p[i] : '?';
	out[n] = '\0';
}

/* --- collecting ------------------------------------------------------------------------------------------------ */

static int add_value(struct wish *w, struct slice value, struct err *err)
{
	for (unsigned i = 0; i < w->n_values; i++)
		if (slice_is(value, w->values[i]))
			return 0;
	if (w->n_values == MAX_VALUES || memchr(value.p, '\0', value.len) != NULL) {
		w->more_values = true;
		return 0;
	}
	w->values[w->n_values] = strndup(value.p, value.len);
	if (w->values[w->n_values] == NULL)
		return err_errno(err, "learn");
	w->n_values++;
	return 0;
}

static struct wish *find_wish(struct row *r, enum wish_kind kind, struct slice name, struct err *err)
{
	char plain[MAX_TEXT];
	struct wish *list;

	put_plain(plain, sizeof(plain), name);
	for (unsigned i = 0; i < r->n_wishes; i++)
		if (r->wishes[i].kind == kind && strcmp(r->wishes[i].name, plain) == 0)
			return &r->wishes[i];
	if (r->n_wishes == MAX_WISHES) {
		err_set(err, E2BIG, "learn: %s asks for more than %d different things", r->method, MAX_WISHES);
		return NULL;
	}
	list = realloc(r->wishes, (r->n_wishes + 1) * sizeof(*list));
	if (list == NULL) {
		err_errno(err, "learn");
		return NULL;
	}
	r->wishes = list;
	memset(&list[r->n_wishes], 0, sizeof(*list));
	list[r->n_wishes].kind = kind;
	memcpy(list[r->n_wishes].name, plain, sizeof(plain));
	return &list[r->n_wishes++];
}

static int wish_for(struct row *r, enum wish_kind kind, struct slice name, struct slice value, struct err *err)
{
	struct wish *w = find_wish(r, kind, name, err);

	if (w == NULL)
		return -1;
	w->count++;
	return kind == WISH_FIELD ? 0 : add_value(w, value, err);
}

static struct row *find_row(struct learn *l, const struct endpoint *base, const char *method, const char *path,
	struct err *err)
{
	struct row *list;

	for (unsigned i = 0; i < l->n_rows; i++) {
		struct row *r = &l->rows[i];

		if (base != NULL ? r->base == base
						 : r->base == NULL && strcmp(r->method, method) == 0 && strcmp(r->path, path) == 0)
			return r;
	}
	if (l->n_rows == MAX_ROWS) {
		err_set(err, E2BIG, "learn: the log has more than %d different endpoints", MAX_ROWS);
		return NULL;
	}
	list = realloc(l->rows, (l->n_rows + 1) * sizeof(*list));
	if (list == NULL) {
		err_errno(err, "learn");
		return NULL;
	}
	l->rows = list;
	memset(&list[l->n_rows], 0, sizeof(*list));
	list[l->n_rows].base = base;
	put_plain(list[l->n_rows].method, sizeof(list[0].method), slice_str(method));
	put_plain(list[l->n_rows].path, sizeof(list[0].path), slice_str(path));
	list[l->n_rows].response = "plain";
	return &list[l->n_rows++];
}

static bool holds(struct learn *l, const struct schema *s, struct slice text)
{
	struct json_node node = { .type = JSON_STRING, .text = text };
	struct schema_failure failure;

	schema_run_reset(l->run);
	return schema_eval(l->run, s, &node, &failure);
}

/* A query value has the type that the policy gives it; what a text alone cannot decide counts as granted. */
static bool query_holds(struct learn *l, const struct schema_property *known, struct slice value)
{
	unsigned types = known == NULL ? 0 : schema_types(known->schema);

	if (known == NULL)
		return false;
	return (types & (SCHEMA_BOOLEAN | SCHEMA_INTEGER)) != 0 || holds(l, known->schema, value);
}

/* Does the template match, and what stands for its one parameter? */
static bool match_template(const char *path, const struct slice *segments, unsigned n, struct slice *value)
{
	struct slice rest = slice_str(path + 1);
	unsigned at = 0;

	while (rest.len > 0) {
		const char *slash = memchr(rest.p, '/', rest.len);
		struct slice part = slash == NULL ? rest : slice_make(rest.p, (size_t)(slash - rest.p));
		unsigned left = 0;

		rest = slash == NULL ? slice_make("", 0) : slice_skip(rest, part.len + 1);
		for (size_t i = 0; i < rest.len; i++)
			left += rest.p[i] == '/';
		left += rest.len > 0;
		if (part.p[0] == '{') {
			unsigned take = part.p[part.len - 2] == '.' ? (n - at > left ? n - at - left : 0) : 1;

			if (take == 0 || at + take > n)
				return false;
			*value = slice_make(segments[at].p,
				(size_t)(segments[at + take - 1].p + segments[at + take - 1].len - segments[at].p));
			at += take;
		} else if (at == n || !slice_eq(part, segments[at++])) {
			return false;
		}
	}
	return at == n;
}

static bool is_version(struct slice s)
{
	return s.len == 5 && slice_starts(s, "v1.");
}

static int learn_known(struct learn *l, struct row *r, const struct endpoint_match *m, struct slice at,
	struct slice reason, struct err *err)
{
	for (unsigned i = 0; i < m->endpoint->n_segments; i++) {
		const struct endpoint_segment *s = &m->endpoint->segments[i];

		if (s->type != SEGMENT_LITERAL && !holds(l, s->schema, m->values[i]) &&
			wish_for(r, WISH_PATH, s->text, m->values[i], err) < 0)
			return -1;
	}
	for (unsigned i = 0; i < l->target.nparams; i++) {
		const struct target_param *q = &l->target.params[i];
		const struct schema_property *known =
			m->endpoint->query == NULL ? NULL : schema_property(m->endpoint->query, q->name);

		if (!query_holds(l, known, q->value) && wish_for(r, WISH_QUERY, q->name, q->value, err) < 0)
			return -1;
	}
	if (at.len == 0 || at.p[0] == '/') {
		struct wish *w = find_wish(r, WISH_FIELD, at, err);

		if (w == NULL)
			return -1;
		w->count++;
		put_plain(w->reason, sizeof(w->reason), reason);
	}
	return 0;
}

/* Can the path stand in a policy as it is? */
static bool is_plain_path(const struct slice *segments, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (size_t j = 0; j < segments[i].len; j++) {
			char c = slice_lower(segments[i].p[j]);

			if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-' && (c != '.' || j == 0))
				return false;
		}
	return n <= ENDPOINT_MAX_SEGMENTS;
}

static int learn_new_row(struct learn *l, const char *method, const struct slice *segments, unsigned n,
	struct row **out, struct err *err)
{
	const struct known_row *k = NULL;
	struct slice value = slice_make(NULL, 0);
	char path[MAX_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(known_rows) && k == NULL; i++)
		if (strcmp(known_rows[i].method, method) == 0 && match_template(known_rows[i].path, segments, n, &value))
			k = &known_rows[i];
	if (k == NULL && !is_plain_path(segments, n))
		return 0;
	put_plain(path, sizeof(path),
		k != NULL
			? slice_str(k->path)
			: slice_make(segments[0].p - 1, (size_t)(segments[n - 1].p + segments[n - 1].len - segments[0].p) + 1));
	*out = find_row(l, NULL, method, path, err);
	if (*out == NULL)
		return -1;
	if (k != NULL) {
		(*out)->body = k->body;
		(*out)->response = k->response;
	}
	if (k != NULL && strchr(k->path, '{') != NULL &&
		wish_for(*out, WISH_PATH, slice_str(strstr(k->path, "{id}") != NULL ? "id" : "name"), value, err) < 0)
		return -1;
	for (unsigned i = 0; i < l->target.nparams; i++)
		if (wish_for(*out, WISH_QUERY, l->target.params[i].name, l->target.params[i].value, err) < 0)
			return -1;
	return 0;
}

static enum http_method method_of(struct slice word)
{
	for (int m = HTTP_GET; m <= HTTP_DELETE; m++) /* those that a row can have */
		if (slice_is(word, http_method_name((enum http_method)m)))
			return (enum http_method)m;
	return HTTP_OTHER;
}

static int learn_request(struct learn *l, const struct json_node *line, bool denied, struct err *err)
{
	struct slice method = slice_make("", 0), target = method, at = method, reason = method, request = method;
	const struct slice *segments = l->target.segments;
	struct endpoint_match m;
	struct row *r = NULL;
	unsigned n;

	json_get_string(line, "method", &method);
	json_get_string(line, "target", &target);
	json_get_string(line, "at", &at);
	json_get_string(line, "reason", &reason);
	json_get_string(line, "request", &request);
	if (method_of(method) == HTTP_OTHER || target_parse(&l->target, target) != TARGET_OK) {
		l->skipped++; /* no policy can allow it */
		return 0;
	}
	n = l->target.nsegments;
	if (n > 1 && is_version(segments[0])) {
		segments++;
		n--;
	}
	if (endpoint_match(l->base->endpoints, l->base->n_endpoints, method_of(method), segments, n, &m)) {
		r = find_row(l, m.endpoint, "", "", err);
		if (r == NULL || (denied && learn_known(l, r, &m, at, reason, err) < 0))
			return -1;
	} else if (denied && learn_new_row(l, http_method_name(method_of(method)), segments, n, &r, err) < 0) {
		return -1;
	}
	if (r == NULL) {
		l->skipped++; /* allowed by a policy that is not the base, or not to be written as a row */
		return 0;
	}
	if (denied && r->denied++ == 0) {
		char text[3 * MAX_TEXT];
		int len = snprintf(text, sizeof(text), "%.*s %.*s %.*s", (int)(request.len > 40 ? 40 : request.len), request.p,
			SLICE_ARG(method), (int)(target.len > 150 ? 150 : target.len), target.p);

		put_plain(r->request, sizeof(r->request), slice_make(text, len < 0 ? 0 : (size_t)len));
	}
	r->allowed += !denied;
	return 0;
}

int learn_line(struct learn *l, struct slice line, struct err *err)
{
	const struct json_node *root;
	enum json_fault fault;
	struct slice decision;
	size_t offset;

	l->lines++;
	root = json_parse(l->doc, line, JSON_STRICT, &fault, &offset);
	if (root == NULL || !json_get_string(root, "decision", &decision) ||
		!(slice_is(decision, "allow") || slice_is(decision, "would_deny"))) {
		l->skipped++;
		return 0;
	}
	return learn_request(l, root, slice_is(decision, "would_deny"), err);
}

/* --- writing --------------------------------------------------------------------------------------------------- */

/* A pattern wide enough for values that were not named, as narrow as what was seen. */
static const char *pattern_for(const struct wish *w)
{
	static const char *const patterns[][2] = {
		{ "0123456789", "^[0-9]{1,18}$" },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", "^[A-Za-z0-9_.-]{1,255}$" },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/@-", "^[A-Za-z0-9_.:/@-]{1,255}$" },
	};

	for (size_t p = 0; p < ARRAY_SIZE(patterns); p++) {
		bool fits = true;

		for (unsigned i = 0; i < w->n_values; i++)
			fits &= w->values[i][0] != '\0' && w->values[i][strspn(w->values[i], patterns[p][0])] == '\0';
		if (fits)
			return patterns[p][1];
	}
	return "^[^\\\\x00-\\\\x1f]{0,4096}$";
}

static bool all_flags(const struct wish *w)
{
	for (unsigned i = 0; i < w->n_values; i++)
		if (strcmp(w->values[i], "0") != 0 && strcmp(w->values[i], "1") != 0 && strcmp(w->values[i], "true") != 0 &&
			strcmp(w->values[i], "false") != 0)
			return false;
	return w->n_values > 0 && !w->more_values;
}

static int put_values(struct buf *b, const struct wish *w)
{
	if (w->kind == WISH_QUERY && all_flags(w))
		return buf_puts(b, "{ \"type\": \"boolean\" }");
	if (w->more_values)
		return buf_putf(b, "{ \"type\": \"string\", \"pattern\": \"%s\" }", pattern_for(w));
	if (buf_puts(b, "{ \"type\": \"string\", \"enum\": [") < 0)
		return -1;
	for (unsigned i = 0; i < w->n_values; i++)
		if (buf_puts(b, i == 0 ? "" : ", ") < 0 || json_put_string(b, slice_str(w->values[i])) < 0)
			return -1;
	return buf_puts(b, "] }");
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
			if (r->wishes[i].kind == kind && slice_is(m->key, r->wishes[i].name))
				wish = &r->wishes[i];
		if (put_separator(b, &first) < 0 || buf_puts(b, "\t\t\t\t") < 0 || json_put_string(b, m->key) < 0 ||
			buf_puts(b, ": ") < 0 || (wish != NULL && buf_puts(b, "{ \"anyOf\": [") < 0) || json_put(b, m) < 0)
			return -1;
		if (wish != NULL && (buf_puts(b, ", ") < 0 || put_values(b, wish) < 0 || buf_puts(b, "] }") < 0))
			return -1;
	}
	for (unsigned i = 0; i < r->n_wishes; i++) {
		const struct wish *w = &r->wishes[i];

		if (w->kind != kind || json_get(have, w->name) != NULL)
			continue;
		if (put_separator(b, &first) < 0 || buf_putf(b, "\t\t\t\t// %lu requests\n\t\t\t\t", w->count) < 0 ||
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

static int put_new_row(struct buf *b, const struct row *r, unsigned number)
{
	if (buf_putf(b, "\"id\": \"learned.%u\",\n\t\t\t\"method\": \"%s\",\n\t\t\t\"path\": ", number, r->method) < 0 ||
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

static int put_row_comment(struct buf *b, const struct row *r)
{
	if (buf_putf(b, "\t\t// %lu allowed, %lu would have been denied", r->allowed, r->denied) < 0)
		return -1;
	if (r->denied > 0 && buf_putf(b, "; the first: %s", r->request) < 0)
		return -1;
	for (unsigned i = 0; i < r->n_wishes; i++)
		if (r->wishes[i].kind == WISH_FIELD &&
			buf_putf(b, "\n\t\t// NOT opened: body %s was refused %lu times (%s)",
				r->wishes[i].name[0] == '\0' ? "as a whole" : r->wishes[i].name, r->wishes[i].count,
				r->wishes[i].reason) < 0)
			return -1;
	return buf_puts(b, "\n\t\t{ ");
}

/* Names that rows with an owner were wished for must be names of containers that may be owned. */
static int put_container_name(struct buf *b, const struct learn *l)
{
	const struct json_node *have = json_get(l->base->root, "containerName");

	if (have == NULL)
		return 0;
	if (buf_puts(b, "\t\"containerName\": { \"anyOf\": [") < 0 || json_put(b, have) < 0)
		return -1;
	for (unsigned i = 0; i < l->n_rows; i++)
		for (unsigned j = 0; j < l->rows[i].n_wishes; j++) {
			const struct row *r = &l->rows[i];

			if (r->base == NULL || r->base->info.owner != OWNER_CONTAINER || r->wishes[j].kind != WISH_PATH)
				continue;
			if (buf_puts(b, ", ") < 0 || put_values(b, &r->wishes[j]) < 0)
				return -1;
		}
	return buf_puts(b, "] },\n");
}

static int put_policy(const struct learn *l, struct buf *b)
{
	const struct json_node *root = l->base->root;
	const struct json_node *defs = json_get(root, "$defs");
	bool first = true;

	if (buf_putf(b,
			"// Proposed by dockerproxy learn from %lu lines of audit log, of which %lu taught nothing.\n"
			"// Read every row that says what would have been denied before you use this: it opens what was asked for,\n"
			"// by whomever.\n{\n\t\"apiVersions\": ",
			l->lines, l->skipped) < 0 ||
		json_put(b, json_get(root, "apiVersions")) < 0 || buf_puts(b, ",\n") < 0 || put_container_name(b, l) < 0)
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
			(r->base != NULL ? put_base_row(b, l, r) : put_new_row(b, r, i)) < 0 || buf_puts(b, " }") < 0)
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
