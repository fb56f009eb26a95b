/* A host's name in its one spelling, as it is matched, asked for and compared. [pure] */
#ifndef GATE_DNS_NAME_H
#define GATE_DNS_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/slice.h"
#include "libgate/util.h"

#define HOST_MAX 253

struct host {
	uint8_t len;
	char name[HOST_MAX + 1]; /* lower case, no trailing dot, terminated */
};

static inline struct slice host_slice(const struct host *h)
{
	return slice_make(h->name, h->len);
}

/* From a name whose syntax was judged already; case is folded. False: too long. */
static inline bool MUSTCHECK host_take(struct host *h, struct slice name)
{
	if (name.len > HOST_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++)
		h->name[i] = slice_lower(name.p[i]);
	h->name[name.len] = '\0';
	h->len = (uint8_t)name.len;
	return true;
}

#endif
