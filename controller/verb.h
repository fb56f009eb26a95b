/*
 * The command line as methods: a verb makes a method's parameters out of its arguments, the method runs as it does for
 * any client, and the verb prints the result for a person.
 */
#ifndef CONTROLLER_VERB_H
#define CONTROLLER_VERB_H

#include "controller/arguments.h"
#include "controller/mem.h"
#include "controller/method.h"

enum verb_flags {
	VERB_STREAMS_OUT = 1 << 0, /* output goes through as bytes, unless --json */
	VERB_STREAMS_IN = 1 << 1, /* stdin goes through */
	VERB_EXIT_CODE = 1 << 2, /* the exit status is the command's; faults are 255 */
	VERB_RESULT_FAILS = 1 << 3, /* a result that says "healthy": false is a failure */
};

struct verb {
	const char *name;
	const struct method *(*method)(const struct arguments *a);
	unsigned flags;
	const char *usage;
	const char *help;
	/* -1: usage. */
	int (*params)(struct json_object *params, const struct arguments *a, struct err *err);
	void (*print)(struct json_object *result);
	struct option_row options[ARGUMENTS_MAX_OPTIONS];
};

/* Ended by a row without name. */
extern const struct verb verbs[];

/* Runs the verb to its end; the exit status. */
int verb_run(const struct verb *v, const struct arguments *a, const struct config *config);

#endif
