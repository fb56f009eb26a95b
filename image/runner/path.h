/*
 * Opening paths that the sandbox user may swap under our hands.
 *
 * Without roots a path means what it means to any command of the sandbox user, except that a magic link of /proc is not
 * followed where the kernel can be asked not to. With roots it must be one of them or lie beneath it, and so must every
 * symlink on the way: by openat2(RESOLVE_BENEATH), or, where the kernel has none, by opening one component after the
 * other and following no symlink at all.
 */
#ifndef RUNNER_PATH_H
#define RUNNER_PATH_H

#include <stdbool.h>
#include <sys/types.h>

#include "libgate/frame.h"

#define PATH_SIZE 4096

struct path_ways {
	bool openat2;
};

bool path_probe_openat2(void);

/* The roots are those of the frame that asked. path is absolute and terminated. A descriptor, or -1 with errno. */
int path_open(const struct path_ways *ways, const struct frame *f, const char *path, int flags, mode_t mode);

/*
 * Opens the directory (O_PATH) that holds the last component of path and copies that component's name to name
 * (PATH_SIZE bytes): "." when path ends in a root, "." or "..". follow: a symlink in that place is resolved first,
 * up to 40 times; with roots it is refused instead (ELOOP).
 */
int path_parent(const struct path_ways *ways, const struct frame *f, const char *path, bool follow, char *name);

/* Makes the missing directories above the last component, each with mode 0755. 0, or -1 with errno. */
int path_make_parents(const struct path_ways *ways, const struct frame *f, const char *path);

#endif
