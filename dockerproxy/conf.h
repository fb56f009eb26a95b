/* Configuration of dockerproxy: what the key table in conf.c fills in. dockerproxy.conf(5) lists the keys. */
#ifndef DOCKERPROXY_CONF_H
#define DOCKERPROXY_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dockerproxy/policy.h"
#include "libgate/addr.h"
#include "libgate/err.h"

struct tls_context;

#define PROXY_MAX_LISTEN 16
#define PROXY_MAX_UIDS 32
#define PROXY_MAX_CIDRS 32

/* Files of one TLS end. All NULL: no TLS. */
struct proxy_tls {
	char *cert;
	char *key;
	char *ca; /* whose certificates the other side must hold */
	char *name; /* upstream only: the name the engine's certificate must carry */
};

/* Where to listen or connect: exactly one of the two is set. */
struct proxy_endpoint {
	char *unix_path;
	char *tcp; /* "127.0.0.1:2375" */
};

struct proxy_listen {
	struct proxy_endpoint at;
	mode_t mode; /* of a unix socket */
	uid_t uid; /* its owner; (uid_t)-1: as created */
	gid_t gid;
	bool insecure; /* plain TCP on an address that is not loopback is meant */
	uid_t uids[PROXY_MAX_UIDS]; /* unix: only these peers; none given: whoever may open the socket */
	unsigned nuids;
	gid_t gids[PROXY_MAX_UIDS]; /* unix: or peers with these primary groups */
	unsigned ngids;
	struct cidr cidrs[PROXY_MAX_CIDRS]; /* TCP: only these sources; none given: any */
	unsigned ncidrs;
	struct proxy_tls tls;
	struct tls_context *secure; /* made of tls; NULL: plain */
	char *policy_file; /* NULL: the program's policy */
	struct policy *policy; /* what judges this listener's requests; owned when policy_file is set */
};

enum proxy_mode { PROXY_ENFORCE, PROXY_WARN };

struct proxy_conf {
	struct proxy_listen listen[PROXY_MAX_LISTEN];
	unsigned nlisten;
	struct proxy_endpoint upstream;
	struct proxy_tls upstream_tls;
	struct tls_context *upstream_secure;
	char *policy_file; /* NULL: the built-in policy */
	struct policy *policy;
	int mode; /* enum proxy_mode */
	int log_level; /* enum log_level */
	int64_t workers;

	int64_t head_max; /* bytes of a request head */
	int64_t body_max; /* bytes of a request body, whatever the policy row allows */
	int64_t answer_max; /* bytes of an engine answer that must be looked into (listings) */
	int64_t connections; /* client connections of one worker */
	int64_t per_peer; /* connections of one peer (unix: uid; TCP: address) in all workers; 0: no limit */
	int64_t rate; /* requests a second of one peer in all workers; 0: no limit */
	int64_t burst;
	int64_t pool; /* idle engine connections that a worker keeps */

	int64_t head_ms;
	int64_t body_ms;
	int64_t connect_ms;
	int64_t response_ms;
	int64_t idle_ms;
	int64_t write_ms;
	int64_t drain_ms;

	char *audit_path;
	bool audit_reads;

	struct proxy_endpoint admin; /* both NULL: none */
	char *user; /* NULL: decided at start (nobody and the group of the engine's socket when started as root) */
	char *group;
	bool confine;
};

/* Reads file (NULL: environment and defaults only), checks it as a whole, and loads every policy that it names. */
int proxy_conf_load(struct proxy_conf *conf, const char *file, struct err *err) MUSTCHECK;
void proxy_conf_release(struct proxy_conf *conf);

#endif
