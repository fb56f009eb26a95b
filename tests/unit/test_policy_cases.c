/* The cases of tests/cases/policy-*.json and preset-*.json against their policies: the verdict, and the field it names. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "dockerproxy/explain.h"

#define MAX_HEADERS 16

struct file {
	char *data;
	size_t size;
};

static struct file read_whole(const char *path)
{
	struct file f = { NULL, 0 };
	FILE *in = fopen(path, "rb");
	size_t n;

	if (in == NULL)
		return f;
	f.data = malloc(1 << 20);
	while (f.data != NULL && (n = fread(f.data + f.size, 1, (1 << 20) - f.size, in)) > 0)
		f.size += n;
	fclose(in);
	return f;
}

static const char *source_path(char *out, size_t size, const char *name)
{
	const char *srcdir = getenv("srcdir");

	snprintf(out, size, "%s/%s", srcdir == NULL ? "." : srcdir, name);
	return out;
}

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c == '\0' ? NULL : strchr(digits, c);

	return p == NULL ? -1 : (int)(p - digits);
}

static size_t base64_decode(struct slice in, char *out)
{
	unsigned bits = 0, have = 0;
	size_t n = 0;

	for (size_t i = 0; i < in.len; i++) {
		int d = base64_digit(in.p[i]);

		if (d < 0)
			continue;
		bits = bits << 6 | (unsigned)d;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[n++] = (char)(bits >> have);
		}
	}
	return n;
}

static char *copy_text(struct slice s)
{
	char *p = calloc(1, s.len + 1);

	if (p != NULL && s.len > 0)
		memcpy(p, s.p, s.len);
	return p;
}

/*
 * Files are a list of cases, or {create, cases}: there a case without a body is the create request, with the members of
 * `top` in place of (or beside) its own and those of `host` in place of its HostConfig's.
 */
struct loaded_case {
	struct explain_request req;
	char *headers[MAX_HEADERS];
	char *body;
};

/* base with the members of change in their place; a nested change for the member `inside`, NULL for none. */
static int put_changed(struct buf *b, const struct json_node *base, const struct json_node *change, const char *inside,
	const struct json_node *inner)
{
	char separator = '{';

	for (int pass = 0; pass < 2; pass++) {
		const struct json_node *from = pass == 0 ? base : change;

		for (const struct json_node *m = from == NULL ? NULL : from->child; m != NULL; m = m->next) {
			char key[128];

			snprintf(key, sizeof(key), "%.*s", SLICE_ARG(m->key));
			if (pass == 0 && json_get(change, key) != NULL)
				continue;
			if (buf_putc(b, separator) < 0 || json_put_string(b, m->key) < 0 || buf_putc(b, ':') < 0)
				return -1;
			if (inside != NULL && inner != NULL && slice_is(m->key, inside) ? put_changed(b, m, inner, NULL, NULL) < 0
																			: json_put(b, m) < 0)
				return -1;
			separator = ',';
		}
	}
	return buf_putc(b, '}');
}

static void build_body(struct loaded_case *c, const struct json_node *n, const struct json_node *create)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	CU_ASSERT_FATAL(put_changed(&b, create, json_get(n, "top"), "HostConfig", json_get(n, "host")) == 0);
	c->body = copy_text(buf_slice(&b));
	c->req.has_body = true;
	c->req.body = slice_make(c->body, buf_len(&b));
	buf_release(&b);
}

static void load_body(struct loaded_case *c, const struct json_node *n, const struct json_node *create)
{
	struct slice text;

	if (json_get_string(n, "body", &text)) {
		c->body = copy_text(text);
		c->req.has_body = true;
		c->req.body = slice_make(c->body, text.len);
	} else if (json_get_string(n, "body_b64", &text)) {
		c->body = calloc(1, text.len + 1);
		CU_ASSERT_FATAL(c->body != NULL);
		c->req.has_body = true;
		c->req.body = slice_make(c->body, base64_decode(text, c->body));
	} else if (json_get(n, "top") != NULL || json_get(n, "host") != NULL) {
		build_body(c, n, create);
	}
}

static void add_header(struct loaded_case *c, struct slice name, struct slice value)
{
	size_t size = name.len + value.len + 3;

	CU_ASSERT_FATAL(c->req.n_headers < MAX_HEADERS);
	c->headers[c->req.n_headers] = malloc(size);
	CU_ASSERT_FATAL(c->headers[c->req.n_headers] != NULL);
	snprintf(c->headers[c->req.n_headers++], size, "%.*s: %.*s", SLICE_ARG(name), SLICE_ARG(value));
}

