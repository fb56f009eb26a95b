/*
 * What the parts of the runner's client share: runner.c is what its users call, runner_send.c and runner_receive.c are the two
 * directions of the stream, runner_time.c watches both, runner_end.c ends what has to end.
 *
 * A call into the owner or an operation's events may change the list of operations, and may free the runner: it stands
 * between runner_enter() and runner_leave(), and nothing of a list is kept over it.
 */
#ifndef CONTROLLER_RUNNER_CORE_H
#define CONTROLLER_RUNNER_CORE_H

#include <event2/event.h>
#include <sys/queue.h>

#include "controller/channel.h"
#include "controller/runner.h"
#include "libgate/buf.h"
#include "libgate/frame.h"

#define RUNNER_PING_MS 2000 /* asked after so long a silence, while operations wait */
#define RUNNER_DIAGNOSIS_MAX 300
#define RUNNER_WINDOW (512 * 1024) /* bytes of one operation that its owner may hold back */

enum op_kind { OP_EXEC, OP_FILE, OP_KILL };

struct exec_op {
	TAILQ_ENTRY(exec_op) link;
	struct runner *runner;
	enum op_kind kind;
	uint32_t channel;
	char *request; /* not yet sent */
	size_t request_len;
	int64_t deadline_ms;
	size_t room; /* bytes of input that the runner takes */
	uint64_t unacknowledged; /* data taken by the owner */
	uint64_t in_flight; /* data that the owner has not taken: an honest runner stays within WINDOW */
	bool starved; /* the owner was told to wait because the stream was full */
	bool closed, owes_close;
	bool killed, owes_kill;
	int64_t killed_ms;
	bool owes_resize;
	uint16_t rows, cols;
	void *arg;
	union {
		struct exec_events exec;
		struct file_events file;
		kill_cb kill;
	} ev;
};

enum op_choice { OPS_ALL, OPS_UNSENT, OPS_SENT };

enum link_state { LINK_NONE, LINK_ASKED, LINK_GREETING, LINK_UP };

struct runner {
	struct exec_backend backend;
	struct channel_set *channels;
	struct runner_owner owner;
	enum link_state state;
	struct channel *channel;
	struct buf in;
	struct event *tick; /* deadlines; 0 away when something is to be reported from the loop */
	int64_t heard_ms;
	int64_t greeting_ms;
	bool pinged;
	bool probing; /* the stream was idle and may be dead: nothing is sent before it is heard of again */
	bool settles; /* the runner keeps ends until it hears of them */
	unsigned busy; /* calls into the owner under way */
	bool doomed; /* freed while one was */
	unsigned epoch; /* of the stream: what is left of an old one is not taken for a new one's */
	bool garbage; /* what came is no greeting: the rest of it is read for the diagnosis until the stream ends */
	char diagnosis[RUNNER_DIAGNOSIS_MAX + 1]; /* what came in place of a runner, or on its stderr */
	bool failing; /* end what is not sent, for this reason: */
	struct err failure;
	uint32_t next_channel;
	unsigned nops, nkills;
	TAILQ_HEAD(, exec_op) ops;
};

/* runner_end.c */
void runner_schedule(struct runner *r, int64_t ms);
void runner_enter(struct runner *r);
bool runner_leave(struct runner *r); /* false: the owner has freed the runner meanwhile, and it is gone now */
void runner_set_state(struct runner *r, enum link_state state);
void runner_op_unlink(struct exec_op *op);
void runner_op_free(struct exec_op *op);
void runner_op_end_exec(struct exec_op *op, const struct exec_outcome *outcome);
/* Ends an operation for which no report will come. sent: it may have taken effect. */
void runner_op_fail(struct exec_op *op, bool sent, int code, const char *text);
/*
 * Fails every operation of the choice that there is now, not those that a callback starts meanwhile: the sent ones as lost,
 * the others as never started.
 */
void runner_fail_all(struct runner *r, enum op_choice choice, int code, const char *text);
void runner_drop_link(struct runner *r);
/* The stream is of no more use: everything sent over it is lost, everything else did not start. */
void runner_lose_link(struct runner *r, int code, const char *text);
/* Keeps the start of what is no protocol, for a person: the engine reports a failed start as output. */
void runner_diagnose(struct runner *r, struct slice data);

/* runner_send.c; false: the stream has no room for it now */
bool runner_put_plain(struct runner *r, enum frame_type type, uint32_t channel);
/* Sends what the operation owes, as far as the stream takes it; the rest waits for runner_on_room(). */
void runner_op_flush(struct exec_op *op);
void runner_send_hello(struct runner *r);
void runner_op_acknowledge(struct exec_op *op, uint64_t bytes);
void runner_op_tell_room(struct exec_op *op);
size_t runner_op_write(struct exec_op *op, struct slice data);
/* The stream takes more: first what operations owe, then their input. */
void runner_on_room(size_t bytes, void *arg);

/* runner_receive.c */
struct exec_op *runner_find(struct runner *r, uint32_t channel);
void runner_on_data(unsigned stream, struct slice data, void *arg);
void runner_on_closed(bool complete, void *arg);

/* runner_time.c */
void runner_on_tick(evutil_socket_t fd, short what, void *arg);

#endif
