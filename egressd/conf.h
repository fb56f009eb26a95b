/* The configuration of egressd: what the table of conf.c fills, from a file and from the environment. */
#ifndef EGRESSD_CONF_H
#define EGRESSD_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "egressd/host.h"
#include "egressd/rule.h"
#include "libgate/addr.h"
#include "libgate/conf.h"
#include "libgate/err.h"

#define CONF_LISTEN_MAX 8
#define CONF_CIDRS_MAX 256
#define CONF_TARGETS_MAX 64
#define CONF_PINS_MAX 256
#define CONF_TARGET_ADDRS_MAX 32

enum egress_mode { MODE_ENFORCE, MODE_WARN };

struct listen_list {
	unsigned n;
	char *at[CONF_LISTEN_MAX];
};

struct cidr_list {
	unsigned n;
	struct cidr cidr[CONF_CIDRS_MAX];
};

/* A test host: the name is never resolved, and its addresses are exempt from the address check. */
struct pin {
	struct host host;
	struct addr addr;
};

struct pin_list {
	unsigned n;
	struct pin pin[CONF_PINS_MAX];
};

/* A pinned TCP target: what connects to the listening port is relayed to host:port by these addresses alone. */
struct target {
	char *listen; /* "0.0.0.0:5432" */
	struct host host;
	uint16_t port;
	unsigned naddrs; /* 0: resolved once, before listening */
	struct addr addrs[CONF_TARGET_ADDRS_MAX];
};

struct target_list {
	unsigned n;
	struct target *target[CONF_TARGETS_MAX];
};

struct egress_limits {
	int64_t connections; /* 0: by the memory and descriptors that the process is given */
	int64_t per_host;
	int64_t lookups;
	int64_t lookups_per_rule;
	int64_t wildcard_lookups; /* a minute; 0: no limit */
	int64_t cached_names;
	int64_t buffer_bytes;
	int64_t connection_bytes; /* 0: none, here and below */
	int64_t total_bytes;
};

struct egress_timeouts { /* milliseconds */
	int64_t head;
	int64_t keep_alive;
	int64_t dns;
	int64_t connect;
	int64_t stagger;
	int64_t hello;
	int64_t response;
	int64_t idle;
	int64_t half_closed;
	int64_t connection; /* 0: none, here and below */
	int64_t total;
	int64_t drain;
	int64_t reload_grace;
	int64_t cache;
};

struct egress_conf {
	struct listen_list listen;
	struct rules *allow;
	struct ports connect_ports;
	struct ports http_ports;
	struct cidr_list refuse;
	struct pin_list pins;
	struct target_list targets;
	struct rules *sni_exempt;
	bool require_sni;
	int mode; /* enum egress_mode */
	char *resolver; /* NULL: of /etc/resolv.conf */
	struct egress_limits limits;
	struct egress_timeouts timeouts;
	char *audit;
	char *admin; /* NULL: none */
	char *user; /* NULL: nobody, when started as root */
	char *group;
	bool confine;
	int log_level;
};

extern const struct conf_key egress_conf_keys[];

/* file NULL: environment only. NULL with err set; the caller frees. */
struct egress_conf *egress_conf_load(const char *file, struct err *err) MUSTCHECK;
/* The same from the text of a file that was read already. */
struct egress_conf *egress_conf_load_text(struct slice text, const char *name, struct err *err) MUSTCHECK;
void egress_conf_free(struct egress_conf *conf);

/* The pinned addresses of a test host; returns how many were written (at most max). */
unsigned egress_conf_pins(const struct egress_conf *conf, const struct host *host, struct addr *out, unsigned max);

/*
 * The addresses that the configuration gives a host, so that its name is not asked for: those of a test host (*exempt), or of
 * a TCP target, whose name may be the relay's own in the sandbox's network.
 */
unsigned egress_conf_known(const struct egress_conf *conf, const struct host *host, struct addr *out, unsigned max,
	bool *exempt);

#endif
