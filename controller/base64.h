/* Base64 (RFC 4648 section 4), strictly read: padding required, nothing but the alphabet. [pure] */
#ifndef CONTROLLER_BASE64_H
#define CONTROLLER_BASE64_H

#include "libgate/slice.h"
#include "libgate/util.h"

/* The caller's, terminated; *len without the terminator. */
char *base64_encode(struct slice s, size_t *len) MUSTCHECK;
/* The caller's, or NULL when s is not base64. */
char *base64_decode(struct slice s, size_t *len) MUSTCHECK;

#endif
