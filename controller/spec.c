/* Judges create's parameters and completes them with defaults. */
#include "controller/spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "controller/mem.h"
#include "controller/name.h"
#include "controller/tcp_target.h"

#define DEFAULT_CPUS 1
#define DEFAULT_MEMORY_MB 2048
#define DEFAULT_MAX_SECONDS 600
#define MIB ((int64_t)1024 * 1024)

static const char *const egress_names[] = { "none", "open", "allowlist", NULL };

const char *egress_name(enum egress e)
{
	return egress_names[e];
}

bool egress_from_name(struct slice s, enum egress *out)
{
	for (int i = 0; egress_names[i] != NULL; i++) {
		if (slice_is(s, egress_names[i])) {
			*out = (enum egress)i;
			return true;
		}
	}
	return false;
}

void spec_release(struct spec *s)
{
	free(s->name);
	free(s->image);
	free(s->allow_hosts);
	free(s->tcp_targets);
	free(s->test_hosts);
	for (unsigned i = 0; i < s->nlabels; i++) {
		free(s->labels[i].key);
		free(s->labels[i].value);
	}
	*s = (struct spec){ .nlabels = 0 };
}

/* --- members ----------------------------------------------------------------------------------------------------- */

static int unknown_member(struct slice key, const char *of, struct err *err)
{
	char text[64];
	size_t n = key.len < sizeof(text) - 1 ? key.len : sizeof(text) - 1;

	for (size_t i = 0; i < n; i++)
		text[i] = key.p[i] >= ' ' && key.p[i] < 0x7f ? key.p[i] : '?';
	text[n] = '\0';
	return err_set(err, EINVAL, "%s: unknown member \"%s\"", of, text);
}

static int want_string(const struct json_node *n, const char *what, struct err *err)
{
	return n->type == JSON_STRING ? 0 : err_set(err, EINVAL, "%s must be a string", what);
}

static int want_int(const struct json_node *n, const char *what, int64_t min, int64_t max, int64_t *out,
	struct err *err)
{
	if (n->type != JSON_INT || n->integer < min || n->integer > max)
		return err_set(err, EINVAL, "%s must be an integer from %lld to %lld", what, (long long)min, (long long)max);
	*out = n->integer;
	return 0;
}

static int read_cpu(struct spec *s, const struct json_node *n, struct err *err)
{
	char text[32];
	double cpus;

	if ((n->type != JSON_INT && n->type != JSON_REAL) || n->digits.len >= sizeof(text))
		return err_set(err, EINVAL, "limits.cpu must be a number from 0.01 to 64");
	memcpy(text, n->digits.p, n->digits.len);
	text[n->digits.len] = '\0';
	cpus = strtod(text, NULL);
	if (!(cpus >= 0.01 && cpus <= 64))
		return err_set(err, EINVAL, "limits.cpu must be a number from 0.01 to 64");
	s->nano_cpus = (int64_t)llround(cpus * 1e9);
	return 0;
}

static int read_allow_hosts(struct spec *s, const struct json_node *n, struct err *err)
{
	size_t len = 0;

	if (n->type != JSON_ARRAY || n->count > SPEC_MAX_HOSTS)
		return err_set(err, EINVAL, "limits.allowHosts must be a list of at most %d host names", SPEC_MAX_HOSTS);
	char *list = mem_zalloc(1);
	for (const struct json_node *h = n->child; h != NULL; h = h->next) {
		if (want_string(h, "limits.allowHosts: an entry", err) != 0 || name_check_allow_host(h->text, err) != 0) {
			free(list);
			return err_wrap(err, "limits.allowHosts");
		}
		list = mem_grow(list, len + h->text.len + 2);
		if (len > 0)
			list[len++] = ',';
		for (size_t i = 0; i < h->text.len; i++)
			list[len++] = slice_lower(h->text.p[i]);
		list[len] = '\0';
	}
	free(s->allow_hosts);
	s->allow_hosts = list;
	return 0;
}

static int read_tcp_targets(struct spec *s, const struct json_node *n, struct err *err)
{
	if (n->type != JSON_ARRAY)
		return err_set(err, EINVAL, "limits.tcpTargets must be a list of HOST:PORT");
	for (const struct json_node *t = n->child; t != NULL; t = t->next)
		if (want_string(t, "an entry", err) != 0 || tcp_target_add(&s->tcp_targets, t->text, EGRESS_PORT, err) != 0)
			return err_wrap(err, "limits.tcpTargets");
	return 0;
}

