/* One loaded configuration: read, checked as a whole, with its sockets open and its identity decided. */
#include "dockerproxy/generation.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>

#include "dockerproxy/master.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/policy.h"
#include "dockerproxy/sockets.h"
#include "libgate/audit.h"
#include "libgate/confine.h"
#include "libgate/log.h"

#define NOBODY 65534 /* where no /etc/passwd says otherwise */

static bool may_change_user(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	const unsigned need = 1U << CAP_SETUID | 1U << CAP_SETGID;

	return syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective & need) == need;
}

/*
 * The engine's socket is opened by the master alone, so the workers need no group of it: nobody is enough, always. A
 * master that may not change users stays what it is, unless another user was asked for.
 */
static int decide_identity(struct generation *g, struct err *err)
{
	const char *user = g->conf.user, *group = g->conf.group;
	gid_t primary;

	g->uid = (uid_t)-1;
	g->gid = (gid_t)-1;
	if (!may_change_user()) {
		if (user == NULL && group == NULL)
			return 0;
		if (user != NULL && confine_find_user(user, &g->uid, &primary, err) < 0)
			return err_wrap(err, "user");
		if (group != NULL && confine_find_group(group, &g->gid, err) < 0)
			return err_wrap(err, "group");
		if ((user != NULL && g->uid != geteuid()) || (group != NULL && g->gid != getegid()))
			return err_set(err, EPERM, "user and group can be changed only when started as root");
		g->uid = (uid_t)-1;
		g->gid = (gid_t)-1;
		return 0;
	}
	if (user == NULL) {
		if (confine_find_user("nobody", &g->uid, &g->gid, err) < 0)
			g->uid = g->gid = NOBODY;
	} else if (confine_find_user(user, &g->uid, &g->gid, err) < 0) {
		return err_wrap(err, "user");
	}
	if (group != NULL && confine_find_group(group, &g->gid, err) < 0)
		return err_wrap(err, "group");
	return 0;
}

struct generation *generation_load(const char *config_file, unsigned number, struct sockets *sockets, struct err *err)
{
	struct generation *g = calloc(1, sizeof(*g));

	if (g == NULL) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	g->number = number;
	g->admin_fd = -1;
	if (proxy_conf_load(&g->conf, config_file, err) < 0) {
		free(g);
		return NULL;
	}
	if (decide_identity(g, err) < 0 || resolve_engine(&g->conf.upstream, &g->engine, err) < 0)
		goto failed;
	g->peers = peers_new(g->conf.per_peer, g->conf.rate, g->conf.burst, MASTER_SLOTS);
	if (g->peers == NULL) {
		err_set(err, ENOMEM, "out of memory");
		goto failed;
	}
	g->audit = audit_open(g->conf.audit_path, "dockerproxy", err);
	if (g->audit == NULL || sockets_prepare(sockets, &g->conf, g->fds, &g->admin_fd, err) < 0)
		goto failed;
	return g;
failed:
	generation_free(g);
	return NULL;
}

void generation_free(struct generation *g)
{
	if (g == NULL)
		return;
	audit_free(g->audit);
	peers_free(g->peers);
	proxy_conf_release(&g->conf);
	free(g);
}

static void log_listener(const struct proxy_listen *l)
{
	if (l->at.unix_path != NULL) {
		log_info("listening at unix:%s", l->at.unix_path);
		return;
	}
	log_info("listening at tcp:%s%s", l->at.tcp, l->tls.cert != NULL ? " with TLS" : "");
	if (l->tls.cert == NULL && l->insecure)
		log_warn("tcp:%s is plain TCP by \"insecure\": everybody who reaches it may ask what the policy allows",
			l->at.tcp);
	else if (l->tls.cert == NULL)
		log_warn("tcp:%s is plain TCP: every local user may connect; for development only", l->at.tcp);
}

void generation_log(const struct generation *g)
{
	const struct proxy_endpoint *up = &g->conf.upstream;

	for (unsigned i = 0; i < g->conf.nlisten; i++)
		log_listener(&g->conf.listen[i]);
	log_info("engine at %s%s, policy %s, %lld worker(s)",
		up->tcp != NULL ? "tcp:" : "unix:", up->tcp != NULL ? up->tcp : up->unix_path, policy_digest(g->conf.policy),
		(long long)g->conf.workers);
	if (g->conf.mode == PROXY_WARN)
		log_warn("mode is warn: what the policy refuses is logged and passed on");
	if (g->uid == 0 || (g->uid == (uid_t)-1 && geteuid() == 0))
		log_warn(
			"workers run as root (without capabilities); give \"user\", or CAP_SETUID and CAP_SETGID to the master");
	if (!g->conf.confine)
		log_warn("confine is off: a worker that is taken over can do what its user can");
}
