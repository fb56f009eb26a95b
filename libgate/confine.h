/*
 * Taking rights away from the running process: user and group, capabilities, no_new_privs, Landlock, seccomp, rlimits.
 *
 * One table of system calls per role. What the kernel lacks is reported in the result, logged once by the caller and
 * shown in its health answer; what the kernel has must succeed, or the program refuses to serve.
 */
#ifndef GATE_CONFINE_H
#define GATE_CONFINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libgate/err.h"

/*
 * The master starts confined children and reloads: it keeps its user, capabilities (see confine_keep()) and files, and loses what
 * it never needs: executing anything, looking into other processes, mounts and namespaces, and TCP to anywhere but the plan's
 * ports. A call outside its table fails with EPERM instead of ending it: with it the service would end.
 */
enum confine_role { CONFINE_PROXY_WORKER, CONFINE_EGRESS, CONFINE_PROXY_MASTER };

struct confine_plan {
	enum confine_role role;
	uid_t uid; /* (uid_t)-1: stay */
	gid_t gid; /* (gid_t)-1: stay; supplementary groups are given up with it */
	const char *chroot_dir; /* NULL: none */
	const uint16_t *connect_ports; /* TCP ports that Landlock leaves reachable; NULL with n 0: no TCP connect at all */
	unsigned n_connect_ports;
	bool any_tcp; /* egressd: Landlock cannot know the ports */
	const char *read_dir; /* files below it may still be opened for reading (reload); NULL: none at all */
	const char *append_dir; /* files in it may still be opened for appending and created (audit log); NULL: none */
	uint64_t max_fds; /* RLIMIT_NOFILE, 0: stay */
	bool rights_only; /* user, group, capabilities and no_new_privs; no Landlock, seccomp or resource limits */
};

struct confine_result {
	bool no_new_privs;
	bool seccomp;
	int landlock_abi; /* 0: the kernel has none */
	char missing[256]; /* "landlock: not in this kernel", empty when all holds */
};

/*
 * A user's uid and primary group, or a group's gid, by name or by number. Names are looked up in /etc/passwd and
 * /etc/group alone, so that a static program works. A number needs no entry: the gid is then the same number.
 */
int confine_find_user(const char *name, uid_t *uid, gid_t *gid, struct err *err) MUSTCHECK;
int confine_find_group(const char *name, gid_t *gid, struct err *err) MUSTCHECK;

/*
 * For a parent that starts confined children: gives up every capability that is not in keep (1 << CAP_…), and gaining any
 * by an exec. Capabilities that it does not have it does not get.
 */
int confine_keep(uint64_t keep, struct err *err) MUSTCHECK;

/*
 * Only for a process with one thread. Everything that opens files (keys, zone files, resolver settings, random numbers
 * of old libraries) must have happened. A failure leaves the process half confined: it must exit.
 */
int confine_apply(const struct confine_plan *plan, struct confine_result *result, struct err *err) MUSTCHECK;

#endif
