/* Chooses between text and base64, and makes text harmless. */
#include "controller/text.h"

#include <stdio.h>
#include <string.h>

#include "controller/base64.h"
#include "controller/json_out.h"
#include "libgate/utf8.h"

size_t text_partial(struct slice s)
{
	for (size_t back = 1; back <= 3 && back <= s.len; back++) {
		unsigned char c = (unsigned char)s.p[s.len - back];

		if ((c & 0xc0) == 0x80)
			continue;
		size_t need = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
		return need > back ? back : 0;
	}
	return 0;
}

bool text_is_utf8(struct slice s)
{
	return utf8_valid(s) && (s.len == 0 || memchr(s.p, '\0', s.len) == NULL);
}

void text_set(struct json_object *o, const char *key, struct slice s, bool encoded)
{
	if (!encoded) {
		jset_str(o, key, s);
		return;
	}
	char *bytes = mem_dup(s);
	json_out_set_base64(o, key, bytes, slice_make(bytes, s.len));
}

char *text_bytes(struct slice value, struct slice encoding, size_t *len)
{
	if (encoding.p == NULL || slice_is(encoding, "utf8")) {
		*len = value.len;
		return mem_dup(value);
	}
	return slice_is(encoding, "base64") ? base64_decode(value, len) : NULL;
}

/* The length of the character at the start of s when a terminal only shows it, else 0. */
static size_t plain_character(struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (len > s.len || !utf8_valid(slice_make(s.p, len)))
		return 0;
	if (len == 1)
		return p[0] >= ' ' && p[0] != 0x7f ? 1 : 0;
	if (len == 2 && p[0] == 0xc2 && p[1] < 0xa0)
		return 0;
	/* U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069 */
	if (len == 3 && p[0] == 0xe2 &&
		((p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) ||
			(p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9)))
		return 0;
	return len;
}

char *text_printable(struct slice s)
{
	char *out = mem_zalloc(4 * s.len + 1), *at = out;

	while (s.len > 0) {
		size_t n = plain_character(s);

		if (n > 0) {
			memcpy(at, s.p, n);
			at += n;
		} else {
			at += snprintf(at, 5, "\\x%02x", (unsigned char)s.p[0]);
		}
		s = slice_skip(s, n > 0 ? n : 1);
	}
	return out;
}

void text_make_printable(struct json_object *o)
{
	if (json_object_is_type(o, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(o); i++)
			text_make_printable(json_object_array_get_idx(o, i));
	} else if (json_object_is_type(o, json_type_object)) {
		struct json_object_iter member;

		json_object_object_foreachC(o, member) text_make_printable(member.val);
	} else if (json_object_is_type(o, json_type_string)) {
		auto_free char *text =
			text_printable(slice_make(json_object_get_string(o), (size_t)json_object_get_string_len(o)));

		json_object_set_string(o, text);
	}
}
