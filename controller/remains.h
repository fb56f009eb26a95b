/*
 * What the engine holds by sandbox name, and what should become of it. [pure]
 *
 * Filled from the three listings by label, so that any controller can judge what another one left behind.
 */
#ifndef CONTROLLER_REMAINS_H
#define CONTROLLER_REMAINS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "controller/inventory.h"
#include "controller/spec.h"
#include "libgate/json.h"

struct remains {
	TAILQ_ENTRY(remains) link;
	char *name;
	bool sandbox, egress, network, workspace, skills; /* there */
	enum container_state sandbox_state, egress_state;
	enum egress mode; /* by the sandbox container's label */
	int64_t youngest; /* of the parts, seconds since the epoch; 0: unknown */
};

TAILQ_HEAD(remains_list, remains);

enum remains_verdict {
	REMAINS_WHOLE, /* nothing to do */
	REMAINS_REPAIR, /* runs, but without its proxy or network */
	REMAINS_REMOVE, /* parts without a sandbox, or one that never ran */
	REMAINS_YOUNG, /* would be removed, but somebody may be making it right now */
};

const char *remains_verdict_name(enum remains_verdict v);

/*
 * Adds what a listing says; kind is "containers", "volumes" or "networks". Other labels' objects are passed over. -1 (EPROTO): it
 * is no listing, and says nothing of what there is or is not.
 */
int remains_add(struct remains_list *list, const char *kind, const struct json_node *listing,
	struct err *err) MUSTCHECK;
void remains_release(struct remains_list *list);

/* now and min_age in seconds. */
enum remains_verdict remains_judge(const struct remains *r, int64_t now, int64_t min_age);

#endif
