/* The mechanisms that confine_apply() composes, one file each. For confine*.c alone. */
#ifndef GATE_CONFINE_PARTS_H
#define GATE_CONFINE_PARTS_H

#include "libgate/confine.h"

/* Notes in result->missing what the kernel cannot do; several are joined by "; ". */
void confine_missing(struct confine_result *result, const char *fmt, ...) PRINTF(2, 3);

int confine_limits(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;
int confine_rights(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;
int confine_landlock(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;
int confine_seccomp(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;

#endif
