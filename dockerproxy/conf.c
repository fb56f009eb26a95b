/* The key table of dockerproxy's configuration, and the checks that concern more than one key. */
#include "dockerproxy/conf.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "dockerproxy/secure.h"
#include "libgate/conf.h"
#include "libgate/confine.h"
#include "libgate/json.h"
#include "libgate/listen.h"
#include "libgate/log.h"

#define KIB 1024
#define MIB (1024 * 1024)
#define SECOND 1000
#define HOUR (3600 * SECOND)

static char *dup_slice(struct slice s)
{
	return strndup(s.p, s.len);
}

static int replace_string(char **where, struct slice value, const char *what, struct err *err)
{
	if (value.len == 0 || memchr(value.p, 0, value.len) != NULL)
		return err_set(err, EINVAL, "%s must not be empty", what);
	free(*where);
	*where = dup_slice(value);
	return *where != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static void endpoint_release(struct proxy_endpoint *at)
{
	free(at->unix_path);
	free(at->tcp);
	*at = (struct proxy_endpoint){ NULL, NULL };
}

static void tls_release(struct proxy_tls *tls)
{
	free(tls->cert);
	free(tls->key);
	free(tls->ca);
	free(tls->name);
	*tls = (struct proxy_tls){ NULL, NULL, NULL, NULL };
}

static void listen_release(struct proxy_listen *l)
{
	endpoint_release(&l->at);
	tls_release(&l->tls);
	if (l->policy_file != NULL)
		policy_free(l->policy);
	free(l->policy_file);
	*l = (struct proxy_listen){ .policy = NULL };
}

/* "unix:/run/x.sock" or "tcp:127.0.0.1:2375", the spelling of the environment and of defaults. */
static int endpoint_from_text(struct proxy_endpoint *at, struct slice text, struct err *err)
{
	endpoint_release(at);
	if (slice_starts(text, "unix:"))
		return replace_string(&at->unix_path, slice_skip(text, 5), "the path after unix:", err);
	if (slice_starts(text, "tcp:"))
		return replace_string(&at->tcp, slice_skip(text, 4), "the address after tcp:", err);
	return err_set(err, EINVAL, "\"%.*s\" is neither unix:PATH nor tcp:ADDRESS:PORT", (int)text.len, text.p);
}

/* --- members of objects: a row each, so that an unknown one is refused in one place ----------------------------- */

struct member {
	const char *name;
	int (*read)(void *into, const struct json_node *node, struct err *err);
};

static int read_members(void *into, const struct json_node *node, const struct member *rows, const char *what,
	struct err *err)
{
	if (node->type != JSON_OBJECT)
		return err_set(err, EINVAL, "%s must be an object", what);
	for (const struct json_node *m = node->child; m != NULL; m = m->next) {
		const struct member *row = rows;

		while (row->name != NULL && !slice_is(m->key, row->name))
			row++;
		if (row->name == NULL) {
			err_set(err, EINVAL, "%s: unknown key \"%.*s\"", what, (int)m->key.len, m->key.p);
			return conf_blame(m);
		}
		if (row->read(into, m, err) < 0) {
			err_wrap(err, "%s.%s", what, row->name);
			return conf_blame(m);
		}
	}
	return 0;
}

static int read_string(char **where, const struct json_node *node, struct err *err)
{
	if (node->type != JSON_STRING)
		return err_set(err, EINVAL, "must be a string");
	return replace_string(where, node->text, "the string", err);
}

static int tls_cert(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_tls *)into)->cert, n, err);
}

static int tls_key(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_tls *)into)->key, n, err);
}

static int tls_ca(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_tls *)into)->ca, n, err);
}

static int tls_name(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_tls *)into)->name, n, err);
}

static const struct member server_tls_members[] = {
	{ "cert", tls_cert },
	{ "key", tls_key },
	{ "clientCa", tls_ca },
	{ NULL, NULL },
};

static const struct member client_tls_members[] = {
	{ "cert", tls_cert },
	{ "key", tls_key },
	{ "ca", tls_ca },
	{ "name", tls_name },
	{ NULL, NULL },
};

