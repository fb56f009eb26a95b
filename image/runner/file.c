/* Stat, read, write, list and remove. */
#include "image/runner/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "image/runner/op.h"

#define PROC_MAGIC 0x9fa0
#define STEP_BYTES (4 * FRAME_DATA_MAX) /* read in one turn */
#define STEP_ENTRIES 256 /* listed in one turn */
#define STEP_REMOVED 4096 /* removed in one turn */
#define NOT_REGULAR "it is no regular file (a pipe, device or socket)"
#define WRITEBACK_BYTES (UINT64_C(8) << 20) /* started early, so that the fsync at the end is short */

struct dirent_row {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static void end(struct file *x, int code, const char *text)
{
	if (x->ended)
		return;
	x->ended = true;
	x->code = code;
	x->text = text;
}

static void end_errno(struct file *x, const char *text)
{
	end(x, errno, text);
}

static void look(struct file *x)
{
	x->have_st = fstat(x->fd, &x->st) == 0;
}

/* A socket, and a pipe that nobody reads, cannot even be opened: ENXIO. */
static void end_open(struct file *x, const char *text)
{
	if (errno == ENXIO)
		end(x, EINVAL, NOT_REGULAR);
	else
		end_errno(x, text);
}

/* What a descriptor shows must be a regular file; says why when it is not. */
static bool regular(struct file *x)
{
	look(x);
	if (!x->have_st)
		end_errno(x, "the file cannot be examined");
	else if (S_ISDIR(x->st.st_mode))
		end(x, EISDIR, "it is a directory");
	else if (!S_ISREG(x->st.st_mode))
		end(x, EINVAL, NOT_REGULAR);
	return !x->ended;
}

static void start_stat(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	char name[PATH_SIZE];

	if ((x->flags & FRAME_FILE_FOLLOW) != 0) {
		x->fd = path_open(&r->ways, f, path, O_PATH, 0);
		if (x->fd >= 0)
			look(x);
	} else {
		x->dir_fd = path_parent(&r->ways, f, path, false, name);
		if (x->dir_fd >= 0)
			x->have_st = fstatat(x->dir_fd, name, &x->st, AT_SYMLINK_NOFOLLOW) == 0;
		snprintf(x->name, sizeof(x->name), "%.255s", name);
	}
	if (!x->have_st && errno != ENOENT && errno != ENOTDIR)
		end_errno(x, "the path cannot be examined");
	else
		end(x, 0, "");
}

static void start_read(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	x->fd = path_open(&r->ways, f, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (x->fd < 0) {
		end_open(x, "the file cannot be opened for reading");
		return;
	}
	if (!regular(x))
		return;
	x->at = frame_num_or(f, FRAME_ATTR_OFFSET, 0);
	x->left = frame_num_or(f, FRAME_ATTR_LIMIT, UINT64_MAX);
	if (x->at > INT64_MAX)
		end(x, EINVAL, "the offset is too large");
}

static bool on_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_MAGIC;
}

static void start_append(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	int flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY;

	if ((x->flags & FRAME_FILE_EXCLUSIVE) != 0)
		flags |= O_EXCL;
	x->fd = path_open(&r->ways, f, path, flags, x->mode >= 0 ? (mode_t)x->mode : 0644);
	if (x->fd < 0) {
		end_open(x, "the file cannot be opened for appending");
		return;
	}
	if (!regular(x))
		return;
	x->before = (uint64_t)x->st.st_size;
	if (on_proc(x->fd))
		end(x, EINVAL, "files of /proc are not written");
	else if (x->mode >= 0 && fchmod(x->fd, (mode_t)x->mode) != 0)
		end_errno(x, "the mode cannot be set");
}

/* May the thing in the target's place be replaced? */
static bool replaceable(struct file *x)
{
	struct stat st;

	if (fstatat(x->dir_fd, x->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT)
			end_errno(x, "the file cannot be examined");
		else if (x->mode < 0)
			x->mode = 0644;
		return !x->ended;
	}
	if ((x->flags & FRAME_FILE_EXCLUSIVE) != 0)
		end(x, EEXIST, "there is something of that name already");
	else if (S_ISDIR(st.st_mode))
		end(x, EISDIR, "it is a directory");
	else if (!S_ISREG(st.st_mode))
		end(x, EINVAL, NOT_REGULAR);
	else if (faccessat(x->dir_fd, x->name, W_OK, 0) != 0)
		end_errno(x, "the file may not be written");
	else if (x->mode < 0)
		x->mode = st.st_mode & 07777;
	return !x->ended;
}

static void start_replace(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	static unsigned serial;
	char name[PATH_SIZE];

	x->dir_fd = path_parent(&r->ways, f, path, true, name);
	if (x->dir_fd < 0) {
		end_errno(x, "the directory cannot be opened");
		return;
	}
	if (strcmp(name, ".") == 0) {
		end(x, EISDIR, "it is a directory");
		return;
	}
	if (strlen(name) >= sizeof(x->name)) {
		end(x, ENAMETOOLONG, "the name is too long");
		return;
	}
	memcpy(x->name, name, strlen(name) + 1);
	if (!replaceable(x))
		return;
	snprintf(x->temp, sizeof(x->temp), ".capybara-write-%d-%u", (int)getpid(), ++serial);
	x->fd = openat(x->dir_fd, x->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (x->fd < 0) {
		x->temp[0] = '\0';
		end_errno(x, "no file can be made in the directory");
	}
}

static void start_write(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	uint64_t mode;

	x->mode = -1;
	if (frame_num(f, FRAME_ATTR_MODE, &mode))
		x->mode = (int64_t)(mode & 07777);
	if ((x->flags & FRAME_FILE_PARENTS) != 0 && path_make_parents(&r->ways, f, path) != 0) {
		end_errno(x, "the directories above cannot be made");
		return;
	}
	if ((x->flags & FRAME_FILE_APPEND) != 0)
		start_append(r, x, f, path);
	else
		start_replace(r, x, f, path);
	x->ready = !x->ended;
	x->room_owed = x->ready ? OP_BUF : 0;
}

static void start_list(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	x->fd = path_open(&r->ways, f, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	if (x->fd < 0)
		end_errno(x, "the directory cannot be opened");
	x->left = frame_num_or(f, FRAME_ATTR_LIMIT, UINT64_MAX);
}

static void start_remove(struct runner *r, struct file *x, const struct frame *f, const char *path)
{
	char name[PATH_SIZE];
	int fd;

	x->dir_fd = path_parent(&r->ways, f, path, false, name);
	if (x->dir_fd < 0) {
		end_errno(x, "the directory cannot be opened");
		return;
	}
	if (strcmp(name, ".") == 0 || strlen(name) >= sizeof(x->name)) {
		end(x, EINVAL, "the path does not end in a name");
		return;
	}
	memcpy(x->name, name, strlen(name) + 1);
	if (unlinkat(x->dir_fd, name, 0) == 0) {
		end(x, 0, "");
		return;
	}
	if (errno != EISDIR && errno != EPERM) {
		end_errno(x, "it cannot be removed");
		return;
	}
	if ((x->flags & FRAME_FILE_RECURSIVE) == 0) {
		if (unlinkat(x->dir_fd, name, AT_REMOVEDIR) == 0)
			end(x, 0, "");
		else
			end_errno(x, "the directory cannot be removed");
		return;
	}
	fd = openat(x->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		end_errno(x, "the directory cannot be opened");
	else
		x->stack[x->depth++] = fd;
}

void file_start(struct runner *r, struct op *op, const struct frame *f, int64_t now_us)
{
	static void (*const starts[])(struct runner *, struct file *, const struct frame *, const char *) = {
		[FRAME_FILE_STAT] = start_stat,
		[FRAME_FILE_READ] = start_read,
		[FRAME_FILE_WRITE] = start_write,
		[FRAME_FILE_LIST] = start_list,
		[FRAME_FILE_REMOVE] = start_remove,
	};
	struct file *x = &op->u.file;
	struct slice v = frame_bytes(f, FRAME_ATTR_PATH);
	uint64_t kind = frame_num_or(f, FRAME_ATTR_KIND, UINT64_MAX);
	char path[PATH_SIZE];

	x->fd = x->dir_fd = -1;
	op->deadline_us = now_us + (int64_t)frame_num_or(f, FRAME_ATTR_TIMEOUT_MS, 0) * 1000;
	x->flags = frame_num_or(f, FRAME_ATTR_FLAGS, 0);
	if (kind >= ARRAY_SIZE(starts) || v.p == NULL || v.len >= sizeof(path) || v.p[0] != '/') {
		end(x, EINVAL, "a file operation needs a kind and an absolute path");
		return;
	}
	x->kind = (enum frame_file_kind)kind;
	memcpy(path, v.p, v.len);
	path[v.len] = '\0';
	starts[kind](r, x, f, path);
}

void file_data(struct op *op, struct slice data)
{
	struct file *x = &op->u.file;

	x->room_owed += data.len;
	while (data.len > 0 && x->ready && !x->ended && !x->commit) {
		ssize_t n = write(x->fd, data.p, data.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			end_errno(x, "the content cannot be written");
			return;
		}
		data = slice_skip(data, (size_t)n);
		if (x->at / WRITEBACK_BYTES != (x->at + (uint64_t)n) / WRITEBACK_BYTES)
			sync_file_range(x->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		x->at += (uint64_t)n;
	}
}

void file_data_end(struct op *op)
{
	op->u.file.commit = true;
}

static void drop_temp(struct file *x)
{
	if (x->temp[0] != '\0')
		unlinkat(x->dir_fd, x->temp, 0);
	x->temp[0] = '\0';
}

/* What was appended by a write that came to nothing. Not when others have written meanwhile: theirs stands behind it. */
static void take_back(struct file *x)
{
	struct stat st;

	if ((x->flags & FRAME_FILE_APPEND) == 0 || x->code == 0 || x->at == 0 || fstat(x->fd, &st) != 0)
		return;
	if ((uint64_t)st.st_size == x->before + x->at && ftruncate(x->fd, (off_t)x->before) != 0)
		x->text = "the content cannot be written whole, nor what was written be taken back";
}

static void put_in_place(struct file *x)
{
	if ((x->flags & FRAME_FILE_EXCLUSIVE) != 0) {
		if (linkat(x->dir_fd, x->temp, x->dir_fd, x->name, 0) != 0)
			end_errno(x, "the file cannot be put in its place");
		drop_temp(x);
	} else if (renameat(x->dir_fd, x->temp, x->dir_fd, x->name) != 0) {
		end_errno(x, "the file cannot be put in its place");
	} else {
		x->temp[0] = '\0';
	}
}

static void step_write(struct file *x)
{
	if (!x->commit || x->ended)
		return;
	if (x->temp[0] != '\0' && fchmod(x->fd, (mode_t)x->mode) != 0)
		end_errno(x, "the mode cannot be set");
	else if (fsync(x->fd) != 0 && errno != EINVAL)
		end_errno(x, "the content cannot be stored");
	else if (x->temp[0] != '\0')
		put_in_place(x);
	look(x);
	if (!x->ended && x->dir_fd >= 0) {
		auto_close int dir = openat(x->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir >= 0)
			(void)fsync(dir);
	}
	end(x, 0, "");
}

static void step_read(struct runner *r, struct op *op)
{
	struct file *x = &op->u.file;
	size_t budget = STEP_BYTES;
	char byte;

	while (!x->ended && budget > 0) {
		size_t cap;
		char *at = wire_data(&r->wire, &cap);
		ssize_t n;

		if (x->left == 0) {
			x->truncated = pread(x->fd, &byte, 1, (off_t)x->at) == 1;
			end(x, 0, "");
			return;
		}
		if (cap > x->left)
			cap = (size_t)x->left;
		if (cap > op->credit)
			cap = (size_t)op->credit;
		if (cap == 0)
			return;
		n = pread(x->fd, at, cap, (off_t)x->at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			end_errno(x, "the file cannot be read");
			return;
		}
		if (n == 0) {
			end(x, 0, "");
			return;
		}
		wire_data_commit(&r->wire, FRAME_STDOUT, op->channel, (size_t)n);
		x->at += (uint64_t)n;
		x->left -= (uint64_t)n;
		op->credit -= (uint64_t)n;
		budget -= (size_t)n < budget ? (size_t)n : budget;
	}
}

static enum frame_file_type type_of(mode_t mode)
{
	if (S_ISREG(mode))
		return FRAME_TYPE_REGULAR;
	if (S_ISDIR(mode))
		return FRAME_TYPE_DIRECTORY;
	if (S_ISLNK(mode))
		return FRAME_TYPE_SYMLINK;
	return FRAME_TYPE_OTHER;
}

static void put_stat(struct frame_writer *fw, const struct stat *st, int dir_fd, const char *name)
{
	char target[PATH_SIZE];
	ssize_t n = S_ISLNK(st->st_mode) && dir_fd >= 0 ? readlinkat(dir_fd, name, target, sizeof(target) - 1) : -1;

	frame_put_num(fw, FRAME_ATTR_TYPE, type_of(st->st_mode));
	frame_put_num(fw, FRAME_ATTR_SIZE, (uint64_t)st->st_size);
	frame_put_num(fw, FRAME_ATTR_MODE, st->st_mode & 07777);
	frame_put_num(fw, FRAME_ATTR_UID, st->st_uid);
	frame_put_num(fw, FRAME_ATTR_GID, st->st_gid);
	frame_put_num(fw, FRAME_ATTR_MTIME_MS,
		(uint64_t)((int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000));
	if (n > 0)
		frame_put_bytes(fw, FRAME_ATTR_TARGET, slice_make(target, (size_t)n));
}

/* The next entry of the directory on fd, read through op->buf; NULL at the end or on failure (errno, 0 at the end). */
static struct dirent_row *next_entry(struct op *op, int fd)
{
	struct file *x = &op->u.file;

	for (;;) {
		struct dirent_row *d;
		long n;

		if (x->buf_at == x->buf_len) {
			errno = 0;
			n = syscall(SYS_getdents64, fd, op->buf, OP_BUF / 2);
			if (n <= 0)
				return NULL;
			x->buf_at = 0;
			x->buf_len = (size_t)n;
		}
		d = (struct dirent_row *)(void *)(op->buf + x->buf_at);
		x->buf_at += d->reclen;
		if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0)
			return d;
	}
}

static void step_list(struct runner *r, struct op *op)
{
	struct file *x = &op->u.file;

	for (unsigned i = 0; !x->ended && i < STEP_ENTRIES; i++) {
		size_t cap;
		struct frame_writer fw;
		struct dirent_row *d;
		struct stat st;

		(void)wire_data(&r->wire, &cap);
		if (cap < WIRE_REPORT_MAX || op->credit < WIRE_REPORT_MAX || !wire_room(&r->wire, &fw))
			return;
		d = next_entry(op, x->fd);
		if (d == NULL) {
			end(x, errno, errno != 0 ? "the directory cannot be read" : "");
			return;
		}
		if (x->left == 0) {
			x->truncated = true;
			end(x, 0, "");
			return;
		}
		if (fstatat(x->fd, d->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue; /* gone since */
		x->left--;
		frame_begin(&fw, FRAME_ENTRY, op->channel);
		frame_put_bytes(&fw, FRAME_ATTR_NAME, slice_str(d->name));
		put_stat(&fw, &st, x->fd, d->name);
		if (frame_end(&fw)) {
			op->credit -= fw.len - FRAME_HEAD;
			wire_commit(&r->wire, &fw);
		}
	}
}

/* Empties the innermost directory as far as one turn allows, and leaves it when it is empty. */
static void remove_some(struct op *op)
{
	struct file *x = &op->u.file;
	int here = x->stack[x->depth - 1];
	struct dirent_row *d;
	int fd;

	/* Reads from the start: what was there before is gone, and a deeper directory used the buffer. */
	x->buf_at = x->buf_len = 0;
	if (lseek(here, 0, SEEK_SET) < 0) {
		end_errno(x, "the directory cannot be read");
		return;
	}
	for (unsigned i = 0; (d = next_entry(op, here)) != NULL; i++) {
		if (i == STEP_REMOVED)
			return;
		if (unlinkat(here, d->name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno == EISDIR || errno == EPERM) {
			if (unlinkat(here, d->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
				continue;
		}
		if (errno != ENOTEMPTY && errno != EEXIST) {
			end_errno(x, "something in the directory cannot be removed");
			return;
		}
		if (x->depth == FILE_DEPTH) {
			end(x, ELOOP, "the directory is nested too deeply; remove it by a command");
			return;
		}
		fd = openat(here, d->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			end_errno(x, "a directory in it cannot be opened");
		else
			x->stack[x->depth++] = fd;
		return;
	}
	if (errno != 0) {
		end_errno(x, "the directory cannot be read");
		return;
	}
	close(here);
	x->depth--;
	/* An emptied directory inside another one is removed by the next pass over that one. */
	if (x->depth == 0) {
		if (unlinkat(x->dir_fd, x->name, AT_REMOVEDIR) != 0)
			end_errno(x, "the directory cannot be removed");
		else
			end(x, 0, "");
	}
}

static bool tell_done(struct runner *r, struct op *op)
{
	struct file *x = &op->u.file;
	struct frame_writer fw;

	if (!wire_room(&r->wire, &fw))
		return false;
	frame_begin(&fw, FRAME_DONE, op->channel);
	frame_put_num(&fw, FRAME_ATTR_CODE, (uint64_t)x->code);
	if (x->code != 0)
		frame_put_bytes(&fw, FRAME_ATTR_TEXT, slice_str(x->text));
	if (x->have_st)
		put_stat(&fw, &x->st, x->kind == FRAME_FILE_STAT ? x->dir_fd : -1, x->name);
	frame_put_num(&fw, FRAME_ATTR_FLAGS, x->truncated ? FRAME_DONE_TRUNCATED : 0);
	if (frame_end(&fw))
		wire_commit(&r->wire, &fw);
	return true;
}

static void release(struct file *x)
{
	drop_temp(x);
	while (x->depth > 0)
		close(x->stack[--x->depth]);
	util_closep(&x->fd);
	util_closep(&x->dir_fd);
}

static void tell_room(struct runner *r, struct op *op)
{
	struct file *x = &op->u.file;
	struct frame_writer fw;

	if (!x->ready || x->ended || x->room_owed < OP_BUF / 2 || !wire_room(&r->wire, &fw))
		return;
	frame_begin(&fw, FRAME_ROOM, op->channel);
	frame_put_num(&fw, FRAME_ATTR_BYTES, x->room_owed);
	if (frame_end(&fw))
		x->room_owed = 0;
	wire_commit(&r->wire, &fw);
}

void file_kill(struct op *op)
{
	end(&op->u.file, ECANCELED, "given up on request");
}

bool file_busy(struct runner *r, const struct op *op)
{
	const struct file *x = &op->u.file;
	size_t cap;

	if (x->ended || x->kind == FRAME_FILE_REMOVE)
		return true;
	(void)wire_data(&r->wire, &cap);
	if (x->kind == FRAME_FILE_READ)
		return cap > 0 && op->credit > 0;
	if (x->kind == FRAME_FILE_LIST)
		return cap >= WIRE_REPORT_MAX && op->credit >= WIRE_REPORT_MAX;
	return false;
}

void file_step(struct runner *r, struct op *op, int64_t now_us)
{
	struct file *x = &op->u.file;

	op->wake_us = op->deadline_us;
	if (now_us >= op->deadline_us)
		end(x, ETIMEDOUT, "the operation took longer than its limit");
	if (r->wire.gone)
		end(x, ECANCELED, "the controller is gone");
	switch (x->kind) {
	case FRAME_FILE_READ:
		step_read(r, op);
		break;
	case FRAME_FILE_WRITE:
		step_write(x);
		break;
	case FRAME_FILE_LIST:
		step_list(r, op);
		break;
	case FRAME_FILE_REMOVE:
		if (!x->ended)
			remove_some(op);
		break;
	case FRAME_FILE_STAT:
		break;
	}
	tell_room(r, op);
	if (x->ended && x->kind == FRAME_FILE_WRITE)
		take_back(x);
	if (x->ended && tell_done(r, op)) {
		release(x);
		op_free(op);
	}
}
