/*
 * The sandbox policy, field by field and path by path: tests/cases/policy-fields.json has a row for each field of each body. A field takes the
 * values that its row allows; every other value of the common pool, and those that the row denies, must be refused with the
 * field named. Nobody else's spelling of the field may pass, and a required one must not be left out.
 * A path is served by its methods, under its versions, and in no other way.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "dockerproxy/explain.h"

struct table {
	char *text;
	struct json_doc *doc;
	const struct json_node *root;
	struct policy *policy;
};

/* One body with one field changed. */
struct change {
	const struct json_node *group; /* method is POST; target, body */
	struct slice at;
	struct slice key; /* the last step as it is spelled here */
	const struct json_node *value; /* NULL: the field is left out */
};

struct outcome {
	int rc;
	struct json_doc *doc;
	const struct json_node *answer;
	struct buf text;
};

static void open_table(struct table *t)
{
	const char *srcdir = getenv("srcdir");
	struct err err = ERR_INIT;
	enum json_fault fault;
	char path[512];
	size_t offset, n;
	FILE *in;

	snprintf(path, sizeof(path), "%s/tests/cases/policy-fields.json", srcdir == NULL ? "." : srcdir);
	in = fopen(path, "rb");
	CU_ASSERT_FATAL(in != NULL);
	t->text = malloc(1 << 20);
	CU_ASSERT_FATAL(t->text != NULL);
	n = fread(t->text, 1, 1 << 20, in);
	fclose(in);
	t->doc = json_doc_new();
	t->policy = policy_builtin(&err);
	t->root = json_parse(t->doc, slice_make(t->text, n), JSON_COMMENTS, &fault, &offset);
	if (t->root == NULL)
		printf("  %s: %s at byte %zu\n", path, json_fault_text(fault), offset);
	CU_ASSERT_FATAL(t->root != NULL && t->policy != NULL);
}

static void close_table(struct table *t)
{
	policy_free(t->policy);
	json_doc_free(t->doc);
	free(t->text);
}

/* The first step of a pointer, and what follows it. No name in the table needs ~ escapes. */
static struct slice step_of(struct slice at, struct slice *rest)
{
	const char *slash = at.len > 1 ? memchr(at.p + 1, '/', at.len - 1) : NULL;
	size_t n = slash != NULL ? (size_t)(slash - at.p) : at.len;

	*rest = slice_skip(at, n);
	return slice_make(at.p + 1, n - 1);
}

/* Writes node with the change made where at leads; a member that is not there is added. */
static int put_changed(struct buf *b, const struct json_node *node, struct slice at, const struct change *c)
{
	bool object = node->type == JSON_OBJECT, met = false, comma = false;
	struct slice rest, step = step_of(at, &rest);
	char index[12];
	unsigned i = 0;

	CU_ASSERT_FATAL(object || node->type == JSON_ARRAY);
	if (buf_putc(b, object ? '{' : '[') < 0)
		return -1;
	for (const struct json_node *m = node->child; m != NULL; m = m->next, i++) {
		snprintf(index, sizeof(index), "%u", i);
		bool here = object ? slice_eq(m->key, step) : slice_is(step, index);
		bool last = here && rest.len == 0;
		met = met || here;
		if (last && c->value == NULL)
			continue;
		if (comma && buf_putc(b, ',') < 0)
			return -1;
		comma = true;
		if (object && (json_put_string(b, last ? c->key : m->key) < 0 || buf_putc(b, ':') < 0))
			return -1;
		if (here && !last ? put_changed(b, m, rest, c) < 0 : json_put(b, here ? c->value : m) < 0)
			return -1;
	}
	CU_ASSERT_FATAL(met || (object && rest.len == 0));
	if (!met && c->value != NULL &&
		((comma && buf_putc(b, ',') < 0) || json_put_string(b, c->key) < 0 || buf_putc(b, ':') < 0 ||
			json_put(b, c->value) < 0))
		return -1;
	return buf_putc(b, object ? '}' : ']');
}

/* body.p NULL: without one. */
static void judge(const struct table *t, struct slice method, struct slice target, struct slice body, struct outcome *o)
{
	static const char *const json[] = { "Content-Type: application/json" };
	struct explain_request req = { .method = method,
		.target = target,
		.headers = json,
		.n_headers = body.p != NULL,
		.has_body = body.p != NULL,
		.body = body };
	struct err err = ERR_INIT;
	enum json_fault fault;
	size_t offset;

	buf_init(&o->text, 1 << 20);
	o->doc = json_doc_new();
	o->rc = explain(t->policy, &req, &o->text, &err);
	o->answer = json_parse(o->doc, buf_slice(&o->text), JSON_STRICT, &fault, &offset);
	CU_ASSERT_FATAL(o->answer != NULL);
}

static void outcome_free(struct outcome *o)
{
	json_doc_free(o->doc);
	buf_release(&o->text);
}

