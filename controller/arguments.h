/*
 * The command line, read by tables: options of the program, of the deployment (config.h) and of one verb. [pure]
 */
#ifndef CONTROLLER_ARGUMENTS_H
#define CONTROLLER_ARGUMENTS_H

#include <stdbool.h>

#include "controller/deployment.h"
#include "libgate/err.h"

enum option_type { OPTION_SWITCH, OPTION_TEXT, OPTION_LIST };

struct option_row {
	const char *name; /* "timeout" */
	char letter; /* or 0 */
	enum option_type type;
	const char *argument; /* for the help; NULL for a switch */
	const char *help;
};

#define ARGUMENTS_MAX_OPTIONS 24
#define ARGUMENTS_MAX_VALUES 128
#define ARGUMENTS_MAX_WORDS 4

struct option_value {
	const struct option_row *row;
	const char *value; /* borrowed from argv; NULL for a switch */
};

struct arguments {
	const char *words[ARGUMENTS_MAX_WORDS]; /* what is no option */
	unsigned nwords;
	struct option_value values[ARGUMENTS_MAX_VALUES];
	unsigned nvalues;
	char **rest; /* after "--" */
	int nrest;
	const char *config_file; /* --config */
	struct option_value deployment[32]; /* row is NULL; name and value of a config option */
	const char *deployment_name[32];
	unsigned ndeployment;
};

/* rows ends with a row without name. */
int arguments_read(struct arguments *a, const struct option_row *rows, int argc, char **argv,
	struct err *err) MUSTCHECK;
bool arguments_has(const struct arguments *a, const char *name);
/* The last value, or NULL. */
const char *arguments_text(const struct arguments *a, const char *name);
/* The i-th value of a list option, or NULL. */
const char *arguments_item(const struct arguments *a, const char *name, unsigned i);

/* Environment, --config and options, in this order; checked. */
int arguments_config(const struct arguments *a, struct config *c, struct err *err) MUSTCHECK;

/* A decimal number without sign; -1 with a message that names the option. */
int arguments_number(const char *option, const char *text, long long max, long long *out, struct err *err) MUSTCHECK;
/* An option's seconds, from min to a day, as milliseconds; *ms stays without it. */
int arguments_seconds(const struct arguments *a, const char *option, long long min, int64_t *ms,
	struct err *err) MUSTCHECK;

#endif
