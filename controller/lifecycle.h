/*
 * Create, suspend, resume and destroy of one sandbox. [libevent]
 *
 * Operations on one name go one after the other. Each ends with exactly one done(), from the loop.
 */
#ifndef CONTROLLER_LIFECYCLE_H
#define CONTROLLER_LIFECYCLE_H

#include "controller/controller.h"
#include "controller/run.h"
#include "controller/spec.h"

struct lifecycle_events {
	void (*pull)(const char *image, const struct json_node *progress, void *arg); /* may be NULL */
	/* err is NULL on success. */
	void (*done)(const struct err *err, void *arg);
};

/* Takes over the content of spec. */
void lifecycle_create(struct controller *c, struct spec *spec, const struct lifecycle_events *ev, void *arg);
void lifecycle_destroy(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg);
void lifecycle_suspend(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg);
void lifecycle_resume(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg);
/*
 * Removes what is left of a sandbox, or mends it, as remains.h judges what there is when its turn has come: a listing from before
 * says nothing of what was made since. ESTALE: there is nothing to do.
 */
void lifecycle_reconcile(struct controller *c, struct slice name, int64_t min_age, const struct lifecycle_events *ev,
	void *arg);
/* The last resort when no process can be started to kill the others. EBUSY: it did not run, and was left so. */
void lifecycle_restart(struct controller *c, struct slice name, const struct lifecycle_events *ev, void *arg);

#endif
