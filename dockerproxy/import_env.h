/*
 * The environment of the best-known HAProxy-based socket proxy (CONTAINERS=1, POST=0, ...) as a policy. [pure]
 *
 * The policy opens the same endpoints, but not the bodies: where that proxy passed a create request unread, the row takes
 * any JSON object, and the policy says so in a comment beside it, so that a person narrows it.
 */
#ifndef DOCKERPROXY_IMPORT_ENV_H
#define DOCKERPROXY_IMPORT_ENV_H

#include <stdbool.h>

#include "libgate/buf.h"
#include "libgate/err.h"

/* The value of a variable, NULL when it is not set. */
typedef const char *(*import_lookup)(const char *name, void *arg);

/* Appends the policy's text (with comments). An unclear value, or one that opens nothing, is an error that names it. */
int import_env(import_lookup lookup, void *arg, struct buf *out, struct err *err) MUSTCHECK;

/* Is it a variable that import_env() or the proxy's own start-up reads? */
bool import_env_knows(const char *name);

#endif
