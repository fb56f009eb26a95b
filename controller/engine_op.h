/*
 * One engine exec that runs one of our scripts: created, started, its stream read, ended exactly once. [libevent]
 *
 * What a kind of operation makes of the stream is in its table: commands (engine_command.c), files (engine_file.c) and
 * kills (engine_kill.c). Internal to the engine mode; engine_exec.h is its face.
 */
#ifndef CONTROLLER_ENGINE_OP_H
#define CONTROLLER_ENGINE_OP_H

#include <sys/queue.h>
#include <time.h>

#include "controller/channel.h"
#include "controller/document.h"
#include "controller/engine.h"
#include "controller/exec_backend.h"
#include "controller/mark.h"
#include "controller/mem.h"
#include "controller/script.h"
#include "libgate/buf.h"

#define ENGINE_REQUEST_MS 120000 /* an exec's create or start: dockerd queues them per container */
#define ENGINE_INPUT_MAX ((size_t)1 << 20) /* input that waits for the sandbox to take it */
#define ENGINE_EARLY_MAX ((size_t)256 * 1024) /* stdout before the script said that it began; a listing's entry */
#define ENGINE_BACKSTOP_MS 5000 /* the sandbox ends a script that much later than we would */

struct hijack;

enum op_state {
	OP_WAITING, /* for its turn */
	OP_CREATING, /* the exec */
	OP_STARTING, /* its stream */
	OP_OPEN,
	OP_ASKING, /* the engine for an exit code */
	OP_OVER,
};

struct op_kind {
	bool tty;
	bool urgent; /* waits for no turn */
	void (*opened)(struct exec_op *op); /* may be NULL */
	void (*data)(struct exec_op *op, unsigned stream /* enum demux_stream */, struct slice data);
	void (*room)(struct exec_op *op, size_t bytes); /* NULL: it has no input */
	void (*closed)(struct exec_op *op, bool complete); /* the peer closed, between two frames or not */
	void (*answered)(struct exec_op *op, bool known, int code); /* see op_ask(); NULL: lost then */
	/* The two ways out that every kind has. text is borrowed. */
	void (*start_failed)(struct exec_op *op, int code, const char *text);
	void (*lost)(struct exec_op *op, const char *text);
	void (*kill)(struct exec_op *op); /* NULL: nobody can */
};

struct exec_op {
	TAILQ_ENTRY(exec_op) link;
	struct engine_backend *backend;
	const struct op_kind *kind;
	enum op_state state;
	struct engine_call *call;
	struct hijack *hijack;
	struct channel *channel;
	struct event *timer; /* kill grace; time-out of a file operation */
	char *request; /* while it waits for its turn: the exec's, as JSON */
	bool on_its_way; /* counted by the backend until it has started */
	char exec_id[65];
	time_t began; /* wall clock, to compare with the container's start */
	time_t made; /* when, by the engine's clock, it had made the exec; 0: not told */
	struct mark out_mark, err_mark;
	bool started; /* the script's first word was seen */
	struct buf early; /* stdout before that */
	struct buf notes; /* the last line; a file script's whole stderr */
	uint64_t held; /* delivered and not consumed */
	bool input_closed;
	void *arg;
	/* commands */
	struct exec_events events;
	uint64_t max_output;
	uint64_t bytes[EXEC_STREAMS];
	int64_t started_us;
	bool out_ended, err_ended;
	bool in_last_line; /* of stderr: the words after the second mark */
	bool input; /* it has a stdin */
	bool want_kill, kill_sent, killed;
	char *own_mark; /* "tag/id" */
	char *words; /* that come over the line, with their head; NULL: they are in the request */
	size_t words_len;
	int leader_code; /* of a script that was killed itself */
	bool settled; /* the container was looked at again since */
	/* files */
	struct file_events file_events;
	struct file_request file;
	struct file_info info;
	bool have_info;
	uint64_t delivered, entries;
	bool truncated;
	struct buf entry; /* a listing's unfinished entry */
	/* kills */
	kill_cb kill_done;
};

TAILQ_HEAD(op_list, exec_op);

struct engine_backend {
	struct exec_backend base;
	struct engine *engine;
	struct channel_set *channels;
	char *container;
	char *user;
	struct op_list ops;
	unsigned on_their_way; /* operations whose exec was asked for and has not started */
	bool ending; /* nothing is started any more */
	struct event *watch; /* looks after the container while anything is under way in it */
	struct engine_call *watch_call;
};

struct engine_backend *engine_backend_of(struct exec_backend *b);

/* ---- engine_op.c ---- */

struct exec_op *op_new(struct engine_backend *b, const struct op_kind *kind, void *arg) MUSTCHECK;
/* The words before a script's own: bash -c SCRIPT NAME, under timeout when timeout_ms > 0. More are added by jadd*(). */
struct json_object *op_argv(enum script script, const char *name, int64_t timeout_ms) MUSTCHECK;
void op_add(struct json_object *argv, struct slice word);
bool op_has_nul(struct slice s);
/* Asks the engine for the exec when it is its turn; argv is put here. On failure the op is the caller's to free. */
int op_create(struct exec_op *op, struct json_object *argv, bool input, struct err *err) MUSTCHECK;
void op_arm(struct exec_op *op, int64_t ms, void (*fn)(int fd, short what, void *arg));
/* The script has begun: another one has its turn. */
void op_began(struct exec_op *op);
/*
 * Of a script that says on stderr when it begins: keeps stderr in notes, and stdout until then. True when *data is
 * stdout to be worked on: this one, or what was kept.
 */
bool op_script_data(struct exec_op *op, unsigned stream, struct slice *data);
/* Output that the owner has now; pauses the stream while too much of it is not consumed. */
void op_hold(struct exec_op *op, size_t bytes);
void op_consumed(struct exec_op *op, size_t bytes);
size_t op_write(struct exec_op *op, struct slice data);
void op_close(struct exec_op *op);
/*
 * After a stream that ended without the script's own last word: asks the engine for the exec. What never ran ends as a
 * start failure, what is unknown as lost, and the rest goes to the kind's answered().
 */
void op_ask(struct exec_op *op);
void op_free(struct exec_op *op);

/* ---- the kinds ---- */

struct exec_op *engine_command_start(struct exec_backend *b, const struct exec_request *rq,
	const struct exec_events *ev, void *arg, struct err *err);
void engine_command_resize(struct exec_op *op, uint16_t rows, uint16_t cols);

struct exec_op *engine_file_start(struct exec_backend *b, const struct file_request *rq, const struct file_events *ev,
	void *arg, struct err *err);

int engine_kill_tagged(struct exec_backend *b, const struct slice *tags, unsigned ntags, kill_cb cb, void *arg,
	struct err *err);

/* ---- engine_watch.c ---- */

void engine_watch(struct engine_backend *b);
void engine_watch_fired(int fd, short what, void *arg);

#endif
