/*
 * What the policy says of one request, and the canonical request that may be sent on. [pure]
 *
 * Two steps, so that a refusal that needs no body never waits for one:
 *     verdict_head()   method, target, fields, declared body length
 *     verdict_body()   the whole body (rows with a body only)
 * After an allow, the canonical method, target and body are what the engine may see; no byte of them was copied unparsed.
 */
#ifndef DOCKERPROXY_VERDICT_H
#define DOCKERPROXY_VERDICT_H

#include <stdbool.h>

#include "dockerproxy/policy.h"
#include "libgate/buf.h"
#include "libgate/json.h"
#include "libgate/slice.h"
#include "libgate/target.h"

#define VERDICT_AT_MAX 256
#define VERDICT_MESSAGE_MAX 512
#define VERDICT_OBJECT_MAX 256

/* What is judged. Slices are borrowed for the call. */
struct verdict_request {
	struct slice method;
	struct slice target;
	struct slice content_type; /* p == NULL when absent */
	bool several_content_types;
	struct slice content_encoding; /* p == NULL when absent */
	bool upgrade; /* asks for an upgrade */
	struct slice upgrade_protocol; /* of the Upgrade field */
	bool has_length; /* a Content-Length is given */
	uint64_t length;
	bool chunked;
};

/* Fills req from a head that was read: p is the buffer that the reader saw. Borrows from p. */
void verdict_request_from_head(struct verdict_request *req, const struct http_head *h, const char *p);

enum decision {
	DECISION_DENY,
	DECISION_ALLOW,
	DECISION_NEED_BODY, /* verdict_head() only: allowed so far */
};

struct verdict {
	enum decision decision;
	int status; /* HTTP status of a refusal: 400, 403, 405, 413, 415 … */
	bool close; /* the connection must close after the refusal (framing is not trusted) */
	const char *reason; /* stable id, lives as long as the policy; NULL when allowed */
	char at[VERDICT_AT_MAX]; /* where: JSON Pointer, query.NAME, path, path.NAME, method, header.NAME, endpoint */
	bool has_offset; /* a syntax fault: byte offset into the body */
	size_t offset;
	char message[VERDICT_MESSAGE_MAX]; /* "HostConfig.Privileged must not be true"; printable ASCII */

	const struct endpoint *endpoint; /* NULL when no row matched */
	struct slice method; /* canonical, after an allow */
	unsigned api_minor; /* version of the request; 0 when it names none */
	struct buf target; /* canonical, with its version prefix */
	struct buf body; /* canonical JSON; empty when the row has none */
	bool upgrade; /* send Upgrade: tcp (a hijack row whose client asked) */
	char
		object[VERDICT_OBJECT_MAX]; /* the container, exec, volume, network or image that the path or query names; "" */

	/* scratch, reused from request to request */
	struct buf scratch;
	struct json_doc *doc;
	struct verdict_work *work;
};

/*
 * The large part of that scratch is needed only while one of the two functions runs: many verdicts can share one set, each
 * borrowing it for the call. All NULL at first; what is missing is made on the way.
 */
struct verdict_tools {
	struct json_doc *doc;
	struct verdict_work *work;
};

void verdict_init(struct verdict *v);
void verdict_reset(struct verdict *v); /* for the next request; keeps memory */
void verdict_release(struct verdict *v);
void verdict_borrow(struct verdict *v, struct verdict_tools *tools);
void verdict_give_back(struct verdict *v, struct verdict_tools *tools);
void verdict_tools_release(struct verdict_tools *tools);

/* The request that was allowed may need a question to the engine first. Writes it as one sentence; false: none. */
bool verdict_open_question(const struct verdict *v, const struct policy *p, struct buf *out);

/* DENY or ALLOW or NEED_BODY. default_minor: what an unversioned request goes out as; 0 for the policy's default. */
enum decision verdict_head(struct verdict *v, const struct policy *p, const struct verdict_request *req,
	unsigned default_minor) MUSTCHECK;

/* After NEED_BODY: DENY or ALLOW. */
enum decision verdict_body(struct verdict *v, const struct policy *p, struct slice body) MUSTCHECK;

#endif
