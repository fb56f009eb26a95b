/* The verdict on one request: the ladder of questions, and the canonical request that is left when all are answered. */
#include "dockerproxy/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "dockerproxy/policy_impl.h"
#include "dockerproxy/verdict_text.h"

#define TARGET_OUT_MAX (64 * 1024) /* bytes of a canonical target */
#define BODY_OUT_MAX (128 * 1024 * 1024) /* escapes can make a body at most six times as long */
#define SCRATCH_MAX (1024 * 1024) /* bytes of one message or pointer before it is cut */

enum reason {
#define ROW(sym, id, status, text) REASON_##sym,
#include "dockerproxy/verdict_reason.def"
#undef ROW
};

static const struct {
	const char *id;
	int status;
	const char *text;
} reasons[] = {
#define ROW(sym, id, status, text) [REASON_##sym] = { id, status, text },
#include "dockerproxy/verdict_reason.def"
#undef ROW
};

struct verdict_work {
	struct target parsed;
	struct schema_run *run;
	struct schema_failure failure;
	struct endpoint_match match;
	struct json_node query; /* the query as an object */
	struct json_node params[TARGET_MAX_PARAMS];
};

/* --- life ----------------------------------------------------------------------------------------------------- */

void verdict_init(struct verdict *v)
{
	memset(v, 0, sizeof(*v));
	buf_init(&v->target, TARGET_OUT_MAX);
	buf_init(&v->body, BODY_OUT_MAX);
	buf_init(&v->scratch, SCRATCH_MAX);
}

void verdict_reset(struct verdict *v)
{
	v->decision = DECISION_DENY;
	v->status = 0;
	v->close = false;
	v->reason = NULL;
	v->at[0] = '\0';
	v->has_offset = false;
	v->offset = 0;
	v->message[0] = '\0';
	v->endpoint = NULL;
	v->method = slice_make("", 0);
	v->api_minor = 0;
	v->upgrade = false;
	v->object[0] = '\0';
	buf_clear(&v->target);
	buf_clear(&v->body);
	buf_clear(&v->scratch);
	if (v->work != NULL)
		schema_run_reset(v->work->run);
}

void verdict_release(struct verdict *v)
{
	if (v->work != NULL) {
		schema_run_free(v->work->run);
		free(v->work);
	}
	json_doc_free(v->doc);
	buf_release(&v->target);
	buf_release(&v->body);
	buf_release(&v->scratch);
	verdict_init(v);
}

void verdict_borrow(struct verdict *v, struct verdict_tools *tools)
{
	v->doc = tools->doc;
	v->work = tools->work;
	if (v->work != NULL)
		schema_run_reset(v->work->run);
	*tools = (struct verdict_tools){ NULL, NULL };
}

void verdict_give_back(struct verdict *v, struct verdict_tools *tools)
{
	*tools = (struct verdict_tools){ v->doc, v->work };
	v->doc = NULL;
	v->work = NULL;
}

void verdict_tools_release(struct verdict_tools *tools)
{
	struct verdict v;

	verdict_init(&v);
	verdict_borrow(&v, tools);
	verdict_release(&v);
}

static bool ready(struct verdict *v)
{
	if (v->doc == NULL)
		v->doc = json_doc_new();
	if (v->work == NULL) {
		v->work = calloc(1, sizeof(*v->work));
		if (v->work != NULL)
			v->work->run = schema_run_new();
	}
	return v->doc != NULL && v->work != NULL && v->work->run != NULL;
}

void verdict_request_from_head(struct verdict_request *req, const struct http_head *h, const char *p)
{
	*req = (struct verdict_request){
		.method = http_span(p, h->method_text),
		.target = http_span(p, h->target),
		.content_type = http_field_value(h, p, HTTP_F_CONTENT_TYPE),
		.several_content_types = h->count[HTTP_F_CONTENT_TYPE] > 1,
		.content_encoding = http_field_value(h, p, HTTP_F_CONTENT_ENCODING),
		.upgrade = h->upgrade,
		.upgrade_protocol = http_field_value(h, p, HTTP_F_UPGRADE),
		.has_length = h->has_content_length,
		.length = h->content_length,
		.chunked = h->te_chunked,
	};
}

/* --- refusals ------------------------------------------------------------------------------------------------- */

