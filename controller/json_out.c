/* Writes a json-c document into a buffer. */
#include "controller/json_out.h"

#include <inttypes.h>

#include "controller/base64.h"
#include "libgate/json.h"

struct encoded {
	char *block;
	struct slice bytes;
};

/* For json-c itself, where a document is made text by other ways than json_out_put(). */
static int encoded_to_text(struct json_object *o, struct printbuf *pb, int level, int flags)
{
	const struct encoded *e = json_object_get_userdata(o);
	size_t len;
	auto_free char *text = base64_encode(e->bytes, &len);

	return printbuf_memappend(pb, "\"", 1) < 0 || printbuf_memappend(pb, text, (int)len) < 0
		? -1
		: printbuf_memappend(pb, "\"", 1);
}

static void encoded_free(struct json_object *o, void *arg)
{
	struct encoded *e = arg;

	free(e->block);
	free(e);
}

void json_out_set_base64(struct json_object *o, const char *key, char *block, struct slice bytes)
{
	struct encoded *e = mem_zalloc(sizeof(*e));

	*e = (struct encoded){ block, bytes };
	jset_cstr(o, key, "");
	json_object_set_serializer(json_object_object_get(o, key), encoded_to_text, e, encoded_free);
}

static int put_base64(struct buf *b, struct slice bytes)
{
	size_t len = BASE64_LEN(bytes.len);
	char *at = buf_reserve(b, len + 2);

	if (at == NULL)
		return -1;
	at[0] = '"';
	base64_write(at + 1, bytes);
	at[len + 1] = '"';
	buf_commit(b, len + 2);
	return 0;
}

static int put_string(struct buf *b, struct json_object *o)
{
	const struct encoded *e = json_object_get_userdata(o);

	if (e != NULL)
		return put_base64(b, e->bytes);
	return json_put_string(b, slice_make(json_object_get_string(o), (size_t)json_object_get_string_len(o)));
}

static int put_value(struct buf *b, struct json_object *o);

static int put_object(struct buf *b, struct json_object *o)
{
	struct json_object_iter member;
	bool first = true;

	if (buf_putc(b, '{') != 0)
		return -1;
	json_object_object_foreachC(o, member)
	{
		if ((!first && buf_putc(b, ',') != 0) || json_put_string(b, slice_str(member.key)) != 0 ||
			buf_putc(b, ':') != 0 || put_value(b, member.val) != 0)
			return -1;
		first = false;
	}
	return buf_putc(b, '}');
}

static int put_array(struct buf *b, struct json_object *o)
{
	if (buf_putc(b, '[') != 0)
		return -1;
	for (size_t i = 0; i < json_object_array_length(o); i++)
		if ((i > 0 && buf_putc(b, ',') != 0) || put_value(b, json_object_array_get_idx(o, i)) != 0)
			return -1;
	return buf_putc(b, ']');
}

static int put_value(struct buf *b, struct json_object *o)
{
	switch (json_object_get_type(o)) {
	case json_type_null:
		return buf_puts(b, "null");
	case json_type_boolean:
		return buf_puts(b, json_object_get_boolean(o) ? "true" : "false");
	case json_type_int:
		return buf_putf(b, "%" PRId64, json_object_get_int64(o));
	case json_type_double:
		return buf_puts(b, json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	case json_type_string:
		return put_string(b, o);
	case json_type_array:
		return put_array(b, o);
	case json_type_object:
		return put_object(b, o);
	}
	return -1;
}

int json_out_put(struct buf *b, struct json_object *o)
{
	size_t before = buf_len(b);

	if (put_value(b, o) == 0)
		return 0;
	b->end = b->start + before;
	return -1;
}
