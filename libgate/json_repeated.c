/* Whether an object names a member twice, in time that no choice of names makes quadratic. */
#include "libgate/json_impl.h"

#include <stdlib.h>
#include <string.h>

#define PAIRWISE_MAX 8 /* members up to which names are compared each with each */

uint32_t json_key_hash(struct slice key)
{
	const uint64_t k = 0x9e3779b97f4a7c15u;
	uint64_t h = key.len * k;
	const char *p = key.p;
	size_t n = key.len;
	uint64_t w = 0;

	for (; n > 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * k;
		h ^= h >> 29;
	}
	/* The last one to eight bytes; where there are more before them, the eight that end the key. */
	w = 0;
	if (key.len >= 8) {
		memcpy(&w, p + n - 8, 8);
	} else if (n >= 4) {
		uint32_t first, last;

		memcpy(&first, p, 4);
		memcpy(&last, p + n - 4, 4);
		w = (uint64_t)first << 32 | last;
	} else if (n > 0) {
		w = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n / 2] << 8 | (unsigned char)p[n - 1];
	}
	h = (h ^ w) * k;
	return (uint32_t)(h >> 32);
}

static int key_order(const void *a, const void *b)
{
	const struct json_node *x = *(struct json_node *const *)a;
	const struct json_node *y = *(struct json_node *const *)b;
	int order;

	if (x->key.len != y->key.len)
		return x->key.len < y->key.len ? -1 : 1;
	order = memcmp(x->key.p, y->key.p, x->key.len);
	if (order != 0)
		return order;
	return x->key_offset < y->key_offset ? -1 : 1;
}

static const struct json_node *repeated_pairwise(const struct json_node *object)
{
	for (const struct json_node *m = object->child; m != NULL; m = m->next)
		for (const struct json_node *n = object->child; n != m; n = n->next)
			if (n->key_hash == m->key_hash && slice_eq(n->key, m->key))
				return m;
	return NULL;
}

/* Names chosen to collide in the hash cost n log n comparisons here, not n squared. */
static const struct json_node *repeated_sorted(struct json_doc *doc, const struct json_node *object)
{
	const struct json_node *found = NULL;
	size_t n = 0;

	for (struct json_node *m = object->child; m != NULL; m = m->next)
		doc->table[n++] = m;
	qsort(doc->table, n, sizeof(*doc->table), key_order);
	for (size_t i = 1; i < n; i++)
		if (slice_eq(doc->table[i - 1]->key, doc->table[i]->key) &&
			(found == NULL || doc->table[i]->key_offset < found->key_offset))
			found = doc->table[i];
	return found;
}

static const struct json_node *repeated_hashed(struct json_doc *doc, const struct json_node *object, size_t size)
{
	size_t budget = 8 * (size_t)object->count; /* probes; more means chosen collisions */

	memset(doc->table, 0, size * sizeof(*doc->table));
	for (struct json_node *m = object->child; m != NULL; m = m->next) {
		size_t i = m->key_hash & (size - 1);

		for (; doc->table[i] != NULL; i = (i + 1) & (size - 1)) {
			if (doc->table[i]->key_hash == m->key_hash && slice_eq(doc->table[i]->key, m->key))
				return m;
			if (budget-- == 0)
				return repeated_sorted(doc, object);
		}
		doc->table[i] = m;
	}
	return NULL;
}

bool json_check_repeated(struct json_reader *ps, const struct json_node *object)
{
	const struct json_node *found;
	size_t size = 32;

	if (object->count <= PAIRWISE_MAX) {
		found = repeated_pairwise(object);
	} else {
		while (size < 2 * (size_t)object->count)
			size *= 2;
		if (ps->doc->table_size < size) {
			struct json_node **table = realloc(ps->doc->table, size * sizeof(*table));

			if (table == NULL)
				return json_fail(ps, JSON_FAULT_MEMORY, ps->p);
			ps->doc->table = table;
			ps->doc->table_size = size;
		}
		found = repeated_hashed(ps->doc, object, size);
	}
	if (found == NULL)
		return true;
	ps->doc->path[ps->depth - 1] = (struct json_step){ .type = STEP_MEMBER, .key = found->key };
	return json_fail(ps, JSON_FAULT_DUPLICATE, ps->base + found->key_offset);
}