static int listen_at_unix(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_listen *)into)->at.unix_path, n, err);
}

static int listen_at_tcp(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_listen *)into)->at.tcp, n, err);
}

static int listen_policy(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_listen *)into)->policy_file, n, err);
}

static int listen_insecure(void *into, const struct json_node *n, struct err *err)
{
	if (n->type != JSON_BOOL)
		return err_set(err, EINVAL, "must be true or false");
	((struct proxy_listen *)into)->insecure = n->boolean;
	return 0;
}

static int listen_mode(void *into, const struct json_node *n, struct err *err)
{
	unsigned mode = 0;

	if (n->type != JSON_STRING || n->text.len < 3 || n->text.len > 4)
		return err_set(err, EINVAL, "must be a string of octal digits, as \"0660\"");
	for (size_t i = 0; i < n->text.len; i++) {
		if (n->text.p[i] < '0' || n->text.p[i] > '7')
			return err_set(err, EINVAL, "must be a string of octal digits, as \"0660\"");
		mode = mode * 8 + (unsigned)(n->text.p[i] - '0');
	}
	if (mode > 0777)
		return err_set(err, EINVAL, "must be at most \"0777\"");
	((struct proxy_listen *)into)->mode = (mode_t)mode;
	return 0;
}

/* A user or group by number or by name. */
static int parse_id(struct slice text, bool group, unsigned *out, struct err *err)
{
	char name[64];
	uid_t uid;
	gid_t gid;

	if (text.len == 0 || text.len >= sizeof(name) || memchr(text.p, 0, text.len) != NULL)
		return err_set(err, EINVAL, "not a %s name", group ? "group" : "user");
	memcpy(name, text.p, text.len);
	name[text.len] = '\0';
	if (group) {
		if (confine_find_group(name, &gid, err) < 0)
			return -1;
		*out = gid;
	} else {
		if (confine_find_user(name, &uid, &gid, err) < 0)
			return -1;
		*out = uid;
	}
	return 0;
}

/* "user", "user:group" or ":group". */
static int listen_owner(void *into, const struct json_node *n, struct err *err)
{
	struct proxy_listen *l = into;
	const char *colon;
	struct slice user, group;

	if (n->type != JSON_STRING)
		return err_set(err, EINVAL, "must be a string, \"user:group\"");
	colon = memchr(n->text.p, ':', n->text.len);
	user = colon == NULL ? n->text : slice_make(n->text.p, (size_t)(colon - n->text.p));
	group = colon == NULL ? slice_make(NULL, 0) : slice_skip(n->text, user.len + 1);
	if (user.len > 0 && parse_id(user, false, &l->uid, err) < 0)
		return -1;
	if (colon != NULL && parse_id(group, true, &l->gid, err) < 0)
		return -1;
	return 0;
}

static int read_ids(const struct json_node *n, bool group, unsigned *ids, unsigned *count, struct err *err)
{
	if (n->type != JSON_ARRAY || n->count == 0)
		return err_set(err, EINVAL, "must be a list that is not empty");
	if (n->count > PROXY_MAX_UIDS)
		return err_set(err, EINVAL, "holds more than %d entries", PROXY_MAX_UIDS);
	*count = 0;
	for (const struct json_node *i = n->child; i != NULL; i = i->next) {
		struct slice text = i->type == JSON_INT ? i->digits : i->text;

		if (i->type != JSON_INT && i->type != JSON_STRING)
			return err_set(err, EINVAL, "holds something that is neither a number nor a name");
		if (parse_id(text, group, &ids[*count], err) < 0)
			return -1;
		(*count)++;
	}
	return 0;
}

static int listen_uids(void *into, const struct json_node *n, struct err *err)
{
	struct proxy_listen *l = into;

	return read_ids(n, false, l->uids, &l->nuids, err);
}

static int listen_gids(void *into, const struct json_node *n, struct err *err)
{
	struct proxy_listen *l = into;

	return read_ids(n, true, l->gids, &l->ngids, err);
}

