/* Writes the bodies of the engine's create requests. */
#include "controller/document.h"

#include <stdio.h>
#include <string.h>

#include "controller/mem.h"
#include "controller/name.h"
#include "controller/tcp_target.h"

#define RUNC_PIDS 1024
#define RUNSC_PIDS 4096 /* under gVisor the limit counts the sentry's own threads; nproc bounds the guest instead */
#define RUNSC_NPROC 1024
#define EGRESS_MEMORY ((int64_t)64 * 1024 * 1024)
#define EGRESS_PIDS 64
#define EGRESS_NANO_CPUS 1000000000
#define PROXY_ALIAS "egress-proxy" /* no sandbox is called that */

static void put_labels(struct json_object *o, const struct spec *s, const char *role)
{
	struct json_object *labels = jobj(o, "Labels");

	jset_cstr(labels, LABEL_SANDBOX, "1");
	jset_cstr(labels, LABEL_NAME, s->name);
	jset_cstr(labels, LABEL_ROLE, role);
	for (unsigned i = 0; i < s->nlabels; i++)
		jset_cstr(labels, s->labels[i].key, s->labels[i].value);
}

/* What a controller that never saw create needs to know. */
static void put_state_labels(struct json_object *o, const struct spec *s)
{
	struct json_object *labels = json_object_object_get(o, "Labels");
	char seconds[24];

	snprintf(seconds, sizeof(seconds), "%lld", (long long)s->max_command_seconds);
	jset_cstr(labels, LABEL_EGRESS, egress_name(s->egress));
	jset_cstr(labels, LABEL_RUNTIME, runtime_name(s->runtime));
	jset_cstr(labels, LABEL_MAX_SECONDS, seconds);
	if (s->egress == EGRESS_ALLOWLIST)
		jset_cstr(labels, LABEL_ALLOW_HOSTS, s->allow_hosts);
	if (s->tcp_targets != NULL)
		jset_cstr(labels, LABEL_TCP_TARGETS, s->tcp_targets);
	if (s->test_hosts != NULL)
		jset_cstr(labels, LABEL_TEST_HOSTS, s->test_hosts);
}

/* What no container of ours goes without. */
static struct json_object *put_hardening(struct json_object *o, int64_t pids, int64_t nano_cpus, int64_t memory,
	enum runtime runtime)
{
	struct json_object *host = jobj(o, "HostConfig");

	jset_bool(host, "Init", true);
	jadd_cstr(jarr(host, "CapDrop"), "ALL");
	jadd_cstr(jarr(host, "SecurityOpt"), "no-new-privileges");
	jset_bool(host, "ReadonlyRootfs", true);
	jset_int(host, "PidsLimit", pids);
	jset_cstr(host, "IpcMode", "private");
	jset_int(host, "NanoCpus", nano_cpus);
	jset_int(host, "Memory", memory);
	jset_int(host, "MemorySwap", memory);
	jset_cstr(host, "Runtime", runtime_name(runtime));
	jset_cstr(jobj(host, "RestartPolicy"), "Name", "no");
	return host;
}

/* The container's name, but a sandbox may be called what no resolver asks for: more than 63 characters, a dot at the end. */
static char *proxy_host(const char *name)
{
	char *own = mem_printf("%s-egress", name);
	struct err err = ERR_INIT;

	if (name_check_host(slice_str(own), &err) == 0)
		return own;
	free(own);
	return mem_strdup(PROXY_ALIAS);
}

static void put_proxy_environment(struct json_object *env, const char *name)
{
	static const char *const variables[] = { "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy" };
	static const char *const direct[] = { "NO_PROXY", "no_proxy" };
	auto_free char *host = proxy_host(name);

	for (unsigned i = 0; i < ARRAY_SIZE(variables); i++) {
		auto_free char *text = mem_printf("%s=http://%s:%d", variables[i], host, EGRESS_PORT);
		jadd_cstr(env, text);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(direct); i++) {
		auto_free char *text = mem_printf("%s=localhost,127.0.0.1,::1", direct[i]);
		jadd_cstr(env, text);
	}
}

