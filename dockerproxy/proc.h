/*
 * A worker process as the master sees it: started, confined, served over its line, reaped. [libevent]
 *
 * The master answers two messages only, and takes nothing from a worker but their type and a number to give back.
 */
#ifndef DOCKERPROXY_PROC_H
#define DOCKERPROXY_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "dockerproxy/generation.h"

struct event;
struct event_base;
struct metrics;
struct proc;

TAILQ_HEAD(proc_list, proc);
TAILQ_HEAD(reply_list, reply);
TAILQ_HEAD(pending_list, pending);

struct proc {
	TAILQ_ENTRY(proc) entry;
	struct generation *generation;
	struct event_base *base;
	pid_t pid;
	unsigned slot;
	bool ready;
	bool leaving; /* was told to drain or killed: its end is no crash */
	int64_t started_ms;
	int64_t audit_ms; /* when it last asked for the audit log */
	int line;
	struct event *readable;
	struct event *writable;
	struct reply_list replies; /* the line was full */
	struct pending_list pending; /* connections on their way to the engine */
	unsigned npending;
	void (*on_ready)(struct proc *p, void *arg);
	void *arg;
};

/*
 * Forks a worker into a slot. It keeps its line, its sockets, its audit log and standard streams, nothing else of the
 * master's. on_ready is called once, when it serves. NULL with err set on failure.
 */
struct proc *proc_start(struct event_base *base, struct generation *g, unsigned slot, struct metrics *metrics,
	void (*on_ready)(struct proc *p, void *arg), void *arg, struct err *err) MUSTCHECK;
void proc_free(struct proc *p); /* after it was reaped, or to forget it */

void proc_drain(struct proc *p, bool bounded);
void proc_kill(struct proc *p);
void proc_give_audit(struct proc *p); /* the generation's, after a reopening */

int64_t proc_now_ms(void);

#endif