static int listen_cidrs(void *into, const struct json_node *n, struct err *err)
{
	struct proxy_listen *l = into;

	if (n->type != JSON_ARRAY || n->count == 0)
		return err_set(err, EINVAL, "must be a list that is not empty");
	if (n->count > PROXY_MAX_CIDRS)
		return err_set(err, EINVAL, "holds more than %d entries", PROXY_MAX_CIDRS);
	l->ncidrs = 0;
	for (const struct json_node *i = n->child; i != NULL; i = i->next) {
		if (i->type != JSON_STRING || !cidr_parse(i->text, &l->cidrs[l->ncidrs]))
			return err_set(err, EINVAL, "entry %u is no address block, as \"10.1.0.0/16\"", l->ncidrs + 1);
		l->ncidrs++;
	}
	return 0;
}

/* Whoever writes "tls" means it: without its files the listener would be plain. */
static int listen_tls(void *into, const struct json_node *n, struct err *err)
{
	struct proxy_tls *tls = &((struct proxy_listen *)into)->tls;

	if (read_members(tls, n, server_tls_members, "tls", err) < 0)
		return -1;
	if (tls->cert == NULL || tls->key == NULL)
		return err_set(err, EINVAL, "needs both cert and key");
	return 0;
}

static const struct member listen_members[] = {
	{ "unix", listen_at_unix },
	{ "tcp", listen_at_tcp },
	{ "mode", listen_mode },
	{ "owner", listen_owner },
	{ "allowUids", listen_uids },
	{ "allowGids", listen_gids },
	{ "allowCidrs", listen_cidrs },
	{ "tls", listen_tls },
	{ "insecure", listen_insecure },
	{ "policy", listen_policy },
	{ NULL, NULL },
};

static struct proxy_listen *listen_add(struct proxy_conf *conf, struct err *err)
{
	struct proxy_listen *l;

	if (conf->nlisten == PROXY_MAX_LISTEN) {
		err_set(err, EINVAL, "more than %d listeners", PROXY_MAX_LISTEN);
		return NULL;
	}
	l = &conf->listen[conf->nlisten++];
	*l = (struct proxy_listen){ .mode = 0660, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	return l;
}

/* What only a bind could show otherwise: --check would call it good, and the start would fail. */
static int check_address(const struct proxy_endpoint *at, struct err *err)
{
	struct sockaddr_storage ss;

	if (at->tcp != NULL && listen_parse_tcp(at->tcp, &ss) == 0)
		return err_set(err, EINVAL, "\"%s\" is no numeric ADDRESS:PORT, as 127.0.0.1:2375 or [::1]:2375", at->tcp);
	return 0;
}

static int listen_check(const struct proxy_listen *l, struct err *err)
{
	bool tcp = l->at.tcp != NULL;

	if (tcp == (l->at.unix_path != NULL))
		return err_set(err, EINVAL, "a listener has either \"unix\" or \"tcp\"");
	if (check_address(&l->at, err) < 0)
		return -1;
	if (tcp && (l->nuids > 0 || l->ngids > 0))
		return err_set(err, EINVAL, "allowUids and allowGids need a unix socket: TCP peers have no user");
	if (!tcp && (l->ncidrs > 0 || l->tls.cert != NULL))
		return err_set(err, EINVAL, "allowCidrs and tls need a tcp listener");
	return 0;
}

static bool tcp_is_loopback(const char *text)
{
	return strncmp(text, "127.", 4) == 0 || strncmp(text, "[::1]:", 6) == 0;
}

static int listen_check_exposure(const struct proxy_listen *l, struct err *err)
{
	if (l->at.tcp == NULL || tcp_is_loopback(l->at.tcp))
		return 0;
	if (l->tls.cert == NULL && !l->insecure)
		return err_set(err, EINVAL,
			"listener %s is not loopback and has no tls: give it tls, or say \"insecure\": true if that is meant",
			l->at.tcp);
	if (l->tls.cert != NULL && l->tls.ca == NULL && !l->insecure)
		return err_set(err, EINVAL,
			"listener %s asks no client certificate: give tls.clientCa, or say \"insecure\": true if that is meant",
			l->at.tcp);
	return 0;
}

static int parse_listen_text(struct proxy_conf *conf, struct slice text, struct err *err)
{
	if (text.len == 0)
		return err_set(err, EINVAL, "must name at least one listener");
	while (text.len > 0) {
		const char *comma = memchr(text.p, ',', text.len);
		struct slice one = comma == NULL ? text : slice_make(text.p, (size_t)(comma - text.p));
		struct proxy_listen *l = listen_add(conf, err);

		if (l == NULL || endpoint_from_text(&l->at, one, err) < 0 || listen_check(l, err) < 0)
			return -1;
		text = slice_skip(text, comma == NULL ? text.len : one.len + 1);
	}
	return 0;
}

static int parse_listen(void *into, const struct json_node *node, struct slice text, struct err *err)
{
	struct proxy_conf *conf = into;

	while (conf->nlisten > 0)
		listen_release(&conf->listen[--conf->nlisten]);
	if (node == NULL)
		return parse_listen_text(conf, text, err);
	if (node->type != JSON_ARRAY || node->count == 0)
		return err_set(err, EINVAL, "must be a list with at least one listener");
	for (const struct json_node *i = node->child; i != NULL; i = i->next) {
		struct proxy_listen *l = listen_add(conf, err);

		if (l == NULL || read_members(l, i, listen_members, "listen", err) < 0 || listen_check(l, err) < 0)
			return conf_blame(i);
	}
	return 0;
}

static int upstream_at_unix(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_conf *)into)->upstream.unix_path, n, err);
}

