/* The OpenRPC document of sandbox@1, made from the table of methods. */
#ifndef CONTROLLER_DISCOVER_H
#define CONTROLLER_DISCOVER_H

#include "libgate/slice.h"

struct json_object;
struct method;

struct json_object *discover_document(void);
/* The row of a method that the connection itself answers, beside methods[]; NULL: it answers none of that name. */
const struct method *discover_own(struct slice name);

#endif
