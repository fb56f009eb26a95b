/*
 * Configuration: a JSON file (comments allowed) read into a struct by a table of keys, then the environment, which wins.
 *
 * An unknown key, a wrong type or a value out of range is an error with file:line:column. The table is the only place
 * that knows a key: it is what `--check` prints and what the manual page is checked against.
 */
#ifndef GATE_CONF_H
#define GATE_CONF_H

#include <stddef.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/json.h"

enum conf_type {
	CONF_STRING, /* char *, owned, freed by conf_release() */
	CONF_BOOL, /* bool */
	CONF_INT, /* int64_t within min..max */
	CONF_DURATION, /* int64_t milliseconds; a number of seconds, or "250ms", "10s", "5m", "1h" */
	CONF_SIZE, /* int64_t bytes; a number, or "16KiB", "64MiB" */
	CONF_ENUM, /* int; names lists the words in order, NULL-terminated */
	CONF_CUSTOM, /* parse() does it all */
};

struct conf_key {
	const char *path; /* "timeouts.head": objects by dots */
	enum conf_type type;
	size_t offset; /* into the program's struct */
	int64_t min, max; /* CONF_INT, CONF_DURATION (ms), CONF_SIZE */
	const char *dflt; /* as text, NULL for none: what the environment would hold */
	const char *env; /* "DOCKERPROXY_TIMEOUTS_HEAD", NULL for none */
	const char *const *names; /* CONF_ENUM */
	/* CONF_CUSTOM: node from the file, or text from the environment or dflt (the other is NULL/empty). */
	int (*parse)(void *conf, const struct json_node *node, struct slice text, struct err *err);
	const char *help; /* one line: meaning and unit */
};

/* Terminated by a row with path NULL. */
int conf_load(void *conf, const struct conf_key *keys, const char *file /* NULL: none */, struct err *err) MUSTCHECK;
/* The same from text already in memory; name stands in messages. */
int conf_load_text(void *conf, const struct conf_key *keys, struct slice text, const char *name,
	struct err *err) MUSTCHECK;
/*
 * For a parse() of the table that looks into a list or object: names the node that its message is about, so that the
 * message carries that node's place and not the whole value's. The first call of one parse() counts. Returns -1.
 */
int conf_blame(const struct json_node *node);

void conf_release(void *conf, const struct conf_key *keys); /* frees CONF_STRING members */

#endif
