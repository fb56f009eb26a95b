/* SHA-256 (FIPS 180-4). [pure] */
#ifndef GATE_SHA256_H
#define GATE_SHA256_H

#include <stdint.h>

#include "libgate/slice.h"

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE 65 /* with the terminator */

struct sha256 {
	uint32_t h[8];
	uint64_t total; /* bytes */
	unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *p, size_t n);
void sha256_final(struct sha256 *s, unsigned char out[SHA256_SIZE]);

void sha256_hex(struct slice data, char out[SHA256_HEX_SIZE]); /* lower-case digits */

#endif
