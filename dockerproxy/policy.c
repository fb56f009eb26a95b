/* A policy: reading its text, and the questions that the program asks of it. */
#include "dockerproxy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/policy_builtin.h"
#include "dockerproxy/policy_impl.h"

#define POLICY_MAX (4 * 1024 * 1024) /* bytes of a policy's text */
#define POINTER_MAX 4096

struct policy_block {
	struct policy_block *next;
	_Alignas(max_align_t) char data[];
};

/* --- loader --------------------------------------------------------------------------------------------------- */

void *loader_alloc(struct loader *l, size_t n)
{
	struct policy_block *b = calloc(1, sizeof(*b) + n);

	if (b == NULL) {
		err_errno(l->err, "%s", l->name);
		return NULL;
	}
	b->next = l->policy->blocks;
	l->policy->blocks = b;
	return b->data;
}

int loader_fail(struct loader *l, size_t offset, const char *fmt, ...)
{
	struct slice pointer = buf_slice(&l->pointer);
	char text[ERR_TEXT_MAX];
	unsigned line, column;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_position(l->text, offset, &line, &column);
	if (pointer.len > 200)
		pointer.len = 200;
	return err_set(l->err, EINVAL, "%s:%u:%u: %.*s: %s", l->name, line, column, SLICE_ARG(pointer), text);
}

size_t loader_enter(struct loader *l, struct slice token)
{
	size_t mark = buf_len(&l->pointer);

	/* The pointer only helps a reader: when it is too long, line and column still say where. */
	if (token.p != NULL && json_pointer_push(&l->pointer, token) < 0)
		return mark;
	return mark;
}

size_t loader_enter_index(struct loader *l, unsigned index)
{
	char digits[16];
	int n = snprintf(digits, sizeof(digits), "%u", index);

	return loader_enter(l, slice_make(digits, (size_t)n));
}

void loader_leave(struct loader *l, size_t mark)
{
	if (buf_len(&l->pointer) > mark)
		l->pointer.end = l->pointer.start + mark;
}

int loader_uint(struct loader *l, const struct json_node *n, uint64_t min, uint64_t max, uint64_t *out)
{
	if (n->type != JSON_INT || n->integer < 0 || (uint64_t)n->integer < min || (uint64_t)n->integer > max)
		return loader_fail(l, n->offset, "must be an integer from %llu to %llu", (unsigned long long)min,
			(unsigned long long)max);
	*out = (uint64_t)n->integer;
	return 0;
}

int loader_string(struct loader *l, const struct json_node *n, struct slice *out)
{
	if (n->type != JSON_STRING)
		return loader_fail(l, n->offset, "must be a string");
	*out = n->text;
	return 0;
}

int loader_bool(struct loader *l, const struct json_node *n, bool *out)
{
	if (n->type != JSON_BOOL)
		return loader_fail(l, n->offset, "must be true or false");
	*out = n->boolean;
	return 0;
}

int loader_object(struct loader *l, const struct json_node *n)
{
	if (n->type != JSON_OBJECT)
		return loader_fail(l, n->offset, "must be an object");
	return 0;
}

struct pattern *loader_pattern(struct loader *l, size_t offset, struct slice text)
{
	struct policy *p = l->policy;
	struct pattern **list = realloc(p->patterns, (p->n_patterns + 1) * sizeof(*list));
	struct pattern *pattern;
	struct err err = ERR_INIT;

	if (list == NULL) {
		err_errno(l->err, "%s", l->name);
		return NULL;
	}
	p->patterns = list;
	pattern = pattern_new(text, &err);
	if (pattern == NULL) {
		loader_fail(l, offset, "%s", err.text);
		return NULL;
	}
	list[p->n_patterns++] = pattern;
	return pattern;
}

/* --- top level ------------------------------------------------------------------------------------------------ */

/* "1.NN" */
static int load_version(struct loader *l, const struct json_node *versions, const char *key, unsigned *out)
{
	const struct json_node *n = json_get(versions, key);
	struct slice text;

	if (n == NULL)
		return loader_fail(l, versions->offset, "apiVersions needs min, max and default");
	if (loader_string(l, n, &text) < 0)
		return -1;
	if (text.len != 4 || !slice_starts(text, "1.") || text.p[2] < '1' || text.p[2] > '9' || text.p[3] < '0' ||
		text.p[3] > '9')
		return loader_fail(l, n->offset, "an API version is written \"1.NN\", from 1.10 to 1.99");
	*out = (unsigned)(text.p[2] - '0') * 10 + (unsigned)(text.p[3] - '0');
	return 0;
}

static int top_versions(struct loader *l, const struct json_node *n)
{
	struct policy_versions *v = &l->policy->versions;

	if (loader_object(l, n) < 0)
		return -1;
	if (n->count > 3)
		return loader_fail(l, n->offset, "apiVersions has min, max and default and nothing else");
	if (load_version(l, n, "min", &v->min) < 0 || load_version(l, n, "max", &v->max) < 0 ||
		load_version(l, n, "default", &v->dflt) < 0)
		return -1;
	if (v->min > v->max || v->dflt < v->min || v->dflt > v->max)
		return loader_fail(l, n->offset, "default must lie from min to max");
	return 0;
}

