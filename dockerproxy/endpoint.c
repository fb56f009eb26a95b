/* Endpoint rows: loading one, and finding the row of a request. */
#include "dockerproxy/endpoint.h"

#include <string.h>

#include "dockerproxy/policy_impl.h"

#define DEFAULT_MAX_BODY (32 * 1024)
#define LIMIT_MAX_BODY (16 * 1024 * 1024)

/* --- matching ------------------------------------------------------------------------------------------------- */

/* Segments that the row's `{name...}` takes: all that the others leave. */
static bool match_segments(const struct endpoint *e, const struct slice *segments, unsigned n, struct slice *values)
{
	unsigned at = 0;

	if (e->rest ? n < e->n_segments : n != e->n_segments)
		return false;
	for (unsigned i = 0; i < e->n_segments; i++) {
		const struct endpoint_segment *s = &e->segments[i];
		unsigned take = s->type == SEGMENT_PARAM_REST ? n - e->n_segments + 1 : 1;
		const struct slice *last = &segments[at + take - 1];

		if (s->type == SEGMENT_LITERAL && !slice_eq(s->text, segments[at]))
			return false;
		values[i] = slice_make(segments[at].p, (size_t)(last->p + last->len - segments[at].p));
		at += take;
	}
	return true;
}

bool endpoint_match(const struct endpoint *rows, unsigned n_rows, enum http_method method, const struct slice *segments,
	unsigned n_segments, struct endpoint_match *m)
{
	struct slice values[ENDPOINT_MAX_SEGMENTS];

	m->endpoint = NULL;
	m->path_known = false;
	for (unsigned i = 0; i < n_rows; i++) {
		const struct endpoint *e = &rows[i];

		if (m->endpoint != NULL && e->n_literals <= m->endpoint->n_literals)
			continue;
		if (!match_segments(e, segments, n_segments, values))
			continue;
		m->path_known = true;
		if (e->info.method != method)
			continue;
		m->endpoint = e;
		memcpy(m->values, values, sizeof(values));
	}
	return m->endpoint != NULL;
}

/* --- loading -------------------------------------------------------------------------------------------------- */

static char *copy(struct loader *l, struct slice s)
{
	char *p = loader_alloc(l, s.len + 1);

	if (p != NULL && s.len > 0)
		memcpy(p, s.p, s.len);
	return p;
}

static bool is_word(struct slice s, const char *extra)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && strchr(extra, c) == NULL)
			return false;
	}
	return s.len > 0;
}

static int key_id(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	struct slice id;

	if (loader_string(l, n, &id) < 0)
		return -1;
	if (!is_word(id, ".-_") || id.len > 64)
		return loader_fail(l, n->offset, "an id is 1 to 64 letters, digits, '.', '-' and '_'");
	e->info.id = copy(l, id);
	return e->info.id == NULL ? -1 : 0;
}

