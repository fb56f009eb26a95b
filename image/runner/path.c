/* Path resolution for file operations. */
#include "image/runner/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SYMLINKS_MAX 40
/* As in linux/openat2.h, which older headers lack. */
#define BY_OPENAT2_NO_MAGICLINKS 0x02
#define BY_OPENAT2_NO_SYMLINKS 0x04
#define BY_OPENAT2_BENEATH 0x08
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

struct how {
	uint64_t flags;
	uint64_t mode;
	uint64_t resolve;
};

static int by_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = (flags & O_CREAT) != 0 ? mode & 07777 : 0,
		.resolve = resolve,
	};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

bool path_probe_openat2(void)
{
	int fd = by_openat2(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0, BY_OPENAT2_NO_MAGICLINKS);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Copies the next component of *at to out (PATH_SIZE bytes) and moves on. false: none left. */
static bool component(const char **at, char *out)
{
	size_t n;

	*at += strspn(*at, "/");
	n = strcspn(*at, "/");
	if (n == 0)
		return false;
	memcpy(out, *at, n);
	out[n] = '\0';
	*at += n;
	return true;
}

/* Closes and keeps errno. */
static void shut(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
}

static bool is_last(const char *at)
{
	return at[strspn(at, "/")] == '\0';
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0;
}

/* Opens one component without following it. A symlink in its place is ELOOP, whatever the flags make of one. */
static int step_down(int here, const char *name, int flags, mode_t mode)
{
	struct stat st;
	int fd = openat(here, name, O_NOFOLLOW | O_CLOEXEC | flags, mode), saved = errno;

	if ((fd < 0 && saved == ENOTDIR) || (fd >= 0 && (flags & O_PATH) != 0)) {
		if (fstatat(here, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
			util_closep(&fd);
			saved = ELOOP;
		}
	}
	errno = saved;
	return fd;
}

/* From dir (owned here) down rel, following no symlink; ".." is refused. */
static int walk(int dir, const char *rel, int flags, mode_t mode)
{
	char name[PATH_SIZE];
	int here = dir, fd;

	while (component(&rel, name)) {
		bool last = is_last(rel);
		int next;

		if (strcmp(name, "..") == 0) {
			errno = EXDEV;
			shut(here);
			return -1;
		}
		if (is_dot(name) && !last)
			continue;
		next = step_down(here, name, last ? flags : O_PATH | O_DIRECTORY, mode);
		shut(here);
		if (next < 0 || last)
			return next;
		here = next;
	}
	/* Nothing below the directory: it is what was asked for. */
	fd = openat(here, ".", flags | O_CLOEXEC, mode);
	shut(here);
	return fd;
}

/* Opens a root itself without following a symlink: the sandbox user may have put one in its place. */
static int open_root(const struct path_ways *ways, const char *root)
{
	int top;

	if (ways->openat2)
		return by_openat2(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0, BY_OPENAT2_NO_SYMLINKS);
	top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return top < 0 ? -1 : walk(top, root, O_PATH | O_DIRECTORY, 0);
}

/* path's part below root, or NULL when it is not below. */
static const char *below(const char *path, struct slice root)
{
	while (root.len > 0 && root.p[root.len - 1] == '/')
		root.len--;
	if (strncmp(path, root.p, root.len) != 0 || (path[root.len] != '/' && path[root.len] != '\0'))
		return NULL;
	path += root.len;
	return path + strspn(path, "/");
}

static bool has_roots(const struct frame *f)
{
	return frame_bytes(f, FRAME_ATTR_ROOT).p != NULL;
}

static int open_beneath(const struct path_ways *ways, struct slice root, const char *rel, int flags, mode_t mode)
{
	char text[PATH_SIZE];
	int dir, fd;

	if (root.len >= sizeof(text)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(text, root.p, root.len);
	text[root.len] = '\0';
	dir = open_root(ways, text);
	if (dir < 0)
		return -1;
	if (!ways->openat2)
		return walk(dir, rel, flags, mode);
	fd = by_openat2(dir, rel[0] == '\0' ? "." : rel, flags, mode, BY_OPENAT2_BENEATH | BY_OPENAT2_NO_MAGICLINKS);
	shut(dir);
	return fd;
}

int path_open(const struct path_ways *ways, const struct frame *f, const char *path, int flags, mode_t mode)
{
	struct slice root;
	size_t at = 0;

	if (!has_roots(f)) {
		if (ways->openat2)
			return by_openat2(AT_FDCWD, path, flags, mode, BY_OPENAT2_NO_MAGICLINKS);
		return open(path, flags | O_CLOEXEC, mode);
	}
	while (frame_each(f, FRAME_ATTR_ROOT, &at, &root)) {
		const char *rel = below(path, root);

		if (rel != NULL)
			return open_beneath(ways, root, rel, flags, mode);
	}
	errno = EXDEV;
	return -1;
}

/* Splits path into its directory and last name. The directory of a path that ends in a dot is the path itself. */
static void split(const struct frame *f, const char *path, char *dir, char *name)
{
	size_t len = strlen(path), cut;
	struct slice root;
	size_t at = 0;

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (cut = len; cut > 0 && path[cut - 1] != '/'; cut--)
		;
	memcpy(name, path + cut, len - cut);
	name[len - cut] = '\0';
	memcpy(dir, path, len);
	dir[len] = '\0';
	while (frame_each(f, FRAME_ATTR_ROOT, &at, &root)) {
		const char *rel = below(dir, root);

		if (rel != NULL && rel[0] == '\0')
			name[0] = '\0';
	}
	if (name[0] == '\0' || is_dot(name) || strcmp(name, "..") == 0)
		memcpy(name, ".", 2);
	else
		dir[cut > 0 ? cut : 1] = '\0';
}

/* Replaces path by what the symlink in its last place points to. */
static int redirect(char *path, const char *dir, const char *target)
{
	char joined[PATH_SIZE];
	int n = target[0] == '/' ? snprintf(joined, sizeof(joined), "%s", target)
							 : snprintf(joined, sizeof(joined), "%s/%s", dir, target);

	if (n < 0 || (size_t)n >= sizeof(joined)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, joined, (size_t)n + 1);
	return 0;
}

int path_parent(const struct path_ways *ways, const struct frame *f, const char *path, bool follow, char *name)
{
	char at[PATH_SIZE], dir[PATH_SIZE], target[PATH_SIZE];

	if (strlen(path) >= sizeof(at)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(at, path, strlen(path) + 1);
	for (int i = 0; i <= SYMLINKS_MAX; i++) {
		ssize_t n;
		int fd;

		split(f, at, dir, name);
		fd = path_open(ways, f, dir, O_PATH | O_DIRECTORY, 0);
		if (fd < 0 || !follow)
			return fd;
		n = readlinkat(fd, name, target, sizeof(target) - 1);
		if (n < 0)
			return fd;
		close(fd);
		if (has_roots(f))
			break;
		target[n] = '\0';
		if (redirect(at, dir, target) != 0)
			return -1;
	}
	errno = ELOOP;
	return -1;
}

int path_make_parents(const struct path_ways *ways, const struct frame *f, const char *path)
{
	char dir[PATH_SIZE], name[PATH_SIZE], parent[PATH_SIZE], last[PATH_SIZE];
	int fd;

	split(f, path, dir, name);
	fd = path_open(ways, f, dir, O_PATH | O_DIRECTORY, 0);
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (errno != ENOENT || strcmp(dir, "/") == 0)
		return -1;
	/* From the top: every prefix that ends before a '/' is made when it is missing. */
	for (size_t i = 1; i <= strlen(dir); i++) {
		char kept = dir[i];
		int at, failed, saved;

		if (kept != '/' && kept != '\0')
			continue;
		dir[i] = '\0';
		fd = path_open(ways, f, dir, O_PATH | O_DIRECTORY, 0);
		if (fd >= 0) {
			close(fd);
		} else {
			split(f, dir, parent, last);
			at = path_open(ways, f, parent, O_PATH | O_DIRECTORY, 0);
			/* Above a root nothing can be opened, and nothing is to be made. */
			if (at >= 0) {
				failed = mkdirat(at, last, 0755);
				saved = errno;
				close(at);
				if (failed != 0 && saved != EEXIST) {
					errno = saved;
					return -1;
				}
			}
		}
		dir[i] = kept;
		if (kept == '\0')
			break;
	}
	fd = path_open(ways, f, dir, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}
