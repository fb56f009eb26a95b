/*
 * The framed protocol between the controller and the runner inside a sandbox. [pure]
 *
 *      0        3      4         8
 *      | length | type | channel | payload …      all integers in network order
 *
 * Channel 0 is the connection, any other number one operation that the controller named by START, FILE or KILL_TAGGED
 * and that ends with the runner's EXIT, DONE or KILLED. The payload is raw data or a list of attributes
 * {id: 1 byte, length: 4 bytes, value}. A frame is given out only when it is whole and every attribute in it is known
 * and well formed, so that its reader walks it without errors to handle. Versions are settled by HELLO, which each side
 * sends first; within a version nothing unknown is skipped.
 *
 * A command's EXIT is answered by SETTLED; the runner keeps the outcome until then, and writes it down when none comes.
 *
 * Flow: data of an operation is limited by credit. The controller may send as many bytes of STDIN as ROOM frames gave it;
 * the runner as many bytes of STDOUT, STDERR and names in ENTRY as its window (in the controller's HELLO) and CREDIT
 * frames gave it.
 */
#ifndef GATE_FRAME_H
#define GATE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/slice.h"
#include "libgate/util.h"

#define FRAME_VERSION 1
#define FRAME_HEAD 8
#define FRAME_DATA_MAX 65536 /* payload of a data frame */
#define FRAME_REQUEST_MAX 1048576 /* payload of START: arguments and environment */
#define FRAME_ARG_MAX 131071 /* one argument; the kernel's limit (MAX_ARG_STRLEN) without its NUL */

enum frame_sender { FRAME_CONTROLLER = 1, FRAME_RUNNER = 2, FRAME_BOTH = 3 };

enum frame_type {
#define ROW(sym, value, id, sender, op, data, max) FRAME_##sym = (value),
#include "libgate/frame_type.def"
#undef ROW
};

enum frame_attr {
#define ROW(sym, value, id, kind, repeats, max) FRAME_ATTR_##sym = (value),
#include "libgate/frame_attr.def"
#undef ROW
};

enum frame_fault {
	FRAME_OK,
#define ROW(sym, id, text) FRAME_FAULT_##sym,
#include "libgate/frame_fault.def"
#undef ROW
	FRAME_FAULT_COUNT
};

/* Values of FRAME_ATTR_FLAGS, _END, _OOM, _KIND, _TYPE and _FEATURES. */
enum frame_start_flag { FRAME_START_LINE = 1, FRAME_START_STDIN = 2, FRAME_START_TTY = 4 };
enum frame_file_flag {
	FRAME_FILE_FOLLOW = 1,
	FRAME_FILE_APPEND = 2,
	FRAME_FILE_EXCLUSIVE = 4,
	FRAME_FILE_PARENTS = 8,
	FRAME_FILE_RECURSIVE = 16,
};
enum frame_exit_flag { FRAME_EXIT_TIMED_OUT = 1, FRAME_EXIT_KILLED = 2 };
enum frame_done_flag { FRAME_DONE_TRUNCATED = 1 };
enum frame_end { FRAME_END_EXITED, FRAME_END_SIGNALED, FRAME_END_START_FAILED };
enum frame_oom { FRAME_OOM_NO, FRAME_OOM_YES, FRAME_OOM_UNKNOWN };
enum frame_file_kind { FRAME_FILE_STAT, FRAME_FILE_READ, FRAME_FILE_WRITE, FRAME_FILE_LIST, FRAME_FILE_REMOVE };
enum frame_file_type {
	FRAME_TYPE_NONE,
	FRAME_TYPE_REGULAR,
	FRAME_TYPE_DIRECTORY,
	FRAME_TYPE_SYMLINK,
	FRAME_TYPE_OTHER,
};
enum frame_feature {
	FRAME_FEATURE_SUBREAPER = 1, /* orphans of a command become the runner's children */
	FRAME_FEATURE_UNDUMPABLE = 2, /* a command cannot trace or read the runner */
	FRAME_FEATURE_OPENAT2 = 4,
	FRAME_FEATURE_OOM_COUNTER = 8,
	FRAME_FEATURE_OUTCOMES = 16, /* it keeps ends until SETTLED; without it that frame is not sent */
};

const char *frame_type_id(enum frame_type t); /* "start"; unknown: "?" */
const char *frame_fault_id(enum frame_fault f);
const char *frame_fault_text(enum frame_fault f);

struct frame {
	enum frame_type type;
	uint32_t channel;
	struct slice payload; /* borrowed from the reader's buffer */
};

enum frame_result { FRAME_MORE, FRAME_WHOLE, FRAME_BAD };

/*
 * Reads one frame that `from` sent, at the start of p[0..len). FRAME_WHOLE: *out is it and *used its bytes. FRAME_MORE:
 * *used is how many bytes are needed before asking again makes sense. FRAME_BAD: *fault says why; a fault of the head is
 * reported as soon as the head is there.
 */
enum frame_result frame_read(enum frame_sender from, const char *p, size_t len, struct frame *out, size_t *used,
	enum frame_fault *fault) MUSTCHECK;

/* Attributes of a frame from frame_read(). */
bool frame_num(const struct frame *f, enum frame_attr attr, uint64_t *out); /* false and *out untouched when absent */
uint64_t frame_num_or(const struct frame *f, enum frame_attr attr, uint64_t dflt);
struct slice frame_bytes(const struct frame *f, enum frame_attr attr); /* p == NULL when absent */

/* Walks all values of one attribute: start with *at = 0. */
bool frame_each(const struct frame *f, enum frame_attr attr, size_t *at, struct slice *value);

/*
 * Writes frames into the caller's memory. Once something did not fit, everything until frame_end() is dropped and
 * frame_end() takes the frame back and says so.
 */
struct frame_writer {
	char *p;
	size_t cap;
	size_t len; /* bytes of whole frames, and of the one being written */
	size_t begun; /* where the frame being written starts */
	bool full;
};

void frame_writer_init(struct frame_writer *w, char *p, size_t cap);
void frame_begin(struct frame_writer *w, enum frame_type type, uint32_t channel);
void frame_put_num(struct frame_writer *w, enum frame_attr attr, uint64_t value);
void frame_put_bytes(struct frame_writer *w, enum frame_attr attr, struct slice value);
bool frame_end(struct frame_writer *w) MUSTCHECK; /* false: it did not fit, or is longer than its type allows */

/* The head alone, for data that is already where it belongs: out holds FRAME_HEAD bytes. */
void frame_put_head(char *out, enum frame_type type, uint32_t channel, size_t length);

#endif