static int upstream_at_tcp(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_conf *)into)->upstream.tcp, n, err);
}

static int upstream_tls(void *into, const struct json_node *n, struct err *err)
{
	struct proxy_tls *tls = &((struct proxy_conf *)into)->upstream_tls;

	if (read_members(tls, n, client_tls_members, "tls", err) < 0)
		return -1;
	if (tls->ca == NULL)
		return err_set(err, EINVAL, "needs \"ca\": without it any server would pass as the engine");
	if ((tls->cert == NULL) != (tls->key == NULL))
		return err_set(err, EINVAL, "has cert and key together, or neither");
	return 0;
}

static const struct member upstream_members[] = {
	{ "unix", upstream_at_unix },
	{ "tcp", upstream_at_tcp },
	{ "tls", upstream_tls },
	{ NULL, NULL },
};

static int parse_upstream(void *into, const struct json_node *node, struct slice text, struct err *err)
{
	struct proxy_conf *conf = into;

	endpoint_release(&conf->upstream);
	tls_release(&conf->upstream_tls);
	if (node == NULL)
		return endpoint_from_text(&conf->upstream, text, err);
	if (read_members(conf, node, upstream_members, "upstream", err) < 0)
		return -1;
	if ((conf->upstream.tcp == NULL) == (conf->upstream.unix_path == NULL))
		return err_set(err, EINVAL, "has either \"unix\" or \"tcp\"");
	if (conf->upstream_tls.ca != NULL && conf->upstream.tcp == NULL)
		return err_set(err, EINVAL, "tls needs \"tcp\"");
	return 0;
}

static int admin_at_unix(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_conf *)into)->admin.unix_path, n, err);
}

static int admin_at_tcp(void *into, const struct json_node *n, struct err *err)
{
	return read_string(&((struct proxy_conf *)into)->admin.tcp, n, err);
}

static const struct member admin_members[] = {
	{ "unix", admin_at_unix },
	{ "tcp", admin_at_tcp },
	{ NULL, NULL },
};

static int parse_admin(void *into, const struct json_node *node, struct slice text, struct err *err)
{
	struct proxy_conf *conf = into;

	endpoint_release(&conf->admin);
	if (node == NULL) {
		if (endpoint_from_text(&conf->admin, text, err) < 0)
			return -1;
	} else if (read_members(conf, node, admin_members, "admin", err) < 0) {
		return -1;
	}
	if ((conf->admin.tcp == NULL) == (conf->admin.unix_path == NULL))
		return err_set(err, EINVAL, "has either \"unix\" or \"tcp\"");
	if (check_address(&conf->admin, err) < 0)
		return -1;
	if (conf->admin.tcp != NULL && !tcp_is_loopback(conf->admin.tcp))
		return err_set(err, EINVAL, "%s is not loopback: the admin listener has no access control of its own",
			conf->admin.tcp);
	return 0;
}