static void judge_change(const struct table *t, const struct change *c, struct buf *body, struct outcome *o)
{
	struct slice target;

	buf_init(body, 1 << 16);
	CU_ASSERT_FATAL(json_get_string(c->group, "target", &target));
	CU_ASSERT_FATAL(put_changed(body, json_get(c->group, "body"), c->at, c) == 0);
	judge(t, SLICE_LIT("POST"), target, buf_slice(body), o);
}

static void must_allow(const struct table *t, const struct change *c)
{
	struct slice target, canonical = slice_make("", 0), again = slice_make("", 0);
	struct outcome first, second;
	struct buf body;

	judge_change(t, c, &body, &first);
	UNIT_CHECK(first.rc == 0, "%.*s: refused: %.*s", SLICE_ARG(c->at), SLICE_ARG(buf_slice(&body)));
	if (first.rc == 0) {
		/* Judged once more, what is sent on is the same. */
		json_get_string(json_get(first.answer, "canonical"), "body", &canonical);
		CU_ASSERT_FATAL(json_get_string(c->group, "target", &target));
		judge(t, SLICE_LIT("POST"), target, canonical, &second);
		json_get_string(json_get(second.answer, "canonical"), "body", &again);
		UNIT_CHECK(second.rc == 0 && slice_eq(canonical, again), "%.*s: %.*s becomes %.*s", SLICE_ARG(c->at),
			SLICE_ARG(canonical), SLICE_ARG(again));
		outcome_free(&second);
	}
	outcome_free(&first);
	buf_release(&body);
}

static void must_deny(const struct table *t, const struct change *c, const char *reason)
{
	struct slice have = slice_make("", 0), at = slice_make("", 0);
	struct outcome o;
	struct buf body;

	judge_change(t, c, &body, &o);
	json_get_string(o.answer, "at", &at);
	json_get_string(o.answer, "reason", &have);
	UNIT_CHECK(o.rc == 1, "%.*s: allowed: %.*s", SLICE_ARG(c->at), SLICE_ARG(buf_slice(&body)));
	UNIT_CHECK(reason == NULL || slice_is(have, reason), "%.*s: %.*s, not %s", SLICE_ARG(c->at), SLICE_ARG(have),
		reason != NULL ? reason : "any");
	/* The field's own place, or one inside; a folded name's is as it was spelled. */
	UNIT_CHECK(reason != NULL || (at.len >= c->at.len && slice_eq(slice_make(at.p, c->at.len), c->at)),
		"%.*s: at %.*s: %.*s", SLICE_ARG(c->at), SLICE_ARG(at), SLICE_ARG(buf_slice(&body)));
	outcome_free(&o);
	buf_release(&body);
}

/* The same number is another value when it is written otherwise: 1 and 1.0. */
static bool lists(const struct json_node *list, const struct json_node *value)
{
	struct buf a, b;
	bool found = false;

	buf_init(&a, 1 << 16);
	buf_init(&b, 1 << 16);
	CU_ASSERT_FATAL(json_put(&a, value) == 0);
	for (const struct json_node *v = list == NULL ? NULL : list->child; v != NULL && !found; v = v->next) {
		buf_clear(&b);
		CU_ASSERT_FATAL(json_put(&b, v) == 0);
		found = slice_eq(buf_slice(&a), buf_slice(&b));
	}
	buf_release(&a);
	buf_release(&b);
	return found;
}

static struct slice last_step(struct slice at)
{
	struct slice rest = at, step = at;

	while (rest.len > 0)
		step = step_of(rest, &rest);
	return step;
}

static void misspell(const struct table *t, struct change *c, const struct json_node *value)
{
	char other[64];
	size_t n = c->key.len;

	CU_ASSERT_FATAL(n > 0 && n < sizeof(other));
	memcpy(other, c->key.p, n);
	other[0] ^= 0x20;
	c->value = value;
	c->key = slice_make(other, n);
	must_deny(t, c, "field-folded");
	c->key = last_step(c->at);
}

static unsigned run_row(const struct table *t, const struct json_node *group, const struct json_node *row)
{
	const struct json_node *allow = json_get(row, "allow"), *deny = json_get(row, "deny"),
						   *pool = json_get(t->root, "pool");
	struct change c = { .group = group };
	bool flag = false;
	unsigned n = 0;

	CU_ASSERT_FATAL(json_get_string(row, "at", &c.at) && allow != NULL && pool != NULL);
	c.key = last_step(c.at);
	for (c.value = allow->child; c.value != NULL; c.value = c.value->next, n++)
		must_allow(t, &c);
	for (c.value = pool->child; c.value != NULL; c.value = c.value->next, n++)
		if (!lists(allow, c.value))
			must_deny(t, &c, NULL);
	for (c.value = deny == NULL ? NULL : deny->child; c.value != NULL; c.value = c.value->next, n++)
		must_deny(t, &c, NULL);
	/* A row that allows nothing is a field that the policy does not know. */
	if (allow->child != NULL && !(json_get_bool(row, "data", &flag) && flag))
		misspell(t, &c, allow->child);
	c.value = NULL;
	if (json_get_bool(row, "required", &flag) && flag)
		must_deny(t, &c, NULL);
	else if (allow->child != NULL)
		must_allow(t, &c);
	return n;
}

