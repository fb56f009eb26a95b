/*
 * How many clients fit: by the memory that the container is given and by descriptors. Both are read once, at start: files are
 * out of reach afterwards. A reload asks again with what was read.
 */
#ifndef EGRESSD_ROOM_H
#define EGRESSD_ROOM_H

#include <stdint.h>

struct room {
	uint64_t descriptors; /* that this process may have open */
	uint64_t memory; /* bytes; 0: no limit */
};

/* Raises the soft limit of descriptors to the hard one. */
void room_read(struct room *room);

/*
 * 2,000 for 64 MiB, kernel socket buffers included; more memory, more. configured > 0 stands in for the memory, but more than
 * the descriptors allow is never given. At least 1.
 */
unsigned room_for_clients(const struct room *room, int64_t configured);

#endif
