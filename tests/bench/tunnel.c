/*
 * Opens an exec tunnel and reads it to its end: how many bytes a second come through? Without Upgrade, which HAProxy takes out
 * of a request that has a body.
 *
 *     tunnel unix:PATH | PORT
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EXEC_ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char buffer[262144];

static int dial(const char *where)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd;

	if (strncmp(where, "unix:", 5) == 0) {
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", where + 5);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		return connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0 ? -1 : fd;
	}
	in.sin_port = htons((uint16_t)strtoul(where, NULL, 10));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	return connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0 ? -1 : fd;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static const char request[] = "POST /v1.41/exec/" EXEC_ID "/start HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
				      "Content-Length: 28\r\n\r\n{\"Detach\":false,\"Tty\":false}";
	unsigned long long total = 0;
	double began;
	ssize_t n;
	int fd = argc == 2 ? dial(argv[1]) : -1;

	if (fd < 0 || send(fd, request, sizeof(request) - 1, 0) < 0) {
		fprintf(stderr, "tunnel: cannot connect\n");
		return 1;
	}
	began = now();
	n = recv(fd, buffer, 12, MSG_PEEK | MSG_WAITALL);
	if (n != 12 || memcmp(buffer, "HTTP/1.1 200", 12) != 0) {
		fprintf(stderr, "tunnel: no tunnel: %.*s\n", n > 0 ? (int)n : 0, buffer);
		return 1;
	}
	while ((n = recv(fd, buffer, sizeof(buffer), 0)) > 0)
		total += (unsigned long long)n;
	printf("%.3f\n", (double)total / (now() - began) / (1 << 30));
	return 0;
}
