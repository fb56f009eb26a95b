/*
 * A json-c document as bytes on their way out. Content of files and commands may be many MiB: it is encoded once, straight
 * into the output buffer. [pure]
 */
#ifndef CONTROLLER_JSON_OUT_H
#define CONTROLLER_JSON_OUT_H

#include "controller/mem.h"
#include "libgate/buf.h"

/* Sets o[key] to the base64 of `bytes`. They lie in `block`, which malloc() gave and the member takes over. */
void json_out_set_base64(struct json_object *o, const char *key, char *block, struct slice bytes);

/* Appends the document, without a line end. -1: it does not fit, and what was in b is as it was. */
int json_out_put(struct buf *b, struct json_object *o) MUSTCHECK;

#endif
