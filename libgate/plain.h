/*
 * Runs of plain text: printable ASCII without quote and backslash, the bytes that a JSON string holds as they are. [pure]
 *
 * Sixteen or eight at a time; most of what is read and written here is such text.
 */
#ifndef GATE_PLAIN_H
#define GATE_PLAIN_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PLAIN_EACH(byte) (UINT64_MAX / 255 * (byte))

static inline int plain_is(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* The high bit of a byte is set where that byte is zero; a borrow may set it in bytes above such a one, too. */
static inline uint64_t plain_zeros(uint64_t v)
{
	return (v - PLAIN_EACH(1)) & ~v & PLAIN_EACH(0x80);
}

#ifdef __SSE2__
/* A bit for each of sixteen bytes that is not plain. */
static inline unsigned plain_others(const unsigned char *p)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i others = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); /* signed: from 0x80 on, too */

	others = _mm_or_si128(others, _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
	others = _mm_or_si128(others, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
	others = _mm_or_si128(others, _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f)));
	return (unsigned)_mm_movemask_epi8(others);
}
#endif

/* How many bytes at p, of len, are plain before the first that is not. */
static inline size_t plain_run(const unsigned char *p, size_t len)
{
	size_t i = 0;
	uint64_t v;

#ifdef __SSE2__
	for (; len - i >= 16; i += 16) {
		unsigned others = plain_others(p + i);

		if (others != 0)
			return i + (size_t)__builtin_ctz(others);
	}
#endif
	for (; len - i >= sizeof(v); i += sizeof(v)) {
		uint64_t others;

		memcpy(&v, p + i, sizeof(v));
		v = le64toh(v); /* the first byte is the lowest: what a borrow sets falsely lies behind it */
		others = (((v - PLAIN_EACH(0x20)) | v) & PLAIN_EACH(0x80)) | plain_zeros(v ^ PLAIN_EACH('"')) |
			plain_zeros(v ^ PLAIN_EACH('\\')) | plain_zeros(v ^ PLAIN_EACH(0x7f));
		if (others != 0)
			return i + (size_t)__builtin_ctzll(others) / 8;
	}
	while (i < len && plain_is(p[i]))
		i++;
	return i;
}

#endif
