/* Between the two halves of learn: what was collected from a log, and how much of it is kept. */
#ifndef DOCKERPROXY_LEARN_IMPL_H
#define DOCKERPROXY_LEARN_IMPL_H

#include "dockerproxy/learn.h"
#include "dockerproxy/policy_impl.h"
#include "libgate/target.h"

#define LEARN_MAX_NEW 1000 /* different endpoints that the base policy does not have; what goes beyond is counted */
#define LEARN_MAX_WISHES 200 /* different parameters and fields of one endpoint; the same */
#define LEARN_MAX_VALUES 8 /* values named one by one; more make a pattern */
#define LEARN_MAX_TEXT 256

enum wish_kind { WISH_PATH, WISH_QUERY, WISH_FIELD };

/* The characters of all values of a wish, from the narrowest; each has its pattern. */
enum wish_width { WIDTH_DIGITS, WIDTH_NAME, WIDTH_REFERENCE, WIDTH_ANY };

/* Something of an endpoint that the base policy does not grant. */
struct wish {
	enum wish_kind kind;
	char name[LEARN_MAX_TEXT]; /* parameter, or pointer into the body */
	char reason[LEARN_MAX_TEXT]; /* fields */
	char *values[LEARN_MAX_VALUES];
	unsigned n_values;
	bool more_values;
	enum wish_width width;
	unsigned long count;
};

struct row {
	const struct endpoint *base; /* NULL: not in the base policy */
	char method[16];
	char path[LEARN_MAX_TEXT]; /* template, when not in the base policy */
	char request[LEARN_MAX_TEXT]; /* the first that needed it: "id METHOD TARGET" */
	bool body;
	const char *response;
	unsigned long allowed;
	unsigned long denied;
	struct wish *wishes;
	unsigned n_wishes;
	unsigned long left_out; /* wishes beyond LEARN_MAX_WISHES, and names that no policy can have */
};

struct learn {
	const struct policy *base;
	struct json_doc *doc;
	struct schema_run *run;
	struct target target;
	struct row *rows;
	unsigned n_rows;
	unsigned n_new; /* of them not in the base policy */
	unsigned long lines;
	unsigned long skipped;
	unsigned long left_out; /* requests beyond LEARN_MAX_NEW */
};

#endif
