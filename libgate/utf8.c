/* Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF. */
#include "libgate/utf8.h"

#include <stdint.h>
#include <string.h>

size_t utf8_length(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		n = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		n = 3;
		if (p[0] == 0xe0)
			low = 0xa0;
		else if (p[0] == 0xed)
			high = 0x9f;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		n = 4;
		if (p[0] == 0xf0)
			low = 0x90;
		else if (p[0] == 0xf4)
			high = 0x8f;
	} else {
		return 0;
	}
	if (len < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* Bytes at the start that are ASCII, in steps of eight: most text is nothing else. */
static size_t ascii_run(const char *p, size_t len)
{
	size_t i = 0;
	uint64_t word;

	for (; len - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		if ((word & UINT64_C(0x8080808080808080)) != 0)
			break;
	}
	return i;
}

bool utf8_valid(struct slice s)
{
	for (size_t i = 0; i < s.len;) {
		i += ascii_run(s.p + i, s.len - i);
		if (i == s.len)
			break;
		size_t n = utf8_length(s.p + i, s.len - i);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}
