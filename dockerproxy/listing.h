/* Takes out of a listing what the policy's client may not see. [pure] */
#ifndef DOCKERPROXY_LISTING_H
#define DOCKERPROXY_LISTING_H

#include "libgate/buf.h"
#include "libgate/json.h"
#include "libgate/slice.h"

/*
 * answer: the engine's body of GET /containers/json, /networks, /images/json (an array) or /volumes (an object whose member
 * Volumes is one). Appends it to out without the objects whose Labels lack label ("key=value"), and without NUL. -1 when
 * the answer has not this shape, or out is full; out is then of no use.
 */
int listing_filter(struct json_doc *doc, struct slice answer, const char *label, struct buf *out) MUSTCHECK;

#endif
