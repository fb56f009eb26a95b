/*
 * The two ends of the egress benchmark: an origin, and clients of a proxy.
 *
 *     load origin PORT                          GET / answers 1 KiB and keeps the connection; a line "stream N" gets N bytes
 *     load download PROXY_PORT TARGET BYTES     one tunnel, BYTES through it: GiB/s
 *     load tunnels PROXY_PORT TARGET N          N tunnels one after the other: a second, p50 and p99 of the opening
 *     load crowd PROXY_PORT TARGET CONNS N      the same with CONNS of them being opened at any time
 *     load idle PROXY_PORT TARGET N             opens N tunnels, prints "open", holds them until stdin ends
 *     load gets PROXY_PORT URL CONNS SECONDS    absolute-form GETs on kept connections: a second, p50 and p99
 *
 * PROXY_PORT 0: straight to TARGET (host 127.0.0.1).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (256 * 1024)
#define FDS_MAX 65536

static char block[BLOCK];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int dial(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void send_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
		if (sent <= 0)
			die("send");
		p += sent;
		n -= (size_t)sent;
	}
}

/* Reads a head byte by byte at its end, so that nothing behind it is taken. */
static int read_status(int fd)
{
	char head[4096];
	size_t n = 0;

	while (n < sizeof(head) - 1) {
		ssize_t got = recv(fd, head + n, sizeof(head) - 1 - n, MSG_PEEK);
		if (got <= 0)
			die("recv head");
		head[n + (size_t)got] = '\0';
		char *end = strstr(head, "\r\n\r\n");
		size_t take = end != NULL ? (size_t)(end + 4 - head) - n : (size_t)got;
		if (recv(fd, head + n, take, 0) != (ssize_t)take)
			die("recv head");
		n += take;
		if (end != NULL)
			return (int)strtol(head + 9, NULL, 10);
	}
	return 0;
}

static int open_tunnel(int proxy, const char *target)
{
	char head[512];
	int fd, n;

	if (proxy == 0)
		return dial((int)strtol(strrchr(target, ':') + 1, NULL, 10));
	fd = dial(proxy);
	n = snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
	send_all(fd, head, (size_t)n);
	int status = read_status(fd);
	if (status != 200) {
		fprintf(stderr, "CONNECT %s: %d\n", target, status);
		exit(1);
	}
	return fd;
}

/* --- origin ------------------------------------------------------------------------------------------------------ */

struct client {
	uint64_t to_send;
	char in[2048];
	size_t have;
};

static struct client *clients[FDS_MAX];
static char answer[1280];
static size_t answer_len;

/* True when the connection is over. */
static bool send_stream(int fd, struct client *c)
{
	while (c->to_send > 0) {
		ssize_t n = send(fd, block, c->to_send < BLOCK ? (size_t)c->to_send : BLOCK, MSG_NOSIGNAL);
		if (n < 0)
			return errno != EAGAIN;
		c->to_send -= (uint64_t)n;
	}
	return false;
}

static bool serve(int fd, struct client *c)
{
	ssize_t n = recv(fd, c->in + c->have, sizeof(c->in) - 1 - c->have, 0);
	char *end;

	if (n <= 0)
		return n == 0 || errno != EAGAIN;
	c->have += (size_t)n;
	c->in[c->have] = '\0';
	if (strncmp(c->in, "stream ", 7) == 0 && strchr(c->in, '\n') != NULL) {
		c->to_send = strtoull(c->in + 7, NULL, 10);
		c->have = 0;
		return send_stream(fd, c);
	}
	while ((end = strstr(c->in, "\r\n\r\n")) != NULL) {
		size_t used = (size_t)(end + 4 - c->in);
		if (send(fd, answer, answer_len, MSG_NOSIGNAL) != (ssize_t)answer_len)
			return true;
		memmove(c->in, c->in + used, c->have - used + 1);
		c->have -= used;
	}
	return c->have == sizeof(c->in) - 1;
}

