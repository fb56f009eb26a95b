/* Words about a refusal: where it is, what it is called, and what is allowed instead. [pure] */
#ifndef DOCKERPROXY_VERDICT_TEXT_H
#define DOCKERPROXY_VERDICT_TEXT_H

#include "dockerproxy/schema.h"

/* What a schema was evaluated over. */
enum verdict_part { PART_PATH, PART_QUERY, PART_BODY };

/* query.NAME or path.NAME, of a parameter that no schema was asked about. */
int verdict_put_param_at(struct buf *b, enum verdict_part part, struct slice param) MUSTCHECK;

/* JSON Pointer into the body; query.NAME or path.NAME, and for what an embedded text holds a pointer behind it. */
int verdict_put_at(struct buf *b, enum verdict_part part, struct slice param, const struct schema_failure *f) MUSTCHECK;

/* The reason id of the field that failed, by the names on the way to it; nothing when the whole failed. */
int verdict_put_field_id(struct buf *b, enum verdict_part part, struct slice param,
	const struct schema_failure *f) MUSTCHECK;

/* The same for a field that is known by the names of its parents ("hostconfig") and its own ("Privileged"). */
int verdict_put_id(struct buf *b, const char *prefix, struct slice name) MUSTCHECK;

/* One sentence of printable ASCII: "HostConfig.PidsLimit must be 1 to 4096, not 0". */
int verdict_put_message(struct buf *b, enum verdict_part part, struct slice param,
	const struct schema_failure *f) MUSTCHECK;

/* Appends s with everything but printable ASCII escaped, cut after about max bytes. */
int verdict_put_shown(struct buf *b, struct slice s, size_t max) MUSTCHECK;

#endif
