/*
 * The methods of sandbox@1: one row each, with its parameters as rows. The table is what calls are checked against, what
 * rpc.discover publishes and what the command line is made of.
 */
#ifndef CONTROLLER_METHOD_H
#define CONTROLLER_METHOD_H

#include "controller/call.h"

enum param_type {
#define ROW(sym, schema) PARAM_##sym,
#include "controller/param.def"
#undef ROW
	PARAM_TYPES
};

enum param_flags { PARAM_OPTIONAL = 0, PARAM_REQUIRED = 1 << 0 };

struct param {
	const char *name;
	enum param_type type;
	unsigned flags;
	const char *help;
};

#define METHOD_MAX_PARAMS 20

struct method {
	const char *name;
	void (*start)(struct call *call);
	const char *help;
	const char *result; /* JSON Schema of the result */
	bool at_once; /* ends before start() returns: takes no place among the requests that run */
	struct param params[METHOD_MAX_PARAMS]; /* ended by a row without name */
};

extern const struct method method_create, method_suspend, method_resume, method_destroy, method_destroy_by_name;
extern const struct method method_exec, method_exec_input, method_exec_resize;
extern const struct method method_read_file, method_write_file, method_stat, method_list_files, method_remove_file;
extern const struct method method_kill_all, method_kill_tagged;
extern const struct method method_list, method_inspect, method_reconcile, method_doctor;

/* All of them, ended by NULL. */
extern const struct method *const methods[];

const struct method *method_find(struct slice name);
const char *param_schema(enum param_type t);

/* This process's commands that a kill is meant for (ntags 0: all) learn that their end is an abort. */
void method_exec_mark(struct sandbox *s, const struct slice *tags, unsigned ntags);

/* Checks names and types of the parameters by the row; 0, or -1 (EINVAL) naming the one that is wrong. */
int method_check(const struct method *m, const struct json_node *params, struct err *err) MUSTCHECK;

#endif
