/*
 * The request-target (RFC 9112 section 3.2) in origin-form, taken apart for judgement. [pure]
 *
 * Only one spelling is accepted: it begins with one '/', has no empty, "." or ".." segment, no trailing '/', no '#',
 * backslash, space, control or non-ASCII byte. '%' in a path is left to the endpoint (image names alone may hold it).
 * Query: name=value pairs joined by '&'; names and values percent-decoded exactly once; ';', '+', a broken or
 * non-UTF-8 escape, %00, an empty name, a pair without '=' and a repeated name (after decoding) are refused.
 * Name and value are slices into the target, or into the scratch space when they held escapes.
 */
#ifndef GATE_TARGET_H
#define GATE_TARGET_H

#include "libgate/slice.h"
#include "libgate/util.h"

#define TARGET_MAX 4096 /* bytes of the whole target */
#define TARGET_MAX_SEGMENTS 32
#define TARGET_MAX_PARAMS 16

enum target_fault {
	TARGET_OK,
#define ROW(sym, id, at, text) TARGET_FAULT_##sym,
#include "libgate/target_fault.def"
#undef ROW
	TARGET_FAULT_COUNT
};

const char *target_fault_id(enum target_fault f); /* "path-not-canonical", "query-duplicate" … */
const char *target_fault_at(enum target_fault f); /* "path" or "query" */
const char *target_fault_text(enum target_fault f);

struct target_param {
	struct slice name;
	struct slice value;
};

struct target {
	struct slice raw;
	struct slice path; /* up to '?' */
	struct slice segments[TARGET_MAX_SEGMENTS]; /* raw, between slashes */
	unsigned nsegments;
	struct target_param params[TARGET_MAX_PARAMS];
	unsigned nparams;
	struct slice
		suspect; /* after a fault of the query: the parameter's name, decoded where it could be; may be empty */
	char scratch[TARGET_MAX]; /* decoded bytes */
	size_t scratch_len;
};

enum target_fault target_parse(struct target *t, struct slice raw) MUSTCHECK;

/* The value of a query parameter, p == NULL when absent. */
struct slice target_param(const struct target *t, const char *name);

/*
 * Percent-decodes s once into t's scratch: only the bytes in `allowed` may be encoded, and hex digits of either case are
 * taken. Returns false when a '%' stands for anything else.
 */
bool target_decode(struct target *t, struct slice s, const char *allowed, struct slice *out) MUSTCHECK;

/* Appends s percent-encoded as a query value: unreserved bytes (RFC 3986), ':' and '/' stay. */
struct buf;
int target_put_query_value(struct buf *b, struct slice s) MUSTCHECK;

#endif
