/* The mechanisms that confine_apply() composes, one file each. For confine*.c alone. */
#ifndef GATE_CONFINE_PARTS_H
#define GATE_CONFINE_PARTS_H

#include "libgate/confine.h"

/* Notes in result->missing what the kernel cannot do; several are joined by "; ". */
/* Built with a sanitizer: the search for leaks at the end traces the process from a thread of its own. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(UNDER_SANITIZER)
#define UNDER_SANITIZER 1
#endif

void confine_missing(struct confine_result *result, const char *fmt, ...) PRINTF(2, 3);

int confine_limits(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;
int confine_rights(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;
int confine_landlock(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;
int confine_seccomp(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;

#endif