static int top_defs(struct loader *l, const struct json_node *n)
{
	return 0; /* compiled before everything else */
}

static int top_container_name(struct loader *l, const struct json_node *n)
{
	l->policy->container_name = schema_load(l, n);
	return l->policy->container_name == NULL ? -1 : 0;
}

/* Would both rows be asked about the same request lines? */
static bool same_request(const struct endpoint *a, const struct endpoint *b)
{
	if (a->info.method != b->info.method || a->n_segments != b->n_segments)
		return false;
	for (unsigned i = 0; i < a->n_segments; i++)
		if (a->segments[i].type != b->segments[i].type ||
			(a->segments[i].type == SEGMENT_LITERAL && !slice_eq(a->segments[i].text, b->segments[i].text)))
			return false;
	return true;
}

static int check_unique(struct loader *l, const struct json_node *row, unsigned n)
{
	const struct endpoint *rows = l->policy->endpoints;

	for (unsigned i = 0; i < n; i++) {
		if (strcmp(rows[i].info.id, rows[n].info.id) == 0)
			return loader_fail(l, row->offset, "the id \"%s\" is used twice", rows[n].info.id);
		if (same_request(&rows[i], &rows[n]))
			return loader_fail(l, row->offset, "method and path are those of \"%s\"", rows[i].info.id);
	}
	return 0;
}

static int top_endpoints(struct loader *l, const struct json_node *n)
{
	struct policy *p = l->policy;

	if (n->type != JSON_ARRAY || n->count == 0)
		return loader_fail(l, n->offset, "endpoints must be a list of at least one row");
	p->endpoints = loader_alloc(l, n->count * sizeof(*p->endpoints));
	if (p->endpoints == NULL)
		return -1;
	for (const struct json_node *row = n->child; row != NULL; row = row->next) {
		struct endpoint *e = &p->endpoints[p->n_endpoints];
		size_t mark = loader_enter_index(l, p->n_endpoints);

		if (endpoint_load(l, row, e) < 0 || check_unique(l, row, p->n_endpoints) < 0)
			return -1;
		e->info.index = p->n_endpoints++;
		loader_leave(l, mark);
	}
	return 0;
}

static int top_description(struct loader *l, const struct json_node *n)
{
	struct slice text;

	return loader_string(l, n, &text);
}

static const struct {
	const char *name;
	bool required;
	int (*load)(struct loader *l, const struct json_node *n);
} top_keys[] = {
	{ "description", false, top_description },
	{ "apiVersions", true, top_versions },
	{ "$defs", false, top_defs },
	{ "containerName", false, top_container_name },
	{ "endpoints", true, top_endpoints },
};

static int check_owners(struct loader *l)
{
	for (unsigned i = 0; i < l->policy->n_endpoints; i++)
		if (l->policy->endpoints[i].info.owner != OWNER_NONE && l->policy->container_name == NULL)
			return loader_fail(l, l->policy->root->offset,
				"endpoint %s has an owner, but containerName does not say which containers are allowed",
				l->policy->endpoints[i].info.id);
	return 0;
}

static int load_top(struct loader *l)
{
	const struct json_node *root = l->policy->root;
	size_t mark;

	if (loader_object(l, root) < 0)
		return -1;
	mark = loader_enter(l, SLICE_LIT("$defs"));
	if (schema_load_defs(l, json_get(root, "$defs")) < 0)
		return -1;
	loader_leave(l, mark);
	for (const struct json_node *m = root->child; m != NULL; m = m->next) {
		size_t i = 0;

		mark = loader_enter(l, m->key);
		while (i < ARRAY_SIZE(top_keys) && !slice_is(m->key, top_keys[i].name))
			i++;
		if (i == ARRAY_SIZE(top_keys))
			return loader_fail(l, m->key_offset, "unknown key");
		if (top_keys[i].load(l, m) < 0)
			return -1;
		loader_leave(l, mark);
	}
	for (size_t i = 0; i < ARRAY_SIZE(top_keys); i++)
		if (top_keys[i].required && json_get(root, top_keys[i].name) == NULL)
			return loader_fail(l, root->offset, "\"%s\" is missing", top_keys[i].name);
	return check_owners(l);
}

static int load_text(struct policy *p, struct slice text, const char *name, struct err *err)
{
	struct loader l = { .policy = p, .name = name, .err = err };
	enum json_fault fault;
	size_t offset;
	int rc = -1;

	buf_init(&l.pointer, POINTER_MAX);
	p->text = malloc(text.len + 1);
	p->doc = json_doc_new();
	p->run = schema_run_new();
	if (p->text == NULL || p->doc == NULL || p->run == NULL)
		return err_errno(err, "%s", name);
	if (text.len > 0)
		memcpy(p->text, text.p, text.len);
	p->text[text.len] = '\0';
	l.text = slice_make(p->text, text.len);
	memcpy(p->digest, "sha256:", 7);
	sha256_hex(l.text, p->digest + 7);
	p->root = json_parse(p->doc, l.text, JSON_COMMENTS, &fault, &offset);
	if (p->root == NULL)
		loader_fail(&l, offset, "%s (%s)", json_fault_text(fault), json_fault_id(fault));
	else if (load_top(&l) == 0)
		rc = reasons_load(&l);
	buf_release(&l.pointer);
	return rc;
}