static int key_method(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	static const enum http_method methods[] = { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_DELETE };
	struct slice word;

	if (loader_string(l, n, &word) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (slice_is(word, http_method_name(methods[i]))) {
			e->info.method = methods[i];
			return 0;
		}
	return loader_fail(l, n->offset, "method must be GET, HEAD, POST, PUT or DELETE");
}

static int add_segment(struct loader *l, struct endpoint *e, const struct json_node *n, struct slice s)
{
	struct endpoint_segment *seg = &e->segments[e->n_segments];

	if (e->n_segments == ENDPOINT_MAX_SEGMENTS)
		return loader_fail(l, n->offset, "a path has at most %d segments", ENDPOINT_MAX_SEGMENTS);
	e->n_segments++;
	if (s.len < 3 || s.p[0] != '{' || s.p[s.len - 1] != '}') {
		if (!is_word(s, "_.-") || s.p[0] == '.')
			return loader_fail(l, n->offset, "a segment of the path is neither a word nor {name} or {name...}");
		seg->type = SEGMENT_LITERAL;
		seg->text = s;
		e->n_literals++;
		return 0;
	}
	s = slice_make(s.p + 1, s.len - 2);
	seg->type = SEGMENT_PARAM;
	if (s.len > 3 && memcmp(s.p + s.len - 3, "...", 3) == 0) {
		if (e->rest)
			return loader_fail(l, n->offset, "only one {name...} may stand in a path");
		s.len -= 3;
		seg->type = SEGMENT_PARAM_REST;
		e->rest = true;
	}
	if (!is_word(s, "_"))
		return loader_fail(l, n->offset, "the name of a path parameter is letters, digits and '_'");
	for (unsigned i = 0; i + 1 < e->n_segments; i++)
		if (e->segments[i].type != SEGMENT_LITERAL && slice_eq(e->segments[i].text, s))
			return loader_fail(l, n->offset, "a path parameter is named twice");
	seg->text = s;
	return 0;
}

static int key_path(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	struct slice path;

	if (loader_string(l, n, &path) < 0)
		return -1;
	if (path.len < 2 || path.p[0] != '/')
		return loader_fail(l, n->offset, "path must begin with '/'");
	for (size_t start = 1; start <= path.len;) {
		const char *slash = memchr(path.p + start, '/', path.len - start);
		size_t stop = slash == NULL ? path.len : (size_t)(slash - path.p);

		if (add_segment(l, e, n, slice_make(path.p + start, stop - start)) < 0)
			return -1;
		start = stop + 1;
	}
	return 0;
}

static int key_query(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	e->query = schema_load(l, n);
	if (e->query == NULL)
		return -1;
	if (!(schema_types(e->query) & SCHEMA_OBJECT))
		return loader_fail(l, n->offset, "query must be a schema of type object");
	return 0;
}

static int key_body(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	if (n->type == JSON_NULL)
		return 0;
	e->info.has_body = true;
	e->body = schema_load(l, n);
	return e->body == NULL ? -1 : 0;
}

static int key_max_body(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	return loader_uint(l, n, 1, LIMIT_MAX_BODY, &e->info.max_body);
}

static int load_word(struct loader *l, const struct json_node *n, const char *const *words, int *out)
{
	struct slice word;

	if (loader_string(l, n, &word) < 0)
		return -1;
	for (int i = 0; words[i] != NULL; i++)
		if (slice_is(word, words[i])) {
			*out = i;
			return 0;
		}
	return loader_fail(l, n->offset, "unknown word; the first that may stand here is \"%s\"", words[0]);
}

static int key_owner(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	static const char *const words[] = { "container", "exec", "network", NULL };
	static const enum owner_rule rules[] = { OWNER_CONTAINER, OWNER_EXEC, OWNER_NETWORK };
	int i;

	if (load_word(l, n, words, &i) < 0)
		return -1;
	e->info.owner = rules[i];
	return 0;
}

static int key_response(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	static const char *const words[] = { "plain", "stream", "hijack", NULL };
	static const enum response_rule rules[] = { RESPONSE_PLAIN, RESPONSE_STREAM, RESPONSE_HIJACK };
	int i;

	if (load_word(l, n, words, &i) < 0)
		return -1;
	e->info.response = rules[i];
	return 0;
}

static int key_answer_label(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	struct slice label;

	if (loader_string(l, n, &label) < 0)
		return -1;
	if (label.len == 0 || memchr(label.p, '=', label.len) == NULL)
		return loader_fail(l, n->offset, "answerLabel must be \"key=value\"");
	e->info.answer_label = copy(l, label);
	return e->info.answer_label == NULL ? -1 : 0;
}

static int key_unversioned(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	return loader_bool(l, n, &e->keep_unversioned);
}

static int key_object(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	static const struct {
		const char *prefix;
		enum endpoint_object object;
	} places[] = {
		{ "path.", OBJECT_PATH },
		{ "query.", OBJECT_QUERY },
		{ "body.", OBJECT_BODY },
	};
	struct slice where;

	if (loader_string(l, n, &where) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (slice_starts(where, places[i].prefix)) {
			e->object = places[i].object;
			e->object_name = slice_skip(where, strlen(places[i].prefix));
			return 0;
		}
	return loader_fail(l, n->offset, "object must be \"path.NAME\", \"query.NAME\" or \"body.NAME\"");
}

static int key_ignored(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	return 0; /* params: after the path is known; description: for readers */
}

static const struct endpoint_key {
	const char *name;
	bool required;
	int (*load)(struct loader *l, struct endpoint *e, const struct json_node *n);
} keys[] = {
	{ "id", true, key_id },
	{ "method", true, key_method },
	{ "path", true, key_path },
	{ "params", false, key_ignored },
	{ "query", false, key_query },
	{ "body", false, key_body },
	{ "maxBody", false, key_max_body },
	{ "owner", false, key_owner },
	{ "response", false, key_response },
	{ "answerLabel", false, key_answer_label },
	{ "keepUnversioned", false, key_unversioned },
	{ "object", false, key_object },
	{ "description", false, key_ignored },
};

static int load_param(struct loader *l, struct endpoint *e, const struct json_node *n)
{
	for (unsigned i = 0; i < e->n_segments; i++) {
		struct endpoint_segment *s = &e->segments[i];

		if (s->type == SEGMENT_LITERAL || !slice_eq(s->text, n->key))
			continue;
		s->schema = schema_load(l, n);
		return s->schema == NULL ? -1 : 0;
	}
	return loader_fail(l, n->key_offset, "the path has no such parameter");
}

/* Every parameter of the path must be described, and nothing else. */
static int load_params(struct loader *l, struct endpoint *e, const struct json_node *row)
{
	const struct json_node *params = json_get(row, "params");
	size_t mark = loader_enter(l, SLICE_LIT("params"));

	if (params != NULL && loader_object(l, params) < 0)
		return -1;
	for (const struct json_node *p = params == NULL ? NULL : params->child; p != NULL; p = p->next) {
		size_t inner = loader_enter(l, p->key);

		if (load_param(l, e, p) < 0)
			return -1;
		loader_leave(l, inner);
	}
	loader_leave(l, mark);
	for (unsigned i = 0; i < e->n_segments; i++)
		if (e->segments[i].type != SEGMENT_LITERAL && e->segments[i].schema == NULL)
			return loader_fail(l, row->offset, "path parameter \"%.*s\" has no schema in params",
				SLICE_ARG(e->segments[i].text));
	return 0;
}

/* Without `object` it is the first parameter of the path. */
static int check_object(struct loader *l, struct endpoint *e, const struct json_node *row)
{
	if (e->object == OBJECT_NONE || e->object == OBJECT_PATH) {
		for (unsigned i = 0; i < e->n_segments; i++)
			if (e->segments[i].type != SEGMENT_LITERAL &&
				(e->object == OBJECT_NONE || slice_eq(e->segments[i].text, e->object_name))) {
				e->object = OBJECT_PATH;
				e->object_name = e->segments[i].text;
				return 0;
			}
		if (e->object == OBJECT_PATH)
			return loader_fail(l, row->offset, "object names a parameter that the path does not have");
	}
	if (e->object == OBJECT_QUERY && schema_property(e->query, e->object_name) == NULL)
		return loader_fail(l, row->offset, "object names a parameter that the query does not have");
	if (e->object == OBJECT_BODY && schema_property(e->body, e->object_name) == NULL)
		return loader_fail(l, row->offset, "object names a member that the body does not have");
	return 0;
}

/* Is the object a member that no accepted body leaves out? */
static bool requires_object(const struct endpoint *e)
{
	const struct schema_property *p;

	if (e->object != OBJECT_BODY)
		return false;
	p = schema_property(e->body, e->object_name);
	return p != NULL && p->required >= 0;
}

static int check_row(struct loader *l, struct endpoint *e, const struct json_node *row)
{
	if (e->info.owner != OWNER_NONE && e->object != OBJECT_PATH && !requires_object(e))
		return loader_fail(l, row->offset, "owner needs a parameter in the path or a required member of the body");
	if (e->info.has_body && e->info.method != HTTP_POST && e->info.method != HTTP_PUT)
		return loader_fail(l, row->offset, "only POST and PUT rows can take a body");
	if (e->info.response == RESPONSE_HIJACK && e->info.method != HTTP_POST)
		return loader_fail(l, row->offset, "only POST rows can be hijacked");
	return 0;
}

int endpoint_load(struct loader *l, const struct json_node *row, struct endpoint *e)
{
	if (loader_object(l, row) < 0)
		return -1;
	for (const struct json_node *m = row->child; m != NULL; m = m->next) {
		size_t mark = loader_enter(l, m->key);
		size_t i = 0;

		while (i < ARRAY_SIZE(keys) && !slice_is(m->key, keys[i].name))
			i++;
		if (i == ARRAY_SIZE(keys))
			return loader_fail(l, m->key_offset, "unknown key");
		if (keys[i].load(l, e, m) < 0)
			return -1;
		loader_leave(l, mark);
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].required && json_get(row, keys[i].name) == NULL)
			return loader_fail(l, row->offset, "\"%s\" is missing", keys[i].name);
	if (e->info.max_body == 0)
		e->info.max_body = e->info.has_body ? DEFAULT_MAX_BODY : 0;
	if (load_params(l, e, row) < 0 || check_object(l, e, row) < 0)
		return -1;
	return check_row(l, e, row);
}
