/* Reads oom_kill of memory.events (cgroup v2) or memory.oom_control (v1). */
#include "image/runner/oom.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "libgate/util.h"

bool oom_read(int fd, uint64_t *out)
{
	static const char key[] = "oom_kill ";
	char text[512];
	const char *at;
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strstr(text, key);
	if (at == NULL || (at != text && at[-1] != '\n'))
		return false;
	*out = strtoull(at + sizeof(key) - 1, NULL, 10);
	return true;
}

int oom_open(void)
{
	static const char *const paths[] = {
		"/sys/fs/cgroup/memory.events",
		"/sys/fs/cgroup/memory/memory.oom_control",
	};
	uint64_t count;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

		if (oom_read(fd, &count))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}
