/*
 * The server name of a TLS ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3). [pure]
 *
 * Fed with the bytes as they arrive, split anywhere: over segments and over TLS records. Nothing is decrypted. With an
 * encrypted ClientHello (ECH) the name is the outer one, and ech is set: a mismatch then has its own reason.
 */
#ifndef EGRESSD_HELLO_H
#define EGRESSD_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egressd/host.h"
#include "libgate/util.h"

#define HELLO_MAX 16384 /* bytes of the handshake message */

enum hello_result {
	HELLO_MORE,
	HELLO_NAME, /* name is set */
	HELLO_MISSING, /* a ClientHello without a server name */
	HELLO_NOT_TLS,
	HELLO_MALFORMED,
};

struct hello {
	uint8_t *message; /* the handshake message as far as it has come, without record headers */
	size_t len;
	size_t cap;
	uint8_t record[5];
	uint8_t record_len; /* bytes of the record header that have come */
	uint16_t left; /* bytes that the record still holds */
	uint16_t records;
	bool ech;
	size_t seen; /* the caller's: bytes that were handed in, */
	enum hello_result result; /* and what came of them */
	struct host name;
};

void hello_init(struct hello *h);
void hello_release(struct hello *h);
enum hello_result hello_read(struct hello *h, const void *bytes, size_t len) MUSTCHECK;

#endif
