/* Byte classes of HTTP/1.x. */
#include "libgate/http1_class.h"

#define TEXT HTTP_C_TEXT
#define MARK (HTTP_C_TEXT | HTTP_C_VISIBLE) /* delimiters: visible, in no narrower class */
#define TOKEN (MARK | HTTP_C_TOKEN)
#define HOST (MARK | HTTP_C_HOST)
#define NAME (TOKEN | HTTP_C_HOST)

const uint8_t http_class[256] = {
	['\t'] = TEXT,
	[' '] = TEXT,
	['!'] = NAME,
	['"'] = MARK,
	['#'] = TOKEN,
	['$' ... '\''] = NAME,
	['('] = HOST,
	[')'] = HOST,
	['*'] = NAME,
	['+'] = NAME,
	[','] = MARK,
	['-'] = NAME,
	['.'] = NAME,
	['/'] = MARK,
	['0' ... '9'] = NAME | HTTP_C_DIGIT | HTTP_C_HEX,
	[':'] = MARK,
	[';'] = HOST,
	['<'] = MARK,
	['='] = HOST,
	['>' ... '@'] = MARK,
	['A' ... 'F'] = NAME | HTTP_C_HEX,
	['G' ... 'Z'] = NAME,
	['[' ... ']'] = MARK,
	['^'] = TOKEN,
	['_'] = NAME,
	['`'] = TOKEN,
	['a' ... 'f'] = NAME | HTTP_C_HEX,
	['g' ... 'z'] = NAME,
	['{'] = MARK,
	['|'] = TOKEN,
	['}'] = MARK,
	['~'] = NAME,
	[0x80 ... 0xff] = TEXT,
};
