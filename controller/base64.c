/* Encodes and decodes base64. */
#include "controller/base64.h"

#include <stdint.h>

#include "controller/mem.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(char *out, struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.p, *end = p + s.len / 3 * 3;
	size_t left = s.len % 3;

	for (; p < end; p += 3, out += 4) {
		uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

		out[0] = alphabet[v >> 18];
		out[1] = alphabet[v >> 12 & 63];
		out[2] = alphabet[v >> 6 & 63];
		out[3] = alphabet[v & 63];
	}
	if (left > 0) {
		uint32_t v = (uint32_t)p[0] << 16 | (left > 1 ? (uint32_t)p[1] << 8 : 0);

		out[0] = alphabet[v >> 18];
		out[1] = alphabet[v >> 12 & 63];
		out[2] = left > 1 ? alphabet[v >> 6 & 63] : '=';
		out[3] = '=';
	}
}

char *base64_encode(struct slice s, size_t *len)
{
	*len = BASE64_LEN(s.len);
	char *out = mem_grow(NULL, *len + 1);

	base64_write(out, s);
	out[*len] = '\0';
	return out;
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

char *base64_decode(struct slice s, size_t *len)
{
	size_t pad = 0, n = 0;

	if (s.len % 4 != 0)
		return NULL;
	while (pad < 2 && pad < s.len && s.p[s.len - 1 - pad] == '=')
		pad++;
	char *out = mem_zalloc(s.len / 4 * 3 + 1);
	for (size_t i = 0; i < s.len; i += 4) {
		uint32_t v = 0;
		size_t data = i + 4 == s.len ? 4 - pad : 4;

		for (size_t k = 0; k < 4; k++) {
			int d = k < data ? value_of(s.p[i + k]) : 0;
			if (d < 0) {
				free(out);
				return NULL;
			}
			v = v << 6 | (uint32_t)d;
		}
		/* Bits that no byte carries must be zero: one text for one value. */
		if ((data == 3 && (v & 0xff) != 0) || (data == 2 && (v & 0xffff) != 0)) {
			free(out);
			return NULL;
		}
		out[n++] = (char)(v >> 16);
		if (data > 2)
			out[n++] = (char)(v >> 8 & 0xff);
		if (data > 3)
			out[n++] = (char)(v & 0xff);
	}
	*len = n;
	return out;
}