static void origin(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ep = epoll_create1(0), one = 1;
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = listener }, got[256];

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, 4096) != 0)
		die("listen");
	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	answer_len = (size_t)snprintf(answer, sizeof(answer),
		"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 1024\r\n\r\n");
	memset(answer + answer_len, 'x', 1024);
	answer_len += 1024;
	for (;;) {
		int n = epoll_wait(ep, got, 256, -1);
		for (int i = 0; i < n; i++) {
			int fd = got[i].data.fd;
			if (fd == listener) {
				while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
					if (fd >= FDS_MAX) {
						close(fd);
						continue;
					}
					setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
					clients[fd] = calloc(1, sizeof(*clients[fd]));
					ev = (struct epoll_event){ .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd };
					epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
				}
				continue;
			}
			struct client *c = clients[fd];
			bool over = c->to_send > 0 ? send_stream(fd, c) : false;
			if (!over && (got[i].events & EPOLLIN))
				over = serve(fd, c);
			if (over || (got[i].events & (EPOLLERR | EPOLLHUP))) {
				free(c);
				clients[fd] = NULL;
				close(fd);
			}
		}
	}
}

/* --- clients ----------------------------------------------------------------------------------------------------- */

static void download(int proxy, const char *target, uint64_t bytes)
{
	int fd = open_tunnel(proxy, target);
	char line[64];
	uint64_t got = 0;
	double begun = now();
	int n = snprintf(line, sizeof(line), "stream %llu\n", (unsigned long long)bytes);

	send_all(fd, line, (size_t)n);
	while (got < bytes) {
		ssize_t r = recv(fd, block, BLOCK, 0);
		if (r <= 0)
			die("recv");
		got += (uint64_t)r;
	}
	printf("%.3f\n", (double)got / (now() - begun) / (1024.0 * 1024 * 1024));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void print_rate(double *each, size_t n, double seconds)
{
	qsort(each, n, sizeof(*each), compare);
	printf("%.0f %.3f %.3f\n", (double)n / seconds, each[n / 2] * 1e3, each[n * 99 / 100] * 1e3);
}

static void tunnels(int proxy, const char *target, size_t count)
{
	double *each = calloc(count, sizeof(*each)), begun = now();
	const struct linger now_closed = { 1, 0 };

	for (size_t i = 0; i < count; i++) {
		double start = now();
		int fd = open_tunnel(proxy, target);
		each[i] = now() - start;
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_closed, sizeof(now_closed));
		close(fd);
	}
	print_rate(each, count, now() - begun);
	free(each);
}

struct opening {
	double start;
	size_t have;
	bool asked;
};

static void open_next(int ep, int port, struct opening *of)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd };

	if (fd < 0 || fd >= FDS_MAX)
		die("socket");
	of[fd] = (struct opening){ .start = now() };
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS)
		die("connect");
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) != 0)
		die("epoll_ctl");
}

/* True when the tunnel stands. */
static bool open_further(int fd, struct opening *o, bool through_proxy, const char *request, size_t n)
{
	char head[4096];
	ssize_t got;

	if (!o->asked && through_proxy)
		send_all(fd, request, n);
	o->asked = true;
	if (!through_proxy)
		return true;
	got = recv(fd, head, sizeof(head) - 1, 0);
	if (got < 0 && errno == EAGAIN)
		return false;
	if (got <= 0)
		die("recv head");
	head[got] = '\0';
	if (o->have == 0 && (got < 12 || strncmp(head + 8, " 200", 4) != 0)) {
		fprintf(stderr, "CONNECT: %.12s\n", head);
		exit(1);
	}
	o->have += (size_t)got;
	return strstr(head, "\r\n\r\n") != NULL;
}

