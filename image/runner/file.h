/*
 * One file operation, from FILE to DONE, as the sandbox user.
 *
 * Only regular files are read and written: what is opened is looked at by the same descriptor. A write goes to a
 * temporary file beside its target, which takes the target's place by rename when the content is complete.
 */
#ifndef RUNNER_FILE_H
#define RUNNER_FILE_H

#include <poll.h>
#include <sys/stat.h>

#include "image/runner/path.h"
#include "libgate/frame.h"

#define FILE_DEPTH 64 /* of a directory that is removed as a whole */

struct runner;
struct op;

struct file {
	enum frame_file_kind kind;
	uint64_t flags;
	int fd; /* of the file or directory */
	int dir_fd; /* of the directory that holds it */
	uint64_t at; /* READ: next offset; WRITE: bytes written */
	uint64_t before; /* WRITE that appends: the file's size */
	uint64_t left; /* READ: bytes, LIST: entries */
	uint64_t room_owed; /* WRITE */
	bool ready; /* WRITE: data is taken */
	bool told_room;
	bool commit; /* WRITE: all content is there */
	bool ended; /* DONE is to be told */
	bool truncated;
	int code; /* errno value of DONE */
	const char *text;
	struct stat st;
	bool have_st;
	char temp[64]; /* WRITE: name of the temporary file, "" when there is none */
	int64_t mode; /* WRITE, -1: none given */
	size_t buf_at, buf_len; /* LIST: directory entries read, in op->buf */
	int stack[FILE_DEPTH]; /* REMOVE: directories being emptied */
	unsigned depth;
	char name[256]; /* last component */
};

void file_start(struct runner *r, struct op *op, const struct frame *f, int64_t now_us);
void file_data(struct op *op, struct slice data);
void file_data_end(struct op *op);
void file_kill(struct op *op); /* gives up; a write leaves no trace */
bool file_busy(struct runner *r, const struct op *op); /* has work that waits for nobody */
void file_step(struct runner *r, struct op *op, int64_t now_us);

#endif
