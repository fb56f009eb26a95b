/* Confinement: the order in which a process gives its rights away. */
#include "libgate/confine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "libgate/confine_parts.h"

void confine_missing(struct confine_result *result, const char *fmt, ...)
{
	size_t n = strlen(result->missing);
	va_list ap;

	if (n > 0)
		n += (size_t)snprintf(result->missing + n, sizeof(result->missing) - n, "; ");
	if (n >= sizeof(result->missing))
		return;
	va_start(ap, fmt);
	vsnprintf(result->missing + n, sizeof(result->missing) - n, fmt, ap);
	va_end(ap);
}

/* For a process that keeps its user: nothing gained by an exec, and no other process of the same user may look into it. */
static int close_to_others(struct err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "no_new_privs");
#ifndef UNDER_SANITIZER
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, "the process cannot be made undumpable");
#endif
	return 0;
}

/* Limits come first, while they can still be raised; seccomp comes last, because it forbids every step before it. */
int confine_apply(const struct confine_plan *plan, struct confine_result *result, struct err *err)
{
	*result = (struct confine_result){ .no_new_privs = false };
	if (plan->role == CONFINE_PROXY_MASTER) {
		if (close_to_others(err) < 0)
			return -1;
		result->no_new_privs = true;
		return confine_landlock(plan, result, err) < 0 ? -1 : confine_seccomp(plan, result, err);
	}
	if (confine_limits(plan, result, err) < 0 || confine_rights(plan, result, err) < 0)
		return -1;
	if (plan->rights_only) {
		confine_missing(result, "Landlock, seccomp and resource limits are turned off by configuration");
		return 0;
	}
	if (confine_landlock(plan, result, err) < 0)
		return -1;
	return confine_seccomp(plan, result, err);
}
