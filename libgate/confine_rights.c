/* Confinement: root directory, user and group, capabilities, no_new_privs, dumpability. */
#include "libgate/confine_parts.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CAP_LAST_PROBED 63

/* --- names ------------------------------------------------------------------------------------------------------ */

/* A decimal number that is a valid id ((uid_t)-1 is none). */
static bool parse_number(const char *text, unsigned *out)
{
	uint64_t v = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9')
			return false;
		v = v * 10 + (uint64_t)(*text - '0');
		if (v >= UINT32_MAX)
			return false;
	}
	*out = (unsigned)v;
	return true;
}

static bool is_number(const char *text)
{
	return *text >= '0' && *text <= '9';
}

/* getpwnam() would load NSS modules, which a static program does not have. */
int confine_find_user(const char *name, uid_t *uid, gid_t *gid, struct err *err)
{
	struct passwd *p;
	unsigned number = 0;
	bool by_number = parse_number(name, &number);
	FILE *f;

	if (is_number(name) && !by_number)
		return err_set(err, EINVAL, "\"%s\" is no user number", name);
	f = fopen("/etc/passwd", "re");
	do {
		p = f != NULL ? fgetpwent(f) : NULL;
	} while (p != NULL && (by_number ? p->pw_uid != number : strcmp(p->pw_name, name) != 0));
	if (p != NULL) {
		*uid = p->pw_uid;
		*gid = p->pw_gid;
	} else if (by_number) {
		*uid = number;
		*gid = number;
	} else {
		err_set(err, ENOENT, "no user \"%s\" in /etc/passwd; a number works too", name);
	}
	if (f != NULL)
		fclose(f);
	return p != NULL || by_number ? 0 : -1;
}

int confine_find_group(const char *name, gid_t *gid, struct err *err)
{
	struct group *g;
	unsigned number = 0;
	FILE *f;

	if (parse_number(name, &number)) {
		*gid = number;
		return 0;
	}
	if (is_number(name))
		return err_set(err, EINVAL, "\"%s\" is no group number", name);
	f = fopen("/etc/group", "re");
	do {
		g = f != NULL ? fgetgrent(f) : NULL;
	} while (g != NULL && strcmp(g->gr_name, name) != 0);
	if (g != NULL)
		*gid = g->gr_gid;
	else
		err_set(err, ENOENT, "no group \"%s\" in /etc/group; a number works too", name);
	if (f != NULL)
		fclose(f);
	return g != NULL ? 0 : -1;
}

/* --- rights ----------------------------------------------------------------------------------------------------- */

static int change_root(const char *dir, struct err *err)
{
	if (dir == NULL)
		return 0;
	if (chroot(dir) < 0 || chdir("/") < 0)
		return err_errno(err, "chroot to %s", dir);
	return 0;
}

/* Without CAP_SETPCAP the bounding set stays; it only matters to a process that could gain capabilities at all. */
static void empty_bounding_set(void)
{
	for (int cap = 0; cap <= CAP_LAST_PROBED; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
}

static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0)
		return err_errno(err, "capabilities cannot be dropped");
	return 0;
}

int confine_keep(uint64_t keep, struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps) < 0)
		return err_errno(err, "capabilities cannot be read");
	for (int i = 0; i < 2; i++) {
		caps[i].permitted &= (uint32_t)(keep >> (32 * i));
		caps[i].effective = caps[i].permitted;
		caps[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, caps) < 0)
		return err_errno(err, "capabilities cannot be dropped");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "no_new_privs");
	return 0;
}

static int change_user(const struct confine_plan *plan, struct err *err)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	if (plan->gid != (gid_t)-1) {
		/* Whoever is neither root nor holds the capability has given up what it can. */
		if (setgroups(0, NULL) < 0 && (geteuid() == 0 || errno != EPERM))
			return err_errno(err, "supplementary groups cannot be given up");
		if (setresgid(plan->gid, plan->gid, plan->gid) < 0)
			return err_errno(err, "cannot become group %u", (unsigned)plan->gid);
		if (getresgid(&rgid, &egid, &sgid) < 0 || rgid != plan->gid || egid != plan->gid || sgid != plan->gid)
			return err_set(err, EPERM, "still not group %u", (unsigned)plan->gid);
	}
	if (plan->uid != (uid_t)-1) {
		if (setresuid(plan->uid, plan->uid, plan->uid) < 0)
			return err_errno(err, "cannot become user %u", (unsigned)plan->uid);
		if (getresuid(&ruid, &euid, &suid) < 0 || ruid != plan->uid || euid != plan->uid || suid != plan->uid)
			return err_set(err, EPERM, "still not user %u", (unsigned)plan->uid);
	}
	return 0;
}

int confine_rights(const struct confine_plan *plan, struct confine_result *result, struct err *err)
{
	empty_bounding_set();
	if (change_root(plan->chroot_dir, err) < 0 || change_user(plan, err) < 0 || drop_capabilities(err) < 0)
		return -1;
	if (plan->uid != (uid_t)-1 && plan->uid != 0 && setresuid(0, 0, 0) == 0)
		return err_set(err, EPERM, "root could be regained after becoming user %u", (unsigned)plan->uid);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "no_new_privs");
	result->no_new_privs = true;
	/* Other processes of the same user must neither read this one's memory nor take its descriptors. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, "the process cannot be made undumpable");
	return 0;
}
