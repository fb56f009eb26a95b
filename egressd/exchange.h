/* What the rest of a session may ask of its plain HTTP exchange; the steps are in session.h. */
#ifndef EGRESSD_EXCHANGE_H
#define EGRESSD_EXCHANGE_H

#include <stdint.h>

struct session;

/* Body bytes passed on in each direction for the request in hand. */
void exchange_bytes(const struct session *s, uint64_t *up, uint64_t *down);

#endif