static void load_case(struct loaded_case *c, const struct json_node *n, const struct json_node *create)
{
	const struct json_node *headers = json_get(n, "headers");

	memset(c, 0, sizeof(*c));
	c->req.method = SLICE_LIT("POST");
	c->req.target = SLICE_LIT("/v1.41/containers/create?name=cap-c1");
	json_get_string(n, "method", &c->req.method);
	json_get_string(n, "target", &c->req.target);
	load_body(c, n, create);
	if (headers == NULL && c->req.has_body)
		add_header(c, SLICE_LIT("Content-Type"), SLICE_LIT("application/json"));
	for (const struct json_node *h = headers == NULL ? NULL : headers->child; h != NULL; h = h->next)
		add_header(c, h->key, h->text);
	c->req.headers = (const char *const *)c->headers;
}

static void free_case(struct loaded_case *c)
{
	for (unsigned i = 0; i < c->req.n_headers; i++)
		free(c->headers[i]);
	free(c->body);
}

/* A member that a case may demand: absent or null demands nothing. `at` may be a prefix of the answer's. */
static bool as_demanded(const struct json_node *answer, const struct json_node *n, const char *key, bool prefix)
{
	struct slice want, have = slice_make("", 0);

	if (!json_get_string(n, key, &want))
		return true;
	json_get_string(answer, key, &have);
	if (prefix && have.len > want.len)
		have.len = want.len;
	return slice_eq(have, want);
}

/* The canonical body that a case may demand, byte by byte. */
static bool canonical_as_demanded(const struct json_node *answer, const struct json_node *n, const char *key)
{
	struct slice want, have = slice_make("", 0);

	if (!json_get_string(n, key, &want))
		return true;
	json_get_string(json_get(answer, "canonical"), strcmp(key, "canonical") == 0 ? "body" : "target", &have);
	return slice_eq(have, want);
}

/* What is sent on, judged once more, is allowed and comes out byte for byte. */
static bool same_again(const struct policy *p, const struct json_node *answer)
{
	static const char *const json[] = { "Content-Type: application/json" };
	const struct json_node *first = json_get(answer, "canonical");
	struct explain_request req = { .headers = json };
	struct json_doc *doc = json_doc_new();
	struct err err = ERR_INIT;
	struct slice target = slice_make("", 0), body = slice_make("", 0);
	enum json_fault fault;
	size_t offset;
	struct buf out;

	CU_ASSERT_FATAL(json_get_string(first, "method", &req.method) && json_get_string(first, "target", &req.target));
	req.has_body = json_get_string(first, "body", &req.body);
	req.n_headers = req.has_body;
	buf_init(&out, 16 << 20);
	int rc = explain(p, &req, &out, &err);
	const struct json_node *again =
		json_get(json_parse(doc, buf_slice(&out), JSON_STRICT, &fault, &offset), "canonical");
	json_get_string(again, "target", &target);
	json_get_string(again, "body", &body);
	bool same = rc == 0 && slice_eq(target, req.target) && slice_eq(body, req.body);
	buf_release(&out);
	json_doc_free(doc);
	return same;
}

static bool run_case(const struct policy *p, const struct json_node *n, const struct json_node *create)
{
	struct json_doc *doc = json_doc_new();
	struct err err = ERR_INIT;
	struct loaded_case c;
	enum json_fault fault;
	const struct json_node *answer;
	struct slice id, expect;
	struct buf out;
	size_t offset;
	bool ok;
	int rc;

	CU_ASSERT_FATAL(json_get_string(n, "id", &id));
	CU_ASSERT_FATAL(json_get_string(n, "expect", &expect));
	load_case(&c, n, create);
	buf_init(&out, 16 << 20);
	rc = explain(p, &c.req, &out, &err);
	answer = json_parse(doc, buf_slice(&out), JSON_STRICT, &fault, &offset);
	ok = answer != NULL && rc == (slice_is(expect, "allow") ? 0 : 1) && as_demanded(answer, n, "at", true) &&
		as_demanded(answer, n, "reason", false) && as_demanded(answer, n, "message", true) &&
		canonical_as_demanded(answer, n, "canonical") && canonical_as_demanded(answer, n, "canonicalTarget") &&
		(rc != 0 || same_again(p, answer));
	if (!ok)
		printf("  differs: %.*s: wanted %.*s, got %.*s", SLICE_ARG(id), SLICE_ARG(expect),
			(int)(buf_len(&out) > 900 ? 900 : buf_len(&out)), buf_head(&out));
	buf_release(&out);
	free_case(&c);
	json_doc_free(doc);
	return ok;
}

struct case_file {
	struct file text;
	struct json_doc *doc;
	const struct json_node *root;
	const struct json_node *list;
};

