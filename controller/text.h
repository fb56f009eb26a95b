/*
 * Bytes of commands and files as JSON: text where they are UTF-8, base64 where not; never half a character. [pure]
 */
#ifndef CONTROLLER_TEXT_H
#define CONTROLLER_TEXT_H

#include <stdbool.h>

#include "controller/mem.h"
#include "libgate/slice.h"

/* Bytes at the end of s that begin a character which is not complete: 0 to 3. */
size_t text_partial(struct slice s);
bool text_is_utf8(struct slice s);
/* Sets o[key] to s, as text or base64 by `encoded`. */
void text_set(struct json_object *o, const char *key, struct slice s, bool encoded);
/* The bytes of a parameter: encoding NULL or "utf8" or "base64". The caller's; NULL when it is not that. */
char *text_bytes(struct slice value, struct slice encoding, size_t *len) MUSTCHECK;

/*
 * For a person's terminal: control characters (C0, DEL, C1), those that turn the direction of text, and bytes that are no
 * UTF-8 as \xNN. The caller's.
 */
char *text_printable(struct slice s) MUSTCHECK;
/* The same for every string in a document, in place. */
void text_make_printable(struct json_object *o);

#endif
