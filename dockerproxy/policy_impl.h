/* Inside of a policy, for the files that load it and judge by it. The rest of the program uses policy.h. */
#ifndef DOCKERPROXY_POLICY_IMPL_H
#define DOCKERPROXY_POLICY_IMPL_H

#include "dockerproxy/endpoint.h"
#include "dockerproxy/policy.h"
#include "dockerproxy/schema.h"
#include "libgate/sha256.h"

struct policy_block; /* one allocation of the policy's own */

struct policy {
	char *text;
	struct json_doc *doc;
	const struct json_node *root;
	char digest[8 + SHA256_HEX_SIZE];
	struct policy_versions versions;
	const struct schema *container_name;
	struct endpoint *endpoints;
	unsigned n_endpoints;
	const char **reasons; /* ids of fields, sorted */
	unsigned n_reasons;
	struct pattern **patterns;
	unsigned n_patterns;
	struct policy_block *blocks;
	struct schema_run *run; /* for questions that are no request: names from the engine */
};

/* The interned copy of a field's reason id, or NULL when no schema of the policy has such a field. */
const char *policy_reason(const struct policy *p, const char *id);

/* --- loading --------------------------------------------------------------------------------------------------- */

struct loader_def; /* one member of $defs */

struct loader {
	struct policy *policy;
	struct slice text;
	const char *name;
	struct buf pointer; /* where the loader is, as a JSON Pointer */
	struct loader_def *defs;
	unsigned n_defs;
	unsigned depth;
	struct err *err;
};

/* Zeroed memory that lives as long as the policy; NULL with the error set. */
void *loader_alloc(struct loader *l, size_t n) MUSTCHECK;

/* Sets "NAME:LINE:COLUMN: POINTER: text", where line and column are those of offset. Returns -1. */
int loader_fail(struct loader *l, size_t offset, const char *fmt, ...) PRINTF(3, 4);

/* Goes one step down the document; loader_leave() takes it back with the value that this returned. */
size_t loader_enter(struct loader *l, struct slice token);
size_t loader_enter_index(struct loader *l, unsigned index);
void loader_leave(struct loader *l, size_t mark);

/* A number within min..max, a string, a boolean; else -1 with the error set. */
int loader_uint(struct loader *l, const struct json_node *n, uint64_t min, uint64_t max, uint64_t *out) MUSTCHECK;
int loader_string(struct loader *l, const struct json_node *n, struct slice *out) MUSTCHECK;
int loader_bool(struct loader *l, const struct json_node *n, bool *out) MUSTCHECK;
int loader_object(struct loader *l, const struct json_node *n) MUSTCHECK;

struct pattern *loader_pattern(struct loader *l, size_t offset, struct slice text) MUSTCHECK;

/* Compiles every schema of $defs (n may be NULL: there are none), used or not. */
int schema_load_defs(struct loader *l, const struct json_node *n) MUSTCHECK;

/* Compiles the schema n, which stands for a whole value: x-zero has no meaning there and is refused. */
const struct schema *schema_load(struct loader *l, const struct json_node *n) MUSTCHECK;

/* The same for a member of an object: x-zero may stand beside it. */
const struct schema *schema_load_member(struct loader *l, const struct json_node *n) MUSTCHECK;

int endpoint_load(struct loader *l, const struct json_node *n, struct endpoint *e) MUSTCHECK;

/* Collects the reason ids of all fields that the endpoints' schemas know. */
int reasons_load(struct loader *l) MUSTCHECK;

#endif
