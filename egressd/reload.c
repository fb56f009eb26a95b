/* The configuration in force: what is said of it, and how SIGHUP replaces it. */
#include "egressd/reload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egressd/session.h"
#include "libgate/log.h"

#define CONFIG_FILE_MAX (1024 * 1024)

static void note_rule(const struct rule *rule, const char *note, void *arg)
{
	(void)arg;
	log_warn("allowlist entry %s: %s", rule->text, note);
}

void reload_say(const struct egress_conf *c)
{
	if (rules_count(c->allow) == 0 && c->listen.n > 0)
		log_warn("the allowlist is empty: nothing is allowed");
	rules_notes(c->allow, note_rule, NULL);
	if (c->mode == MODE_WARN)
		log_warn("warn mode: the allowlist is not enforced, only addresses are; for learning, never for production");
	for (unsigned i = 0; i < c->pins.n; i++) {
		char text[64];
		addr_format(&c->pins.pin[i].addr, text, sizeof(text));
		log_warn("test host %s is pinned to %s and exempt from the address check", c->pins.pin[i].host.name, text);
	}
}

/* --- the resolver ------------------------------------------------------------------------------------------------ */

struct resolver_settings reload_resolver_settings(const struct egress_conf *c)
{
	return (struct resolver_settings){ c->resolver, c->timeouts.dns, (unsigned)c->limits.lookups,
		(unsigned)c->limits.lookups_per_rule, (unsigned)c->limits.cached_names, c->timeouts.cache };
}

void reload_know_resolvers(struct egress *e)
{
	struct addr servers[GUARD_KNOWN_MAX];

	guard_know_resolvers(&e->guard, servers, resolver_servers(e->resolver, servers, ARRAY_SIZE(servers)));
}

struct pace *reload_paces(const struct egress_conf *c, struct err *err)
{
	struct pace *paces = calloc(rules_count(c->allow) + 1, sizeof(*paces));

	if (paces == NULL)
		err_errno(err, "allowlist");
	return paces;
}

static int change_resolver(struct egress *e, const struct egress_conf *fresh, struct err *err)
{
	const struct resolver_settings settings = reload_resolver_settings(fresh);

	if (resolver_change(e->resolver, &settings, err) != 0)
		return -1;
	reload_know_resolvers(e);
	return 0;
}

/* --- reload ------------------------------------------------------------------------------------------------------ */

/* conf_load() would do, but the file is opened under confinement: only its directory is left, for reading. */
static char *read_config(const char *path, size_t *len, struct err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char *text = malloc(CONFIG_FILE_MAX + 1);
	ssize_t n;

	*len = 0;
	if (fd < 0 || text == NULL) {
		err_errno(err, "configuration %s cannot be opened", path);
		free(text);
		return NULL;
	}
	while ((n = read(fd, text + *len, CONFIG_FILE_MAX + 1 - *len)) > 0)
		*len += (size_t)n;
	if (n < 0 || *len > CONFIG_FILE_MAX) {
		err_set(err, n < 0 ? errno : EFBIG, "configuration %s cannot be read", path);
		free(text);
		return NULL;
	}
	return text;
}

/* What was opened or dropped at start stays as it was; everything else is taken over. */
static void take_over(struct egress *e, struct egress_conf *fresh, struct pace **paces)
{
	struct egress_conf *old = e->conf;
	struct pace *used = e->paces;

	e->conf = fresh;
	e->paces = *paces;
	*paces = used; /* the caller's, to be freed */
	e->guard.refuse = &fresh->refuse;
	e->pool.max = (size_t)fresh->limits.buffer_bytes;
	e->max_clients = room_for_clients(&e->room, fresh->limits.connections);
	egress_conf_free(old);
}

static void reopen_audit(struct egress *e)
{
	struct err err = ERR_INIT;

	if (audit_reopen(e->audit, &err) != 0)
		log_error("SIGHUP: the audit log stays where it was: %s", err.text);
}

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_listen(const struct egress_conf *a, const struct egress_conf *b)
{
	bool same = a->listen.n == b->listen.n && a->targets.n == b->targets.n;

	for (unsigned i = 0; same && i < a->listen.n; i++)
		same = same_text(a->listen.at[i], b->listen.at[i]);
	for (unsigned i = 0; same && i < a->targets.n; i++) {
		const struct target *x = a->targets.target[i], *y = b->targets.target[i];
		same = same_text(x->listen, y->listen) && slice_eq(host_slice(&x->host), host_slice(&y->host)) &&
			x->port == y->port;
	}
	return same;
}

/* What was opened or given up at start cannot be had again: whoever changed it in the file must know. */
static void say_what_stays(const struct egress_conf *old, const struct egress_conf *fresh)
{
	const struct {
		const char *key;
		bool same;
	} fixed[] = {
		{ "listen and tcpTargets", same_listen(old, fresh) },
		{ "admin", same_text(old->admin, fresh->admin) },
		{ "audit.path", same_text(old->audit, fresh->audit) },
		{ "user", same_text(old->user, fresh->user) },
		{ "group", same_text(old->group, fresh->group) },
		{ "confine", old->confine == fresh->confine },
	};

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (!fixed[i].same)
			log_warn("SIGHUP: %s: the change waits for a restart", fixed[i].key);
	if (fresh->resolver == NULL && old->resolver != NULL)
		log_warn("SIGHUP: resolver: /etc/resolv.conf is read at start alone; the servers stay");
}

void reload(struct egress *e, const char *file)
{
	struct err err = ERR_INIT;
	struct egress_conf *fresh = NULL;
	size_t len;

	if (file == NULL) {
		log_info("SIGHUP: the configuration comes from the environment, there is nothing to read again");
		reopen_audit(e);
		return;
	}
	auto_free char *text = read_config(file, &len, &err);
	if (text != NULL)
		fresh = egress_conf_load_text(slice_make(text, len), file, &err);
	auto_free struct pace *paces = fresh != NULL ? reload_paces(fresh, &err) : NULL;
	if (paces == NULL || change_resolver(e, fresh, &err) != 0) {
		egress_conf_free(fresh);
		e->metrics.reload_failures_total++;
		log_error("SIGHUP: nothing changes: %s", err.text);
		return;
	}
	e->metrics.reloads_total++;
	say_what_stays(e->conf, fresh);
	take_over(e, fresh, &paces);
	log_set_level((enum log_level)fresh->log_level);
	log_info("SIGHUP: %s taken over, %zu allowlist entries", file, rules_count(fresh->allow));
	reload_say(fresh);
	sweep_judge_again(e);
	reopen_audit(e);
}
