/*
 * From an audit log to a proposed policy. [pure]
 *
 * Lines of decision `allow` and `would_deny` count; what was refused in earnest teaches nothing. Rows of the base policy
 * that were used are kept, endpoints, path parameters and query parameters that would have been denied are opened for the
 * values that were seen, each with a comment that says which request needed it. A container that is not owned gets rows by
 * its name; containerName stays as it is, since it opens every row with an owner. A log does not hold bodies: fields that
 * were refused are named in comments and never opened. What whoever wrote the requests can make too much of is counted, and
 * takes no room from the rest.
 */
#ifndef DOCKERPROXY_LEARN_H
#define DOCKERPROXY_LEARN_H

#include "dockerproxy/policy.h"

struct learn;

struct learn *learn_new(const struct policy *base, struct err *err) MUSTCHECK;
void learn_free(struct learn *l);

/* One line of the log, without its line feed. Lines that are no decision are counted and skipped. */
int learn_line(struct learn *l, struct slice line, struct err *err) MUSTCHECK;

/* Appends the proposed policy. An error when nothing was learned. */
int learn_print(const struct learn *l, struct buf *out, struct err *err) MUSTCHECK;

#endif
