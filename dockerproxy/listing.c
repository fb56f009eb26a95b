/* Filters the engine's listings by label. */
#include "dockerproxy/listing.h"

#include <string.h>

static bool has_label(const struct json_node *object, const char *label)
{
	const struct json_node *labels = json_get(object, "Labels");
	const char *equals = strchr(label, '=');
	struct slice key = slice_make(label, equals != NULL ? (size_t)(equals - label) : strlen(label));
	struct slice value = slice_str(equals != NULL ? equals + 1 : "");

	if (labels == NULL || labels->type != JSON_OBJECT)
		return false;
	for (const struct json_node *l = labels->child; l != NULL; l = l->next)
		if (slice_eq(l->key, key))
			return l->type == JSON_STRING && slice_eq(l->text, value);
	return false;
}

/* NUL becomes U+FFFD. */
static int put_clean_text(struct buf *out, struct slice text)
{
	if (buf_putc(out, '"') < 0)
		return -1;
	for (;;) {
		const char *nul = text.len == 0 ? NULL : memchr(text.p, 0, text.len);

		if (buf_put_json(out, nul != NULL ? slice_make(text.p, (size_t)(nul - text.p)) : text) < 0)
			return -1;
		if (nul == NULL)
			return buf_putc(out, '"');
		if (buf_puts(out, "\xef\xbf\xbd") < 0)
			return -1;
		text = slice_skip(text, (size_t)(nul - text.p) + 1);
	}
}

/*
 * Labels and commands come from images, and may hold NUL. Strict readers, ours among them, refuse the whole of a listing for
 * that: one image would hide every container. A member whose key holds it is left out, as any other key could be there too.
 */
static int put_clean(struct buf *out, const struct json_node *node)
{
	bool first = true;

	if (node->type == JSON_STRING)
		return put_clean_text(out, node->text);
	if (node->type != JSON_ARRAY && node->type != JSON_OBJECT)
		return json_put(out, node);
	if (buf_putc(out, node->type == JSON_ARRAY ? '[' : '{') < 0)
		return -1;
	for (const struct json_node *n = node->child; n != NULL; n = n->next) {
		if (node->type == JSON_OBJECT && memchr(n->key.p, 0, n->key.len) != NULL)
			continue;
		if ((!first && buf_putc(out, ',') < 0) ||
			(node->type == JSON_OBJECT && (json_put_string(out, n->key) < 0 || buf_putc(out, ':') < 0)) ||
			put_clean(out, n) < 0)
			return -1;
		first = false;
	}
	return buf_putc(out, node->type == JSON_ARRAY ? ']' : '}');
}

static int put_filtered(const struct json_node *array, const char *label, struct buf *out)
{
	bool first = true;

	if (buf_putc(out, '[') < 0)
		return -1;
	for (const struct json_node *i = array->child; i != NULL; i = i->next) {
		if (!has_label(i, label))
			continue;
		if ((!first && buf_putc(out, ',') < 0) || put_clean(out, i) < 0)
			return -1;
		first = false;
	}
	return buf_putc(out, ']');
}

/* {"Volumes": [...], "Warnings": ...}: only what is known passes. */
static int put_volumes(const struct json_node *root, const char *label, struct buf *out)
{
	const struct json_node *volumes = json_get(root, "Volumes");

	if (volumes == NULL || (volumes->type != JSON_ARRAY && volumes->type != JSON_NULL))
		return -1;
	if (buf_puts(out, "{\"Volumes\":") < 0)
		return -1;
	if (volumes->type == JSON_NULL ? buf_puts(out, "null") < 0 : put_filtered(volumes, label, out) < 0)
		return -1;
	/* Warnings name drivers and volumes of others. */
	return buf_puts(out, ",\"Warnings\":null}");
}

int listing_filter(struct json_doc *doc, struct slice answer, const char *label, struct buf *out)
{
	enum json_fault fault;
	size_t offset;
	const struct json_node *root = json_parse(doc, answer, JSON_NULS, &fault, &offset);

	if (root == NULL)
		return -1;
	if (root->type == JSON_ARRAY ? put_filtered(root, label, out) < 0
								 : root->type != JSON_OBJECT || put_volumes(root, label, out) < 0)
		return -1;
	return buf_putc(out, '\n');
}
