/* Operations under way, one a channel, in a table of fixed size; and what every part of the runner reaches. */
#ifndef RUNNER_OP_H
#define RUNNER_OP_H

#include "image/runner/clock.h"
#include "image/runner/command.h"
#include "image/runner/file.h"
#include "image/runner/linger.h"
#include "image/runner/outcome.h"
#include "image/runner/spawn.h"
#include "image/runner/tree.h"
#include "image/runner/wire.h"

#define OP_MAX 256
#define OP_BUF 65536 /* of each operation: stdin not yet taken, tags, entries of a directory; also stdin's window */
#define OP_FDS 4 /* descriptors of one operation to be polled */

enum op_kind { OP_FREE, OP_COMMAND, OP_FILE, OP_KILL };

struct op {
	enum op_kind kind;
	uint32_t channel;
	uint64_t credit; /* bytes of data that the controller takes */
	int64_t deadline_us;
	int64_t wake_us; /* step again by then at the latest */
	char *buf; /* OP_BUF bytes; pages are given back when the operation ends */
	struct kill_job kill;
	union {
		struct command command;
		struct file file;
	} u;
};

struct runner {
	struct wire wire;
	struct tree tree;
	struct linger linger;
	struct outcomes outcomes;
	struct spawner spawner;
	struct path_ways ways;
	bool greeted; /* the controller's HELLO was read */
	bool owes_pong;
	uint64_t features;
	uint64_t window; /* the controller's, for the data of one operation */
	uint64_t next_limit; /* RLIMIT_MSGQUEUE of the next command */
	int oom_fd;
	volatile int child_died; /* set by SIGCHLD */
	struct op ops[OP_MAX];
};

struct op *op_find(struct runner *r, uint32_t channel);
/* NULL when the table is full. */
struct op *op_new(struct runner *r, enum op_kind kind, uint32_t channel);
void op_free(struct op *op);

/* Kill jobs of all operations that are under way; out holds OP_MAX. */
unsigned op_kill_jobs(struct runner *r, struct kill_job **out);

#endif
