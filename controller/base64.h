/* Base64 (RFC 4648 section 4), strictly read: padding required, nothing but the alphabet. [pure] */
#ifndef CONTROLLER_BASE64_H
#define CONTROLLER_BASE64_H

#include "libgate/slice.h"
#include "libgate/util.h"

#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

/* Writes BASE64_LEN(s.len) characters, without a terminator. */
void base64_write(char *out, struct slice s);
/* The caller's, terminated; *len without the terminator. */
char *base64_encode(struct slice s, size_t *len) MUSTCHECK;
/* The caller's, or NULL when s is not base64. */
char *base64_decode(struct slice s, size_t *len) MUSTCHECK;

#endif