/* Copies the text, cut at a whole UTF-8 character. */
static void put_cut(char *out, size_t size, struct slice text)
{
	size_t n = text.len < size ? text.len : size - 1;

	if (n < text.len)
		while (n > 0 && ((unsigned char)text.p[n] & 0xc0) == 0x80)
			n--;
	if (n > 0)
		memcpy(out, text.p, n);
	out[n] = '\0';
}

static enum decision deny(struct verdict *v, const char *id, int status, const char *at, const char *message)
{
	v->decision = DECISION_DENY;
	v->reason = id;
	v->status = status;
	put_cut(v->at, sizeof(v->at), slice_str(at));
	put_cut(v->message, sizeof(v->message), slice_str(message));
	return DECISION_DENY;
}

static enum decision deny_row(struct verdict *v, enum reason r, const char *at)
{
	return deny(v, reasons[r].id, reasons[r].status, at, reasons[r].text);
}

/* A refusal after which the client may still send a body that nobody reads. */
static enum decision deny_body(struct verdict *v, enum reason r, const char *at)
{
	v->close = true;
	return deny_row(v, r, at);
}

/* The rows for faults that are no field's own; false: it is the field's. */
static bool generic_reason(const struct schema_failure *f, enum reason *r)
{
	switch (f->fault) {
	case SCHEMA_FAULT_UNKNOWN:
		*r = REASON_UNKNOWN;
		return !f->schema->map;
	case SCHEMA_FAULT_FOLDED:
		*r = REASON_FOLDED;
		return true;
	case SCHEMA_FAULT_SPELLING:
		*r = REASON_SPELLING;
		return true;
	case SCHEMA_FAULT_LIMIT:
		*r = REASON_LIMIT;
		return true;
	case SCHEMA_FAULT_MEMORY:
		*r = REASON_MEMORY;
		return true;
	case SCHEMA_FAULT_NEVER:
	case SCHEMA_FAULT_TYPE:
	case SCHEMA_FAULT_CONST:
	case SCHEMA_FAULT_ENUM:
	case SCHEMA_FAULT_PATTERN:
	case SCHEMA_FAULT_LENGTH:
	case SCHEMA_FAULT_RANGE:
	case SCHEMA_FAULT_ITEMS:
	case SCHEMA_FAULT_CONTAINS:
	case SCHEMA_FAULT_REQUIRED:
	case SCHEMA_FAULT_PROPERTIES:
	case SCHEMA_FAULT_NAME:
	case SCHEMA_FAULT_NOT:
	case SCHEMA_FAULT_JSON:
		return false;
	}
	return false;
}

static void set_field_reason(struct verdict *v, const struct policy *p, enum verdict_part part, struct slice param)
{
	static const enum reason whole[] = {
		[PART_PATH] = REASON_PATH,
		[PART_QUERY] = REASON_QUERY,
		[PART_BODY] = REASON_BODY,
	};
	const struct schema_failure *f = &v->work->failure;
	enum reason r = whole[part];

	v->reason = reasons[r].id;
	v->status = reasons[r].status;
	if (f->fault == SCHEMA_FAULT_JSON) {
		v->reason = json_fault_id(f->json);
		v->status = 400;
		return;
	}
	if (generic_reason(f, &r)) {
		if (r == REASON_UNKNOWN && part == PART_QUERY && f->depth == 1)
			r = REASON_QUERY_UNKNOWN;
		v->reason = reasons[r].id;
		v->status = reasons[r].status;
		return;
	}
	buf_clear(&v->scratch);
	if (verdict_put_field_id(&v->scratch, part, param, f) == 0 && buf_putc(&v->scratch, '\0') == 0) {
		const char *id = policy_reason(p, buf_head(&v->scratch));

		if (id != NULL)
			v->reason = id;
	}
}

/* The schema said no: where, why, and in which words. */
static enum decision deny_field(struct verdict *v, const struct policy *p, enum verdict_part part, struct slice param)
{
	const struct schema_failure *f = &v->work->failure;

	v->decision = DECISION_DENY;
	set_field_reason(v, p, part, param);
	buf_clear(&v->scratch);
	if (verdict_put_at(&v->scratch, part, param, f) == 0)
		put_cut(v->at, sizeof(v->at), buf_slice(&v->scratch));
	buf_clear(&v->scratch);
	if (verdict_put_message(&v->scratch, part, param, f) == 0)
		put_cut(v->message, sizeof(v->message), buf_slice(&v->scratch));
	return DECISION_DENY;
}

/* --- head: one function a question ---------------------------------------------------------------------------- */