static void put_mount(struct json_object *mounts, const char *name, const char *part, const char *target,
	bool read_only)
{
	struct json_object *m = jnew();
	auto_free char *source = mem_printf("%s-%s", name, part);

	jset_cstr(m, "Type", "volume");
	jset_cstr(m, "Source", source);
	jset_cstr(m, "Target", target);
	if (read_only)
		jset_bool(m, "ReadOnly", true);
	jadd(mounts, m);
}

/* /tmp: half the memory, at most the disk; commands may run from it, as from /workspace. */
static void put_tmp(struct json_object *host, const struct spec *s)
{
	int64_t size = s->memory / 2;
	int64_t disk = s->disk_mb * 1024 * 1024;

	if (disk > 0 && disk < size)
		size = disk;
	auto_free char *options = mem_printf("rw,exec,nosuid,nodev,size=%lld", (long long)size);
	jset_cstr(jobj(host, "Tmpfs"), "/tmp", options);
}

static void put_ulimit(struct json_object *host, const char *name, int64_t value)
{
	struct json_object *limit = jnew();

	jset_cstr(limit, "Name", name);
	jset_int(limit, "Soft", value);
	jset_int(limit, "Hard", value);
	jadd(jarr(host, "Ulimits"), limit);
}

/*
 * In the sandbox's network the relay has the names of its targets: clients, and their TLS, need not know of it. Where the
 * proxy's own name is none for the DNS, it has another.
 */
static void put_aliases(struct json_object *endpoint, const struct spec *s)
{
	auto_free char *proxy = proxy_host(s->name);
	struct json_object *aliases = NULL;
	struct tcp_target t, before;
	const char *rest = s->tcp_targets, *again;

	if (strcmp(proxy, PROXY_ALIAS) == 0) {
		aliases = jarr(endpoint, "Aliases");
		jadd_cstr(aliases, proxy);
	}
	while (rest != NULL && tcp_target_next(&rest, &t)) {
		bool known = false;

		again = s->tcp_targets;
		while (!known && tcp_target_next(&again, &before) && before.text.p != t.text.p)
			known = slice_eq(before.host, t.host);
		if (known)
			continue;
		auto_free char *host = mem_dup(t.host);
		if (aliases == NULL)
			aliases = jarr(endpoint, "Aliases");
		jadd_cstr(aliases, host);
	}
}

/* Joins one network, or two where the engine takes them at create; returns the endpoint in the first, NULL for none. */
static struct json_object *put_network(struct json_object *o, struct json_object *host, const char *network,
	const char *second)
{
	jset_cstr(host, "NetworkMode", network);
	if (strcmp(network, "none") == 0)
		return NULL;
	struct json_object *endpoints = jobj(jobj(o, "NetworkingConfig"), "EndpointsConfig");
	struct json_object *first = jobj(endpoints, network);
	if (second != NULL)
		jobj(endpoints, second);
	return first;
}

char *document_sandbox(const struct spec *s, const struct config *c)
{
	struct json_object *o = jnew();
	bool runsc = s->runtime == RUNTIME_RUNSC;

	jset_cstr(o, "Image", s->image);
	jset_cstr(o, "User", "0:0");
	struct json_object *command = jarr(o, "Cmd");
	jadd_cstr(command, "sleep");
	jadd_cstr(command, "infinity");
	jset_cstr(o, "WorkingDir", "/workspace");
	if (s->egress == EGRESS_ALLOWLIST)
		put_proxy_environment(jarr(o, "Env"), s->name);
	put_labels(o, s, "sandbox");
	put_state_labels(o, s);

	struct json_object *host = put_hardening(o, runsc ? RUNSC_PIDS : RUNC_PIDS, s->nano_cpus, s->memory, s->runtime);
	if (runsc)
		put_ulimit(host, "nproc", RUNSC_NPROC);
	put_tmp(host, s);
	struct json_object *mounts = jarr(host, "Mounts");
	put_mount(mounts, s->name, "workspace", "/workspace", false);
	put_mount(mounts, s->name, "skills", "/skills", true);
	put_mount(mounts, s->name, "skills", "/opt/capybara/skills", false);

	auto_free char *internal = mem_printf("%s-net", s->name);
	switch (s->egress) {
	case EGRESS_NONE:
		put_network(o, host, "none", NULL);
		break;
	case EGRESS_OPEN:
		put_network(o, host, c->network, NULL);
		break;
	case EGRESS_ALLOWLIST:
		put_network(o, host, internal, NULL);
		/* Nobody answers there: the engine's resolver then has no one to pass external names on to. */
		jadd_cstr(jarr(host, "Dns"), "127.0.0.1");
		break;
	}
	return jtext(o);
}

