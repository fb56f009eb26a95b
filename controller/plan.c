/* Makes the steps of each lifecycle operation. */
#include "controller/plan.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "controller/document.h"
#include "controller/mem.h"

#define STOP_SECONDS 2 /* init and sleep end at once on SIGTERM; what ignores it is killed then */

static const char *const names[STEP_COUNT] = {
#define ROW(sym, name) [STEP_##sym] = name,
#include "controller/step.def"
#undef ROW
};

const char *step_name(enum step_id id)
{
	return names[id];
}

static struct step *add(struct plan *p, unsigned stage, enum step_id id, enum expect expect, const char *method,
	char *path, char *body)
{
	assert(p->nsteps < PLAN_MAX_STEPS);
	struct step *s = &p->steps[p->nsteps++];

	*s = (struct step){ .id = id, .expect = expect, .stage = stage, .method = method, .path = path, .body = body };
	return s;
}

static void add_remove(struct plan *p, unsigned stage, enum step_id id, const char *kind, const char *name,
	const char *suffix)
{
	bool container = strcmp(kind, "containers") == 0;
	struct step *s = add(p, stage, id, EXPECT_REMOVED, "DELETE",
		mem_printf("/%s/%s%s%s", kind, name, suffix, container ? "?force=1" : ""), NULL);

	s->gone = mem_printf("/%s/%s%s%s", kind, name, suffix, container ? "/json" : "");
}

static void undo_by_remove(struct step *s, const char *kind, const char *name, const char *suffix)
{
	bool container = strcmp(kind, "containers") == 0;

	s->undo = mem_printf("/%s/%s%s%s", kind, name, suffix, container ? "?force=1" : "");
	s->undo_gone = mem_printf("/%s/%s%s%s", kind, name, suffix, container ? "/json" : "");
}

/* Containers before what they hold. */
static unsigned add_removal(struct plan *p, unsigned stage, const char *name)
{
	add_remove(p, stage, STEP_REMOVE_SANDBOX, "containers", name, "");
	add_remove(p, stage, STEP_REMOVE_EGRESS, "containers", name, "-egress");
	add_remove(p, stage + 1, STEP_REMOVE_NETWORK, "networks", name, "-net");
	add_remove(p, stage + 1, STEP_REMOVE_WORKSPACE, "volumes", name, "-workspace");
	add_remove(p, stage + 1, STEP_REMOVE_SKILLS, "volumes", name, "-skills");
	return stage + 2;
}

static void add_container(struct plan *p, unsigned stage, enum step_id id, const char *name, const char *suffix,
	const char *image, char *body)
{
	struct step *s =
		add(p, stage, id, EXPECT_CREATED, "POST", mem_printf("/containers/create?name=%s%s", name, suffix), body);

	s->image = mem_strdup(image);
	undo_by_remove(s, "containers", name, suffix);
}

static void add_shared_network(struct plan *p, unsigned stage, const struct config *c)
{
	struct step *s = add(p, stage, STEP_SHARED_NETWORK, EXPECT_ENSURED, "POST", mem_strdup("/networks/create"),
		document_shared_network(c));

	s->probe = mem_printf("/networks/%s", c->network);
}

static void add_internal_network(struct plan *p, unsigned stage, const struct spec *s, unsigned api_minor)
{
	struct step *n = add(p, stage, STEP_CREATE_NETWORK, EXPECT_CREATED, "POST", mem_strdup("/networks/create"),
		document_network(s, api_minor));

	undo_by_remove(n, "networks", s->name, "-net");
}

static void add_volume(struct plan *p, unsigned stage, enum step_id id, const struct spec *s, const struct config *c,
	const char *part, const char *suffix)
{
	struct step *v =
		add(p, stage, id, EXPECT_CREATED, "POST", mem_strdup("/volumes/create"), document_volume(s, c, part));

	undo_by_remove(v, "volumes", s->name, suffix);
}

static void add_action(struct plan *p, unsigned stage, enum step_id id, enum expect expect, const char *name,
	const char *suffix, const char *action)
{
	add(p, stage, id, expect, "POST", mem_printf("/containers/%s%s/%s", name, suffix, action), NULL);
}

static void add_connect_egress(struct plan *p, unsigned stage, const struct spec *s, const struct config *c)
{
	auto_free char *name = mem_printf("%s-egress", s->name);

	add(p, stage, STEP_CONNECT_EGRESS, EXPECT_ATTACHED, "POST", mem_printf("/networks/%s/connect", c->network),
		document_attach(name));
}

