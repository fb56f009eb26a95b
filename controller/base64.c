/* Encodes and decodes base64. */
#include "controller/base64.h"

#include <stdint.h>
#include <string.h>

#include "controller/mem.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The two letters of each twelve bits: half the look-ups, and files are read as fast as they come. */
static char pairs[4096][2];

static void fill_pairs(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		pairs[i][0] = alphabet[i >> 6];
		pairs[i][1] = alphabet[i & 63];
	}
}

static uint32_t three_bytes(const unsigned char *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

void base64_write(char *out, struct slice s)
{
	const unsigned char *p = (const unsigned char *)s.p, *end = p + s.len / 3 * 3;
	size_t left = s.len % 3;

	if (pairs[0][0] == '\0')
		fill_pairs();
	for (; p < end; p += 3, out += 4) {
		uint32_t v = three_bytes(p);

		memcpy(out, pairs[v >> 12], 2);
		memcpy(out + 2, pairs[v & 4095], 2);
	}
	if (left > 0) {
		uint32_t v = (uint32_t)p[0] << 16 | (left > 1 ? (uint32_t)p[1] << 8 : 0);

		memcpy(out, pairs[v >> 12], 2);
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

/* What each byte stands for, one more than that, so that 0 is none. */
static uint8_t values[256];

static void fill_values(void)
{
	for (size_t i = 0; i < 64; i++)
		values[(unsigned char)alphabet[i]] = (uint8_t)(i + 1);
}

/* Four letters' bits, the first `n` of them read; -1 where one is none. */
static int32_t four_letters(const char *p, size_t n)
{
	int32_t v = 0;

	for (size_t i = 0; i < 4; i++) {
		int d = i < n ? values[(unsigned char)p[i]] - 1 : 0;

		if (d < 0)
			return -1;
		v = v << 6 | d;
	}
	return v;
}

char *base64_decode(struct slice s, size_t *len)
{
	size_t pad = 0, n = 0;

	if (s.len % 4 != 0)
		return NULL;
	if (values['A'] == 0)
		fill_values();
	while (pad < 2 && pad < s.len && s.p[s.len - 1 - pad] == '=')
		pad++;
	char *out = mem_zalloc(s.len / 4 * 3 + 1);
	for (size_t i = 0; i < s.len; i += 4) {
		size_t letters = i + 4 == s.len ? 4 - pad : 4;
		int32_t v = four_letters(s.p + i, letters);

		/* Bits that no byte carries must be zero: one text for one value. */
		if (v < 0 || (letters == 3 && (v & 0xff) != 0) || (letters == 2 && (v & 0xffff) != 0)) {
			free(out);
			return NULL;
		}
		out[n++] = (char)(v >> 16);
		if (letters > 2)
			out[n++] = (char)(v >> 8 & 0xff);
		if (letters > 3)
			out[n++] = (char)(v & 0xff);
	}
	*len = n;
	return out;
}