static int read_limits(struct spec *s, const struct json_node *limits, struct err *err)
{
	int64_t mb = 0;

	if (limits->type != JSON_OBJECT)
		return err_set(err, EINVAL, "limits must be an object");
	for (const struct json_node *m = limits->child; m != NULL; m = m->next) {
		int rc = 0;

		if (slice_is(m->key, "cpu")) {
			rc = read_cpu(s, m, err);
		} else if (slice_is(m->key, "memoryMb")) {
			rc = want_int(m, "limits.memoryMb", 16, 65536, &mb, err);
			if (rc == 0)
				s->memory = mb * MIB;
		} else if (slice_is(m->key, "diskMb")) {
			rc = want_int(m, "limits.diskMb", 1, 999999999, &s->disk_mb, err);
		} else if (slice_is(m->key, "maxCommandSeconds")) {
			rc = want_int(m, "limits.maxCommandSeconds", 1, 604800, &s->max_command_seconds, err);
		} else if (slice_is(m->key, "egress")) {
			if (m->type != JSON_STRING || !egress_from_name(m->text, &s->egress))
				rc = err_set(err, EINVAL, "limits.egress must be none, open or allowlist");
		} else if (slice_is(m->key, "allowHosts")) {
			rc = read_allow_hosts(s, m, err);
		} else if (slice_is(m->key, "tcpTargets")) {
			rc = read_tcp_targets(s, m, err);
		} else {
			rc = unknown_member(m->key, "limits", err);
		}
		if (rc != 0)
			return -1;
	}
	return 0;
}

static int add_labels(struct spec *s, const struct json_node *labels, struct err *err)
{
	if (labels->type != JSON_OBJECT)
		return err_set(err, EINVAL, "labels must be an object of strings");
	for (const struct json_node *m = labels->child; m != NULL; m = m->next) {
		if (s->nlabels == SPEC_MAX_LABELS)
			return err_set(err, EINVAL, "labels: at most %d", SPEC_MAX_LABELS);
		if (m->type != JSON_STRING || m->text.len > 1024)
			return err_set(err, EINVAL, "labels: a value must be a string of at most 1024 bytes");
		if (name_check_label(m->key, err) != 0)
			return err_wrap(err, "labels");
		s->labels[s->nlabels++] = (struct spec_label){ mem_dup(m->key), mem_dup(m->text) };
	}
	return 0;
}

static int add_test_host(char **list, const struct json_node *entry, struct err *err)
{
	auto_free char *addresses = mem_strdup("");
	char text[64];
	unsigned char binary[16];

	if (name_check_host(entry->key, err) != 0)
		return err_wrap(err, "testOptions.egressTestHosts");
	if (entry->type != JSON_ARRAY || entry->count == 0 || entry->count > 8)
		return err_set(err, EINVAL, "testOptions.egressTestHosts: a host has a list of 1 to 8 addresses");
	for (const struct json_node *a = entry->child; a != NULL; a = a->next) {
		if (a->type != JSON_STRING || a->text.len >= sizeof(text))
			return err_set(err, EINVAL, "testOptions.egressTestHosts: an address is a string");
		memcpy(text, a->text.p, a->text.len);
		text[a->text.len] = '\0';
		if (inet_pton(AF_INET, text, binary) != 1 && inet_pton(AF_INET6, text, binary) != 1)
			return err_set(err, EINVAL, "testOptions.egressTestHosts: not an IP address");
		char *longer = mem_printf("%s%s%s", addresses, addresses[0] != '\0' ? "," : "", text);
		free(addresses);
		addresses = longer;
	}
	char *longer = mem_printf("%s%s%.*s=%s", *list != NULL ? *list : "", *list != NULL ? " " : "",
		SLICE_ARG(entry->key), addresses);
	free(*list);
	*list = longer;
	return 0;
}

static int read_test_options(struct spec *s, const struct json_node *options, struct err *err)
{
	if (options->type != JSON_OBJECT)
		return err_set(err, EINVAL, "testOptions must be an object");
	for (const struct json_node *m = options->child; m != NULL; m = m->next) {
		if (slice_is(m->key, "labels")) {
			if (add_labels(s, m, err) != 0)
				return err_wrap(err, "testOptions");
		} else if (slice_is(m->key, "egressTestHosts")) {
			if (m->type != JSON_OBJECT || m->count > SPEC_MAX_TEST_HOSTS)
				return err_set(err, EINVAL, "testOptions.egressTestHosts must be an object of at most %d hosts",
					SPEC_MAX_TEST_HOSTS);
			for (const struct json_node *h = m->child; h != NULL; h = h->next)
				if (add_test_host(&s->test_hosts, h, err) != 0)
					return -1;
		} else {
			return unknown_member(m->key, "testOptions", err);
		}
	}
	return 0;
}

