/*
 * The master process: opens the listening sockets and the audit log, starts the workers, replaces one that crashed,
 * reloads without dropping a connection, and stops. It reads no byte that a client or the engine sent. [libevent]
 *
 *     SIGHUP           load and check everything anew; on success new workers take over and the old ones finish theirs
 *     SIGUSR1          reopen the audit log
 *     SIGTERM, SIGINT  drain within timeouts.drain; a second one ends at once
 */
#ifndef DOCKERPROXY_MASTER_H
#define DOCKERPROXY_MASTER_H

#include "libgate/util.h"

struct metrics;

/* Places for workers, those of earlier generations that still finish their connections included. */
#define MASTER_SLOTS 128

/* config_file NULL: environment and defaults. metrics: shared memory with MASTER_SLOTS places. The exit status. */
int master_run(const char *config_file, struct metrics *metrics) MUSTCHECK;

#endif
