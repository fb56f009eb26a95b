/* Confinement: Landlock. Files only below the plan's directories; TCP is bound never and connected only to the ports of the plan. */
#include "libgate/confine_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stddef.h>
#include <sys/syscall.h>

/*
 * The kernel's interface as of ABI 6, spelled out here because the headers of stable distributions are older than the
 * kernels that they are run on. Numbers are of include/uapi/linux/landlock.h.
 */
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif

struct ruleset_attr {
	__u64 handled_access_fs;
	__u64 handled_access_net; /* ABI 4 */
	__u64 scoped; /* ABI 6 */
};

struct path_beneath_attr {
	__u64 allowed_access;
	__s32 parent_fd;
} __attribute__((packed));

struct net_port_attr {
	__u64 allowed_access;
	__u64 port;
};

#define CREATE_RULESET_VERSION (1U << 0)
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2
#define ACCESS_FS_EXECUTE (1ULL << 0)
#define ACCESS_FS_WRITE_FILE (1ULL << 1)
#define ACCESS_FS_READ_FILE (1ULL << 2)
#define ACCESS_FS_MAKE_CHAR (1ULL << 6)
#define ACCESS_FS_MAKE_REG (1ULL << 8)
#define ACCESS_FS_MAKE_BLOCK (1ULL << 11)
#define ACCESS_FS_ABI1 ((1ULL << 13) - 1)
#define ACCESS_FS_REFER (1ULL << 13) /* ABI 2 */
#define ACCESS_FS_TRUNCATE (1ULL << 14) /* ABI 3 */
#define ACCESS_FS_IOCTL_DEV (1ULL << 15) /* ABI 5 */
#define ACCESS_NET_BIND_TCP (1ULL << 0)
#define ACCESS_NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)

#define ABI_REFER 2
#define ABI_TRUNCATE 3
#define ABI_NET 4
#define ABI_IOCTL_DEV 5
#define ABI_SCOPE 6

static struct ruleset_attr rules_of(int abi, const struct confine_plan *plan)
{
	struct ruleset_attr attr = { .handled_access_fs = ACCESS_FS_ABI1 };

	/* It opens what the next configuration names, and the service manager may listen at an abstract address. */
	if (plan->role == CONFINE_PROXY_MASTER) {
		attr.handled_access_fs = ACCESS_FS_EXECUTE | ACCESS_FS_MAKE_CHAR | ACCESS_FS_MAKE_BLOCK;
		attr.handled_access_net = abi >= ABI_NET ? ACCESS_NET_CONNECT_TCP : 0;
		attr.scoped = abi >= ABI_SCOPE ? SCOPE_SIGNAL : 0;
		return attr;
	}
	if (abi >= ABI_REFER)
		attr.handled_access_fs |= ACCESS_FS_REFER;
	if (abi >= ABI_TRUNCATE)
		attr.handled_access_fs |= ACCESS_FS_TRUNCATE;
	if (abi >= ABI_IOCTL_DEV)
		attr.handled_access_fs |= ACCESS_FS_IOCTL_DEV;
	if (abi >= ABI_NET) {
		attr.handled_access_net = ACCESS_NET_BIND_TCP;
		if (!plan->any_tcp)
			attr.handled_access_net |= ACCESS_NET_CONNECT_TCP;
	}
	if (abi >= ABI_SCOPE)
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
	return attr;
}

/* An older kernel takes a shorter structure; a longer one only when the rest is zero, which it then is. */
static size_t size_of(int abi)
{
	if (abi >= ABI_SCOPE)
		return sizeof(struct ruleset_attr);
	return abi >= ABI_NET ? offsetof(struct ruleset_attr, scoped) : offsetof(struct ruleset_attr, handled_access_net);
}

static int allow_dir(int ruleset, const char *dir, __u64 access, struct err *err)
{
	struct path_beneath_attr rule = { .allowed_access = access };
	auto_close int fd = -1;

	if (dir == NULL)
		return 0;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "directory %s", dir);
	rule.parent_fd = fd;
	if (syscall(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_errno(err, "Landlock rule for %s", dir);
	return 0;
}

static int allow_dirs(int ruleset, const struct confine_plan *plan, struct err *err)
{
	if (allow_dir(ruleset, plan->read_dir, ACCESS_FS_READ_FILE, err) < 0)
		return -1;
	return allow_dir(ruleset, plan->append_dir, ACCESS_FS_WRITE_FILE | ACCESS_FS_MAKE_REG, err);
}

static int allow_ports(int ruleset, const struct confine_plan *plan, struct err *err)
{
	for (unsigned i = 0; i < plan->n_connect_ports; i++) {
		const struct net_port_attr rule = { ACCESS_NET_CONNECT_TCP, plan->connect_ports[i] };

		if (syscall(__NR_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) < 0)
			return err_errno(err, "Landlock rule for TCP port %u", plan->connect_ports[i]);
	}
	return 0;
}

int confine_landlock(const struct confine_plan *plan, struct confine_result *result, struct err *err)
{
	long abi = syscall(__NR_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	struct ruleset_attr attr;
	auto_close int ruleset = -1;

	/* EPERM: a container's own seccomp filter stands before it. */
	if (abi < 1 && (errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM)) {
		confine_missing(result, "Landlock: %s",
			errno == EPERM        ? "not allowed by the container's seccomp filter"
				: errno == ENOSYS ? "not in this kernel"
								  : "disabled in this kernel (lsm= lacks landlock)");
		return 0;
	}
	if (abi < 1)
		return err_errno(err, "Landlock version");
	attr = rules_of((int)abi, plan);
	ruleset = (int)syscall(__NR_landlock_create_ruleset, &attr, size_of((int)abi), 0);
	if (ruleset < 0)
		return err_errno(err, "Landlock ruleset");
	if (allow_dirs(ruleset, plan, err) < 0)
		return -1;
	if (abi < ABI_NET)
		confine_missing(result, "Landlock: version %ld of this kernel has no TCP rules", abi);
	else if (allow_ports(ruleset, plan, err) < 0)
		return -1;
	if (syscall(__NR_landlock_restrict_self, ruleset, 0) < 0)
		return err_errno(err, "Landlock cannot be applied");
	result->landlock_abi = (int)abi;
	return 0;
}
