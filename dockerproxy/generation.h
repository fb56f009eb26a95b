/* One loaded configuration with all that workers started from it share: sockets, audit log, identity. */
#ifndef DOCKERPROXY_GENERATION_H
#define DOCKERPROXY_GENERATION_H

#include <sys/queue.h>

#include "dockerproxy/resolve.h"
#include "libgate/err.h"

struct audit;
struct peers;
struct sockets;

struct generation {
	TAILQ_ENTRY(generation) entry;
	unsigned number; /* from 1 */
	struct proxy_conf conf;
	struct audit *audit;
	struct engine_addrs engine; /* pinned */
	struct peers *peers; /* shared with the workers */
	int fds[PROXY_MAX_LISTEN]; /* borrowed from the table of sockets */
	int admin_fd;
	uid_t uid; /* of the workers; (uid_t)-1: the master's own */
	gid_t gid;
	unsigned nworkers; /* processes that live */
	unsigned nready; /* of the first ones, those that serve */
	bool told; /* what the kernel cannot confine was logged */
};

/*
 * Loads and checks everything, and prepares the sockets; the caller commits or aborts them. NULL with err set, and then
 * nothing is left behind.
 */
struct generation *generation_load(const char *config_file, unsigned number, struct sockets *sockets,
	struct err *err) MUSTCHECK;
void generation_free(struct generation *g);

/* One line each: what serves where, and what an operator should think about. */
void generation_log(const struct generation *g);

#endif
