/*
 * Regular expressions of a policy: compiled once, always matched against the whole text, with bounded work. [pure]
 *
 * A pattern must begin with '^', end with '$' and hold no alternation outside a group, so that what a reader sees is what
 * is matched. There is no JIT; reaching a limit is an answer of its own, which refuses.
 */
#ifndef DOCKERPROXY_PATTERN_H
#define DOCKERPROXY_PATTERN_H

#include "libgate/err.h"
#include "libgate/slice.h"

struct pattern;
struct pattern_scratch; /* memory that matching needs; one for any number of patterns, not shared between threads */

enum pattern_result { PATTERN_NO, PATTERN_YES, PATTERN_LIMIT };

struct pattern *pattern_new(struct slice text, struct err *err) MUSTCHECK;
void pattern_free(struct pattern *p);
const char *pattern_text(const struct pattern *p);

struct pattern_scratch *pattern_scratch_new(void) MUSTCHECK;
void pattern_scratch_free(struct pattern_scratch *s);

/* subject must be valid UTF-8. */
enum pattern_result pattern_match(const struct pattern *p, struct slice subject, struct pattern_scratch *s) MUSTCHECK;

#endif