/* runc whatever the sandbox runs under: 64 pids and 64 MiB leave no room for a sentry. */
char *document_egress(const struct spec *s, const struct config *c, unsigned api_minor)
{
	struct json_object *o = jnew();
	auto_free char *internal = mem_printf("%s-net", s->name);
	auto_free char *listen = mem_printf("LISTEN=0.0.0.0:%d", EGRESS_PORT);
	auto_free char *allow = mem_printf("ALLOW_HOSTS=%s", s->allow_hosts);

	jset_cstr(o, "Image", c->egress_image);
	jset_cstr(o, "User", "65534:65534");
	struct json_object *env = jarr(o, "Env");
	jadd_cstr(env, listen);
	jadd_cstr(env, allow);
	if (s->test_hosts != NULL) {
		auto_free char *pins = mem_printf("CAPYBARA_EGRESS_TEST_HOSTS=%s", s->test_hosts);
		jadd_cstr(env, pins);
	}
	if (s->tcp_targets != NULL) {
		auto_free char *targets = mem_printf("TCP_TARGETS=%s", s->tcp_targets);
		jadd_cstr(env, targets);
	}
	put_labels(o, s, "egress");
	struct json_object *host = put_hardening(o, EGRESS_PIDS, EGRESS_NANO_CPUS, EGRESS_MEMORY, RUNTIME_RUNC);
	struct json_object *log = jobj(host, "LogConfig");
	jset_cstr(log, "Type", "json-file");
	struct json_object *options = jobj(log, "Config");
	jset_cstr(options, "max-size", "10m");
	jset_cstr(options, "max-file", "2");
	put_aliases(put_network(o, host, internal, api_minor >= API_MULTI_ENDPOINT ? c->network : NULL), s);
	return jtext(o);
}

char *document_volume(const struct spec *s, const struct config *c, const char *part)
{
	struct json_object *o = jnew();
	auto_free char *name = mem_printf("%s-%s", s->name, part);

	jset_cstr(o, "Name", name);
	/* Only the workspace grows with what commands write. */
	if (c->volume_driver != NULL && strcmp(part, "workspace") == 0) {
		jset_cstr(o, "Driver", c->volume_driver);
		if (s->disk_mb > 0) {
			auto_free char *size = mem_printf("%lldM", (long long)s->disk_mb);
			jset_cstr(jobj(o, "DriverOpts"), "size", size);
		}
	}
	put_labels(o, s, part);
	return jtext(o);
}

/* No address of the host on the bridge: what listens on the host is then not one hop away. */
char *document_network(const struct spec *s, unsigned api_minor)
{
	struct json_object *o = jnew();
	auto_free char *name = mem_printf("%s-net", s->name);

	jset_cstr(o, "Name", name);
	jset_cstr(o, "Driver", "bridge");
	jset_bool(o, "Internal", true);
	jset_bool(o, "CheckDuplicate", true);
	struct json_object *options = jobj(o, "Options");
	jset_cstr(options, "com.docker.network.bridge.inhibit_ipv4", "true");
	if (api_minor >= API_ISOLATED_GATEWAY)
		jset_cstr(options, "com.docker.network.bridge.gateway_mode_ipv4", "isolated");
	put_labels(o, s, "network");
	return jtext(o);
}

char *document_shared_network(const struct config *c)
{
	struct json_object *o = jnew();

	jset_cstr(o, "Name", c->network);
	jset_cstr(o, "Driver", "bridge");
	jset_bool(o, "CheckDuplicate", true);
	jset_cstr(jobj(o, "Options"), "com.docker.network.bridge.enable_icc", "false");
	jset_cstr(jobj(o, "Labels"), LABEL_SANDBOX, "1");
	return jtext(o);
}

char *document_attach(const char *container)
{
	struct json_object *o = jnew();

	jset_cstr(o, "Container", container);
	return jtext(o);
}

char *document_detach(const char *container)
{
	struct json_object *o = jnew();

	jset_cstr(o, "Container", container);
	jset_bool(o, "Force", true);
	return jtext(o);
}
