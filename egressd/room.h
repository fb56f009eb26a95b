/* How many clients fit: by the memory that the container is given and by descriptors. */
#ifndef EGRESSD_ROOM_H
#define EGRESSD_ROOM_H

#include <stdint.h>

/* 2,000 for 64 MiB, kernel socket buffers included; more memory, more. configured > 0 decides instead. */
unsigned room_for_clients(int64_t configured);

/* Raises the soft limit of descriptors to the hard one; returns it. */
uint64_t room_descriptors(void);

#endif
