/*
 * Compiled schemas and their evaluation: a closed subset of JSON Schema 2020-12. [pure]
 *
 * An object schema is a struct or a data map. It is a data map when it has patternProperties, propertyNames or a schema as
 * additionalProperties: its keys are data of the client. The keys of a struct are names that the engine knows, and the
 * engine folds case: a key that folds to a known one without being it, or is spelled with an escape or outside ASCII,
 * refuses the whole document wherever it stands, also below `not`.
 *
 * x-zero: a member that holds null, or the zero of its type (or a value of the list), asks for nothing. It counts as
 * absent and is left out of what is sent on. An object that could be {} and of which nothing is left is such a member, too:
 * judging once more what is sent on gives the same bytes.
 */
#ifndef DOCKERPROXY_SCHEMA_H
#define DOCKERPROXY_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "dockerproxy/pattern.h"
#include "libgate/json.h"

#define SCHEMA_MAX_PATH 80 /* steps from the root to a value, embedded documents (x-json) included */
#define SCHEMA_MAX_NAME 64 /* bytes of a name in `properties` */
#define SCHEMA_MAX_REQUIRED 64 /* names in one `required` */

enum schema_type {
	SCHEMA_NULL = 1 << 0,
	SCHEMA_BOOLEAN = 1 << 1,
	SCHEMA_INTEGER = 1 << 2,
	SCHEMA_STRING = 1 << 3,
	SCHEMA_ARRAY = 1 << 4,
	SCHEMA_OBJECT = 1 << 5,
};

struct schema_property {
	struct slice name;
	struct slice folded; /* as the engine compares it */
	uint32_t hash;
	int required; /* bit in schema.required, -1 when optional */
	bool declared; /* stands in `properties`; else only in `required` */
	const struct schema *schema; /* NULL: not declared */
};

struct schema_pattern_property {
	struct pattern *pattern;
	const struct schema *schema;
};

enum schema_rest { SCHEMA_REST_REFUSED, SCHEMA_REST_ANY, SCHEMA_REST_SCHEMA };

/* What every value is asked comes first, then the strings', the most frequent ones. */
struct schema {
	unsigned types; /* of enum schema_type; 0: any */
	bool never; /* the schema `false` */
	bool judges; /* has a keyword that can refuse, besides $ref */
	bool has_values; /* constant or values */
	bool combines; /* all_of, any_of or not */
	bool object; /* has any keyword for objects, or the type: members are looked at */
	bool map; /* data map */
	bool has_minimum, has_maximum;
	const struct schema *ref;
	uint32_t min_length, max_length; /* code points; UINT32_MAX for no maximum, as below */
	struct pattern *pattern;
	const struct schema *json; /* x-json */
	const struct json_node *constant; /* const */
	const struct json_node *values; /* enum: an array */
	int64_t minimum, maximum;
	uint32_t min_items, max_items;
	uint32_t max_properties;
	const struct schema *items;
	const struct schema *contains;
	struct schema_property *properties;
	unsigned n_properties;
	uint16_t *index; /* open addressing by hash: 1 + number of the property */
	unsigned index_mask;
	uint64_t required; /* bits */
	struct schema_pattern_property *patterns;
	unsigned n_patterns;
	const struct schema *names; /* propertyNames */
	enum schema_rest rest; /* additionalProperties */
	const struct schema *rest_schema;
	const struct schema **all_of, **any_of;
	unsigned n_all_of, n_any_of;
	const struct schema * not ;
	bool zero; /* x-zero */
	const struct json_node *zeros; /* the list of x-zero, NULL for the zero of the type */
};

enum schema_fault {
	SCHEMA_FAULT_NEVER,
	SCHEMA_FAULT_TYPE,
	SCHEMA_FAULT_CONST,
	SCHEMA_FAULT_ENUM,
	SCHEMA_FAULT_PATTERN,
	SCHEMA_FAULT_LENGTH,
	SCHEMA_FAULT_RANGE,
	SCHEMA_FAULT_ITEMS,
	SCHEMA_FAULT_CONTAINS,
	SCHEMA_FAULT_REQUIRED, /* name is missing */
	SCHEMA_FAULT_UNKNOWN, /* the last step is a member that the schema does not know */
	SCHEMA_FAULT_PROPERTIES, /* too many members */
	SCHEMA_FAULT_NAME, /* the last step's key is refused by propertyNames */
	SCHEMA_FAULT_NOT,
	SCHEMA_FAULT_JSON, /* x-json: the text is not strict JSON */
	/* These refuse the document whatever other alternatives say. */
	SCHEMA_FAULT_FOLDED, /* name is the known key that the last step's key folds to */
	SCHEMA_FAULT_SPELLING,
	SCHEMA_FAULT_LIMIT, /* a pattern reached its limits */
	SCHEMA_FAULT_MEMORY,
};

struct schema_step {
	const struct json_node *node;
	const struct schema_property *property; /* a known member of a struct; NULL for data keys and items */
	uint32_t item; /* index in an array; members: UINT32_MAX */
};

struct schema_failure {
	enum schema_fault fault;
	const struct schema *schema; /* that refused */
	const struct json_node *node; /* the value; NULL for a missing member */
	const struct schema_property *property; /* SCHEMA_FAULT_REQUIRED, SCHEMA_FAULT_FOLDED */
	enum json_fault json; /* SCHEMA_FAULT_JSON */
	unsigned depth;
	struct schema_step path[SCHEMA_MAX_PATH];
};

/* Working memory of evaluation, reused from document to document. */
struct schema_run;
struct schema_run *schema_run_new(void) MUSTCHECK;
void schema_run_free(struct schema_run *r);

/* Forgets what the last document left: its embedded documents are gone. */
void schema_run_reset(struct schema_run *r);

/*
 * Evaluates root. On success members that x-zero leaves out are marked (json_node.mark), and texts under x-json are
 * replaced by their canonical form. On failure *failure says where and why, and the tree is as it was.
 */
bool schema_eval(struct schema_run *r, const struct schema *s, struct json_node *root,
	struct schema_failure *failure) MUSTCHECK;

/* Appends the document without its marked members. */
int schema_put(struct buf *b, const struct json_node *root) MUSTCHECK;

/* s or the schema that it refers to, down the chain of $ref: where its type and zero are said. */
unsigned schema_types(const struct schema *s);

/* The declared property `name`, or NULL; looks through $ref. */
const struct schema_property *schema_property(const struct schema *s, struct slice name);

/* Writes what the engine's case folding makes of key: ASCII to lower case, U+017F to s, U+212A to k. out holds key.len. */
size_t schema_fold(struct slice key, char *out);

bool schema_equal(const struct json_node *a, const struct json_node *b);

#endif