/* The proxy with both legs; returns the first stage in which it may be started. */
static unsigned add_egress(struct plan *p, unsigned stage, const struct spec *s, const struct config *c,
	unsigned api_minor)
{
	add_container(p, stage, STEP_CREATE_EGRESS, s->name, "-egress", c->egress_image, document_egress(s, c, api_minor));
	if (api_minor >= API_MULTI_ENDPOINT)
		return stage + 1;
	add_connect_egress(p, stage + 1, s, c);
	return stage + 2;
}

void plan_create(struct plan *p, const struct spec *s, const struct config *c, unsigned api_minor)
{
	*p = (struct plan){ .name = "create" };
	unsigned stage = add_removal(p, 0, s->name);
	unsigned start = stage + 2;

	if (s->egress != EGRESS_NONE)
		add_shared_network(p, stage, c);
	if (s->egress == EGRESS_ALLOWLIST)
		add_internal_network(p, stage, s, api_minor);
	add_volume(p, stage, STEP_CREATE_WORKSPACE, s, c, "workspace", "-workspace");
	add_volume(p, stage, STEP_CREATE_SKILLS, s, c, "skills", "-skills");
	if (s->egress == EGRESS_ALLOWLIST)
		start = add_egress(p, stage + 1, s, c, api_minor);
	add_container(p, stage + 1, STEP_CREATE_SANDBOX, s->name, "", s->image, document_sandbox(s, c));
	if (s->egress == EGRESS_ALLOWLIST)
		add_action(p, start, STEP_START_EGRESS, EXPECT_STARTED, s->name, "-egress", "start");
	add_action(p, start, STEP_START_SANDBOX, EXPECT_STARTED, s->name, "", "start");
}

void plan_destroy(struct plan *p, const char *name)
{
	*p = (struct plan){ .name = "destroy" };
	add_removal(p, 0, name);
}

void plan_suspend(struct plan *p, const char *name, const struct inventory *now)
{
	auto_free char *stop = mem_printf("stop?t=%d", STOP_SECONDS);

	*p = (struct plan){ .name = "suspend" };
	/* A paused gVisor sandbox takes the whole kill time-out to stop. */
	if (now->sandbox.state == CONTAINER_PAUSED)
		add_action(p, 0, STEP_UNPAUSE_SANDBOX, EXPECT_UNPAUSED, name, "", "unpause");
	if (now->egress.state == CONTAINER_PAUSED)
		add_action(p, 0, STEP_UNPAUSE_EGRESS, EXPECT_UNPAUSED, name, "-egress", "unpause");
	add_action(p, 1, STEP_STOP_SANDBOX, EXPECT_STOPPED, name, "", stop);
	if (now->egress.state != CONTAINER_ABSENT) {
		add_action(p, 1, STEP_STOP_EGRESS, EXPECT_STOPPED, name, "-egress", stop);
		p->steps[p->nsteps - 1].may_lack = true;
	}
}

void plan_restart(struct plan *p, const char *name)
{
	*p = (struct plan){ .name = "restart" };
	add_action(p, 0, STEP_RESTART_SANDBOX, EXPECT_STARTED, name, "", "restart?t=0");
}

/* Another controller may mend the same sandbox at the same time: what it made will do. */
static void tolerate_rival(struct plan *p, enum step_id id)
{
	for (unsigned i = 0; i < p->nsteps; i++)
		if (p->steps[i].id == id)
			p->steps[i].expect = EXPECT_ENSURED;
}

static bool stopped(enum container_state s)
{
	return s == CONTAINER_CREATED || s == CONTAINER_EXITED;
}

/*
 * A stopped container holds the id of its network, not the name: when that network went away, it starts only after being
 * taken off the old one and put on the new one.
 */
static unsigned mend_network(struct plan *p, const struct spec *s, unsigned api_minor, const struct inventory *now)
{
	unsigned stage = 0;
	bool missing = now->network[0] == '\0';

	if (missing) {
		add_internal_network(p, stage++, s, api_minor);
		tolerate_rival(p, STEP_CREATE_NETWORK);
	}
	if (missing || strcmp(now->sandbox.internal_network, now->network) != 0) {
		add(p, stage, STEP_DISCONNECT_SANDBOX, EXPECT_DETACHED, "POST",
			mem_printf("/networks/%s-net/disconnect", s->name), document_detach(s->name));
		add(p, stage + 1, STEP_CONNECT_SANDBOX, EXPECT_ATTACHED, "POST",
			mem_printf("/networks/%s-net/connect", s->name), document_attach(s->name));
		stage += 2;
	}
	return stage;
}

