/* Byte classes of HTTP/1.x: one table look-up instead of comparisons. Internal to http1_*.c. [pure] */
#ifndef GATE_HTTP1_CLASS_H
#define GATE_HTTP1_CLASS_H

#include <stdbool.h>
#include <stdint.h>

enum http_class {
	HTTP_C_TOKEN = 1 << 0, /* tchar, RFC 9110 section 5.6.2 */
	HTTP_C_VISIBLE = 1 << 1, /* VCHAR: 0x21..0x7e */
	HTTP_C_TEXT = 1 << 2, /* field content: VCHAR, SP, HTAB, obs-text */
	HTTP_C_HOST = 1 << 3, /* reg-name, RFC 3986 section 3.2.2, without the comma that joins lists */
	HTTP_C_DIGIT = 1 << 4,
	HTTP_C_HEX = 1 << 5,
};

extern const uint8_t http_class[256];

static inline bool http_is(char c, unsigned classes)
{
	return (http_class[(unsigned char)c] & classes) != 0;
}

#endif
