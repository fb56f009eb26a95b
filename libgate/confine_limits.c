/* Confinement: resource limits. */
#include "libgate/confine_parts.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

/* What a confined process never needs. RLIMIT_FSIZE is not among them: the audit log is appended to. */
static const struct {
	int resource;
	const char *name;
} zero[] = {
	{ RLIMIT_CORE, "RLIMIT_CORE" }, /* a core would hold client data */
	{ RLIMIT_NPROC, "RLIMIT_NPROC" }, /* no child, whatever seccomp says */
	{ RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK" },
	{ RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE" },
};

static int set_files(uint64_t want, struct confine_result *result, struct err *err)
{
	struct rlimit now, next;

	if (getrlimit(RLIMIT_NOFILE, &now) < 0)
		return err_errno(err, "RLIMIT_NOFILE cannot be read");
	next.rlim_cur = next.rlim_max = (rlim_t)want;
	if (setrlimit(RLIMIT_NOFILE, &next) == 0)
		return 0;
	/* Not allowed to raise the limit: take what there is, and say so. */
	next.rlim_cur = next.rlim_max = now.rlim_max;
	if (errno != EPERM || setrlimit(RLIMIT_NOFILE, &next) < 0)
		return err_errno(err, "RLIMIT_NOFILE cannot be set to %llu", (unsigned long long)want);
	confine_missing(result, "only %llu of %llu file descriptors are allowed (LimitNOFILE, ulimit -n)",
		(unsigned long long)now.rlim_max, (unsigned long long)want);
	return 0;
}

int confine_limits(const struct confine_plan *plan, struct confine_result *result, struct err *err)
{
	const struct rlimit none = { 0, 0 };

	if (plan->max_fds > 0 && set_files(plan->max_fds, result, err) < 0)
		return -1;
	if (plan->rights_only)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(zero); i++) {
		/* gVisor shares the limits with what is executed in the container later: a health check could not start. */
		if (zero[i].resource == RLIMIT_NPROC && plan->role == CONFINE_EGRESS)
			continue;
		if (setrlimit(zero[i].resource, &none) == 0)
			continue;
		/* Linux lets everyone lower a limit; a kernel that refuses this (gVisor) does not have it. */
		if (errno != EPERM && errno != EINVAL)
			return err_errno(err, "%s cannot be set to 0", zero[i].name);
		confine_missing(result, "%s: not in this kernel", zero[i].name);
	}
	return 0;
}
