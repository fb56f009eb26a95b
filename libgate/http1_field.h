/* Field names and list values, shared by http1_*.c. [pure] */
#ifndef GATE_HTTP1_FIELD_H
#define GATE_HTTP1_FIELD_H

#include "libgate/http1.h"

/* name is a token. */
enum http_field_name http_field_name(struct slice name);

/* Without surrounding SP and HTAB. */
struct slice http_trim(struct slice s);

/* Takes the next member that is not empty off a comma-separated list; false at its end. */
bool http_list_next(struct slice *rest, struct slice *member);

#endif