struct question {
	struct verdict *v;
	const struct policy *p;
	const struct verdict_request *req;
	enum http_method method;
	unsigned default_minor;
	const struct slice *segments; /* of the path, behind the version */
	unsigned n_segments;
};

static enum decision ask_method(struct question *q)
{
	for (int m = HTTP_GET; m < HTTP_OTHER; m++)
		if (slice_is(q->req->method, http_method_name((enum http_method)m))) {
			q->method = (enum http_method)m;
			q->v->method = slice_str(http_method_name(q->method)); /* not the client's bytes */
			return DECISION_ALLOW;
		}
	return deny_row(q->v, REASON_METHOD, "method");
}

static enum decision deny_target(struct verdict *v, enum target_fault fault)
{
	struct slice param = v->work->parsed.suspect;

	deny(v, target_fault_id(fault), 400, target_fault_at(fault), target_fault_text(fault));
	buf_clear(&v->scratch);
	if (param.len > 0 && verdict_put_param_at(&v->scratch, PART_QUERY, param) == 0)
		put_cut(v->at, sizeof(v->at), buf_slice(&v->scratch));
	return DECISION_DENY;
}

static enum decision ask_target(struct question *q)
{
	enum target_fault fault = target_parse(&q->v->work->parsed, q->req->target);

	if (fault != TARGET_OK)
		return deny_target(q->v, fault);
	q->segments = q->v->work->parsed.segments;
	q->n_segments = q->v->work->parsed.nsegments;
	return DECISION_ALLOW;
}

/* "v" and a digit begin what is meant as a version; only /v1.NN within the policy's range is one. */
static enum decision ask_version(struct question *q)
{
	const struct policy_versions *range = policy_versions(q->p);
	struct slice s = q->segments[0];
	unsigned minor;

	if (q->n_segments < 2 || s.len < 2 || s.p[0] != 'v' || s.p[1] < '0' || s.p[1] > '9')
		return DECISION_ALLOW;
	if (s.len != 5 || !slice_starts(s, "v1.") || s.p[3] < '1' || s.p[3] > '9' || s.p[4] < '0' || s.p[4] > '9')
		return deny_row(q->v, REASON_VERSION, "path");
	minor = (unsigned)(s.p[3] - '0') * 10 + (unsigned)(s.p[4] - '0');
	if (minor < range->min || minor > range->max) {
		buf_clear(&q->v->scratch);
		if (buf_putf(&q->v->scratch, "API version 1.%u is not served; 1.%u to 1.%u are", minor, range->min,
				range->max) < 0 ||
			buf_putc(&q->v->scratch, '\0') < 0)
			return deny_row(q->v, REASON_MEMORY, "path");
		return deny(q->v, reasons[REASON_VERSION].id, reasons[REASON_VERSION].status, "path", buf_head(&q->v->scratch));
	}
	q->v->api_minor = minor;
	q->segments++;
	q->n_segments--;
	return DECISION_ALLOW;
}

static enum decision ask_endpoint(struct question *q)
{
	struct endpoint_match *m = &q->v->work->match;

	if (!endpoint_match(q->p->endpoints, q->p->n_endpoints, q->method, q->segments, q->n_segments, m)) {
		if (m->path_known)
			return deny_row(q->v, REASON_METHOD, "method");
		return deny_row(q->v, REASON_ENDPOINT, "endpoint");
	}
	q->v->endpoint = m->endpoint;
	return DECISION_ALLOW;
}

/* Decoding can make segments: none may be empty or lead elsewhere, whatever the policy's pattern says. *n: how many there are. */
static bool has_clean_segments(struct slice s, unsigned *n)
{
	for (*n = 1;; ++*n) {
		const char *slash = s.len == 0 ? NULL : memchr(s.p, '/', s.len);
		struct slice first = slash == NULL ? s : slice_make(s.p, (size_t)(slash - s.p));

		if (first.len == 0 || slice_is(first, ".") || slice_is(first, ".."))
			return false;
		if (slash == NULL)
			return true;
		s = slice_skip(s, first.len + 1);
	}
}

/* Percent escapes may stand in image names only, and there only for the bytes that a reference needs. */
static bool decode_param(struct verdict *v, const struct endpoint_segment *s, struct slice *value)
{
	if (s->type == SEGMENT_PARAM_REST)
		return target_decode(&v->work->parsed, *value, "/:@", value);
	return value->len == 0 || memchr(value->p, '%', value->len) == NULL;
}

