/*
 * Before and behind every operation inside a sandbox: wait for lifecycle operations, learn its limits, and start it again
 * when it is found not running. [libevent]
 */
#ifndef CONTROLLER_ENSURE_H
#define CONTROLLER_ENSURE_H

#include <stdbool.h>

#include "controller/controller.h"

struct ensure;

/* err is NULL when the sandbox is known and was not seen stopped. */
typedef void (*ensure_cb)(const struct err *err, void *arg);

/* Waits its turn and reads the sandbox's labels where they are not known yet, recovering it when it does not run. */
struct ensure *ensure_known(struct sandbox *s, ensure_cb cb, void *arg);
/*
 * How often an operation was refused because its container does not run. For some time after a container's end the engine may
 * hold it for running, so that a recovery finds nothing to do: an operation is worth some seconds of tries, and no more.
 */
struct refusals {
	unsigned count; /* 0 at first */
};

bool ensure_worthwhile(const struct refusals *r);
/* An operation met a container that does not run: recovers it as resume does, from the second time on after a pause. */
struct ensure *ensure_running(struct sandbox *s, struct refusals *r, ensure_cb cb, void *arg);
void ensure_cancel(struct ensure *e);

void ensure_look_no_more(struct sandbox *s); /* at its end: nobody waits for the look that is under way */

#endif
