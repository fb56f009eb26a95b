/*
 * A loaded policy: endpoint rows and compiled schemas, immutable after policy_load(). [pure but for policy_load_file]
 *
 * Language: dockerproxy-policy(5): a closed subset of JSON Schema 2020-12 (Core and Validation vocabularies) with x-zero and
 * x-json. Everything not named is refused.
 */
#ifndef DOCKERPROXY_POLICY_H
#define DOCKERPROXY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/http1.h"
#include "libgate/slice.h"

struct policy;
struct endpoint;

/*
 * Compiles text. name stands in messages ("policy.json:12:7: /endpoints/3/query: unknown keyword \"patern\"").
 * NULL with err set when anything at all is not understood. The text is copied.
 */
struct policy *policy_load(struct slice text, const char *name, struct err *err) MUSTCHECK;
struct policy *policy_load_file(const char *path, struct err *err) MUSTCHECK;
struct policy *policy_builtin(struct err *err) MUSTCHECK; /* conf/policy.json, embedded at build */
void policy_free(struct policy *p);

const char *policy_digest(const struct policy *p); /* "sha256:" and 64 hex digits of the source text */
int policy_print(const struct policy *p, struct buf *out) MUSTCHECK; /* plain JSON, without comments */

/* API versions as minor numbers of 1.x (41 is 1.41). */
struct policy_versions {
	unsigned min;
	unsigned max;
	unsigned dflt; /* what an unversioned request goes out as */
};
const struct policy_versions *policy_versions(const struct policy *p);

enum owner_rule {
	OWNER_NONE,
	OWNER_CONTAINER, /* the path's container: a name by pattern, or a full id that the engine maps to such a name */
	OWNER_EXEC, /* the path's exec id: its container, by the engine, must be allowed */
	OWNER_NETWORK, /* the path's network: a name by the row's pattern, or a full id that the engine maps to such a
			* name as a container may have: what is left of two networks of one name has to be removable */
};

enum response_rule {
	RESPONSE_PLAIN,
	RESPONSE_STREAM, /* no idle limit: pull progress, logs, wait */
	RESPONSE_HIJACK, /* becomes a tunnel after 101, or 200 with a raw-stream media type */
};

/* What the rest of the program may know of a row. Strings live as long as the policy. */
struct endpoint_info {
	unsigned index; /* 0.. policy_endpoint_count()-1: for metrics */
	const char *id; /* "container.create" */
	enum http_method method;
	enum owner_rule owner;
	enum response_rule response;
	bool has_body; /* the row takes a JSON body */
	uint64_t max_body;
	const char *answer_label; /* each object of the answer must carry this label ("key=value"), or NULL */
};
const struct endpoint_info *endpoint_info(const struct endpoint *e);
unsigned policy_endpoint_count(const struct policy *p);
const struct endpoint_info *policy_endpoint(const struct policy *p, unsigned index);

/* Does the policy allow this container name (without the engine's leading slash)? For ownership answers. */
bool policy_container_name_ok(const struct policy *p, struct slice name);

#endif