static enum decision ask_path(struct question *q)
{
	struct verdict *v = q->v;
	const struct endpoint *e = v->endpoint;

	for (unsigned i = 0; i < e->n_segments; i++) {
		const struct endpoint_segment *s = &e->segments[i];
		struct slice *value = &v->work->match.values[i];
		struct json_node node = { .type = JSON_STRING };
		unsigned made;

		if (s->type == SEGMENT_LITERAL)
			continue;
		if (!decode_param(v, s, value))
			return deny_row(v, REASON_PATH_ESCAPE, "path");
		node.text = *value;
		if (!schema_eval(v->work->run, s->schema, &node, &v->work->failure))
			return deny_field(v, q->p, PART_PATH, s->text);
		if (!has_clean_segments(*value, &made))
			return deny_row(v, REASON_PATH, "path");
		/* With the version's and the row's own no more than a target may have: escaped slashes are no way around it. */
		if (made > TARGET_MAX_SEGMENTS - e->n_segments)
			return deny_target(v, TARGET_FAULT_SEGMENTS);
		if (e->object == OBJECT_PATH && slice_eq(e->object_name, s->text)) {
			/* Who owns it is asked by this text: a cut one would be another's. */
			if (value->len >= sizeof(v->object))
				return deny_row(v, REASON_PATH, "path");
			put_cut(v->object, sizeof(v->object), *value);
		}
	}
	return DECISION_ALLOW;
}

static bool is_integer(struct slice s, int64_t *out)
{
	bool negative = s.len > 1 && s.p[0] == '-';
	struct slice d = negative ? slice_skip(s, 1) : s;
	int64_t v = 0;

	if (d.len == 0 || d.len > 18 || (d.p[0] == '0' && s.len > 1))
		return false;
	for (size_t i = 0; i < d.len; i++) {
		if (d.p[i] < '0' || d.p[i] > '9')
			return false;
		v = v * 10 + (d.p[i] - '0');
	}
	*out = negative ? -v : v;
	return true;
}

/* A parameter's text as a value of the type that the policy gives it; a string when it is not of that type. */
static void type_param(struct json_node *n, unsigned types, struct slice text)
{
	n->type = JSON_STRING;
	n->text = text;
	if ((types & SCHEMA_BOOLEAN) && (slice_is(text, "1") || slice_is(text, "true"))) {
		n->type = JSON_BOOL;
		n->boolean = true;
	} else if ((types & SCHEMA_BOOLEAN) && (slice_is(text, "0") || slice_is(text, "false"))) {
		n->type = JSON_BOOL;
		n->boolean = false;
	} else if (types & SCHEMA_INTEGER) {
		int64_t v;

		if (!is_integer(text, &v))
			return;
		n->type = JSON_INT;
		n->integer = v;
		n->digits = text;
	}
}

static void query_tree(struct verdict *v)
{
	struct json_node **link = &v->work->query.child;

	memset(&v->work->query, 0, sizeof(v->work->query));
	v->work->query.type = JSON_OBJECT;
	v->work->query.count = v->work->parsed.nparams;
	for (unsigned i = 0; i < v->work->parsed.nparams; i++) {
		const struct target_param *param = &v->work->parsed.params[i];
		const struct schema_property *known = schema_property(v->endpoint->query, param->name);
		struct json_node *n = &v->work->params[i];

		memset(n, 0, sizeof(*n));
		n->key = param->name;
		n->key_hash = json_key_hash(param->name);
		type_param(n, known == NULL ? 0 : schema_types(known->schema), param->value);
		*link = n;
		link = &n->next;
	}
}

static enum decision ask_query(struct question *q)
{
	static const struct schema none = {
		.object = true,
		.max_length = UINT32_MAX,
		.max_items = UINT32_MAX,
		.max_properties = UINT32_MAX,
	};
	struct verdict *v = q->v;
	const struct schema *s = v->endpoint->query == NULL ? &none : v->endpoint->query;

	query_tree(v);
	if (!schema_eval(v->work->run, s, &v->work->query, &v->work->failure))
		return deny_field(v, q->p, PART_QUERY, slice_make(NULL, 0));
	for (const struct json_node *n = v->work->query.child; n != NULL; n = n->next)
		if (v->endpoint->object == OBJECT_QUERY && slice_eq(n->key, v->endpoint->object_name))
			put_cut(v->object, sizeof(v->object), n->text);
	return DECISION_ALLOW;
}

