/* What a worker answers on the admin listener: /healthz, /readyz, /metrics, /policy. [libevent] */
#ifndef DOCKERPROXY_STATUS_H
#define DOCKERPROXY_STATUS_H

#include "dockerproxy/worker.h"

struct event_base;
struct status;
struct upstream;

/* Takes over setup->admin_fd. NULL on lack of memory. */
struct status *status_new(struct event_base *base, const struct worker_setup *setup,
	struct upstream *upstream) MUSTCHECK;
void status_free(struct status *s); /* before the upstream */

#endif
