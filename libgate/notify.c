/* Tells the service manager how the program is: one datagram a message. */
#include "libgate/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define NOTIFY_TEXT_MAX 1024

static void send_text(const char *text, size_t len)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	auto_close int fd = -1;
	size_t n = path != NULL ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(sun.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sun.sun_path, path, n);
	if (path[0] == '@')
		sun.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		(void)!sendto(fd, text, len, MSG_NOSIGNAL, (struct sockaddr *)&sun,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}

void notify_send(const char *fmt, ...)
{
	char text[NOTIFY_TEXT_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)
		send_text(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void notify_reloading(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	notify_send("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

int64_t notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	long long v;
	char *end;

	if (usec == NULL || (pid != NULL && strtoll(pid, NULL, 10) != getpid()))
		return 0;
	errno = 0;
	v = strtoll(usec, &end, 10);
	return errno == 0 && *end == '\0' && v > 0 ? v / 2000 : 0;
}
