/* Strict JSON: one pass over the text into a tree of nodes that lives in the document's arena. */
#include "libgate/json.h"

#include <stdlib.h>
#include <string.h>

#include "libgate/json_impl.h"

#define CHUNK_SIZE 16384 /* bytes of an ordinary arena chunk */
#define KEEP_MAX (256 * 1024) /* bytes of arena kept from one document to the next */

static const struct {
	const char *id;
	const char *text;
} faults[JSON_FAULT_COUNT] = {
	[JSON_OK] = { "json-ok", "no fault" },
#define ROW(sym, id_, text_) [JSON_FAULT_##sym] = { id_, text_ },
#include "libgate/json_fault.def"
#undef ROW
};

const char *json_fault_id(enum json_fault f)
{
	return faults[f].id;
}

const char *json_fault_text(enum json_fault f)
{
	return faults[f].text;
}

/* --- arena ---------------------------------------------------------------------------------------------------- */

struct json_doc *json_doc_new(void)
{
	return calloc(1, sizeof(struct json_doc));
}

static void chunks_free(struct json_chunk *c)
{
	while (c != NULL) {
		struct json_chunk *next = c->next;

		free(c);
		c = next;
	}
}

void json_doc_free(struct json_doc *doc)
{
	if (doc == NULL)
		return;
	chunks_free(doc->first);
	free(doc->table);
	free(doc);
}

/* Forgets the last document. One unusually large document must not hold its memory for ever. */
static void arena_reset(struct json_doc *doc)
{
	struct json_chunk **link = &doc->first;
	size_t kept = 0;

	while (*link != NULL && kept + (*link)->size <= KEEP_MAX) {
		kept += (*link)->size;
		(*link)->used = 0;
		link = &(*link)->next;
	}
	chunks_free(*link);
	*link = NULL;
	doc->current = doc->first;
	if (doc->table_size * sizeof(*doc->table) > KEEP_MAX) {
		free(doc->table);
		doc->table = NULL;
		doc->table_size = 0;
	}
}

void *json_alloc_grow(struct json_doc *doc, size_t n)
{
	struct json_chunk *c = doc->current;
	size_t size = n > CHUNK_SIZE ? n : CHUNK_SIZE;
	struct json_chunk *fresh;

	if (c != NULL && c->next != NULL && c->next->size >= n) {
		doc->current = c->next;
		doc->current->used = n;
		return doc->current->data;
	}
	fresh = malloc(sizeof(*fresh) + size);
	if (fresh == NULL)
		return NULL;
	fresh->size = size;
	fresh->used = n;
	if (c == NULL) {
		fresh->next = doc->first;
		doc->first = fresh;
	} else {
		fresh->next = c->next;
		c->next = fresh;
	}
	doc->current = fresh;
	return fresh->data;
}

/* --- values --------------------------------------------------------------------------------------------------- */

static bool value(struct json_reader *ps, struct json_node *node);

static struct json_node *node_new(struct json_reader *ps)
{
	struct json_node *node = json_alloc(ps->doc, sizeof(*node));

	if (node == NULL) {
		json_fail(ps, JSON_FAULT_MEMORY, ps->p);
		return NULL;
	}
	memset(node, 0, sizeof(*node));
	return node;
}

/* Between two elements: true with *more for a comma (space after it skipped), without it at the closing byte. */
static bool separator(struct json_reader *ps, unsigned char close, bool *more)
{
	if (!json_skip_space(ps))
		return false;
	if (ps->p == ps->end || (*ps->p != ',' && *ps->p != close))
		return json_fail_byte(ps);
	*more = *ps->p++ == ',';
	return !*more || json_skip_space(ps);
}

static bool array(struct json_reader *ps, struct json_node *node)
{
	struct json_node **link = &node->child;
	bool more = true;

	node->type = JSON_ARRAY;
	node->child = NULL;
	ps->p++;
	if (!json_skip_space(ps))
		return false;
	if (ps->p < ps->end && *ps->p == ']') {
		ps->p++;
		return true;
	}
	while (more) {
		struct json_node *item = node_new(ps);

		ps->doc->path[ps->depth - 1] = (struct json_step){ .type = STEP_ITEM, .item = node->count };
		if (item == NULL || !value(ps, item) || !separator(ps, ']', &more))
			return false;
		*link = item;
		link = &item->next;
		node->count++;
	}
	return true;
}

