/*
 * Endpoint rows: which request line belongs to which row of the policy. [pure]
 *
 * A template's segments are literals, `{name}` (one segment), or one `{name...}` (one or more segments: image names).
 * Of several rows that match, the one with the most literals is meant.
 */
#ifndef DOCKERPROXY_ENDPOINT_H
#define DOCKERPROXY_ENDPOINT_H

#include "dockerproxy/policy.h"
#include "dockerproxy/schema.h"

#define ENDPOINT_MAX_SEGMENTS 8

enum endpoint_segment_type { SEGMENT_LITERAL, SEGMENT_PARAM, SEGMENT_PARAM_REST };

struct endpoint_segment {
	enum endpoint_segment_type type;
	struct slice text; /* literal, or name of the parameter */
	const struct schema *schema; /* parameters */
};

/* Which value names the object that a request is about, for ownership and the audit log. */
enum endpoint_object { OBJECT_NONE, OBJECT_PATH, OBJECT_QUERY, OBJECT_BODY };

struct endpoint {
	struct endpoint_info info;
	struct endpoint_segment segments[ENDPOINT_MAX_SEGMENTS];
	unsigned n_segments;
	unsigned n_literals;
	bool rest; /* a segment is SEGMENT_PARAM_REST */
	const struct schema *query; /* NULL: no parameter is known */
	const struct schema *body; /* NULL: the row takes none */
	bool keep_unversioned; /* a request without a version goes out without one */
	enum endpoint_object object;
	struct slice object_name; /* of the path or query parameter, or the body's member */
};

/* A matched path: for each segment of the row the part of the path that stands for it. */
struct endpoint_match {
	const struct endpoint *endpoint;
	struct slice values[ENDPOINT_MAX_SEGMENTS];
	bool path_known; /* some row has this path, if not with this method */
};

/* segments: of the path behind the version. True with m filled when a row has method and path. */
bool endpoint_match(const struct endpoint *rows, unsigned n_rows, enum http_method method, const struct slice *segments,
	unsigned n_segments, struct endpoint_match *m) MUSTCHECK;

#endif
