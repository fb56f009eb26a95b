/* The engine's client: what may be cancelled, and when. The engine is a process that answers with the beginning of a stream. */
#include "controller/engine.h"

#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libgate/util.h"
#include "tests/unit/unit.h"

#define FIELDS "Api-Version: 1.41\r\n"
#define PING "HTTP/1.1 200 OK\r\n" FIELDS "Content-Length: 0\r\n\r\n"
#define STREAM "HTTP/1.1 200 OK\r\n" FIELDS "Transfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"

struct stage {
	char path[64];
	pid_t pid;
	struct event_base *base;
	struct config config;
	struct engine *engine;
	struct engine_call *stream, *held;
	unsigned data, ends;
	bool other; /* cancel that as well, and first */
};

/* Every connection stays open; what asks for nothing known gets no answer. */
static void answer(int server)
{
	for (;;) {
		char request[4096];
		int fd = accept(server, NULL, NULL);
		ssize_t n = fd >= 0 ? read(fd, request, sizeof(request) - 1) : 0;

		if (n <= 0)
			continue;
		request[n] = '\0';
		const char *text = strncmp(request, "HEAD", 4) == 0 ? PING : strncmp(request, "POST", 4) == 0 ? STREAM : "";
		if (write(fd, text, strlen(text)) < 0)
			_exit(1);
	}
}

static void stage_set(struct stage *st)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct err err = ERR_INIT;
	int server = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(st, 0, sizeof(*st));
	snprintf(st->path, sizeof(st->path), "/tmp/test_engine.%ld", (long)getpid());
	unlink(st->path);
	memcpy(at.sun_path, st->path, strlen(st->path) + 1);
	CU_ASSERT_EQUAL_FATAL(bind(server, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(server, 16), 0);
	st->pid = fork();
	if (st->pid == 0)
		answer(server);
	close(server);
	st->base = event_base_new();
	st->config.unix_path = st->path;
	st->config.endpoint = st->path;
	st->engine = engine_new(st->base, &st->config, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(st->engine);
}

static void stage_clear(struct stage *st)
{
	engine_free(st->engine);
	event_base_free(st->base);
	kill(st->pid, SIGKILL);
	waitpid(st->pid, NULL, 0);
	unlink(st->path);
}

static void on_end(const struct engine_reply *reply, void *arg)
{
	struct stage *st = arg;

	st->ends++;
}

static void on_data(struct slice data, void *arg)
{
	struct stage *st = arg;

	st->data++;
	if (st->other)
		engine_cancel(st->held);
	engine_cancel(st->stream);
	event_base_loopbreak(st->base);
}

static void cancelled_from_data(bool other)
{
	struct stage st;

	stage_set(&st);
	st.other = other;
	st.held = engine_call(st.engine, "GET", "/held", NULL, 60000, on_end, &st);
	st.stream = engine_stream(st.engine, "POST", "/images/create", 60000, on_data, on_end, &st);
	event_base_dispatch(st.base);
	CU_ASSERT_EQUAL(st.data, 1);
	/* Whatever libcurl still had to say of them. */
	event_base_loop(st.base, EVLOOP_NONBLOCK);
	CU_ASSERT_EQUAL(st.data, 1);
	CU_ASSERT_EQUAL(st.ends, 0);
	stage_clear(&st);
}

static void test_itself(void)
{
	cancelled_from_data(false);
}

static void test_and_another(void)
{
	cancelled_from_data(true);
}

static const struct unit_test tests[] = {
	{ "cancelled_by_its_own_data", test_itself },
	{ "cancels_another", test_and_another },
};

UNIT_MAIN("engine", tests)
