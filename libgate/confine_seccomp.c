/* Confinement: the seccomp filter of a role, from the table of its system calls. */
#include "libgate/confine_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum effect { ALLOW, DENY };

struct row {
	unsigned roles;
	enum effect effect;
	const char *name;
	unsigned nargs;
	struct scmp_arg_cmp arg;
};

#define PROXY (1U << CONFINE_PROXY_WORKER)
#define EGRESS (1U << CONFINE_EGRESS)
#define MASTER (1U << CONFINE_PROXY_MASTER)
#define BOTH (PROXY | EGRESS)
#define READER (1U << 8)
#define APPENDER (1U << 9)
#define NEITHER (1U << 10)
#define ANY \
	0, \
	{ \
		0, _SCMP_CMP_MIN, 0, 0 \
	}
/* Two values for a masked comparison, one for the others: clang wants both said. */
#define ARG_OF(arg, op, a, b, ...) \
	{ \
		(arg), (op), (a), (b) \
	}
#define ARG(...) 1, ARG_OF(__VA_ARGS__, 0, 0)

/* Of clone(): a child in namespaces of its own. */
#define NEW_NAMESPACES \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* Binary search over the system calls instead of a walk along the table: the filter runs at every call. */
#define FILTER_TREE 2

static int add_row(scmp_filter_ctx ctx, const struct row *row, struct err *err)
{
	int nr = seccomp_syscall_resolve_name(row->name);
	uint32_t action = row->effect == ALLOW ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EACCES);
	int rc;

	if (nr == __NR_SCMP_ERROR)
		return 0;
	rc = seccomp_rule_add_array(ctx, action, nr, row->nargs, &row->arg);
	/* EDOM: a pseudo number, a call that this machine does not have. */
	if (rc == 0 || rc == -EDOM)
		return 0;
	errno = -rc;
	return err_errno(err, "seccomp rule for %s", row->name);
}

static unsigned roles_of(const struct confine_plan *plan)
{
	unsigned roles = 1U << plan->role;

	/* Its children keep its filter beside their own. */
	if (plan->role == CONFINE_PROXY_MASTER)
		return MASTER | PROXY;
	if (plan->read_dir != NULL)
		roles |= READER;
	if (plan->append_dir != NULL)
		roles |= APPENDER;
	return (roles & (READER | APPENDER)) != 0 ? roles : roles | NEITHER;
}

static int add_rows(scmp_filter_ctx ctx, unsigned roles, struct err *err)
{
	const scmp_datum_t self = (scmp_datum_t)getpid();
	const struct row rows[] = {
#define ROW(roles, effect, name, condition) { roles, effect, #name, condition },
#include "libgate/confine_syscall.def"
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((rows[i].roles & roles) != 0 && !(roles & MASTER && rows[i].effect == DENY) &&
			add_row(ctx, &rows[i], err) < 0)
			return -1;
	return 0;
}

#ifdef UNDER_SANITIZER
/* A sanitizer's report looks for a symbolizer to run; it must live to print without one. */
static int add_sanitizer_rows(scmp_filter_ctx ctx, unsigned roles, struct err *err)
{
	static const char *const names[] = { "fork", "vfork", "clone", "clone3", "execve", "prctl", "wait4", "kill",
		"personality" };

	/* The search for leaks at the master's end traces the process from a thread of its own. */
	if (roles & MASTER) {
		const struct row row = { MASTER, ALLOW, "ptrace", ANY };

		return add_row(ctx, &row, err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct row row = { BOTH, DENY, names[i], ANY };

		if (add_row(ctx, &row, err) < 0)
			return -1;
	}
	return 0;
}
#else
static int add_sanitizer_rows(scmp_filter_ctx ctx, unsigned roles, struct err *err)
{
	return 0;
}
#endif

static int load(scmp_filter_ctx ctx, struct confine_result *result, struct err *err)
{
	int rc = seccomp_load(ctx);

	if (rc == 0) {
		result->seccomp = true;
		return 0;
	}
	errno = -rc;

	if (rc == -ENOSYS || rc == -EINVAL) {
		confine_missing(result, "seccomp: not in this kernel");
		return 0;
	}
	return err_errno(err, "the seccomp filter cannot be loaded");
}

int confine_seccomp(const struct confine_plan *plan, struct confine_result *result, struct err *err)
{
	unsigned roles = roles_of(plan);
	scmp_filter_ctx ctx = seccomp_init(roles & MASTER ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS);
	int rc;

	/* gVisor has no KILL_PROCESS; for a process with one thread the older action is the same. */
	if (ctx == NULL)
		ctx = seccomp_init(SCMP_ACT_KILL_THREAD);
	if (ctx == NULL)
		return err_set(err, ENOMEM, "seccomp filter");
	seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, FILTER_TREE);
	seccomp_attr_set(ctx, SCMP_FLTATR_API_SYSRAWRC, 1);
	rc =
		add_rows(ctx, roles, err) < 0 || add_sanitizer_rows(ctx, roles, err) < 0 || load(ctx, result, err) < 0 ? -1 : 0;
	seccomp_release(ctx);
	return rc;
}
