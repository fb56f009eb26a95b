/* Well-formed UTF-8 (RFC 3629; Unicode standard, table 3-7). [pure] */
#ifndef GATE_UTF8_H
#define GATE_UTF8_H

#include "libgate/slice.h"

/* Length of the well-formed sequence at p, 0 when there is none in p[0..len). len is at least 1. */
size_t utf8_length(const char *p, size_t len);

/* Is all of s well-formed? */
bool utf8_valid(struct slice s);

#endif
