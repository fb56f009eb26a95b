/* From an audit log to a proposed policy, first half: collecting what was asked for. */
#include "dockerproxy/learn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/learn_impl.h"
#include "dockerproxy/verdict_text.h"

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

/* Nothing but what a parameter's name or a literal path can hold: else a cut or changed text would open something else. */
static bool is_plain(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] < 0x20 || s.p[i] >= 0x7f)
			return false;
	return s.len < LEARN_MAX_TEXT;
}

static enum wish_width width_of(struct slice value)
{
	enum wish_width width = value.len == 0 || value.len > 255 ? WIDTH_ANY : WIDTH_DIGITS;

	for (size_t i = 0; i < value.len; i++) {
		char c = value.p[i], lower = slice_lower(c);
		enum wish_width one = c >= '0' && c <= '9'                               ? WIDTH_DIGITS
			: (lower >= 'a' && lower <= 'z') || c == '_' || c == '.' || c == '-' ? WIDTH_NAME
			: c == ':' || c == '/' || c == '@'                                   ? WIDTH_REFERENCE
																				 : WIDTH_ANY;

		if (one > width)
			width = one;
	}
	return width == WIDTH_DIGITS && value.len > 18 ? WIDTH_NAME : width;
}

static int add_value(struct wish *w, struct slice value, struct err *err)
{
	enum wish_width width = width_of(value);

	for (unsigned i = 0; i < w->n_values; i++)
		if (slice_is(value, w->values[i]))
			return 0;
	if (width > w->width)
		w->width = width;
	if (w->n_values == LEARN_MAX_VALUES) {
		w->more_values = true;
		return 0;
	}
	w->values[w->n_values] = strndup(value.p, value.len);
	if (w->values[w->n_values] == NULL)
		return err_errno(err, "learn");
	w->n_values++;
	return 0;
}

/* *out: the wish, or NULL when it is counted only. */
static int find_wish(struct row *r, enum wish_kind kind, struct slice name, struct wish **out, struct err *err)
{
	char plain[LEARN_MAX_TEXT];
	struct wish *list;

	*out = NULL;
	put_plain(plain, sizeof(plain), name);
	for (unsigned i = 0; i < r->n_wishes; i++)
		if (r->wishes[i].kind == kind && strcmp(r->wishes[i].name, plain) == 0) {
			*out = &r->wishes[i];
			return 0;
		}
	if (r->n_wishes == LEARN_MAX_WISHES) {
		r->left_out++;
		return 0;
	}
	list = realloc(r->wishes, (r->n_wishes + 1) * sizeof(*list));
	if (list == NULL)
		return err_errno(err, "learn");
	r->wishes = list;
	memset(&list[r->n_wishes], 0, sizeof(*list));
	list[r->n_wishes].kind = kind;
	memcpy(list[r->n_wishes].name, plain, sizeof(plain));
	*out = &list[r->n_wishes++];
	return 0;
}

/* A parameter, and the value that it had. */
static int wish_for(struct row *r, enum wish_kind kind, struct slice name, struct slice value, struct err *err)
{
	struct wish *w;

	if (!is_plain(name)) {
		r->left_out++;
		return 0;
	}
	if (find_wish(r, kind, name, &w, err) < 0)
		return -1;
	if (w == NULL)
		return 0;
	w->count++;
	return add_value(w, value, err);
}

static int wish_for_field(struct row *r, struct slice at, struct slice reason, struct err *err)
{
	struct wish *w;

	if (find_wish(r, WISH_FIELD, at, &w, err) < 0)
		return -1;
	if (w == NULL)
		return 0;
	w->count++;
	put_plain(w->reason, sizeof(w->reason), reason);
	return 0;
}

/* *out: the row, or NULL when it is counted only. */
static int find_row(struct learn *l, const struct endpoint *base, const char *method, const char *path,
	struct row **out, struct err *err)
{
	struct row *list;

