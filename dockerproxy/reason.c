/* The reason ids of fields: collected from the schemas at load, so that a refusal can name one that lives on. */
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/policy_impl.h"
#include "dockerproxy/verdict_text.h"

#define MAX_REASONS 4096
#define MAX_ID 256

static int by_id(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *policy_reason(const struct policy *p, const char *id)
{
	const char **found = bsearch(&id, p->reasons, p->n_reasons, sizeof(*p->reasons), by_id);

	return found == NULL ? NULL : *found;
}

static int add(struct loader *l, struct slice id)
{
	struct policy *p = l->policy;
	const char **list;
	char *copy;

	for (unsigned i = 0; i < p->n_reasons; i++)
		if (slice_is(id, p->reasons[i]))
			return 0;
	if (p->n_reasons == MAX_REASONS)
		return loader_fail(l, 0, "the policy has more than %d fields", MAX_REASONS);
	list = realloc(p->reasons, (p->n_reasons + 1) * sizeof(*list));
	if (list == NULL)
		return err_errno(l->err, "%s", l->name);
	p->reasons = list;
	copy = loader_alloc(l, id.len + 1);
	if (copy == NULL)
		return -1;
	memcpy(copy, id.p, id.len);
	list[p->n_reasons++] = copy;
	return 0;
}

static int collect(struct loader *l, const struct schema *s, const char *prefix, bool top);

static int collect_property(struct loader *l, const struct schema_property *p, const char *prefix, bool top)
{
	char id[MAX_ID], below[MAX_ID];
	struct buf b;
	int rc;

	buf_init(&b, MAX_ID - 1);
	rc = verdict_put_id(&b, top && prefix[0] == '\0' ? "body" : prefix, p->name);
	if (rc == 0) {
		memcpy(id, buf_head(&b), buf_len(&b));
		id[buf_len(&b)] = '\0';
		buf_clear(&b);
		rc = verdict_put_id(&b, prefix, p->name);
	}
	if (rc == 0) {
		memcpy(below, buf_head(&b), buf_len(&b));
		below[buf_len(&b)] = '\0';
	}
	buf_release(&b);
	if (rc < 0)
		return loader_fail(l, 0, "the path to the field %.*s is too long", SLICE_ARG(p->name));
	if (add(l, slice_str(id)) < 0)
		return -1;
	return p->schema == NULL ? 0 : collect(l, p->schema, below, false);
}

/* Every field below s; the same names give the same id by whatever alternative they are reached. */
static int collect(struct loader *l, const struct schema *s, const char *prefix, bool top)
{
	const struct schema *one[] = { s->ref, s->items, s->contains, s->json, s->rest_schema, s->not };

	for (unsigned i = 0; i < s->n_properties; i++) {
		const struct schema_property *p = &s->properties[i];

		if (!s->map && collect_property(l, p, prefix, top) < 0)
			return -1;
		if (s->map && p->declared && collect(l, p->schema, prefix, top) < 0) /* data keys are no fields */
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(one); i++)
		if (one[i] != NULL && collect(l, one[i], prefix, top) < 0)
			return -1;
	for (unsigned i = 0; i < s->n_patterns; i++)
		if (collect(l, s->patterns[i].schema, prefix, top) < 0)
			return -1;
	for (unsigned i = 0; i < s->n_all_of; i++)
		if (collect(l, s->all_of[i], prefix, top) < 0)
			return -1;
	for (unsigned i = 0; i < s->n_any_of; i++)
		if (collect(l, s->any_of[i], prefix, top) < 0)
			return -1;
	return 0;
}

static int collect_endpoint(struct loader *l, const struct endpoint *e)
{
	for (unsigned i = 0; i < e->n_segments; i++) {
		struct slice name = e->segments[i].text;
		struct buf b;
		int rc;

		if (e->segments[i].type == SEGMENT_LITERAL)
			continue;
		buf_init(&b, MAX_ID);
		rc = verdict_put_id(&b, "path", name);
		if (rc == 0)
			rc = add(l, buf_slice(&b));
		else
			rc = loader_fail(l, 0, "the name of a path parameter is too long");
		buf_release(&b);
		if (rc < 0)
			return -1;
	}
	if (e->query != NULL && collect(l, e->query, "query", true) < 0)
		return -1;
	return e->body == NULL ? 0 : collect(l, e->body, "", true);
}

int reasons_load(struct loader *l)
{
	struct policy *p = l->policy;

	for (unsigned i = 0; i < p->n_endpoints; i++)
		if (collect_endpoint(l, &p->endpoints[i]) < 0)
			return -1;
	if (p->n_reasons > 0)
		qsort(p->reasons, p->n_reasons, sizeof(*p->reasons), by_id);
	return 0;
}
