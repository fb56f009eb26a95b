/*
 * Carries a plan out: stages in order, the steps of a stage together, undo in reverse when one fails. [libevent]
 *
 * A step is recorded as taken before its request is sent, so that one whose answer got lost is undone as well; what such
 * a late request might still make is looked for until it stays absent. What could not be undone is named in the error.
 */
#ifndef CONTROLLER_RUN_H
#define CONTROLLER_RUN_H

#include "controller/engine.h"
#include "controller/plan.h"

struct run;

enum run_flags { RUN_UNDO = 1 << 0 /* take back what was done when a step fails */ };

struct run_events {
	/* An image is being pulled; may be NULL. */
	void (*pull)(const char *image, const struct json_node *progress, void *arg);
	/* err is NULL on success. The plan has been released; the run is freed after this returns. */
	void (*done)(const struct err *err, void *arg);
};

/* Takes over the plan's content. timeout_ms bounds the whole. */
struct run *run_plan(struct engine *e, struct plan *plan, unsigned flags, int64_t timeout_ms,
	const struct run_events *events, void *arg);

#endif