static bool member(struct json_reader *ps, struct json_node *m)
{
	struct json_step *step = &ps->doc->path[ps->depth - 1];

	step->type = STEP_NONE;
	if (ps->p == ps->end || *ps->p != '"')
		return json_fail_byte(ps);
	m->key_offset = (uint32_t)(ps->p - ps->base);
	if (!json_read_string(ps, &m->key, &m->key_flags, &m->plain_key))
		return false;
	m->key_hash = json_key_hash(m->key);
	*step = (struct json_step){ .type = STEP_MEMBER, .key = m->key };
	if (!json_skip_space(ps))
		return false;
	if (ps->p == ps->end || *ps->p != ':')
		return json_fail_byte(ps);
	ps->p++;
	return json_skip_space(ps) && value(ps, m);
}

static bool object(struct json_reader *ps, struct json_node *node)
{
	struct json_node **link = &node->child;
	bool more = true;

	node->type = JSON_OBJECT;
	node->child = NULL;
	ps->p++;
	if (!json_skip_space(ps))
		return false;
	if (ps->p < ps->end && *ps->p == '}') {
		ps->p++;
		return true;
	}
	while (more) {
		struct json_node *m = node_new(ps);

		if (m == NULL || !member(ps, m) || !separator(ps, '}', &more))
			return false;
		*link = m;
		link = &m->next;
		node->count++;
	}
	return json_check_repeated(ps, node);
}

static bool nested(struct json_reader *ps, struct json_node *node,
	bool (*read)(struct json_reader *, struct json_node *))
{
	bool ok;

	if (ps->depth == JSON_MAX_DEPTH)
		return json_fail(ps, JSON_FAULT_DEPTH, ps->p);
	ps->depth++;
	ok = read(ps, node);
	ps->depth--;
	return ok;
}

static bool value(struct json_reader *ps, struct json_node *node)
{
	uint8_t flags = 0;

	if (ps->p == ps->end)
		return json_fail(ps, JSON_FAULT_END, ps->p);
	node->offset = (uint32_t)(ps->p - ps->base);
	switch (*ps->p) {
	case '{':
		return nested(ps, node, object);
	case '[':
		return nested(ps, node, array);
	case '"':
		node->type = JSON_STRING;
		return json_read_string(ps, &node->text, &flags, &node->plain_text);
	case 't':
		node->type = JSON_BOOL;
		node->boolean = true;
		return json_read_literal(ps, "true");
	case 'f':
		node->type = JSON_BOOL;
		node->boolean = false;
		return json_read_literal(ps, "false");
	case 'n':
		node->type = JSON_NULL;
		return json_read_literal(ps, "null");
	case '-':
	case '0' ... '9':
		return json_read_number(ps, node);
	default:
		return json_fail_byte(ps);
	}
}

static struct json_node *document(struct json_reader *ps)
{
	struct json_node *root;

	if (!json_skip_space(ps))
		return NULL;
	root = node_new(ps);
	if (root == NULL || !value(ps, root) || !json_skip_space(ps))
		return NULL;
	if (ps->p != ps->end) {
		json_fail(ps, *ps->p == '\0' ? JSON_FAULT_NUL : JSON_FAULT_TRAILING, ps->p);
		return NULL;
	}
	return root;
}

struct json_node *json_parse(struct json_doc *doc, struct slice input, unsigned flags, enum json_fault *fault,
	size_t *offset)
{
	struct json_reader ps = {
		.doc = doc,
		.base = (const unsigned char *)input.p,
		.p = (const unsigned char *)input.p,
		.flags = flags,
	};
	struct json_node *root;

	arena_reset(doc);
	doc->path_depth = 0;
	*fault = JSON_OK;
	*offset = 0;
	if (input.len > UINT32_MAX - 1) {
		*fault = JSON_FAULT_SIZE;
		return NULL;
	}
	if (input.len == 0) {
		*fault = JSON_FAULT_END;
		return NULL;
	}
	ps.end = ps.p + input.len;
	root = document(&ps);
	if (root == NULL) {
		*fault = ps.fault;
		*offset = ps.fault_at;
	}
	return root;
}

int json_put_fault_pointer(struct buf *b, const struct json_doc *doc)
{
	for (unsigned i = 0; i < doc->path_depth && doc->path[i].type != STEP_NONE; i++) {
		const struct json_step *s = &doc->path[i];
		int rc = s->type == STEP_ITEM ? buf_putf(b, "/%u", (unsigned)s->item) : json_pointer_push(b, s->key);

		if (rc < 0)
			return -1;
	}
	return 0;
}
