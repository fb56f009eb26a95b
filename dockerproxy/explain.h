/* What `explain` says of a request, as one JSON object. [pure] */
#ifndef DOCKERPROXY_EXPLAIN_H
#define DOCKERPROXY_EXPLAIN_H

#include "dockerproxy/policy.h"
#include "dockerproxy/verdict.h"

struct explain_request {
	struct slice method;
	struct slice target;
	const char *const *headers; /* "Name: value" */
	unsigned n_headers;
	bool has_body;
	struct slice body;
};

/*
 * Judges the request as the proxy would: its head is written, read by the same strict reader and given to verdict.h.
 * Returns the exit code, 0 allow or 1 deny, with the object appended to out; 2 with err set when it cannot say.
 */
int explain(const struct policy *p, const struct explain_request *req, struct buf *out, struct err *err) MUSTCHECK;

#endif