static const char *const mode_names[] = { "enforce", "warn", NULL };
static const char *const level_names[] = { "error", "warn", "info", "debug", NULL };

#define AT(member) offsetof(struct proxy_conf, member)
#define CUSTOM(path_, dflt_, env_, parse_, help_) \
	{ \
		.path = path_, .type = CONF_CUSTOM, .dflt = dflt_, .env = env_, .parse = parse_, .help = help_ \
	}
#define TEXT(path_, member_, dflt_, env_, help_) \
	{ \
		.path = path_, .type = CONF_STRING, .offset = AT(member_), .dflt = dflt_, .env = env_, .help = help_ \
	}
#define NUMBER(path_, type_, member_, min_, max_, dflt_, env_, help_) \
	{ \
		.path = path_, .type = type_, .offset = AT(member_), .min = min_, .max = max_, .dflt = dflt_, .env = env_, \
		.help = help_ \
	}
#define FLAG(path_, member_, dflt_, env_, help_) \
	{ \
		.path = path_, .type = CONF_BOOL, .offset = AT(member_), .dflt = dflt_, .env = env_, .help = help_ \
	}
#define WORD(path_, member_, names_, dflt_, env_, help_) \
	{ \
		.path = path_, .type = CONF_ENUM, .offset = AT(member_), .names = names_, .dflt = dflt_, .env = env_, \
		.help = help_ \
	}

static const struct conf_key keys[] = {
	CUSTOM("listen", "unix:/run/dockerproxy/docker.sock", "DOCKERPROXY_LISTEN", parse_listen,
		"listeners: objects with unix or tcp; in the environment unix:PATH or tcp:ADDRESS:PORT, comma-separated"),
	CUSTOM("upstream", "unix:/var/run/docker.sock", "DOCKERPROXY_UPSTREAM", parse_upstream,
		"the engine: an object with unix, or tcp and tls; in the environment unix:PATH or tcp:ADDRESS:PORT"),
	TEXT("policy", policy_file, NULL, "DOCKERPROXY_POLICY", "policy file; without it the built-in sandbox policy"),
	WORD("mode", mode, mode_names, "enforce", "DOCKERPROXY_MODE",
		"enforce, or warn: log what would be refused and let it pass"),
	NUMBER("workers", CONF_INT, workers, 1, 64, "1", "DOCKERPROXY_WORKERS", "worker processes"),
	NUMBER("limits.head", CONF_SIZE, head_max, 1 * KIB, 16 * KIB, "16KiB", "DOCKERPROXY_LIMITS_HEAD",
		"bytes of a request head"),
	NUMBER("limits.body", CONF_SIZE, body_max, 1 * KIB, 1 * MIB, "32KiB", "DOCKERPROXY_LIMITS_BODY",
		"bytes of a request body; a policy row may allow less"),
	NUMBER("limits.answer", CONF_SIZE, answer_max, 64 * KIB, 64 * MIB, "8MiB", "DOCKERPROXY_LIMITS_ANSWER",
		"bytes of an engine answer that has to be filtered"),
	NUMBER("limits.connections", CONF_INT, connections, 1, 65536, "1024", "DOCKERPROXY_LIMITS_CONNECTIONS",
		"client connections of one worker"),
	NUMBER("limits.perPeer", CONF_INT, per_peer, 0, 65536, "0", "DOCKERPROXY_LIMITS_PER_PEER",
		"connections of one peer (unix: user; TCP: address) in all workers; 0 for no limit"),
	NUMBER("limits.rate", CONF_INT, rate, 0, 1000000, "0", "DOCKERPROXY_LIMITS_RATE",
		"requests a second of one peer in all workers; 0 for no limit"),
	NUMBER("limits.burst", CONF_INT, burst, 1, 1000000, "100", "DOCKERPROXY_LIMITS_BURST",
		"requests that a peer may make at once before the rate counts"),
	NUMBER("limits.pool", CONF_INT, pool, 0, 1024, "32", "DOCKERPROXY_LIMITS_POOL",
		"idle engine connections that a worker keeps"),
	NUMBER("timeouts.head", CONF_DURATION, head_ms, 10, HOUR, "10s", "DOCKERPROXY_TIMEOUTS_HEAD",
		"from the first byte of a request to the end of its head"),
	NUMBER("timeouts.body", CONF_DURATION, body_ms, 10, HOUR, "30s", "DOCKERPROXY_TIMEOUTS_BODY",
		"from the end of the head to the end of the body"),
	NUMBER("timeouts.connect", CONF_DURATION, connect_ms, 10, HOUR, "5s", "DOCKERPROXY_TIMEOUTS_CONNECT",
		"connecting to the engine"),
	NUMBER("timeouts.response", CONF_DURATION, response_ms, 10, 24 * HOUR, "5m", "DOCKERPROXY_TIMEOUTS_RESPONSE",
		"the engine's answer, and each pause in it; streams are exempt once they began"),
	NUMBER("timeouts.idle", CONF_DURATION, idle_ms, 10, 24 * HOUR, "2m", "DOCKERPROXY_TIMEOUTS_IDLE",
		"a client connection between two requests"),
	NUMBER("timeouts.write", CONF_DURATION, write_ms, 10, 24 * HOUR, "1m", "DOCKERPROXY_TIMEOUTS_WRITE",
		"a client that does not take its answer; streams are exempt"),
	NUMBER("timeouts.drain", CONF_DURATION, drain_ms, 0, 24 * HOUR, "30s", "DOCKERPROXY_TIMEOUTS_DRAIN",
		"what is under way at SIGTERM may finish for so long"),
	TEXT("audit.path", audit_path, "stderr", "DOCKERPROXY_AUDIT_PATH", "a file, stderr, syslog or off"),
	FLAG("audit.reads", audit_reads, "true", "DOCKERPROXY_AUDIT_READS", "log allowed GET and HEAD requests too"),
	CUSTOM("admin", NULL, "DOCKERPROXY_ADMIN", parse_admin,
		"listener of /healthz, /readyz, /metrics and /policy: an object with unix, or tcp on loopback"),
	TEXT("user", user, NULL, "DOCKERPROXY_USER", "user of the workers, by name or number"),
	TEXT("group", group, NULL, "DOCKERPROXY_GROUP", "group of the workers, by name or number"),
	FLAG("confine", confine, "true", "DOCKERPROXY_CONFINE", "take from the workers what the kernel can take"),
	WORD("logLevel", log_level, level_names, "info", "DOCKERPROXY_LOG_LEVEL", "error, warn, info or debug"),
	{ .path = NULL },
};