/* The proxy has no state worth mending: one that does not fit is made anew. */
static unsigned mend_egress(struct plan *p, unsigned stage, const struct spec *s, const struct config *c,
	unsigned api_minor, const struct inventory *now)
{
	const struct container_info *e = &now->egress;
	/* Made, and not started yet, by a rival or by one that died: it has no endpoints to compare. */
	bool unfinished = e->state == CONTAINER_CREATED && now->network[0] != '\0';
	bool fits = unfinished ||
		((e->state == CONTAINER_EXITED || e->state == CONTAINER_RUNNING || e->state == CONTAINER_PAUSED) &&
			now->network[0] != '\0' && strcmp(e->internal_network, now->network) == 0 &&
			now->shared_network[0] != '\0' && strcmp(e->shared_network, now->shared_network) == 0);

	if (now->shared_network[0] == '\0')
		add_shared_network(p, stage, c);
	/* An absent one is not removed: a rival may be making it just now. */
	if (!fits && e->state != CONTAINER_ABSENT)
		add_remove(p, stage++, STEP_REMOVE_EGRESS, "containers", s->name, "-egress");
	if (!fits) {
		if (now->shared_network[0] == '\0' && e->state == CONTAINER_ABSENT)
			stage++;
		stage = add_egress(p, stage, s, c, api_minor);
		tolerate_rival(p, STEP_CREATE_EGRESS);
	}
	if (unfinished && api_minor < API_MULTI_ENDPOINT) {
		stage += now->shared_network[0] == '\0';
		add_connect_egress(p, stage++, s, c);
	}
	if (fits && e->state == CONTAINER_PAUSED)
		add_action(p, stage++, STEP_UNPAUSE_EGRESS, EXPECT_UNPAUSED, s->name, "-egress", "unpause");
	else if (!fits || e->state != CONTAINER_RUNNING)
		add_action(p, stage++, STEP_START_EGRESS, EXPECT_STARTED, s->name, "-egress", "start");
	return stage;
}

int plan_resume(struct plan *p, const struct spec *s, const struct config *c, unsigned api_minor,
	const struct inventory *now, struct err *err)
{
	unsigned stage = 0;

	*p = (struct plan){ .name = "resume" };
	switch (now->sandbox.state) {
	case CONTAINER_CREATED:
	case CONTAINER_EXITED:
	case CONTAINER_RUNNING:
	case CONTAINER_PAUSED:
		break;
	case CONTAINER_ABSENT:
		return err_set(err, ENXIO, "there is no sandbox %s", s->name);
	case CONTAINER_RESTARTING:
	case CONTAINER_REMOVING:
	case CONTAINER_DEAD:
		return err_set(err, EBUSY, "the container %s is being removed or restarted; try again, or destroy it", s->name);
	}
	if (s->egress == EGRESS_ALLOWLIST) {
		stage = mend_network(p, s, api_minor, now);
		stage = mend_egress(p, stage, s, c, api_minor, now);
	} else if (s->egress == EGRESS_OPEN && stopped(now->sandbox.state)) {
		if (now->shared_network[0] == '\0')
			add_shared_network(p, stage++, c);
		if (now->shared_network[0] == '\0' || strcmp(now->sandbox.shared_network, now->shared_network) != 0) {
			add(p, stage, STEP_DISCONNECT_SANDBOX, EXPECT_DETACHED, "POST",
				mem_printf("/networks/%s/disconnect", c->network), document_detach(s->name));
			add(p, stage + 1, STEP_CONNECT_SANDBOX, EXPECT_ATTACHED, "POST",
				mem_printf("/networks/%s/connect", c->network), document_attach(s->name));
			stage += 2;
		}
	}
	if (now->sandbox.state == CONTAINER_PAUSED)
		add_action(p, stage, STEP_UNPAUSE_SANDBOX, EXPECT_UNPAUSED, s->name, "", "unpause");
	else if (now->sandbox.state != CONTAINER_RUNNING)
		add_action(p, stage, STEP_START_SANDBOX, EXPECT_STARTED, s->name, "", "start");
	return 0;
}

void plan_release(struct plan *p)
{
	for (unsigned i = 0; i < p->nsteps; i++) {
		struct step *s = &p->steps[i];

		free(s->path);
		free(s->body);
		free(s->probe);
		free(s->gone);
		free(s->image);
		free(s->undo);
		free(s->undo_gone);
	}
	p->nsteps = 0;
}