static enum decision ask_upgrade(struct question *q)
{
	if (!q->req->upgrade)
		return DECISION_ALLOW;
	if (q->v->endpoint->info.response != RESPONSE_HIJACK || !slice_case_is(q->req->upgrade_protocol, "tcp"))
		return deny_row(q->v, REASON_UPGRADE, "header.Upgrade");
	q->v->upgrade = true;
	return DECISION_ALLOW;
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = slice_skip(s, 1);
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* application/json, with no parameter but charset=utf-8, which says what JSON is anyway. */
static bool is_json_type(struct slice type)
{
	const char *semicolon = type.p == NULL ? NULL : memchr(type.p, ';', type.len);
	struct slice media = semicolon == NULL ? type : slice_make(type.p, (size_t)(semicolon - type.p));
	struct slice param;

	if (!slice_case_is(trim(media), "application/json"))
		return false;
	if (semicolon == NULL)
		return true;
	param = trim(slice_skip(type, media.len + 1));
	return slice_case_is(param, "charset=utf-8") || slice_case_is(param, "charset=\"utf-8\"");
}

static enum decision ask_body(struct question *q)
{
	const struct verdict_request *req = q->req;
	const struct endpoint_info *row = &q->v->endpoint->info;
	bool given = req->chunked || (req->has_length && req->length > 0);

