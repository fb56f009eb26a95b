/* The key table of egressd's configuration and the readers of its lists. */
#include "egressd/conf.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egressd/pace.h"
#include "libgate/log.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* --- lists: a JSON array of strings, or one string with commas and white space ---------------------------------- */

typedef int (*entry_cb)(void *into, struct slice entry, struct err *err);

static int each_in_text(void *into, struct slice text, entry_cb add, struct err *err)
{
	struct slice entry;

	while (list_next(&text, &entry))
		if (add(into, entry, err) != 0)
			return -1;
	return 0;
}

static int each_entry(void *into, const struct json_node *node, struct slice text, entry_cb add, struct err *err)
{
	if (node == NULL)
		return each_in_text(into, text, add, err);
	if (node->type == JSON_STRING)
		return each_in_text(into, node->text, add, err);
	if (node->type != JSON_ARRAY)
		return err_set(err, EINVAL, "must be a list of strings");
	for (const struct json_node *item = node->child; item != NULL; item = item->next) {
		if (item->type == JSON_INT ? add(into, item->digits, err) != 0
								   : item->type != JSON_STRING || add(into, item->text, err) != 0) {
			if (item->type != JSON_STRING && item->type != JSON_INT)
				err_set(err, EINVAL, "must be a list of strings");
			return conf_blame(item);
		}
	}
	return 0;
}

static void copy_shown(char *out, size_t size, struct slice s)
{
	size_t n = 0;

	for (; n < s.len && n + 1 < size; n++)
		out[n] = s.p[n] > 0x20 && s.p[n] < 0x7f ? s.p[n] : '?';
	out[n] = '\0';
}

static int bad_entry(struct err *err, struct slice entry, const char *why)
{
	char shown[80];

	copy_shown(shown, sizeof(shown), entry);
	return err_set(err, EINVAL, "\"%s\": %s", shown, why);
}

/* --- listen ------------------------------------------------------------------------------------------------------ */

static void listen_release(struct listen_list *list)
{
	for (unsigned i = 0; i < list->n; i++)
		free(list->at[i]);
	list->n = 0;
}

static int add_listen(void *into, struct slice entry, struct err *err)
{
	struct listen_list *list = into;

	if (list->n == CONF_LISTEN_MAX)
		return bad_entry(err, entry, "too many addresses to listen on");
	list->at[list->n] = strndup(entry.p, entry.len);
	if (list->at[list->n] == NULL)
		return err_set(err, ENOMEM, "out of memory");
	list->n++;
	return 0;
}

static int parse_listen(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct egress_conf *c = conf;

	listen_release(&c->listen);
	return each_entry(&c->listen, node, text, add_listen, err);
}

/* --- allowlists -------------------------------------------------------------------------------------------------- */

static int add_rule(void *into, struct slice entry, struct err *err)
{
	return rules_add(into, entry, err);
}

