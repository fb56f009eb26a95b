/*
 * The engine's multiplexed stream (attach and exec without a TTY): frames of an 8-byte header {stream, 0, 0, 0, length
 * as 32 bits big-endian} and payload. [pure]
 *
 * Nothing is buffered but the header: a payload comes out in the runs in which it arrived, so its announced length
 * costs no memory. A frame may be split anywhere.
 */
#ifndef CONTROLLER_DEMUX_H
#define CONTROLLER_DEMUX_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/slice.h"

#define DEMUX_HEADER 8

enum demux_stream { DEMUX_STDIN, DEMUX_STDOUT, DEMUX_STDERR, DEMUX_SYSTEM };

struct demux {
	uint8_t header[DEMUX_HEADER];
	uint8_t have; /* header bytes read */
	bool broken; /* the header is not one: nothing that follows can be understood */
	uint32_t left; /* payload bytes to come */
};

void demux_init(struct demux *d);

/*
 * The next run of payload in p[0..len): true with *stream and *run set, or false when all of it was used. *used is set
 * to the bytes consumed; call again with the rest while it returns true.
 */
bool demux_next(struct demux *d, const char *p, size_t len, size_t *used, uint8_t *stream, struct slice *run);

/* At the end of the stream: false when it ends inside a frame. */
static inline bool demux_complete(const struct demux *d)
{
	return !d->broken && d->have == 0 && d->left == 0;
}

#endif