static void open_cases(struct case_file *f, const char *name)
{
	char path[512];
	enum json_fault fault;
	size_t offset;

	f->text = read_whole(source_path(path, sizeof(path), name));
	f->doc = json_doc_new();
	CU_ASSERT_FATAL(f->text.data != NULL && f->doc != NULL);
	f->root = json_parse(f->doc, slice_make(f->text.data, f->text.size), JSON_COMMENTS, &fault, &offset);
	if (f->root == NULL)
		printf("  %s: %s at %zu\n", path, json_fault_text(fault), offset);
	f->list = f->root != NULL && f->root->type == JSON_OBJECT ? json_get(f->root, "cases") : f->root;
	CU_ASSERT_FATAL(f->list != NULL && f->list->type == JSON_ARRAY);
}

static void close_cases(struct case_file *f)
{
	json_doc_free(f->doc);
	free(f->text.data);
}

static bool is_listed(const struct json_node *list, const struct json_node *n)
{
	struct slice id = slice_make("", 0);

	json_get_string(n, "id", &id);
	for (const struct json_node *e = list == NULL ? NULL : list->child; e != NULL; e = e->next)
		if (e->type == JSON_STRING && slice_eq(e->text, id))
			return true;
	return false;
}

/* Runs the file's cases but those whose ids are in `except`. */
static void run_file(const struct policy *p, const char *name, const struct json_node *except)
{
	unsigned cases = 0, differ = 0;
	struct case_file f;

	open_cases(&f, name);
	for (const struct json_node *n = f.list->child; n != NULL; n = n->next, cases++)
		if (!is_listed(except, n))
			differ += !run_case(p, n, json_get(f.root, "create"));
	printf("  %s: %u cases, %u differ ", name, cases, differ);
	CU_ASSERT(cases > 0);
	CU_ASSERT_EQUAL(differ, 0);
	close_cases(&f);
}

static void sandbox(void)
{
	struct err err = ERR_INIT;
	struct policy *p = policy_builtin(&err);

	if (p == NULL)
		printf("  %s\n", err.text);
	CU_ASSERT_FATAL(p != NULL);
	run_file(p, "tests/cases/policy-cases.json", NULL);
	run_file(p, "tests/cases/policy-own.json", NULL);
	run_file(p, "tests/cases/policy-edges.json", NULL);
	policy_free(p);
}

/* --- names: each member of a real client's body, spelled and repeated in every way ------------------------------------ */

struct speller {
	const struct policy *policy;
	struct explain_request req;
	struct slice body;
	unsigned tried;
};

/* The body with `count` bytes at `at` replaced by text must be refused for that reason. */
static void must_refuse(struct speller *sp, size_t at, size_t count, struct slice text, const char *reason)
{
	struct json_doc *doc = json_doc_new();
	struct err err = ERR_INIT;
	struct slice have = slice_make("", 0);
	enum json_fault fault;
	struct buf body, out;
	size_t offset;

	buf_init(&body, 1 << 16);
	buf_init(&out, 1 << 20);
	CU_ASSERT_FATAL(buf_put(&body, sp->body.p, at) == 0 && buf_put_slice(&body, text) == 0 &&
		buf_put_slice(&body, slice_skip(sp->body, at + count)) == 0);
	sp->req.body = buf_slice(&body);
	CU_ASSERT(explain(sp->policy, &sp->req, &out, &err) == 1);
	json_get_string(json_parse(doc, buf_slice(&out), JSON_STRICT, &fault, &offset), "reason", &have);
	UNIT_CHECK(slice_is(have, reason), "%.*s: %.*s, not %s", SLICE_ARG(text), SLICE_ARG(have), reason);
	sp->tried++;
	buf_release(&out);
	buf_release(&body);
	json_doc_free(doc);
}

/* The name in place of itself, with its first `from` as `to`; nothing when it has none. */
static void exchange(struct speller *sp, const struct json_node *m, char from, const char *to, const char *reason)
{
	const char *at = memchr(m->key.p, from, m->key.len);
	struct buf name;

	if (at == NULL)
		return;
	buf_init(&name, 256);
	CU_ASSERT(buf_putf(&name, "\"%.*s%s%.*s\"", (int)(at - m->key.p), m->key.p, to,
				  (int)(m->key.p + m->key.len - at - 1), at + 1) == 0);
	must_refuse(sp, m->key_offset, m->key.len + 2, buf_slice(&name), reason);
	buf_release(&name);
}