static int replace_rules(struct rules **where, const struct json_node *node, struct slice text, struct err *err)
{
	struct rules *rules = rules_new();

	if (rules == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (each_entry(rules, node, text, add_rule, err) != 0) {
		rules_free(rules);
		return -1;
	}
	rules_seal(rules);
	rules_free(*where);
	*where = rules;
	return 0;
}

static int parse_allow(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	return replace_rules(&((struct egress_conf *)conf)->allow, node, text, err);
}

static int parse_sni_exempt(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	return replace_rules(&((struct egress_conf *)conf)->sni_exempt, node, text, err);
}

/* --- ports and blocks -------------------------------------------------------------------------------------------- */

static int add_port(void *into, struct slice entry, struct err *err)
{
	return ports_add(into, entry, err);
}

static int parse_connect_ports(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct egress_conf *c = conf;

	c->connect_ports.n = 0;
	return each_entry(&c->connect_ports, node, text, add_port, err);
}

static int parse_http_ports(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct egress_conf *c = conf;

	c->http_ports.n = 0;
	return each_entry(&c->http_ports, node, text, add_port, err);
}

static int add_cidr(void *into, struct slice entry, struct err *err)
{
	struct cidr_list *list = into;

	if (list->n == CONF_CIDRS_MAX)
		return bad_entry(err, entry, "too many blocks");
	if (!cidr_parse(entry, &list->cidr[list->n]))
		return bad_entry(err, entry, "not an address or ADDRESS/BITS whose host bits are zero");
	list->n++;
	return 0;
}

static int parse_refuse(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct egress_conf *c = conf;

	c->refuse.n = 0;
	return each_entry(&c->refuse, node, text, add_cidr, err);
}

/* --- test hosts -------------------------------------------------------------------------------------------------- */

static int add_pin(void *into, struct slice entry, struct err *err)
{
	struct pin_list *list = into;
	const char *equals = memchr(entry.p, '=', entry.len);
	struct pin *pin = &list->pin[list->n];

	if (list->n == CONF_PINS_MAX)
		return bad_entry(err, entry, "too many test hosts");
	if (equals == NULL)
		return bad_entry(err, entry, "must be host=address");
	if (host_parse(slice_make(entry.p, (size_t)(equals - entry.p)), &pin->host) != REASON_OK)
		return bad_entry(err, entry, "the host is not a DNS name");
	if (!addr_parse(slice_skip(entry, (size_t)(equals - entry.p) + 1), &pin->addr))
		return bad_entry(err, entry, "what follows = is not an address");
	list->n++;
	return 0;
}

static int parse_pins(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct egress_conf *c = conf;

	c->pins.n = 0;
	return each_entry(&c->pins, node, text, add_pin, err);
}

unsigned egress_conf_pins(const struct egress_conf *conf, const struct host *host, struct addr *out, unsigned max)
{
	unsigned n = 0;

	for (unsigned i = 0; i < conf->pins.n && n < max; i++)
		if (slice_eq(host_slice(&conf->pins.pin[i].host), host_slice(host)))
			out[n++] = conf->pins.pin[i].addr;
	return n;
}

unsigned egress_conf_known(const struct egress_conf *conf, const struct host *host, struct addr *out, unsigned max,
	bool *exempt)
{
	unsigned n = egress_conf_pins(conf, host, out, max);

	*exempt = n > 0;
	for (unsigned i = 0; i < conf->targets.n && n == 0; i++) {
		const struct target *t = conf->targets.target[i];
		if (!slice_eq(host_slice(&t->host), host_slice(host)))
			continue;
		n = t->naddrs < max ? t->naddrs : max;
		memcpy(out, t->addrs, n * sizeof(*out));
	}
	return n;
}

/* --- pinned TCP targets: listenport=host:port[@addr,addr] -------------------------------------------------------- */

static void target_free(struct target *t)
{
	if (t == NULL)
		return;
	free(t->listen);
	free(t);
}

static void targets_release(struct target_list *list)
{
	for (unsigned i = 0; i < list->n; i++)
		target_free(list->target[i]);
	list->n = 0;
}

/* "5432" or "ADDRESS:5432". */
static int read_target_listen(struct target *t, struct slice text, struct slice entry, struct err *err)
{
	uint16_t port;

	if (text.len > 0 && memchr(text.p, '-', text.len) != NULL)
		return bad_entry(err, entry, "port ranges cannot be pinned: a relay has one target; list each port");
	if (memchr(text.p, ':', text.len) != NULL) {
		t->listen = strndup(text.p, text.len);
	} else if (port_parse(text, &port)) {
		t->listen = malloc(sizeof("0.0.0.0:65535"));
		if (t->listen != NULL)
			snprintf(t->listen, sizeof("0.0.0.0:65535"), "0.0.0.0:%u", (unsigned)port);
	} else {
		return bad_entry(err, entry, "must be listenport=host:port, with @address,address to pin it by hand");
	}
	return t->listen != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int read_target_addrs(struct target *t, struct slice text, struct slice entry, struct err *err)
{
	while (text.len > 0) {
		const char *comma = memchr(text.p, ',', text.len);
		size_t n = comma != NULL ? (size_t)(comma - text.p) : text.len;
		if (t->naddrs == CONF_TARGET_ADDRS_MAX)
			return bad_entry(err, entry, "too many addresses");
		if (!addr_parse(slice_make(text.p, n), &t->addrs[t->naddrs]))
			return bad_entry(err, entry, "what follows @ is not a list of addresses");
		t->naddrs++;
		text = slice_skip(text, n + 1);
	}
	return 0;
}

static int read_target(struct target *t, struct slice entry, struct err *err)
{
	const char *equals = memchr(entry.p, '=', entry.len);
	struct slice to, pinned = SLICE_LIT("");
	const char *at;
	enum reason r;

	if (slice_starts(entry, "udp:") || (entry.len > 4 && slice_case_is(slice_skip(entry, entry.len - 4), "/udp")))
		return bad_entry(err, entry,
			"UDP is not relayed: a datagram has no connection that could be pinned; use a TCP service");
	if (equals == NULL)
		return bad_entry(err, entry, "must be listenport=host:port, with @address,address to pin it by hand");
	to = slice_skip(entry, (size_t)(equals - entry.p) + 1);
	if (slice_starts(to, "udp:"))
		return bad_entry(err, entry,
			"UDP is not relayed: a datagram has no connection that could be pinned; use a TCP service");
	at = to.len > 0 ? memchr(to.p, '@', to.len) : NULL;
	if (at != NULL) {
		pinned = slice_skip(to, (size_t)(at - to.p) + 1);
		to.len = (size_t)(at - to.p);
		if (pinned.len == 0)
			return bad_entry(err, entry, "no address follows @");
	}
	if (to.len > 0 && memrchr(to.p, '-', to.len) != NULL && memrchr(to.p, ':', to.len) != NULL &&
		(const char *)memrchr(to.p, '-', to.len) > (const char *)memrchr(to.p, ':', to.len))
		return bad_entry(err, entry, "port ranges cannot be pinned: a relay has one target; list each port");
	r = authority_parse(to, 0, &t->host, &t->port);
	if (r != REASON_OK)
		return bad_entry(err, entry, reason_text(r));
	if (read_target_listen(t, slice_make(entry.p, (size_t)(equals - entry.p)), entry, err) != 0)
		return -1;
	return read_target_addrs(t, pinned, entry, err);
}

static int add_target(void *into, struct slice entry, struct err *err)
{
	struct target_list *list = into;
	struct target *t;

	if (list->n == CONF_TARGETS_MAX)
		return bad_entry(err, entry, "too many TCP targets");
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (read_target(t, entry, err) != 0) {
		target_free(t);
		return -1;
	}
	for (unsigned i = 0; i < list->n; i++) {
		if (strcmp(list->target[i]->listen, t->listen) == 0) {
			target_free(t);
			return bad_entry(err, entry, "another TCP target listens there");
		}
	}
	list->target[list->n++] = t;
	return 0;
}

/*
 * In one string the addresses of a target are joined by commas too, so a piece without '=' that follows a target with '@'
 * belongs to that target.
 */
static int targets_from_text(struct target_list *list, struct slice text, struct err *err)
{
	struct slice entry, next, rest = text;

	while (list_next(&rest, &entry)) {
		for (;;) {
			struct slice look = rest;
			struct addr a;
			if (memchr(entry.p, '@', entry.len) == NULL || !list_next(&look, &next) || !addr_parse(next, &a) ||
				next.p != entry.p + entry.len + 1)
				break;
			entry.len = (size_t)(next.p + next.len - entry.p);
			rest = look;
		}
		if (add_target(list, entry, err) != 0)
			return -1;
	}
	return 0;
}

static int parse_targets(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct egress_conf *c = conf;

	targets_release(&c->targets);
	if (node != NULL && node->type == JSON_ARRAY)
		return each_entry(&c->targets, node, text, add_target, err);
	if (node != NULL && node->type != JSON_STRING)
		return err_set(err, EINVAL, "must be a list of strings");
	return targets_from_text(&c->targets, node != NULL ? node->text : text, err);
}

/* --- the table --------------------------------------------------------------------------------------------------- */

static const char *const mode_names[] = { "enforce", "warn", NULL };
static const char *const level_names[] = { "error", "warn", "info", "debug", NULL };

#define AT(member) offsetof(struct egress_conf, member)
#define LIST(path, env, dflt, parse, help) \
	{ \
		path, CONF_CUSTOM, 0, 0, 0, dflt, env, NULL, parse, help \
	}
#define TEXT(path, env, member, dflt, help) \
	{ \
		path, CONF_STRING, AT(member), 0, 0, dflt, env, NULL, NULL, help \
	}
#define FLAG(path, env, member, dflt, help) \
	{ \
		path, CONF_BOOL, AT(member), 0, 0, dflt, env, NULL, NULL, help \
	}
#define WORD(path, env, member, names, dflt, help) \
	{ \
		path, CONF_ENUM, AT(member), 0, 0, dflt, env, names, NULL, help \
	}
#define NUMBER(path, env, member, min, max, dflt, help) \
	{ \
		path, CONF_INT, AT(member), min, max, dflt, env, NULL, NULL, help \
	}
#define BYTES(path, env, member, dflt, help) \
	{ \
		path, CONF_SIZE, AT(member), 0, INT64_MAX, dflt, env, NULL, NULL, help \
	}
#define TIME(path, env, member, min, max, dflt, help) \
	{ \
		path, CONF_DURATION, AT(member), min, max, dflt, env, NULL, NULL, help \
	}

const struct conf_key egress_conf_keys[] = {
	LIST("listen", "LISTEN", "0.0.0.0:3128", parse_listen, "addresses to listen on, ADDRESS:PORT"),
	LIST("allowHosts", "ALLOW_HOSTS", "", parse_allow, "the allowlist: example.com, *.example.com, example.com:8443"),
	LIST("allowConnectPorts", "ALLOW_CONNECT_PORTS", "443,80", parse_connect_ports,
		"ports for CONNECT of entries without a port"),
	LIST("allowHttpPorts", "ALLOW_HTTP_PORTS", "80", parse_http_ports,
		"ports for plain HTTP of entries without a port"),
	LIST("refuseCidrs", "REFUSE_CIDRS", "168.63.129.16/32", parse_refuse,
		"blocks refused beside the special-purpose addresses"),
	LIST("tcpTargets", "TCP_TARGETS", "", parse_targets, "pinned relays: listenport=host:port[@address,address]"),
	LIST("testHosts", "CAPYBARA_EGRESS_TEST_HOSTS", "", parse_pins,
		"host=address: pinned and exempt from the address check, for tests"),
	FLAG("requireSni", "REQUIRE_SNI", require_sni, "on", "a tunnel to port 443 must begin with TLS for its host"),
	LIST("sniExempt", "SNI_EXEMPT", "", parse_sni_exempt, "hosts whose tunnels are not looked into"),
	TEXT("resolver", "RESOLVER", resolver, NULL, "ADDRESS[:PORT],… of resolvers; unset: /etc/resolv.conf"),
	WORD("mode", "MODE", mode, mode_names, "enforce", "enforce, or warn: log what the allowlist would refuse"),
	NUMBER("limits.connections", "LIMITS_CONNECTIONS", limits.connections, 0, 1000000, "0",
		"clients at once; 0: by memory and descriptors"),
	NUMBER("limits.perHost", "LIMITS_PER_HOST", limits.per_host, 0, 1000000, "1024",
		"connections to one host at once; 0: no limit of its own"),
	NUMBER("limits.lookups", "LIMITS_LOOKUPS", limits.lookups, 1, 10000, "512", "names being resolved at once"),
	NUMBER("limits.lookupsPerRule", "LIMITS_LOOKUPS_PER_RULE", limits.lookups_per_rule, 1, 10000, "128",
		"of these, names that one allowlist entry lets in"),
	NUMBER("limits.wildcardLookups", "LIMITS_WILDCARD_LOOKUPS", limits.wildcard_lookups, 0, PACE_MOST, "120",
		"names a minute that one wildcard entry may have resolved; 0: no limit"),
	NUMBER("limits.cachedNames", "LIMITS_CACHED_NAMES", limits.cached_names, 0, 10000, "256",
		"names kept by their TTL"),
	{ "limits.bufferBytes", CONF_SIZE, AT(limits.buffer_bytes), 64 * 1024, INT64_MAX, "8MiB", "LIMITS_BUFFER_BYTES",
		NULL, NULL, "memory for heads and bodies in passing, of all connections together" },
	BYTES("limits.connectionBytes", "LIMITS_CONNECTION_BYTES", limits.connection_bytes, "0",
		"bytes of one tunnel or exchange, both ways; 0: no limit"),
	BYTES("limits.totalBytes", "LIMITS_TOTAL_BYTES", limits.total_bytes, "0",
		"bytes of all connections together; 0: no limit"),
	TIME("timeouts.head", "TIMEOUT_HEAD", timeouts.head, 1, HOUR, "15s", "for a request head, from its first byte on"),
	TIME("timeouts.keepAlive", "TIMEOUT_KEEP_ALIVE", timeouts.keep_alive, 1, DAY, "5m",
		"an idle client connection between requests"),
	TIME("timeouts.dns", "TIMEOUT_DNS", timeouts.dns, 1, 5 * MINUTE, "5s", "both questions of a name"),
	TIME("timeouts.connect", "TIMEOUT_CONNECT", timeouts.connect, 1, 5 * MINUTE, "10s", "all addresses of a host"),
	TIME("timeouts.stagger", "TIMEOUT_STAGGER", timeouts.stagger, 1, MINUTE, "250ms",
		"before the next address is tried beside the first"),
	TIME("timeouts.hello", "TIMEOUT_HELLO", timeouts.hello, 1, 5 * MINUTE, "15s", "for the ClientHello of a tunnel"),
	TIME("timeouts.response", "TIMEOUT_RESPONSE", timeouts.response, 1, DAY, "5m", "for an answer's head"),
	TIME("timeouts.idle", "TIMEOUT_IDLE", timeouts.idle, 1, 30 * DAY, "1h", "a tunnel or body without a byte"),
	TIME("timeouts.halfClosed", "TIMEOUT_HALF_CLOSED", timeouts.half_closed, 1, 30 * DAY, "5m",
		"the same once one side has ended"),
	TIME("timeouts.connection", "TIMEOUT_CONNECTION", timeouts.connection, 0, 365 * DAY, "0",
		"life of one tunnel or exchange; 0: no limit"),
	TIME("timeouts.total", "TIMEOUT_TOTAL", timeouts.total, 0, 365 * DAY, "0",
		"life of this proxy: then everything is cut and refused; 0: no limit"),
	TIME("timeouts.drain", "TIMEOUT_DRAIN", timeouts.drain, 0, DAY, "30s", "for open connections after SIGTERM"),
	TIME("timeouts.reloadGrace", "TIMEOUT_RELOAD_GRACE", timeouts.reload_grace, 0, DAY, "30s",
		"for open connections to hosts that a reload took off the list"),
	TIME("timeouts.cache", "TIMEOUT_CACHE", timeouts.cache, 0, HOUR, "60s", "the longest that an answer is kept"),
	TEXT("audit.path", "AUDIT_PATH", audit, "stderr", "a file, stderr, syslog or off"),
	TEXT("admin", "ADMIN", admin, NULL, "unix:PATH or a loopback ADDRESS:PORT for health and metrics; unset: none"),
	TEXT("user", "RUN_USER", user, NULL, "to run as when started as root; unset: nobody"),
	TEXT("group", "RUN_GROUP", group, NULL, "to run as when started as root; unset: the user's"),
	FLAG("confine", "CONFINE", confine, "on", "take system calls and file access away after start"),
	WORD("logLevel", "LOG_LEVEL", log_level, level_names, "info", "error, warn, info or debug"),
	{ NULL, CONF_STRING, 0, 0, 0, NULL, NULL, NULL, NULL, NULL },
};

void egress_conf_free(struct egress_conf *conf)
{
	if (conf == NULL)
		return;
	conf_release(conf, egress_conf_keys);
	listen_release(&conf->listen);
	targets_release(&conf->targets);
	rules_free(conf->allow);
	rules_free(conf->sni_exempt);
	free(conf);
}

static int check(const struct egress_conf *conf, struct err *err)
{
	if (conf->listen.n == 0 && conf->targets.n == 0)
		return err_set(err, EINVAL, "listen: nothing to listen on");
	return 0;
}

static struct egress_conf *finish(struct egress_conf *conf, int rc, struct err *err)
{
	if (rc == 0 && check(conf, err) == 0)
		return conf;
	egress_conf_free(conf);
	return NULL;
}

struct egress_conf *egress_conf_load(const char *file, struct err *err)
{
	struct egress_conf *conf = calloc(1, sizeof(*conf));

	if (conf == NULL) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	return finish(conf, conf_load(conf, egress_conf_keys, file, err), err);
}

struct egress_conf *egress_conf_load_text(struct slice text, const char *name, struct err *err)
{
	struct egress_conf *conf = calloc(1, sizeof(*conf));

	if (conf == NULL) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	return finish(conf, conf_load_text(conf, egress_conf_keys, text, name, err), err);
}
