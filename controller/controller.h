/*
 * What one controller process holds: the engine client and, by name, the sandboxes that it has worked with. [libevent]
 *
 * A sandbox entry is no record of what exists (the engine's labels are) but the place where work on one name meets:
 * lifecycle operations on it go one after the other, commands wait for the one under way, and its backends live here.
 */
#ifndef CONTROLLER_CONTROLLER_H
#define CONTROLLER_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "controller/channel.h"
#include "controller/deployment.h"
#include "controller/engine.h"
#include "controller/exec_backend.h"
#include "controller/heap.h"

struct command;
struct ensure;
struct look;
struct sandbox;

TAILQ_HEAD(command_list, command);
TAILQ_HEAD(ensure_list, ensure);

struct sandbox_wait {
	TAILQ_ENTRY(sandbox_wait) link;
	void (*go)(void *arg);
	void *arg;
	bool exclusive;
};

TAILQ_HEAD(wait_list, sandbox_wait);

struct sandbox {
	TAILQ_ENTRY(sandbox) link;
	struct controller *controller;
	char *name;
	bool busy; /* a lifecycle operation is under way */
	struct wait_list waiting;
	struct event *turn; /* lets the next ones go, from the loop */
	struct exec_backend *as_user; /* made when first needed */
	struct exec_backend *as_root;
	int64_t max_command_ms; /* by its label; 0: not known yet */
	bool has_runner; /* by its image's label */
	bool runner_known;
	unsigned generation; /* counts what sandbox_forget() forgot: a look from before it says nothing any more */
	struct look *look; /* at it that is under way, one for all that need it; or NULL */
	struct ensure_list looking; /* they */
	struct command_list commands; /* of this process */
	struct ensure *recovery; /* of a container that was found paused under its runner */
	unsigned users; /* operations that hold this entry */
};

TAILQ_HEAD(sandbox_list, sandbox);

struct controller {
	struct event_base *base;
	const struct config *config;
	struct engine *engine;
	struct heap heap;
	struct channel_set channels;
	struct sandbox_list sandboxes;
	unsigned nsandboxes;
	int64_t engine_timeout_ms; /* of one lifecycle operation */
	unsigned spec_flags; /* enum spec_flags */
};

/* controller_release() is due after a failure, too. */
int controller_init(struct controller *c, struct event_base *base, const struct config *config,
	struct err *err) MUSTCHECK;
void controller_release(struct controller *c);
/*
 * Brings everything under way to its end, from the loop and within seconds, whatever engine and sandboxes do: what was
 * begun is reported as unknown, the rest as given up. What is asked for after that is given up, too.
 */
void controller_close(struct controller *c);

/* The entry of a name, made when missing; held until sandbox_put(). */
struct sandbox *sandbox_get(struct controller *c, struct slice name) MUSTCHECK;
void sandbox_put(struct sandbox *s);

/*
 * Calls w->go from the loop when it is its turn. An exclusive one holds off all others until sandbox_leave(); the
 * others wait only while an exclusive one is under way or before them.
 */
void sandbox_enter(struct sandbox *s, struct sandbox_wait *w);
void sandbox_leave(struct sandbox *s);
void sandbox_unwait(struct sandbox *s, struct sandbox_wait *w); /* gives up waiting */

/*
 * Is it known what an operation inside it needs to know first? What was known of a container whose runner's stream has ended is
 * not relied on: another controller may have made it anew, of another image and with another limit of time.
 */
bool sandbox_known(const struct sandbox *s);
struct exec_backend *sandbox_backend(struct sandbox *s, bool root);
/* Its container was stopped: whatever streams lead there are dead, open as they may look. */
void sandbox_stopped(struct sandbox *s);
/* What was known of the container no longer holds: it was removed or made anew. */
void sandbox_forget(struct sandbox *s);

#endif