static void spell(struct speller *sp, const struct json_node *m, bool data)
{
	char first = m->key.p[0], escaped[8], other[2] = { (char)(first ^ 0x20), '\0' };
	struct buf twice;

	snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned)first);
	buf_init(&twice, 256);
	CU_ASSERT(buf_putf(&twice, "\"%.*s\":null,", SLICE_ARG(m->key)) == 0);
	must_refuse(sp, m->key_offset, 0, buf_slice(&twice), "json-duplicate-key");
	buf_clear(&twice);
	CU_ASSERT(buf_putf(&twice, "\"%s%.*s\":null,", escaped, SLICE_ARG(slice_skip(m->key, 1))) == 0);
	must_refuse(sp, m->key_offset, 0, buf_slice(&twice), "json-duplicate-key");
	buf_release(&twice);
	if (data)
		return;
	exchange(sp, m, first, other, "field-folded");
	exchange(sp, m, 's', "\xc5\xbf", "field-folded");
	exchange(sp, m, 'k', "\xe2\x84\xaa", "field-folded");
	exchange(sp, m, 's', "\\u017f", "field-folded");
	exchange(sp, m, first, escaped, "field-spelling");
	exchange(sp, m, first, "", "field-unknown");
}

static void spell_all(struct speller *sp, const struct json_node *n, bool data)
{
	static const char *const maps[] = { "Labels", "Tmpfs", "EndpointsConfig", "ExposedPorts" };

	if (n->type != JSON_ARRAY && n->type != JSON_OBJECT)
		return;
	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		bool map = false;

		if (n->type == JSON_OBJECT)
			spell(sp, m, data);
		for (size_t i = 0; i < ARRAY_SIZE(maps) && n->type == JSON_OBJECT; i++)
			map = map || slice_is(m->key, maps[i]);
		spell_all(sp, m, map);
	}
}

static void spellings(void)
{
	static const char *const json[] = { "Content-Type: application/json" };
	struct err err = ERR_INIT;
	struct speller sp = {
		.policy = policy_builtin(&err),
		.req = { .method = SLICE_LIT("POST"),
			.target = SLICE_LIT("/v1.47/containers/create?name=cap-c1"),
			.headers = json,
			.n_headers = 1,
			.has_body = true },
	};
	struct json_doc *doc = json_doc_new();
	struct slice id = slice_make("", 0);
	const struct json_node *n;
	enum json_fault fault;
	struct case_file f;
	size_t offset;

	open_cases(&f, "tests/cases/policy-cases.json");
	for (n = f.list->child; n != NULL && !slice_is(id, "create-ok-cli"); n = n->next)
		if (json_get_string(n, "id", &id) && slice_is(id, "create-ok-cli"))
			CU_ASSERT(json_get_string(n, "body", &sp.body));
	CU_ASSERT_FATAL(sp.policy != NULL && doc != NULL && sp.body.len > 0);
	n = json_parse(doc, sp.body, JSON_STRICT, &fault, &offset);
	CU_ASSERT_FATAL(n != NULL);
	spell_all(&sp, n, false);
	printf("  %u spellings ", sp.tried);
	CU_ASSERT(sp.tried > 500);
	json_doc_free(doc);
	close_cases(&f);
	policy_free((struct policy *)(uintptr_t)sp.policy);
}

/* A preset against its own cases, and against those of the policy that it widens, but for what it says to differ in. */
static void preset(const char *name)
{
	char path[512], policy_path[256], cases_path[256];
	struct err err = ERR_INIT;
	struct case_file f;
	struct policy *p;

	snprintf(policy_path, sizeof(policy_path), "conf/policies/%s.json", name);
	snprintf(cases_path, sizeof(cases_path), "tests/cases/preset-%s.json", name);
	p = policy_load_file(source_path(path, sizeof(path), policy_path), &err);
	if (p == NULL)
		printf("  %s\n", err.text);
	CU_ASSERT_FATAL(p != NULL);
	run_file(p, cases_path, NULL);
	open_cases(&f, cases_path);
	for (const struct json_node *also = json_get(f.root, "also") == NULL ? NULL : json_get(f.root, "also")->child;
		 also != NULL; also = also->next) {
		snprintf(path, sizeof(path), "%.*s", SLICE_ARG(also->text));
		run_file(p, path, json_get(f.root, "except"));
	}
	close_cases(&f);
	policy_free(p);
}

#define PRESET(function, name) \
	static void function(void) \
	{ \
		preset(name); \
	}
PRESET(read_only, "read-only")
PRESET(traefik, "traefik")
PRESET(portainer, "portainer")
PRESET(watchtower, "watchtower")
PRESET(ci_runner, "ci-runner")
PRESET(sandbox_cli, "sandbox-cli")

static const struct unit_test tests[] = {
	{ "sandbox", sandbox },
	{ "spellings", spellings },
	{ "read-only", read_only },
	{ "traefik", traefik },
	{ "portainer", portainer },
	{ "watchtower", watchtower },
	{ "ci-runner", ci_runner },
	{ "sandbox-cli", sandbox_cli },
};

UNIT_MAIN("policy cases", tests)
