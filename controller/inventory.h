/*
 * What the engine says of the parts of one sandbox, read from its inspect answers. [pure]
 */
#ifndef CONTROLLER_INVENTORY_H
#define CONTROLLER_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/json.h"

enum container_state {
	CONTAINER_ABSENT,
	CONTAINER_CREATED,
	CONTAINER_RUNNING,
	CONTAINER_PAUSED,
	CONTAINER_RESTARTING,
	CONTAINER_REMOVING,
	CONTAINER_EXITED,
	CONTAINER_DEAD,
};

#define ENGINE_ID_MAX 64

struct container_info {
	enum container_state state;
	char id[ENGINE_ID_MAX + 1];
	char internal_network[ENGINE_ID_MAX + 1]; /* NetworkID of its endpoint on <name>-net; "" for none */
	char shared_network[ENGINE_ID_MAX + 1]; /* likewise on the deployment's network */
	char started_at[40];
	int64_t exit_code;
	bool oom_killed;
};

struct inventory {
	struct container_info sandbox;
	struct container_info egress;
	char network[ENGINE_ID_MAX + 1]; /* id of <name>-net; "" when absent */
	char shared_network[ENGINE_ID_MAX + 1];
};

/* doc: the answer to GET /containers/X/json. */
int inventory_read_container(struct container_info *out, const struct json_node *doc, struct slice internal,
	struct slice shared, struct err *err) MUSTCHECK;
/* doc: the answer to GET /networks/X. */
int inventory_read_network(char id[ENGINE_ID_MAX + 1], const struct json_node *doc, struct err *err) MUSTCHECK;

/* DESIGN's states: creating, running, suspended, paused, gone. */
const char *inventory_state_name(enum container_state s);
bool container_state_from_name(struct slice s, enum container_state *out);

#endif
