/* Encodes and decodes base64. */
#include "controller/base64.h"

#include <stdint.h>

#include "controller/mem.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(struct slice s, size_t *len)
{
	const unsigned char *p = (const unsigned char *)s.p;
	char *out = mem_zalloc((s.len + 2) / 3 * 4 + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.len; i += 3) {
		size_t left = s.len - i;
		uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);

		out[n++] = alphabet[v >> 18];
		out[n++] = alphabet[v >> 12 & 63];
		out[n++] = left > 1 ? alphabet[v >> 6 & 63] : '=';
		out[n++] = left > 2 ? alphabet[v & 63] : '=';
	}
	*len = n;
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
