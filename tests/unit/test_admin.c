/* The admin server: routes, refusals, bounds, and answers that come late or too late. */
#include "libgate/admin.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "libgate/listen.h"
#include "tests/unit/unit.h"

struct fixture {
	struct event_base *base;
	struct admin *admin;
	int listener;
	struct admin_call *later;
};

static void answer_now(struct admin_call *call, void *arg)
{
	admin_answer(call, 200, "application/json", SLICE_LIT("{\"ok\":true}\n"));
}

static void answer_later(struct admin_call *call, void *arg)
{
	struct fixture *f = arg;

	f->later = call;
}

static void answer_big(struct admin_call *call, void *arg)
{
	static char big[ADMIN_MAX_ANSWER];

	memset(big, 'x', sizeof(big));
	admin_answer(call, 200, "text/plain", slice_make(big, sizeof(big)));
}

static const struct admin_route routes[] = {
	{ "/now", answer_now },
	{ "/later", answer_later },
	{ "/big", answer_big },
	{ NULL, NULL },
};

static struct fixture start(void)
{
	struct err err = ERR_INIT;
	struct fixture f = { .base = event_base_new() };

	f.listener = listen_tcp("127.0.0.1:0", &err);
	return f;
}

static void serve(struct fixture *f)
{
	f->admin = admin_new(f->base, f->listener, routes, f);
}

static void stop(struct fixture *f)
{
	admin_free(f->admin);
	event_base_free(f->base);
}

static int dial(const struct fixture *f)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (getsockname(f->listener, (struct sockaddr *)&at, &len) < 0 || connect(fd, (struct sockaddr *)&at, len) < 0)
		abort();
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void ask(int fd, const char *request)
{
	CU_ASSERT_EQUAL(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
}

/* Runs the loop until the answer has come and the connection ended. Returns the length of the whole. */
static size_t collect(struct fixture *f, int fd, char *out, size_t size)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = recv(fd, out + have, size - 1 - have, 0);

		if (n > 0)
			have += (size_t)n;
		else if (n == 0 || errno != EAGAIN)
			break;
		else
			event_base_loop(f->base, EVLOOP_ONCE);
	}
	out[have] = '\0';
	close(fd);
	return have;
}

static const struct {
	const char *request;
	const char *starts;
	const char *has;
} cases[] = {
	{ "GET /now HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
		"{\"ok\":true}\n" },
	{ "GET /now HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Content-Length: 12\r\n" },
	{ "GET /now HTTP/1.1\r\nHost: LocalHost:80\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Connection: close\r\n" },
	{ "GET /now HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "HTTP/1.1 200 OK\r\n", "no-store" },
	{ "GET /now HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "HTTP/1.1 421 ", "Host must be" },
	{ "GET /now HTTP/1.1\r\nHost: 1.2.3.4.evil.example\r\n\r\n", "HTTP/1.1 421 ", "Host must be" },
	{ "GET /now HTTP/1.0\r\n\r\n", "HTTP/1.1 421 ", "Host must be" },
	{ "HEAD /now HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Content-Length: 12\r\n" },
	{ "POST /now HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n" },
	{ "GET /now HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 400 ", "a body is not taken" },
	{ "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 404 ", "try /now /later /big" },
	{ "GET /now?x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "HTTP/1.1 404 ", "" },
	{ "GET /now\r\n\r\n", "HTTP/1.1 400 ", "" },
	{ "\x16\x03\x01\x02", "HTTP/1.1 400 ", "" },
};

static void test_cases(void)
{
	struct fixture f = start();
	char got[4096];

	serve(&f);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int fd = dial(&f);

		ask(fd, cases[i].request);
		collect(&f, fd, got, sizeof(got));
		UNIT_CHECK(strncmp(got, cases[i].starts, strlen(cases[i].starts)) == 0 && strstr(got, cases[i].has) != NULL,
			"%s: %s", cases[i].request, got);
		if (strncmp(cases[i].request, "HEAD", 4) == 0)
			CU_ASSERT_STRING_EQUAL(strstr(got, "\r\n\r\n"), "\r\n\r\n");
	}
	stop(&f);
}

static void test_byte_by_byte(void)
{
	static const char request[] = "GET /now HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
	struct fixture f = start();
	char got[4096];
	int fd;

	serve(&f);
	fd = dial(&f);
	for (size_t i = 0; i < sizeof(request) - 1; i++) {
		CU_ASSERT_EQUAL(send(fd, request + i, 1, 0), 1);
		event_base_loop(f.base, EVLOOP_ONCE);
	}
	collect(&f, fd, got, sizeof(got));
	CU_ASSERT_PTR_NOT_NULL(strstr(got, "{\"ok\":true}\n"));
	stop(&f);
}

static void test_big_answer(void)
{
	static char got[ADMIN_MAX_ANSWER + 4096];
	struct fixture f = start();
	int fd;
	size_t n;

	serve(&f);
	fd = dial(&f);
	ask(fd, "GET /big HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	n = collect(&f, fd, got, sizeof(got));
	CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(got, "\r\n\r\n"));
	CU_ASSERT_EQUAL(got + n - (strstr(got, "\r\n\r\n") + 4), ADMIN_MAX_ANSWER);
	stop(&f);
}

static void ask_later(struct fixture *f, int fd)
{
	f->later = NULL;
	ask(fd, "GET /later HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	while (f->later == NULL)
		event_base_loop(f->base, EVLOOP_ONCE);
}

static void test_late_answers(void)
{
	struct fixture f = start();
	char got[4096];
	int fd;

	serve(&f);
	fd = dial(&f);
	ask_later(&f, fd);
	admin_answer(f.later, 503, "text/plain", SLICE_LIT("not yet\n"));
	collect(&f, fd, got, sizeof(got));
	CU_ASSERT_EQUAL(strncmp(got, "HTTP/1.1 503 ", 13), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(got, "not yet"));
	/* The client left meanwhile. */
	fd = dial(&f);
	ask_later(&f, fd);
	close(fd);
	event_base_loop(f.base, EVLOOP_ONCE);
	admin_answer(f.later, 200, "text/plain", SLICE_LIT("too late\n"));
	/* The server left meanwhile. */
	fd = dial(&f);
	ask_later(&f, fd);
	stop(&f);
	admin_answer(f.later, 200, "text/plain", SLICE_LIT("too late\n"));
	CU_ASSERT_EQUAL(recv(fd, got, sizeof(got), 0), 0);
	close(fd);
}

/* More clients than places: the rest wait, and are served once there is room. */
static void test_places(void)
{
	struct fixture f = start();
	int fds[ADMIN_MAX_CONNECTIONS];
	char got[4096];
	int fd;

	serve(&f);
	for (int i = 0; i < ADMIN_MAX_CONNECTIONS; i++)
		fds[i] = dial(&f);
	fd = dial(&f);
	ask(fd, "GET /now HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	for (int i = 0; i < 20; i++)
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	CU_ASSERT_EQUAL(recv(fd, got, sizeof(got), 0), -1);
	close(fds[0]);
	collect(&f, fd, got, sizeof(got));
	CU_ASSERT_EQUAL(strncmp(got, "HTTP/1.1 200 ", 13), 0);
	for (int i = 1; i < ADMIN_MAX_CONNECTIONS; i++)
		close(fds[i]);
	stop(&f);
	admin_free(NULL);
}

static const struct unit_test tests[] = {
	{ "cases", test_cases },
	{ "byte by byte", test_byte_by_byte },
	{ "big answer", test_big_answer },
	{ "late answers", test_late_answers },
	{ "places", test_places },
};

UNIT_MAIN("admin", tests)
