/* Makes the event loop that fits what stdin and stdout are. */
#include "controller/loop.h"

#include <event2/event.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd)));
}

struct event_base *loop_new(void)
{
	struct event_config *config = event_config_new();

	if (config == NULL)
		return NULL;
	if (is_file(STDIN_FILENO) || is_file(STDOUT_FILENO))
		event_config_require_features(config, EV_FEATURE_FDS);
	struct event_base *base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}