static void fields(void)
{
	const struct json_node *groups;
	unsigned rows = 0, values = 0;
	struct table t;

	open_table(&t);
	groups = json_get(t.root, "groups");
	CU_ASSERT_FATAL(groups != NULL);
	for (const struct json_node *g = groups->child; g != NULL; g = g->next)
		for (const struct json_node *r = json_get(g, "fields")->child; r != NULL; r = r->next, rows++)
			values += run_row(&t, g, r);
	printf("  %u fields, %u values ", rows, values);
	CU_ASSERT(rows > 150);
	close_table(&t);
}

/* --- paths -------------------------------------------------------------------------------------------------------- */

/* A path as it is asked for; the parts are put together as they are. */
struct ask {
	struct slice method, prefix, path, ending, query, parameter, body;
};

static struct slice text_of(const struct json_node *n, const char *key)
{
	struct slice s = slice_make("", 0);

	json_get_string(n, key, &s);
	return s;
}

static void must_be(const struct table *t, const struct ask *a, bool allow)
{
	bool extra = a->parameter.p != NULL;
	struct outcome o;
	struct buf b;

	buf_init(&b, 1 << 16);
	CU_ASSERT_FATAL(buf_put_slice(&b, a->prefix) == 0 && buf_put_slice(&b, a->path) == 0 &&
		buf_put_slice(&b, a->ending) == 0 && (a->query.len == 0 && !extra ? 0 : buf_putc(&b, '?')) == 0 &&
		buf_put_slice(&b, a->query) == 0 && (a->query.len == 0 || !extra ? 0 : buf_putc(&b, '&')) == 0 &&
		buf_put_slice(&b, a->parameter) == 0);
	judge(t, a->method, buf_slice(&b), a->body, &o);
	UNIT_CHECK((o.rc == 0) == allow, "%.*s %.*s: %.*s", SLICE_ARG(a->method), SLICE_ARG(buf_slice(&b)),
		SLICE_ARG(text_of(o.answer, "decision")));
	outcome_free(&o);
	buf_release(&b);
}

/* The part of the request takes each of a list's texts. */
static unsigned each(const struct table *t, struct ask *a, struct slice *part, const struct json_node *list, bool allow)
{
	struct slice was = *part;
	unsigned n = 0;

	CU_ASSERT_FATAL(list != NULL && list->count > 0);
	for (const struct json_node *v = list->child; v != NULL; v = v->next, n++) {
		*part = v->text;
		must_be(t, a, allow);
	}
	*part = was;
	return n;
}

static unsigned run_target(const struct table *t, const struct json_node *row)
{
	const struct json_node *own = json_get(row, "methods"), *prefixes = json_get(t->root, "prefixes");
	struct ask a = { .prefix = SLICE_LIT("/v1.41"), .path = text_of(row, "path"), .query = text_of(row, "query") };
	unsigned n = 0;

	json_get_string(row, "body", &a.body);
	CU_ASSERT_FATAL(own != NULL && own->count > 0 && a.path.len > 0);
	for (const struct json_node *m = own->child; m != NULL; m = m->next) {
		a.method = m->text;
		n += each(t, &a, &a.prefix, json_get(prefixes, "allow"), true);
		n += each(t, &a, &a.prefix, json_get(prefixes, "deny"), false);
		n += each(t, &a, &a.ending, json_get(t->root, "endings"), false);
		n += each(t, &a, &a.parameter, json_get(t->root, "parameters"), false);
	}
	for (const struct json_node *m = json_get(t->root, "methods")->child; m != NULL; m = m->next, n++) {
		a.method = m->text;
		if (!lists(own, m))
			must_be(t, &a, false);
	}
	return n;
}

static void targets(void)
{
	unsigned rows = 0, asked = 0;
	struct table t;

	open_table(&t);
	CU_ASSERT_FATAL(json_get(t.root, "targets") != NULL && json_get(t.root, "methods") != NULL);
	for (const struct json_node *r = json_get(t.root, "targets")->child; r != NULL; r = r->next, rows++)
		asked += run_target(&t, r);
	printf("  %u paths, %u requests ", rows, asked);
	CU_ASSERT(rows > 20);
	close_table(&t);
}

static const struct unit_test tests[] = {
	{ "every field of every body", fields },
	{ "every path", targets },
};

UNIT_MAIN("policy fields", tests)
