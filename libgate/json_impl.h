/* What the files of the strict JSON reader share (json.c, json_token.c, json_repeated.c). Private to them. [pure] */
#ifndef GATE_JSON_IMPL_H
#define GATE_JSON_IMPL_H

#include "libgate/json.h"

#include <stddef.h>

struct json_chunk {
	struct json_chunk *next;
	size_t size;
	size_t used;
	_Alignas(max_align_t) char data[];
};

/* The child of an open object or array that is being read. */
struct json_step {
	enum { STEP_NONE, STEP_MEMBER, STEP_ITEM } type;
	struct slice key;
	uint32_t item;
};

struct json_doc {
	struct json_chunk *first;
	struct json_chunk *current;
	struct json_node **table; /* scratch of the search for repeated names */
	size_t table_size;
	struct json_step path[JSON_MAX_DEPTH];
	unsigned path_depth; /* of the fault */
};

struct json_reader {
	struct json_doc *doc;
	const unsigned char *base;
	const unsigned char *p;
	const unsigned char *end;
	unsigned flags;
	unsigned depth;
	enum json_fault fault;
	size_t fault_at;
};

void *json_alloc_grow(struct json_doc *doc, size_t n);

/* Memory that lives as long as the document; NULL: none. */
static inline void *json_alloc(struct json_doc *doc, size_t n)
{
	struct json_chunk *c = doc->current;
	void *p;

	n = (n + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	if (c == NULL || c->size - c->used < n)
		return json_alloc_grow(doc, n);
	p = c->data + c->used;
	c->used += n;
	return p;
}

/* Each of the following reads at ps->p and moves it on; false: the fault and its place are set. */
bool json_fail(struct json_reader *ps, enum json_fault fault, const unsigned char *at); /* always false */
bool json_fail_byte(struct json_reader *ps); /* a byte that cannot stand here; always false */
bool json_skip_spaces(struct json_reader *ps);
bool json_read_string(struct json_reader *ps, struct slice *out, uint8_t *flags, bool *plain);
bool json_read_number(struct json_reader *ps, struct json_node *node);
bool json_read_literal(struct json_reader *ps, const char *word);
bool json_check_repeated(struct json_reader *ps, const struct json_node *object); /* that no member is there twice */

/* Documents of programs seldom have any. */
static inline bool json_skip_space(struct json_reader *ps)
{
	static const bool may_be[256] = { [' '] = true, ['\n'] = true, ['\t'] = true, ['\r'] = true, ['/'] = true };

	return ps->p == ps->end || !may_be[*ps->p] || json_skip_spaces(ps);
}

#endif