static void crowd(int proxy, const char *target, size_t conns, size_t count)
{
	int ep = epoll_create1(0), direct = (int)strtol(strrchr(target, ':') + 1, NULL, 10);
	struct opening *of = calloc(FDS_MAX, sizeof(*of));
	double *each = calloc(count, sizeof(*each)), begun = now();
	const struct linger now_closed = { 1, 0 };
	size_t started = 0, done = 0;
	char request[512];
	int n = snprintf(request, sizeof(request), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);

	for (; started < conns && started < count; started++)
		open_next(ep, proxy == 0 ? direct : proxy, of);
	while (done < count) {
		struct epoll_event got[256];
		int m = epoll_wait(ep, got, 256, 10000);
		if (m <= 0)
			die("nothing came for ten seconds");
		for (int i = 0; i < m && done < count; i++) {
			int fd = got[i].data.fd;
			if ((got[i].events & (EPOLLERR | EPOLLHUP)) != 0)
				die("a tunnel was not opened");
			if ((got[i].events & EPOLLOUT) == 0 && !of[fd].asked)
				continue;
			if (!open_further(fd, &of[fd], proxy != 0, request, (size_t)n))
				continue;
			each[done++] = now() - of[fd].start;
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &now_closed, sizeof(now_closed));
			close(fd);
			if (started++ < count)
				open_next(ep, proxy == 0 ? direct : proxy, of);
		}
	}
	print_rate(each, count, now() - begun);
}

static void idle(int proxy, const char *target, size_t count)
{
	struct rlimit most;

	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	for (size_t i = 0; i < count; i++)
		(void)open_tunnel(proxy, target);
	printf("open\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static void gets_kept(int proxy, const char *url, size_t conns, double seconds)
{
	int ep = epoll_create1(0), direct = (int)strtol(strrchr(url, ':') + 1, NULL, 10);
	char request[512], in[8192];
	size_t cap = 4 * 1024 * 1024, done = 0;
	double *each = malloc(cap * sizeof(*each)), *start = calloc(FDS_MAX, sizeof(*start)), begun = now();
	size_t *have = calloc(FDS_MAX, sizeof(*have));
	int n = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: bench.test\r\n\r\n", proxy == 0 ? "/" : url);

	for (size_t i = 0; i < conns; i++) {
		int fd = dial(proxy == 0 ? direct : proxy);
		struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
		epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
		start[fd] = now();
		send_all(fd, request, (size_t)n);
	}
	while (now() - begun < seconds && done < cap) {
		struct epoll_event got[256];
		int m = epoll_wait(ep, got, 256, 1000);
		for (int i = 0; i < m; i++) {
			int fd = got[i].data.fd;
			ssize_t r = recv(fd, in, sizeof(in), 0);
			if (r <= 0) {
				fprintf(stderr, "a kept connection ended\n");
				exit(1);
			}
			have[fd] += (size_t)r;
			/* The body is 1 KiB of x behind whatever head the proxy writes. */
			if (in[r - 1] != 'x' || have[fd] < 1024 + 40)
				continue;
			char *body = memmem(in, (size_t)r, "\r\n\r\n", 4);
			if (have[fd] == (size_t)r && (body == NULL || in + r - (body + 4) < 1024))
				continue;
			if (done < cap)
				each[done++] = now() - start[fd];
			have[fd] = 0;
			start[fd] = now();
			send_all(fd, request, (size_t)n);
		}
	}
	print_rate(each, done, now() - begun);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	int port = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
	if (argc == 3 && strcmp(argv[1], "origin") == 0) {
		struct rlimit most;
		getrlimit(RLIMIT_NOFILE, &most);
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
		origin(port);
	} else if (argc == 5 && strcmp(argv[1], "download") == 0) {
		download(port, argv[3], strtoull(argv[4], NULL, 10));
	} else if (argc == 5 && strcmp(argv[1], "tunnels") == 0) {
		tunnels(port, argv[3], strtoull(argv[4], NULL, 10));
	} else if (argc == 6 && strcmp(argv[1], "crowd") == 0) {
		crowd(port, argv[3], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
	} else if (argc == 5 && strcmp(argv[1], "idle") == 0) {
		idle(port, argv[3], strtoull(argv[4], NULL, 10));
	} else if (argc == 6 && strcmp(argv[1], "gets") == 0) {
		gets_kept(port, argv[3], strtoull(argv[4], NULL, 10), strtod(argv[5], NULL));
	} else {
		fprintf(stderr, "usage: see the first comment of load.c\n");
		return 2;
	}
	return 0;
}
