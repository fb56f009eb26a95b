/* Reads the engine's inspect answers. */
#include "controller/inventory.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *engine; /* State.Status */
	const char *state; /* ours */
} states[] = {
	[CONTAINER_ABSENT] = { "", "gone" },
	[CONTAINER_CREATED] = { "created", "creating" },
	[CONTAINER_RUNNING] = { "running", "running" },
	[CONTAINER_PAUSED] = { "paused", "paused" },
	[CONTAINER_RESTARTING] = { "restarting", "running" },
	[CONTAINER_REMOVING] = { "removing", "gone" },
	[CONTAINER_EXITED] = { "exited", "suspended" },
	[CONTAINER_DEAD] = { "dead", "gone" },
};

const char *inventory_state_name(enum container_state s)
{
	return states[s].state;
}

bool container_state_from_name(struct slice s, enum container_state *out)
{
	for (unsigned i = CONTAINER_CREATED; i < sizeof(states) / sizeof(states[0]); i++) {
		if (slice_is(s, states[i].engine)) {
			*out = (enum container_state)i;
			return true;
		}
	}
	return false;
}

static bool copy_text(char *out, size_t size, struct slice s)
{
	if (s.len >= size)
		return false;
	memcpy(out, s.p, s.len);
	out[s.len] = '\0';
	return true;
}

/* NetworkID of the endpoint on the named network. */
static void read_endpoint(char out[ENGINE_ID_MAX + 1], const struct json_node *networks, struct slice name)
{
	struct slice id;

	out[0] = '\0';
	if (networks == NULL || networks->type != JSON_OBJECT)
		return;
	for (const struct json_node *m = networks->child; m != NULL; m = m->next)
		if (slice_eq(m->key, name) && json_get_string(m, "NetworkID", &id) && !copy_text(out, ENGINE_ID_MAX + 1, id))
			out[0] = '\0';
}

int inventory_read_container(struct container_info *out, const struct json_node *doc, struct slice internal,
	struct slice shared, struct err *err)
{
	const struct json_node *state = json_get(doc, "State");
	struct slice text;

	*out = (struct container_info){ .state = CONTAINER_ABSENT };
	if (!json_get_string(state, "Status", &text) || !container_state_from_name(text, &out->state) ||
		!json_get_string(doc, "Id", &text) || !copy_text(out->id, sizeof(out->id), text))
		return err_set(err, EPROTO, "the engine's inspect answer has no Id or no State.Status that is known");
	if (json_get_string(state, "StartedAt", &text) && !copy_text(out->started_at, sizeof(out->started_at), text))
		out->started_at[0] = '\0';
	json_get_int(state, "ExitCode", &out->exit_code);
	json_get_bool(state, "OOMKilled", &out->oom_killed);
	const struct json_node *networks = json_get(json_get(doc, "NetworkSettings"), "Networks");
	read_endpoint(out->internal_network, networks, internal);
	read_endpoint(out->shared_network, networks, shared);
	return 0;
}

int inventory_read_network(char id[ENGINE_ID_MAX + 1], const struct json_node *doc, struct err *err)
{
	struct slice text;

	if (!json_get_string(doc, "Id", &text) || text.len == 0 || !copy_text(id, ENGINE_ID_MAX + 1, text))
		return err_set(err, EPROTO, "the engine's answer about a network has no Id");
	return 0;
}