	for (unsigned i = 0; i < l->n_rows; i++) {
		struct row *r = &l->rows[i];

		*out = r;
		if (base != NULL ? r->base == base
						 : r->base == NULL && strcmp(r->method, method) == 0 && strcmp(r->path, path) == 0)
			return 0;
	}
	*out = NULL;
	if (base == NULL && l->n_new == LEARN_MAX_NEW) {
		l->left_out++;
		return 0;
	}
	list = realloc(l->rows, (l->n_rows + 1) * sizeof(*list));
	if (list == NULL)
		return err_errno(err, "learn");
	l->rows = list;
	memset(&list[l->n_rows], 0, sizeof(*list));
	list[l->n_rows].base = base;
	l->n_new += base == NULL;
	put_plain(list[l->n_rows].method, sizeof(list[0].method), slice_str(method));
	put_plain(list[l->n_rows].path, sizeof(list[0].path), slice_str(path));
	list[l->n_rows].response = "plain";
	*out = &list[l->n_rows++];
	return 0;
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

/* What stands for a path parameter, as the policy would be asked for it; false when no policy is. */
static bool decode_param(struct learn *l, bool rest, struct slice *value)
{
	return rest ? target_decode(&l->target, *value, "/:@", value) : memchr(value->p, '%', value->len) == NULL;
}

static int learn_known(struct learn *l, struct row *r, const struct endpoint_match *m, struct slice at,
	struct slice reason, struct err *err)
{
	for (unsigned i = 0; i < m->endpoint->n_segments; i++) {
		const struct endpoint_segment *s = &m->endpoint->segments[i];
		struct slice value = m->values[i];

		if (s->type == SEGMENT_LITERAL)
			continue;
		if (!decode_param(l, s->type == SEGMENT_PARAM_REST, &value))
			r->left_out++;
		else if (!holds(l, s->schema, value) && wish_for(r, WISH_PATH, s->text, value, err) < 0)
			return -1;
	}
	for (unsigned i = 0; i < l->target.nparams; i++) {
		const struct target_param *q = &l->target.params[i];
		const struct schema_property *known =
			m->endpoint->query == NULL ? NULL : schema_property(m->endpoint->query, q->name);

		if (!query_holds(l, known, q->value) && wish_for(r, WISH_QUERY, q->name, q->value, err) < 0)
			return -1;
	}
	return at.len == 0 || at.p[0] == '/' ? wish_for_field(r, at, reason, err) : 0;
}

/* Can the path stand in a policy as it is? A version alone is no path, and the engine has nothing at "/". */
static bool is_plain_path(const struct slice *segments, unsigned n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		for (size_t j = 0; j < segments[i].len; j++) {
			char c = slice_lower(segments[i].p[j]);

			if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-' && (c != '.' || j == 0))
				return false;
		}
	for (unsigned i = 0; i < n; i++)
		len += 1 + segments[i].len;
	return n > 0 && n <= ENDPOINT_MAX_SEGMENTS && len < LEARN_MAX_TEXT && !is_version(segments[0]);
}

static int learn_new_row(struct learn *l, const char *method, const struct slice *segments, unsigned n,
	struct row **out, struct err *err)
{
	const struct known_row *k = NULL;
	struct slice value = slice_make("", 0);
	char path[LEARN_MAX_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(known_rows) && k == NULL; i++)
		if (strcmp(known_rows[i].method, method) == 0 && match_template(known_rows[i].path, segments, n, &value))
			k = &known_rows[i];
	if (k == NULL ? !is_plain_path(segments, n) : !decode_param(l, strstr(k->path, "...}") != NULL, &value))
		return 0;
	put_plain(path, sizeof(path),
		k != NULL
			? slice_str(k->path)
			: slice_make(segments[0].p - 1, (size_t)(segments[n - 1].p + segments[n - 1].len - segments[0].p) + 1));
	if (find_row(l, NULL, method, path, out, err) < 0)
		return -1;
	if (*out == NULL)
		return 0;
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
		if (find_row(l, m.endpoint, "", "", &r, err) < 0 || (denied && learn_known(l, r, &m, at, reason, err) < 0))
			return -1;
	} else if (denied && learn_new_row(l, http_method_name(method_of(method)), segments, n, &r, err) < 0) {
		return -1;
	}
	if (r == NULL) {
		l->skipped++; /* allowed by a policy that is not the base, or not to be written as a row */
		return 0;
	}
	if (denied && r->denied++ == 0) {
		char text[3 * LEARN_MAX_TEXT];
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
	/* What was cut to fit into the log may be another request. */
	if (root == NULL || json_get(root, "cut") != NULL || !json_get_string(root, "decision", &decision) ||
		!(slice_is(decision, "allow") || slice_is(decision, "would_deny"))) {
		l->skipped++;
		return 0;
	}
	return learn_request(l, root, slice_is(decision, "would_deny"), err);
}
