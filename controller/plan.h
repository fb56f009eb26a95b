/*
 * A lifecycle operation as data: ordered steps, each one engine request with what its answers mean and how to undo it.
 * [pure]
 *
 * Steps of one stage do not depend on each other and are sent together; a stage begins when the one before it ended.
 * Every step is idempotent: a plan that broke off can be started again from its first step.
 */
#ifndef CONTROLLER_PLAN_H
#define CONTROLLER_PLAN_H

#include "controller/inventory.h"
#include "controller/spec.h"

enum step_id {
#define ROW(sym, name) STEP_##sym,
#include "controller/step.def"
#undef ROW
	STEP_COUNT
};

const char *step_name(enum step_id id);

/* What an answer means. "Settled" is a state of the engine that the step wanted, however it came about. */
enum expect {
	EXPECT_CREATED, /* 2xx; 409: somebody else holds the name */
	EXPECT_ENSURED, /* 2xx, or 409: it is there already */
	EXPECT_STARTED, /* 2xx, 304 */
	EXPECT_STOPPED, /* 2xx, 304; 404 when may_lack */
	EXPECT_UNPAUSED, /* 2xx; 409 and 500 say that it was not paused */
	EXPECT_ATTACHED, /* 2xx; 403 and 409 say that it was already */
	EXPECT_DETACHED, /* 2xx; 403, 404 and 500 say that it was not attached */
	EXPECT_REMOVED, /* 404; anything else is followed until the engine says 404 */
};

struct step {
	enum step_id id;
	enum expect expect;
	unsigned stage;
	const char *method;
	char *path; /* without the version */
	char *body; /* or NULL */
	char *probe; /* a path: 200 there settles the step without a request; 404 goes on. Or NULL */
	char *gone; /* EXPECT_REMOVED: where 404 proves absence */
	char *image; /* pulled when the answer is 404, then the step is repeated once. Or NULL */
	char *undo; /* DELETE of this path takes it back; or NULL */
	char *undo_gone;
	bool may_lack; /* a missing object settles the step */
};

#define PLAN_MAX_STEPS 24

struct plan {
	const char *name; /* "create" */
	unsigned nsteps;
	struct step steps[PLAN_MAX_STEPS];
};

/* A fresh sandbox; whatever has its name is removed first. */
void plan_create(struct plan *p, const struct spec *s, const struct config *c, unsigned api_minor);
void plan_destroy(struct plan *p, const char *name);
void plan_suspend(struct plan *p, const char *name, const struct inventory *now);
/* Brings a sandbox to running, mending what is missing. -1 (EBUSY) when its container is in no state for that. */
int plan_resume(struct plan *p, const struct spec *s, const struct config *c, unsigned api_minor,
	const struct inventory *now, struct err *err) MUSTCHECK;
void plan_restart(struct plan *p, const char *name);
void plan_release(struct plan *p);

#endif