static int set_image(struct spec *s, struct slice image, struct err *err)
{
	bool tagged;

	if (name_check_image(image, &tagged, err) != 0)
		return err_wrap(err, "image");
	free(s->image);
	s->image = mem_printf("%.*s%s", SLICE_ARG(image), tagged ? "" : ":latest");
	return 0;
}

static int read_params(struct spec *s, const struct json_node *params, unsigned flags, struct err *err)
{
	for (const struct json_node *m = params->child; m != NULL; m = m->next) {
		int rc = 0;

		if (slice_is(m->key, "name")) {
			rc = want_string(m, "name", err);
			if (rc == 0)
				rc = name_check_sandbox(m->text, err);
			if (rc == 0)
				s->name = mem_dup(m->text);
		} else if (slice_is(m->key, "image")) {
			rc = want_string(m, "image", err);
			if (rc == 0)
				rc = set_image(s, m->text, err);
		} else if (slice_is(m->key, "limits")) {
			rc = read_limits(s, m, err);
		} else if (slice_is(m->key, "labels")) {
			rc = add_labels(s, m, err);
		} else if (slice_is(m->key, "testOptions")) {
			if ((flags & SPEC_TEST_OPTIONS) == 0)
				return err_set(err, EACCES, "testOptions are taken only by serve --test-options");
			rc = read_test_options(s, m, err);
		} else {
			rc = unknown_member(m->key, "create", err);
		}
		if (rc != 0)
			return -1;
	}
	return s->name != NULL ? 0 : err_set(err, EINVAL, "name is required");
}

static void set_defaults(struct spec *s, const struct config *c)
{
	*s = (struct spec){
		.runtime = c->runtime,
		.egress = EGRESS_ALLOWLIST,
		.nano_cpus = DEFAULT_CPUS * (int64_t)1000000000,
		.memory = DEFAULT_MEMORY_MB * MIB,
		.max_command_seconds = DEFAULT_MAX_SECONDS,
		.allow_hosts = mem_strdup(""),
	};
}

int spec_from_params(struct spec *s, const struct json_node *params, const struct config *c, unsigned flags,
	struct err *err)
{
	set_defaults(s, c);
	if (set_image(s, slice_str(c->image), err) != 0 || read_params(s, params, flags, err) != 0) {
		spec_release(s);
		return -1;
	}
	if (s->egress == EGRESS_OPEN && !c->allow_open_egress) {
		spec_release(s);
		return err_set(err, EACCES,
			"egress: open is not allowed here; the deployment has to set "
			"extensionConfig.\"sandbox-docker\".allowOpenEgress to true");
	}
	if (s->egress != EGRESS_ALLOWLIST && s->allow_hosts[0] != '\0') {
		spec_release(s);
		return err_set(err, EINVAL, "limits.allowHosts has a meaning only with egress: allowlist");
	}
	if (s->egress != EGRESS_ALLOWLIST && s->tcp_targets != NULL) {
		spec_release(s);
		return err_set(err, EINVAL, "limits.tcpTargets has a meaning only with egress: allowlist");
	}
	s->disk_unlimited = s->disk_mb > 0 && c->volume_driver == NULL;
	return 0;
}

int spec_from_labels(struct spec *s, struct slice name, const struct json_node *labels, const struct config *c,
	struct err *err)
{
	struct slice text;
	int64_t seconds = 0;

	set_defaults(s, c);
	s->name = mem_dup(name);
	if (!json_get_string(labels, LABEL_SANDBOX, &text) || !slice_is(text, "1")) {
		spec_release(s);
		return err_set(err, EACCES, "the container %.*s is no sandbox of ours: it has no label " LABEL_SANDBOX "=1",
			SLICE_ARG(name));
	}
	if (json_get_string(labels, LABEL_EGRESS, &text) && !egress_from_name(text, &s->egress)) {
		spec_release(s);
		return err_set(err, EINVAL, "the label " LABEL_EGRESS " of %.*s is not understood", SLICE_ARG(name));
	}
	if (json_get_string(labels, LABEL_ALLOW_HOSTS, &text)) {
		free(s->allow_hosts);
		s->allow_hosts = mem_dup(text);
	}
	if (json_get_string(labels, LABEL_TCP_TARGETS, &text))
		s->tcp_targets = mem_dup(text);
	if (json_get_string(labels, LABEL_TEST_HOSTS, &text))
		s->test_hosts = mem_dup(text);
	if (json_get_string(labels, LABEL_MAX_SECONDS, &text)) {
		for (size_t i = 0; i < text.len && text.len <= 7; i++)
			seconds = text.p[i] >= '0' && text.p[i] <= '9' ? seconds * 10 + (text.p[i] - '0') : -1000000000;
		if (seconds > 0)
			s->max_command_seconds = seconds;
	}
	return 0;
}
