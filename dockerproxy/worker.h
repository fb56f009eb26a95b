/*
 * One worker process: its event loop, what the loop's parts share, and its end. [libevent]
 *
 * SIGTERM (or the end of parent_fd) drains: no new connections, idle ones are closed, what is under way may finish within
 * timeouts.drain. SIGUSR1 reopens the audit log.
 */
#ifndef DOCKERPROXY_WORKER_H
#define DOCKERPROXY_WORKER_H

#include "dockerproxy/conf.h"

struct metrics;

struct worker_setup {
	const struct proxy_conf *conf;
	const int *fds; /* one listening socket for each conf->listen[], the worker's own */
	unsigned index; /* of the worker, from 0: its place in the metrics */
	struct metrics *metrics;
	int parent_fd; /* readable or at its end: the master wants a drain or is gone; -1: none */
};

/* Runs until drained. The exit status of the process: 0, or 1 when it could not start (logged). */
int worker_main(const struct worker_setup *setup) MUSTCHECK;

#endif