static int load_policies(struct proxy_conf *conf, struct err *err)
{
	conf->policy = conf->policy_file != NULL ? policy_load_file(conf->policy_file, err) : policy_builtin(err);
	if (conf->policy == NULL)
		return -1;
	for (unsigned i = 0; i < conf->nlisten; i++) {
		struct proxy_listen *l = &conf->listen[i];

		l->policy = l->policy_file != NULL ? policy_load_file(l->policy_file, err) : conf->policy;
		if (l->policy == NULL)
			return -1;
	}
	return 0;
}

int proxy_conf_load(struct proxy_conf *conf, const char *file, struct err *err)
{
	*conf = (struct proxy_conf){ .nlisten = 0 };
	if (conf_load(conf, keys, file, err) < 0)
		goto failed;
	for (unsigned i = 0; i < conf->nlisten; i++)
		if (listen_check_exposure(&conf->listen[i], err) < 0)
			goto failed;
	if (load_policies(conf, err) < 0 || secure_load(conf, err) < 0)
		goto failed;
	return 0;
failed:
	proxy_conf_release(conf);
	return -1;
}

void proxy_conf_release(struct proxy_conf *conf)
{
	secure_release(conf);
	while (conf->nlisten > 0)
		listen_release(&conf->listen[--conf->nlisten]);
	endpoint_release(&conf->upstream);
	tls_release(&conf->upstream_tls);
	endpoint_release(&conf->admin);
	policy_free(conf->policy);
	conf->policy = NULL;
	conf_release(conf, keys);
}
