/*
 * A stand-in for the engine that answers as fast as it can: fixed answers on a unix socket, so that what is measured is
 * what stands in front of it.
 *
 *     stub SOCKET [TUNNEL_BYTES]
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libgate/util.h"

#define MAX_CONNECTIONS 4096
#define IN_MAX 65536
#define ID "4f5e6d7c8b9a0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796"
#define EXEC_ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define FIELDS "Api-Version: 1.41\r\nDocker-Experimental: false\r\nOstype: linux\r\nServer: Docker/20.10.24 (linux)\r\n" \
	"Date: Sun, 29 Nov 2026 20:00:00 GMT\r\n"

struct answer {
	const char *start; /* of the request line */
	char *bytes;
	size_t len;
};

struct connection {
	size_t have;
	unsigned long long tunnel_left;
	bool tunnel;
	char in[IN_MAX];
};

static struct connection *connections[MAX_CONNECTIONS];
static unsigned long long tunnel_bytes = 1ull << 30;
static char zeros[262144];

static char inspect_body[4096];

static struct answer answers[] = {
	{ .start = "GET /v1.41/containers/" },
	{ .start = "POST /v1.41/containers/create" },
	{ .start = "GET /v1.41/exec/" },
	{ .start = "GET /_ping" },
	{ .start = "GET /v1.41/_ping" },
	{ .start = "HEAD /_ping" },
	{ .start = "" },
};

static const char raw_stream[] = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n";

static void set_answer(struct answer *a, const char *status, const char *body, bool head_only)
{
	int n = asprintf(&a->bytes, "HTTP/1.1 %s\r\n" FIELDS "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
		strlen(body), head_only ? "" : body);

	if (n < 0)
		exit(1);
	a->len = (size_t)n;
}

static void make_answers(void)
{
	int n = snprintf(inspect_body, sizeof(inspect_body), "{\"Id\":\"" ID "\",\"Name\":\"/cap-bench\",\"State\":{\"Running\":true},\"Fill\":\"");

	memset(inspect_body + n, 'x', sizeof(inspect_body) - (size_t)n - 3);
	memcpy(inspect_body + sizeof(inspect_body) - 3, "\"}", 3);
	set_answer(&answers[0], "200 OK", inspect_body, false);
	set_answer(&answers[1], "201 Created", "{\"Id\":\"" ID "\",\"Warnings\":[]}\n", false);
	set_answer(&answers[2], "200 OK", "{\"ID\":\"" EXEC_ID "\",\"ContainerID\":\"" ID "\"}", false);
	set_answer(&answers[3], "200 OK", "OK", false);
	set_answer(&answers[4], "200 OK", "OK", false);
	set_answer(&answers[5], "200 OK", "OK", true);
	set_answer(&answers[6], "404 Not Found", "{\"message\":\"page not found\"}", false);
}

static void drop(int epoll, int fd)
{
	(void)epoll;
	free(connections[fd]);
	connections[fd] = NULL;
	close(fd);
}

static void pump(int epoll, int fd)
{
	struct connection *c = connections[fd];

	while (c->tunnel_left > 0) {
		size_t want = c->tunnel_left < sizeof(zeros) ? (size_t)c->tunnel_left : sizeof(zeros);
		ssize_t n = send(fd, zeros, want, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;
		c->tunnel_left -= (unsigned long long)n;
	}
	drop(epoll, fd);
}

/* The length of the complete request at the front, or 0. */
static size_t request_length(const struct connection *c)
{
	const char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
	const char *field;
	size_t head, body = 0;

	if (end == NULL)
		return 0;
	head = (size_t)(end - c->in) + 4;
	field = memmem(c->in, head, "Content-Length: ", 16);
	if (field == NULL)
		field = memmem(c->in, head, "content-length: ", 16);
	if (field != NULL)
		body = strtoul(field + 16, NULL, 10);
	return head + body <= c->have ? head + body : 0;
}

/* False when the connection is gone or has become a tunnel. */
static bool reply(int epoll, int fd)
{
	struct connection *c = connections[fd];
	static const char start[] = "POST /v1.41/exec/";
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.fd = fd };

	if (c->have > sizeof(start) && memcmp(c->in, start, sizeof(start) - 1) == 0) {
		if (send(fd, raw_stream, sizeof(raw_stream) - 1, MSG_NOSIGNAL) < 0)
			drop(epoll, fd);
		c->tunnel = true;
		c->tunnel_left = tunnel_bytes;
		ev.events = EPOLLOUT;
		epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &ev);
		return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		if (strncmp(c->in, answers[i].start, strlen(answers[i].start)) != 0)
			continue;
		if (send(fd, answers[i].bytes, answers[i].len, MSG_NOSIGNAL) < 0) {
			drop(epoll, fd);
			return false;
		}
		return true;
	}
	return true;
}

static void serve(int epoll, int fd, unsigned events)
{
	struct connection *c = connections[fd];
	ssize_t n;
	size_t len;

	if (c->tunnel) {
		pump(epoll, fd);
		return;
	}
	if (!(events & (EPOLLIN | EPOLLHUP)))
		return;
	n = recv(fd, c->in + c->have, sizeof(c->in) - 1 - c->have, 0);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			drop(epoll, fd);
		return;
	}
	c->have += (size_t)n;
	c->in[c->have] = '\0';
	while ((len = request_length(c)) > 0) {
		if (!reply(epoll, fd))
			return;
		c->have -= len;
		memmove(c->in, c->in + len, c->have + 1);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct epoll_event ev = { .events = EPOLLIN }, events[64];
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int epoll = epoll_create1(0);

	if (argc < 2 || strlen(argv[1]) >= sizeof(at.sun_path)) {
		fprintf(stderr, "usage: stub SOCKET [TUNNEL_BYTES]\n");
		return 2;
	}
	if (argc > 2)
		tunnel_bytes = strtoull(argv[2], NULL, 10);
	make_answers();
	strcpy(at.sun_path, argv[1]);
	unlink(argv[1]);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1024) < 0) {
		perror(argv[1]);
		return 1;
	}
	ev.data.fd = listener;
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		int n = epoll_wait(epoll, events, (int)ARRAY_SIZE(events), -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd != listener) {
				if (connections[fd] != NULL)
					serve(epoll, fd, events[i].events);
				continue;
			}
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				if (fd >= MAX_CONNECTIONS || (connections[fd] = calloc(1, sizeof(struct connection))) == NULL) {
					close(fd);
					continue;
				}
				ev = (struct epoll_event){ .events = EPOLLIN, .data.fd = fd };
				epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
			}
		}
	}
}
