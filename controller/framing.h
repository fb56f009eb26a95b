/*
 * Where one JSON-RPC message ends: a line, or a Content-Length head as the Language Server Protocol has it. [pure]
 *
 * The first byte of a connection decides ('C' begins a head) for both directions. A message beyond the limit, or a head
 * that is none, is told once and skipped where that is possible.
 */
#ifndef CONTROLLER_FRAMING_H
#define CONTROLLER_FRAMING_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/buf.h"

#define FRAMING_MAX ((size_t)32 << 20) /* bytes of one message */

enum framing_mode { FRAMING_UNKNOWN, FRAMING_LINES, FRAMING_HEADS };

struct framing {
	enum framing_mode mode;
	size_t scanned; /* bytes of the buffer known to hold no line end */
	size_t length; /* of the message that the head announced; 0: no head yet */
	bool skipping; /* the rest of a line that was too long */
};

enum framing_result {
	FRAMING_MORE,
	FRAMING_MESSAGE, /* *message is at the buffer's head, *used bytes of it belong to it */
	FRAMING_TOO_LONG, /* *used bytes are to be dropped; reading goes on */
	FRAMING_BROKEN, /* no head: nothing that follows can be understood */
};

void framing_init(struct framing *f);
enum framing_result framing_next(struct framing *f, struct slice in, struct slice *message, size_t *used);
/* Appends a message in the mode of the connection. */
int framing_put(enum framing_mode mode, struct buf *out, struct slice message) MUSTCHECK;

#endif
