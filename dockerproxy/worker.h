/*
 * One worker process: its event loop, what the loop's parts share, and its end. [libevent]
 *
 * It is called confined (libgate/confine.h): no file can be opened, no socket made or connected. Orders come over the
 * link, not by signals: those are ignored, so that one sent to the whole process group reaches the master alone.
 */
#ifndef DOCKERPROXY_WORKER_H
#define DOCKERPROXY_WORKER_H

#include "dockerproxy/conf.h"

struct audit;
struct confine_result;
struct metrics;
struct peers;

struct worker_setup {
	const struct proxy_conf *conf;
	const int *fds; /* one listening socket for each conf->listen[], the worker's own */
	int admin_fd; /* listening socket of conf->admin; -1: none */
	int link_fd; /* for link_new() */
	unsigned slot; /* 0..MASTER_SLOTS-1: its place in the metrics; a successor continues its counters */
	unsigned generation; /* of the configuration, from 1 */
	struct audit *audit;
	struct metrics *metrics;
	struct peers *peers; /* the limits of all workers of the configuration */
	const struct confine_result *confined; /* what the kernel could take */
};

/* Runs until drained. The exit status of the process: 0, or 1 when it could not start (logged). */
int worker_main(const struct worker_setup *setup) MUSTCHECK;

#endif
