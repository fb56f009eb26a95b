/*
 * How commands and files of one sandbox are reached: by its resident runner, or by one engine exec each.
 *
 * Two implementations of one table. An operation is started by start() or file(), reports through its events from the
 * loop, never from inside the call that started it, and ends with exactly one done(); its handle is invalid after that.
 * Data handed to an event is borrowed until the event returns. Output that the owner holds back must be acknowledged by
 * consumed() once it is passed on: until then it counts against the operation's window, and a full window blocks that
 * one operation in the sandbox and no other.
 */
#ifndef CONTROLLER_EXEC_BACKEND_H
#define CONTROLLER_EXEC_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libgate/err.h"
#include "libgate/slice.h"

struct exec_backend;
struct exec_op;

enum exec_stream { EXEC_STDOUT, EXEC_STDERR, EXEC_STREAMS };

struct exec_request {
	struct slice line; /* a bash line; p == NULL: argv */
	const struct slice *argv;
	unsigned nargv;
	struct slice cwd; /* p == NULL: the container's */
	const struct slice *env; /* "NAME=value", added to the container's */
	unsigned nenv;
	struct slice id; /* of this command, [A-Za-z0-9_-]{1,64}, unique in the sandbox */
	struct slice tag; /* p == NULL: none */
	int64_t timeout_ms; /* > 0: no command runs without a limit */
	uint64_t max_output; /* per stream; what goes beyond is counted and dropped in the sandbox */
	bool want_stdin; /* else /dev/null */
	bool tty; /* one stream, EXEC_STDOUT */
	uint16_t rows, cols; /* with tty */
};

enum exec_end {
	EXEC_EXITED, /* exit_code holds */
	EXEC_SIGNALED, /* signal holds */
	EXEC_START_FAILED, /* nothing ran; code and text say why */
	EXEC_LOST, /* outcome unknown: the stream or the sandbox went away first; text says which */
};

enum exec_tristate { EXEC_NO, EXEC_YES, EXEC_UNKNOWN };

struct exec_outcome {
	enum exec_end end;
	int exit_code; /* -1 when unknown */
	int signal; /* 0 when none */
	bool timed_out; /* its own limit ended it, whatever exit_code and signal say */
	bool killed; /* kill(), kill_tagged() or kill_all() ended it */
	enum exec_tristate oom; /* the kernel killed it, or a child of it, for lack of memory */
	unsigned survivors; /* processes of its tree that a kill left alive */
	uint64_t bytes[EXEC_STREAMS]; /* written by the command, dropped ones included */
	int64_t duration_us; /* in the sandbox, by its monotonic clock; -1 when unknown */
	int code; /* an errno value, with EXEC_START_FAILED and EXEC_LOST */
	const char *text; /* a sentence, never NULL */
};

struct exec_events {
	void (*started)(void *arg); /* may be NULL */
	void (*output)(enum exec_stream stream, struct slice data, void *arg);
	void (*room)(size_t bytes, void *arg); /* stdin takes that many bytes now; may be NULL without stdin */
	void (*done)(const struct exec_outcome *outcome, void *arg);
};

enum file_kind { FILE_STAT, FILE_READ, FILE_WRITE, FILE_LIST, FILE_REMOVE };

struct file_request {
	enum file_kind kind;
	struct slice path; /* absolute; any byte but NUL */
	bool follow; /* FILE_STAT: the last component's symlink is followed (the other kinds always follow) */
	uint64_t offset; /* FILE_READ */
	uint64_t limit; /* FILE_READ: bytes, FILE_LIST: entries; 0: none */
	int mode; /* FILE_WRITE: permission bits, -1: the old file's, or 0644 */
	bool append; /* FILE_WRITE */
	bool exclusive; /* FILE_WRITE: EEXIST when there is something already */
	bool make_parents; /* FILE_WRITE */
	bool recursive; /* FILE_REMOVE: directories too */
	const struct slice *roots; /* none: no confinement; else the path must lie beneath one of them, symlinks included */
	unsigned nroots;
	int64_t timeout_ms; /* > 0 */
};

enum file_type { FILE_TYPE_NONE, FILE_TYPE_REGULAR, FILE_TYPE_DIRECTORY, FILE_TYPE_SYMLINK, FILE_TYPE_OTHER };

struct file_info {
	enum file_type type;
	uint64_t size;
	unsigned mode; /* permission bits, 07777 */
	uid_t uid;
	gid_t gid;
	int64_t mtime_ms;
	struct slice target; /* of a symlink; p == NULL otherwise */
};

struct file_result {
	int code; /* 0, or an errno value */
	const char *text; /* with code != 0: a sentence */
	bool lost; /* with code != 0: whether it took effect is unknown */
	bool inside; /* with code != 0: the sandbox says so, of the path; else it is about the sandbox, or the way to it */
	struct file_info info; /* FILE_STAT (FILE_TYPE_NONE: nothing there); FILE_READ, FILE_WRITE: of the open file */
	bool truncated; /* FILE_READ, FILE_LIST: more was there than limit */
};

struct file_events {
	void (*data)(struct slice data, void *arg); /* FILE_READ */
	void (*entry)(struct slice name, const struct file_info *info, void *arg); /* FILE_LIST; name is bytes */
	void (*room)(size_t bytes, void *arg); /* FILE_WRITE takes that many bytes now; op_close() commits */
	void (*done)(const struct file_result *result, void *arg);
};

struct kill_result {
	int code; /* 0, or an errno value: nothing is proven then */
	const char *text;
	unsigned killed;
	unsigned survivors;
};
typedef void (*kill_cb)(const struct kill_result *result, void *arg);

struct exec_backend_ops {
	/* NULL with err when it cannot even be tried: limits, arguments, no connection to be had. */
	struct exec_op *(*start)(struct exec_backend *b, const struct exec_request *rq, const struct exec_events *ev,
		void *arg, struct err *err);
	struct exec_op *(*file)(struct exec_backend *b, const struct file_request *rq, const struct file_events *ev,
		void *arg, struct err *err);
	int (*kill_tagged)(struct exec_backend *b, const struct slice *tags, unsigned ntags, kill_cb cb, void *arg,
		struct err *err); /* ntags 0: all commands */
	/* Bytes taken, at most the room reported; the rest is the caller's until room() says more. */
	size_t (*write)(struct exec_op *op, struct slice data);
	void (*close)(struct exec_op *op); /* end of stdin or of the file's content */
	void (*consumed)(struct exec_op *op, size_t bytes);
	void (*resize)(struct exec_op *op, uint16_t rows, uint16_t cols);
	void (*kill)(struct exec_op *op); /* the whole tree, by SIGKILL; done() follows. A file write leaves no trace. */
	/*
	 * The container was stopped: a stream into it is dead, open as it may look. What was sent over it ends as lost, what was
	 * not as not started, by EBUSY. NULL: its streams end with the container.
	 */
	void (*stopped)(struct exec_backend *b);
	/* Is there a stream, or one on its way, that ends with the container? NULL: none that says anything about it. */
	bool (*linked)(const struct exec_backend *b);
	void (*free)(struct exec_backend *b); /* operations still running end as lost; the sandbox keeps their limits */
};

struct exec_backend {
	const struct exec_backend_ops *ops;
};

#endif
