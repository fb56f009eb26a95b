/*
 * Finds a nonce in a stream of bytes. [pure]
 *
 * The scripts of the engine mode put it where their own words begin. It starts with a byte that does not occur in the
 * rest of it, so that a false start can be given back whole. What is held back at a chunk's end is given back by the
 * next call, out of the nonce itself.
 */
#ifndef CONTROLLER_MARK_H
#define CONTROLLER_MARK_H

#include <stdint.h>

#include "libgate/slice.h"

#define MARK_LENGTH 33 /* 'Z' and 32 hexadecimal digits */

struct mark {
	char nonce[MARK_LENGTH + 1];
	size_t matched; /* bytes of the nonce seen at the end of the last chunk */
};

enum mark_result {
	MARK_MORE, /* all of the chunk is used */
	MARK_DATA, /* *run is data */
	MARK_HIT, /* the nonce ends at p + *used */
};

void mark_init(struct mark *m, const uint8_t random[16]);
/* Call again with the rest, p + *used, until MARK_MORE. */
enum mark_result mark_next(struct mark *m, const char *p, size_t len, size_t *used, struct slice *run);
/* At the end of the stream: what was held back and is data after all. */
struct slice mark_rest(struct mark *m);

#endif