	if (!row->has_body)
		return given ? deny_body(q->v, REASON_BODY_REFUSED, "") : DECISION_ALLOW;
	if (!given)
		return deny_row(q->v, REASON_BODY_REQUIRED, "");
	if (req->has_length && req->length > row->max_body)
		return deny_body(q->v, REASON_BODY_SIZE, "");
	if (req->several_content_types || !is_json_type(req->content_type))
		return deny_body(q->v, REASON_CONTENT_TYPE, "header.Content-Type");
	if (req->content_encoding.p != NULL)
		return deny_body(q->v, REASON_CONTENT_ENCODING, "header.Content-Encoding");
	return DECISION_ALLOW;
}

/* --- the canonical target --------------------------------------------------------------------------------------- */

static int put_param(struct buf *b, const struct json_node *n)
{
	switch (n->type) {
	case JSON_BOOL:
		return buf_putc(b, n->boolean ? '1' : '0');
	case JSON_INT:
		return buf_put_slice(b, n->digits);
	case JSON_STRING:
		return target_put_query_value(b, n->text);
	case JSON_NULL:
	case JSON_REAL:
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return -1;
}

static int put_target(struct question *q)
{
	struct verdict *v = q->v;
	const struct endpoint *e = v->endpoint;
	unsigned minor = v->api_minor != 0 ? v->api_minor : q->default_minor;
	char separator = '?';

	if ((v->api_minor != 0 || !e->keep_unversioned) &&
		(buf_puts(&v->target, "/v1.") < 0 || buf_put_u64(&v->target, minor) < 0))
		return -1;
	for (unsigned i = 0; i < e->n_segments; i++) {
		const struct endpoint_segment *s = &e->segments[i];
		struct slice text = s->type == SEGMENT_LITERAL ? s->text : v->work->match.values[i];

		if (buf_putc(&v->target, '/') < 0 || buf_put_slice(&v->target, text) < 0)
			return -1;
	}
	for (const struct json_node *n = v->work->query.child; n != NULL; n = n->next) {
		if (n->mark != 0)
			continue;
		if (buf_putc(&v->target, separator) < 0 || target_put_query_value(&v->target, n->key) < 0 ||
			buf_putc(&v->target, '=') < 0 || put_param(&v->target, n) < 0)
			return -1;
		separator = '&';
	}
	return 0;
}

enum decision verdict_head(struct verdict *v, const struct policy *p, const struct verdict_request *req,
	unsigned default_minor)
{
	static enum decision (*const ladder[])(struct question *) = {
		ask_method,
		ask_target,
		ask_version,
		ask_endpoint,
		ask_path,
		ask_query,
		ask_upgrade,
		ask_body,
	};
	struct question q = {
		.v = v,
		.p = p,
		.req = req,
		.method = HTTP_OTHER,
		.default_minor = default_minor != 0 ? default_minor : policy_versions(p)->dflt,
	};

	verdict_reset(v);
	if (!ready(v))
		return deny_row(v, REASON_MEMORY, "");
	for (size_t i = 0; i < ARRAY_SIZE(ladder); i++)
		if (ladder[i](&q) == DECISION_DENY)
			return DECISION_DENY;
	if (put_target(&q) < 0)
		return deny_row(v, REASON_MEMORY, "path");
	v->decision = v->endpoint->info.has_body ? DECISION_NEED_BODY : DECISION_ALLOW;
	return v->decision;
}

/* --- body ----------------------------------------------------------------------------------------------------- */

/* Valid by the grammar, refused for what the engine would make of it: these belong to a value. */
static bool has_place(enum json_fault fault)
{
	return fault == JSON_FAULT_NUL || fault == JSON_FAULT_SURROGATE || fault == JSON_FAULT_DUPLICATE;
}

static enum decision deny_syntax(struct verdict *v, enum json_fault fault, size_t offset)
{
	if (fault == JSON_FAULT_MEMORY)
		return deny_row(v, REASON_MEMORY, "");
	v->has_offset = true;
	v->offset = offset;
	buf_clear(&v->scratch);
	if (buf_putf(&v->scratch, "the body is not strict JSON: %s, at byte %zu", json_fault_text(fault), offset) < 0 ||
		buf_putc(&v->scratch, '\0') < 0)
		return deny_row(v, REASON_MEMORY, "");
	deny(v, json_fault_id(fault), 400, "", buf_head(&v->scratch));
	buf_clear(&v->scratch);
	if (has_place(fault) && json_put_fault_pointer(&v->scratch, v->doc) == 0)
		put_cut(v->at, sizeof(v->at), buf_slice(&v->scratch));
	return DECISION_DENY;
}

/* The object that the body names. False: who owns it could not be asked, as its text would be cut to another's. */
static bool name_object(struct verdict *v, const struct json_node *root)
{
	const struct endpoint *e = v->endpoint;
	struct slice name = slice_make(NULL, 0);

	for (const struct json_node *m = root->type == JSON_OBJECT ? root->child : NULL; m != NULL; m = m->next)
		if (slice_eq(m->key, e->object_name) && m->type == JSON_STRING)
			name = m->text;
	put_cut(v->object, sizeof(v->object), name);
	return e->info.owner == OWNER_NONE || (name.len > 0 && name.len < sizeof(v->object));
}

enum decision verdict_body(struct verdict *v, const struct policy *p, struct slice body)
{
	const struct endpoint *e = v->endpoint;
	enum json_fault fault;
	struct json_node *root;
	size_t offset;

	if (v->decision != DECISION_NEED_BODY)
		return deny_row(v, REASON_BODY_REFUSED, "");
	if (body.len > e->info.max_body)
		return deny_body(v, REASON_BODY_SIZE, "");
	if (body.len == 0)
		return deny_row(v, REASON_BODY_REQUIRED, "");
	root = json_parse(v->doc, body, JSON_STRICT, &fault, &offset);
	if (root == NULL)
		return deny_syntax(v, fault, offset);
	if (!schema_eval(v->work->run, e->body, root, &v->work->failure))
		return deny_field(v, p, PART_BODY, slice_make(NULL, 0));
	if (schema_put(&v->body, root) < 0)
		return deny_row(v, REASON_MEMORY, "");
	if (e->object == OBJECT_BODY && !name_object(v, root))
		return deny_row(v, REASON_BODY, "");
	v->decision = DECISION_ALLOW;
	return DECISION_ALLOW;
}

#define OBJECT_ID_DIGITS 64

bool verdict_open_question(const struct verdict *v, const struct policy *p, struct buf *out)
{
	int rc = 0;

	switch (v->endpoint == NULL ? OWNER_NONE : v->endpoint->info.owner) {
	case OWNER_NONE:
		return false;
	case OWNER_CONTAINER:
		if (policy_container_name_ok(p, slice_str(v->object)))
			return false;
		rc = buf_putf(out, "the engine must say that container %s has an allowed name", v->object);
		break;
	case OWNER_EXEC:
		rc = buf_putf(out, "the engine must say that the container of exec %s has an allowed name", v->object);
		break;
	case OWNER_NETWORK:
		if (strlen(v->object) != OBJECT_ID_DIGITS || v->object[strspn(v->object, "0123456789abcdef")] != '\0')
			return false;
		rc = buf_putf(out, "the engine must say that network %s has an allowed name", v->object);
		break;
	}
	return rc == 0;
}
