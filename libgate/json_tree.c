/* Asking a JSON tree and writing it: members, compact text, pointers, positions. */
#include "libgate/json.h"

#include <string.h>

void json_position(struct slice input, size_t offset, unsigned *line, unsigned *column)
{
	*line = 1;
	*column = 1;
	if (offset > input.len)
		offset = input.len;
	for (size_t i = 0; i < offset; i++) {
		if (input.p[i] == '\n') {
			++*line;
			*column = 1;
		} else {
			++*column;
		}
	}
}

const struct json_node *json_get(const struct json_node *node, const char *key)
{
	if (node == NULL || node->type != JSON_OBJECT)
		return NULL;
	for (const struct json_node *m = node->child; m != NULL; m = m->next)
		if (slice_is(m->key, key))
			return m;
	return NULL;
}

bool json_get_string(const struct json_node *node, const char *key, struct slice *out)
{
	const struct json_node *m = json_get(node, key);

	if (m == NULL || m->type != JSON_STRING)
		return false;
	*out = m->text;
	return true;
}

bool json_get_int(const struct json_node *node, const char *key, int64_t *out)
{
	const struct json_node *m = json_get(node, key);

	if (m == NULL || m->type != JSON_INT)
		return false;
	*out = m->integer;
	return true;
}

bool json_get_bool(const struct json_node *node, const char *key, bool *out)
{
	const struct json_node *m = json_get(node, key);

	if (m == NULL || m->type != JSON_BOOL)
		return false;
	*out = m->boolean;
	return true;
}

int json_put_string(struct buf *b, struct slice s)
{
	if (buf_putc(b, '"') < 0 || buf_put_json(b, s) < 0)
		return -1;
	return buf_putc(b, '"');
}

static int put_text(struct buf *b, struct slice s, bool plain)
{
	size_t n = s.len + 2;
	char *to;

	if (!plain)
		return json_put_string(b, s);
	to = b->cap - b->end >= n ? b->data + b->end : buf_reserve(b, n);
	if (to == NULL)
		return -1;
	to[0] = '"';
	memcpy(to + 1, s.p, s.len);
	to[s.len + 1] = '"';
	buf_commit(b, n);
	return 0;
}

int json_put_key(struct buf *b, const struct json_node *member)
{
	return put_text(b, member->key, member->plain_key) < 0 ? -1 : buf_putc(b, ':');
}

static int put_children(struct buf *b, const struct json_node *node, char open, char close)
{
	if (buf_putc(b, open) < 0)
		return -1;
	for (const struct json_node *n = node->child; n != NULL; n = n->next) {
		if (n != node->child && buf_putc(b, ',') < 0)
			return -1;
		if (node->type == JSON_OBJECT && json_put_key(b, n) < 0)
			return -1;
		if (json_put(b, n) < 0)
			return -1;
	}
	return buf_putc(b, close);
}

int json_put(struct buf *b, const struct json_node *node)
{
	switch (node->type) {
	case JSON_NULL:
		return buf_puts(b, "null");
	case JSON_BOOL:
		return buf_puts(b, node->boolean ? "true" : "false");
	case JSON_INT:
	case JSON_REAL:
		return buf_put_slice(b, node->digits);
	case JSON_STRING:
		return put_text(b, node->text, node->plain_text);
	case JSON_ARRAY:
		return put_children(b, node, '[', ']');
	case JSON_OBJECT:
		return put_children(b, node, '{', '}');
	}
	return -1;
}

int json_pointer_push(struct buf *b, struct slice token)
{
	size_t run = 0;

	if (buf_putc(b, '/') < 0)
		return -1;
	for (size_t i = 0; i < token.len; i++) {
		if (token.p[i] != '~' && token.p[i] != '/')
			continue;
		if (buf_put(b, token.p + run, i - run) < 0 || buf_puts(b, token.p[i] == '~' ? "~0" : "~1") < 0)
			return -1;
		run = i + 1;
	}
	return buf_put(b, token.p + run, token.len - run);
}
