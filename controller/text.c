/* Chooses between text and base64. */
#include "controller/text.h"

#include "controller/base64.h"
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
	size_t len;

	if (!encoded) {
		jset_str(o, key, s);
		return;
	}
	auto_free char *text = base64_encode(s, &len);
	jset_str(o, key, slice_make(text, len));
}

char *text_bytes(struct slice value, struct slice encoding, size_t *len)
{
	if (encoding.p == NULL || slice_is(encoding, "utf8")) {
		*len = value.len;
		return mem_dup(value);
	}
	return slice_is(encoding, "base64") ? base64_decode(value, len) : NULL;
}
