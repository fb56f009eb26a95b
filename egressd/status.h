/* What the admin listener answers: /healthz, /readyz, /metrics, /allowlist. [libevent] */
#ifndef EGRESSD_STATUS_H
#define EGRESSD_STATUS_H

#include "libgate/confine.h"
#include "libgate/err.h"
#include "libgate/util.h"

struct admin;
struct egress;
struct status;

/* "unix:PATH", or ADDRESS:PORT of a loopback address. Opens only; before the rights are gone. -1 on failure. */
int status_open(const char *where, struct err *err) MUSTCHECK;

/* Serves what status_open() gave. NULL on lack of memory. */
struct status *status_new(struct egress *e, int fd, const struct confine_result *confined) MUSTCHECK;
void status_free(struct status *s); /* NULL: nothing */

#endif
