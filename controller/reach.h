/*
 * Is the engine's proxy reachable from where it must not be: from inside a sandbox? [libevent]
 *
 * Asks a sandbox that runs, by a command in it; none is started for it. Tried are the endpoint's own address and the
 * addresses of the host on the sandbox's networks, at the endpoint's port. A unix socket is out of a sandbox's reach.
 */
#ifndef CONTROLLER_REACH_H
#define CONTROLLER_REACH_H

#include "controller/controller.h"

enum reach {
	REACH_NONE, /* tried, and not reachable */
	REACH_OPEN, /* reachable at `where` */
	REACH_UNIX, /* not tried: the endpoint is a unix socket */
	REACH_NOBODY, /* not tried: no sandbox runs */
	REACH_UNKNOWN, /* the attempt failed; where says why */
};

/* sandbox: the one that was asked, NULL when none was; where is never NULL. Both borrowed. */
typedef void (*reach_cb)(enum reach r, const char *sandbox, const char *where, void *arg);

void reach_probe(struct controller *c, reach_cb cb, void *arg);

#endif