struct policy *policy_load(struct slice text, const char *name, struct err *err)
{
	struct policy *p;

	if (text.len > POLICY_MAX) {
		err_set(err, EFBIG, "%s: a policy has at most %d bytes", name, POLICY_MAX);
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (p == NULL) {
		err_errno(err, "%s", name);
		return NULL;
	}
	if (load_text(p, text, name, err) < 0) {
		policy_free(p);
		return NULL;
	}
	return p;
}

static int read_file(const char *path, struct buf *out, struct err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_errno(err, "policy %s", path);
	for (;;) {
		char *p = buf_reserve(out, 65536);
		ssize_t n;

		if (p == NULL)
			return err_set(err, EFBIG, "policy %s: more than %d bytes", path, POLICY_MAX);
		n = read(fd, p, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "policy %s", path);
		if (n == 0)
			return 0;
		buf_commit(out, (size_t)n);
	}
}

struct policy *policy_load_file(const char *path, struct err *err)
{
	struct policy *p = NULL;
	struct buf text;

	buf_init(&text, POLICY_MAX + 2 * 65536);
	if (read_file(path, &text, err) == 0)
		p = policy_load(buf_slice(&text), path, err);
	buf_release(&text);
	return p;
}

struct policy *policy_builtin(struct err *err)
{
	return policy_load(slice_make(policy_builtin_text, policy_builtin_size), "built-in policy", err);
}

void policy_free(struct policy *p)
{
	if (p == NULL)
		return;
	for (unsigned i = 0; i < p->n_patterns; i++)
		pattern_free(p->patterns[i]);
	free(p->patterns);
	while (p->blocks != NULL) {
		struct policy_block *next = p->blocks->next;

		free(p->blocks);
		p->blocks = next;
	}
	free(p->reasons);
	schema_run_free(p->run);
	json_doc_free(p->doc);
	free(p->text);
	free(p);
}

/* --- questions ------------------------------------------------------------------------------------------------ */

const char *policy_digest(const struct policy *p)
{
	return p->digest;
}

const struct policy_versions *policy_versions(const struct policy *p)
{
	return &p->versions;
}

const struct endpoint_info *endpoint_info(const struct endpoint *e)
{
	return &e->info;
}

unsigned policy_endpoint_count(const struct policy *p)
{
	return p->n_endpoints;
}

const struct endpoint_info *policy_endpoint(const struct policy *p, unsigned index)
{
	return &p->endpoints[index].info;
}

bool policy_container_name_ok(const struct policy *p, struct slice name)
{
	struct json_node node = { .type = JSON_STRING, .text = name };
	struct schema_failure failure;

	for (size_t i = 0; i < name.len; i++)
		if ((unsigned char)name.p[i] > 0x7f) /* patterns take valid UTF-8 only; no name of the engine's has any */
			return false;
	return p->container_name != NULL && schema_eval(p->run, p->container_name, &node, &failure);
}

/* --- printing ------------------------------------------------------------------------------------------------- */

static int print_indent(struct buf *b, unsigned depth)
{
	if (buf_putc(b, '\n') < 0)
		return -1;
	while (depth-- > 0)
		if (buf_puts(b, "  ") < 0)
			return -1;
	return 0;
}

/* One member a line; a list of plain values on one line. */
static int print_node(struct buf *b, const struct json_node *n, unsigned depth)
{
	bool inside = n->type == JSON_OBJECT || n->type == JSON_ARRAY;
	bool lines = n->type == JSON_OBJECT;

	if (!inside || n->count == 0)
		return json_put(b, n);
	for (const struct json_node *c = n->child; c != NULL; c = c->next)
		lines |= c->type == JSON_OBJECT || c->type == JSON_ARRAY;
	if (buf_putc(b, n->type == JSON_OBJECT ? '{' : '[') < 0)
		return -1;
	for (const struct json_node *c = n->child; c != NULL; c = c->next) {
		if (c != n->child && buf_puts(b, lines ? "," : ", ") < 0)
			return -1;
		if (lines && print_indent(b, depth + 1) < 0)
			return -1;
		if (n->type == JSON_OBJECT && (json_put_string(b, c->key) < 0 || buf_puts(b, ": ") < 0))
			return -1;
		if (print_node(b, c, depth + 1) < 0)
			return -1;
	}
	if (lines && print_indent(b, depth) < 0)
		return -1;
	return buf_putc(b, n->type == JSON_OBJECT ? '}' : ']');
}

int policy_print(const struct policy *p, struct buf *out)
{
	if (print_node(out, p->root, 0) < 0)
		return -1;
	return buf_putc(out, '\n');
}
