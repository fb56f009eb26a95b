/*
 * The controller's side against a real runner: between the two a process that frames the runner's output as the engine
 * does, cut at odd places. Needs namespaces of its own, as test_runner does.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "controller/channel.h"
#include "controller/runner.h"
#include "tests/runner/room.h"
#include "tests/unit/unit.h"

#define PATIENCE_S 30

/* Copies between the socket and a runner's pipes; what comes out gets the engine's 8-byte headers. */
static void engine_stub(int sock, const char *path)
{
	int in[2], out[2];
	struct pollfd fds[2];
	static char block[40000];
	unsigned turn = 0;

	if (pipe(in) != 0 || pipe(out) != 0)
		_exit(1);
	signal(SIGPIPE, SIG_IGN);
	if (fork() == 0) {
		signal(SIGPIPE, SIG_DFL);
		if (setgroups(0, NULL) != 0 || setresgid(1000, 1000, 1000) != 0 || setresuid(1000, 1000, 1000) != 0)
			_exit(120);
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		close(sock);
		execl(path, path, (char *)NULL);
		dup2(out[1], 1);
		printf("OCI runtime exec failed: exec failed: \"%s\": no such file\r\n", path);
		fflush(stdout);
		_exit(126);
	}
	close(in[0]);
	close(out[1]);
	fds[0] = (struct pollfd){ .fd = sock, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = out[0], .events = POLLIN };
	for (;;) {
		ssize_t n;

		poll(fds, 2, -1);
		if (fds[0].revents != 0) {
			n = read(sock, block, sizeof(block));
			if (n <= 0)
				_exit(0);
			/* Who reads no more may have said why: that is still to be told. */
			if (write(in[1], block, (size_t)n) != n)
				fds[0].fd = -1;
		}
		if (fds[1].revents != 0) {
			size_t size = turn++ % 3 == 0 ? 1 + turn % 11 : sizeof(block);
			unsigned char head[8] = { 1 };

			n = read(out[0], block, size);
			if (n <= 0)
				_exit(0);
			head[6] = (unsigned char)(n >> 8);
			head[7] = (unsigned char)n;
			if (write(sock, head, 8) != 8)
				_exit(0);
			for (ssize_t at = 0; at < n;) {
				ssize_t w = write(sock, block + at, (size_t)(n - at));

				if (w <= 0)
					_exit(0);
				at += w;
			}
		}
	}
}

struct world {
	struct event_base *base;
	struct channel_set channels;
	struct runner *runner;
	struct exec_backend *b;
	pid_t stub;
	unsigned asked, freed;
	const char *path; /* of the program to start */
	bool refuse; /* answer with no stream */
	int send_buffer; /* bytes; 0: the kernel's choice */
	bool suspected;
};

static void want_stream(void *arg)
{
	struct world *w = arg;
	int pair[2];

	w->asked++;
	if (w->refuse) {
		struct err err = ERR_INIT;

		err_set(&err, ECONNREFUSED, "the engine is not there");
		runner_no_stream(w->runner, &err);
		return;
	}
	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w->stub = fork();
	if (w->stub == 0) {
		close(pair[0]);
		engine_stub(pair[1], w->path);
		_exit(1);
	}
	close(pair[1]);
	CU_ASSERT_EQUAL(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	if (w->send_buffer > 0)
		CU_ASSERT_EQUAL(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &w->send_buffer, sizeof(w->send_buffer)), 0);
	runner_attach(w->runner, pair[0], slice_make(NULL, 0));
}

static void no_runner(const struct err *err, void *arg)
{
	struct world *w = arg;

	runner_no_stream(w->runner, err);
}

static void suspect(void *arg)
{
	struct world *w = arg;

	w->suspected = true;
}

static void freed(void *arg)
{
	struct world *w = arg;

	w->freed++;
}

static void world_new(struct world *w)
{
	struct runner_owner owner = { want_stream, no_runner, suspect, freed, w };

	memset(w, 0, sizeof(*w));
	w->path = room_program;
	w->base = event_base_new();
	channel_set_init(&w->channels, w->base);
	w->runner = runner_new(&w->channels, &owner);
	w->b = runner_backend(w->runner);
}

static void world_free(struct world *w)
{
	if (w->b != NULL)
		w->b->ops->free(w->b);
	CU_ASSERT_EQUAL(w->freed, 1);
	channel_set_release(&w->channels);
	event_base_free(w->base);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* What came for one operation, of either kind. */
struct got {
	struct world *w;
	struct exec_op *op;
	bool started, done;
	bool hold;
	size_t out_len, err_len, held;
	char out[4096], err[4096];
	uint64_t sum; /* of all output bytes, in order */
	size_t to_send, sent; /* input of zeros */
	unsigned entries;
	struct exec_outcome outcome;
	struct file_result result;
	struct kill_result killed;
	char text[700];
};

static void feed(size_t room, void *arg)
{
	static const char zeros[65536];
	struct got *g = arg;

	while (g->sent < g->to_send) {
		size_t n = g->to_send - g->sent < sizeof(zeros) ? g->to_send - g->sent : sizeof(zeros);
		size_t taken = g->w->b->ops->write(g->op, slice_make(zeros, n));

		g->sent += taken;
		if (taken == 0)
			return;
	}
	g->w->b->ops->close(g->op);
}

static void take(struct got *g, char *text, size_t *len, struct slice data)
{
	for (size_t i = 0; i < data.len; i++) {
		if (*len + i + 1 < sizeof(g->out))
			text[*len + i] = data.p[i];
		g->sum = g->sum * 31 + (unsigned char)data.p[i];
	}
	*len += data.len;
	if (g->hold)
		g->held += data.len;
	else
		g->w->b->ops->consumed(g->op, data.len);
}

static void on_started(void *arg)
{
	struct got *g = arg;

	g->started = true;
}

static void on_output(enum exec_stream stream, struct slice data, void *arg)
{
	struct got *g = arg;

	if (stream == EXEC_STDOUT)
		take(g, g->out, &g->out_len, data);
	else
		take(g, g->err, &g->err_len, data);
}

static void on_exec_done(const struct exec_outcome *o, void *arg)
{
	struct got *g = arg;

	CU_ASSERT_FALSE(g->done);
	g->done = true;
	g->outcome = *o;
	snprintf(g->text, sizeof(g->text), "%s", o->text);
}

static void on_file_data(struct slice data, void *arg)
{
	on_output(EXEC_STDOUT, data, arg);
}

static void on_entry(struct slice name, const struct file_info *info, void *arg)
{
	struct got *g = arg;

	g->entries++;
}

static void on_file_done(const struct file_result *r, void *arg)
{
	struct got *g = arg;

	CU_ASSERT_FALSE(g->done);
	g->done = true;
	g->result = *r;
	snprintf(g->text, sizeof(g->text), "%s", r->text);
}

static void on_killed(const struct kill_result *r, void *arg)
{
	struct got *g = arg;

	g->done = true;
	g->killed = *r;
}

static bool wait_for(struct world *w, const bool *flag)
{
	struct timeval tv = { 0, 50000 };
	time_t end = time(NULL) + PATIENCE_S;

	/* A turn is one event or 50 ms: turns are no measure of time. */
	while (!*flag && time(NULL) < end) {
		event_base_loopexit(w->base, &tv);
		event_base_loop(w->base, EVLOOP_ONCE);
	}
	return *flag;
}

static void go(struct world *w, struct got *g, const struct exec_request *rq)
{
	static const struct exec_events events = { on_started, on_output, feed, on_exec_done };
	static unsigned serial;
	struct exec_request full = *rq;
	struct err err = ERR_INIT;
	char id[32];

	g->w = w;
	snprintf(id, sizeof(id), "c%d-%u", (int)getpid(), ++serial);
	full.id = slice_str(id);
	if (full.timeout_ms == 0)
		full.timeout_ms = 60000;
	if (full.max_output == 0)
		full.max_output = UINT64_MAX;
	g->op = w->b->ops->start(w->b, &full, &events, g, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(g->op);
}

static void go_line(struct world *w, struct got *g, const char *line)
{
	go(w, g, &(struct exec_request){ .line = slice_str(line) });
}

static void go_file(struct world *w, struct got *g, const struct file_request *rq)
{
	static const struct file_events events = { on_file_data, on_entry, feed, on_file_done };
	struct file_request full = *rq;
	struct err err = ERR_INIT;

	g->w = w;
	full.timeout_ms = 60000;
	g->op = w->b->ops->file(w->b, &full, &events, g, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(g->op);
}

static void test_command(void)
{
	struct world w;
	struct got g = { 0 }, many[100] = { { 0 } };

	world_new(&w);
	go_line(&w, &g, "echo out; echo err >&2; exit 6");
	CU_ASSERT_FALSE(g.done);
	CU_ASSERT_TRUE(wait_for(&w, &g.done));
	CU_ASSERT_TRUE(g.started);
	CU_ASSERT_STRING_EQUAL(g.out, "out\n");
	CU_ASSERT_STRING_EQUAL(g.err, "err\n");
	CU_ASSERT_EQUAL(g.outcome.end, EXEC_EXITED);
	CU_ASSERT_EQUAL(g.outcome.exit_code, 6);
	CU_ASSERT_EQUAL(g.outcome.bytes[EXEC_STDOUT], 4);
	CU_ASSERT_TRUE(g.outcome.duration_us > 0);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		go_line(&w, &many[i], "echo $((6 * 7)); kill -9 $$");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		CU_ASSERT_TRUE(wait_for(&w, &many[i].done));
		CU_ASSERT_STRING_EQUAL(many[i].out, "42\n");
		CU_ASSERT_EQUAL(many[i].outcome.end, EXEC_SIGNALED);
		CU_ASSERT_EQUAL(many[i].outcome.signal, SIGKILL);
		CU_ASSERT_FALSE(many[i].outcome.killed);
	}
	CU_ASSERT_EQUAL(w.asked, 1);
	world_free(&w);
}

static void test_start_failure(void)
{
	static const struct slice argv[] = { SLICE_LIT("/no/such/program") };
	struct world w;
	struct got g = { 0 };

	world_new(&w);
	go(&w, &g, &(struct exec_request){ .argv = argv, .nargv = 1 });
	CU_ASSERT_TRUE(wait_for(&w, &g.done));
	CU_ASSERT_EQUAL(g.outcome.end, EXEC_START_FAILED);
	CU_ASSERT_EQUAL(g.outcome.code, ENOENT);
	CU_ASSERT_STRING_EQUAL(g.text, "the program cannot be executed");
	world_free(&w);
}

static void test_input(void)
{
	struct world w;
	struct got g = { .to_send = 9000000 };

	world_new(&w);
	go(&w, &g, &(struct exec_request){ .line = SLICE_LIT("wc -c"), .want_stdin = true });
	CU_ASSERT_TRUE(wait_for(&w, &g.done));
	CU_ASSERT_STRING_EQUAL(g.out, "9000000\n");
	world_free(&w);
}

/* A stream that is full and takes a little at a time: who waits to write on is not asked again and again while it cannot. */
static void test_narrow_stream(void)
{
	static struct got g[100];
	struct world w;

	world_new(&w);
	w.send_buffer = 4096;
	alarm(2 * PATIENCE_S); /* a loop without end is in the loop that would see the time pass */
	for (size_t i = 0; i < ARRAY_SIZE(g); i++) {
		g[i] = (struct got){ .to_send = 200000 };
		go(&w, &g[i], &(struct exec_request){ .line = SLICE_LIT("wc -c"), .want_stdin = true });
	}
	for (size_t i = 0; i < ARRAY_SIZE(g); i++) {
		CU_ASSERT_TRUE(wait_for(&w, &g[i].done));
		CU_ASSERT_STRING_EQUAL(g[i].out, "200000\n");
	}
	alarm(0);
	world_free(&w);
}

static void test_back_pressure(void)
{
	struct world w;
	struct got slow = { .hold = true }, quick = { 0 };
	size_t held;

	world_new(&w);
	go_line(&w, &slow, "head -c 3000000 /dev/zero");
	while (slow.held < 512 * 1024)
		CU_ASSERT_EQUAL_FATAL(event_base_loop(w.base, EVLOOP_ONCE), 0);
	go_line(&w, &quick, "echo quick");
	CU_ASSERT_TRUE(wait_for(&w, &quick.done));
	CU_ASSERT_EQUAL(slow.held, 512 * 1024);
	CU_ASSERT_FALSE(slow.done);
	held = slow.held;
	slow.hold = false;
	w.b->ops->consumed(slow.op, held);
	CU_ASSERT_TRUE(wait_for(&w, &slow.done));
	CU_ASSERT_EQUAL(slow.out_len, 3000000);
	world_free(&w);
}

static void test_kill(void)
{
	struct world w;
	struct got a = { 0 }, b = { 0 }, k = { 0 };
	struct slice tag = SLICE_LIT("one");
	struct err err = ERR_INIT;

	world_new(&w);
	k.w = &w;
	/* One has left its session, and one its environment, too: as does, for a moment, whatever becomes another program. */
	go(&w, &a, &(struct exec_request){
		.line = SLICE_LIT("env -i setsid -f sleep 5000; setsid sleep 5000 & echo r; sleep 5000"), .tag = tag });
	go_line(&w, &b, "sleep 5001");
	while (a.out_len == 0)
		CU_ASSERT_EQUAL_FATAL(event_base_loop(w.base, EVLOOP_ONCE), 0);
	CU_ASSERT_TRUE(wait_for(&w, &b.started));
	CU_ASSERT_EQUAL(w.b->ops->kill_tagged(w.b, &tag, 1, on_killed, &k, &err), 0);
	CU_ASSERT_TRUE(wait_for(&w, &k.done));
	CU_ASSERT_EQUAL(k.killed.code, 0);
	CU_ASSERT_TRUE(k.killed.killed >= 3);
	CU_ASSERT_EQUAL(k.killed.survivors, 0);
	CU_ASSERT_TRUE(wait_for(&w, &a.done));
	CU_ASSERT_EQUAL(a.outcome.signal, SIGKILL);
	CU_ASSERT_FALSE(b.done);
	w.b->ops->kill(b.op);
	CU_ASSERT_TRUE(wait_for(&w, &b.done));
	CU_ASSERT_TRUE(b.outcome.killed);
	/* One that is given up before it was sent never runs. */
	{
		struct world cold;
		struct got c = { 0 };

		world_new(&cold);
		go_line(&cold, &c, "echo ran");
		cold.b->ops->kill(c.op);
		CU_ASSERT_TRUE(wait_for(&cold, &c.done));
		CU_ASSERT_EQUAL(c.outcome.end, EXEC_START_FAILED);
		CU_ASSERT_EQUAL(c.outcome.code, ECANCELED);
		CU_ASSERT_EQUAL(c.out_len, 0);
		world_free(&cold);
	}
	world_free(&w);
}

static void test_files(void)
{
	struct world w;
	struct got put = { .to_send = 5000000 }, get = { 0 }, st = { 0 }, ls = { 0 }, rm = { 0 };
	char path[128];

	world_new(&w);
	snprintf(path, sizeof(path), "%s/a/file", room_dir);
	go_file(&w, &put, &(struct file_request){
		.kind = FILE_WRITE, .path = slice_str(path), .mode = 0600, .make_parents = true });
	CU_ASSERT_TRUE(wait_for(&w, &put.done));
	CU_ASSERT_EQUAL(put.result.code, 0);
	CU_ASSERT_EQUAL(put.result.info.size, 5000000);
	go_file(&w, &get, &(struct file_request){ .kind = FILE_READ, .path = slice_str(path), .offset = 10, .mode = -1 });
	CU_ASSERT_TRUE(wait_for(&w, &get.done));
	CU_ASSERT_EQUAL(get.out_len, 4999990);
	CU_ASSERT_EQUAL(get.sum, 0);
	go_file(&w, &st, &(struct file_request){ .kind = FILE_STAT, .path = slice_str(path), .mode = -1 });
	CU_ASSERT_TRUE(wait_for(&w, &st.done));
	CU_ASSERT_EQUAL(st.result.info.type, FILE_TYPE_REGULAR);
	CU_ASSERT_EQUAL(st.result.info.mode, 0600);
	go_file(&w, &ls, &(struct file_request){ .kind = FILE_LIST, .path = SLICE_LIT("/usr/bin"), .mode = -1 });
	CU_ASSERT_TRUE(wait_for(&w, &ls.done));
	CU_ASSERT_TRUE(ls.entries > 20);
	CU_ASSERT_EQUAL(ls.result.code, 0);
	go_file(&w, &rm, &(struct file_request){ .kind = FILE_REMOVE, .path = slice_str(path), .mode = -1 });
	CU_ASSERT_TRUE(wait_for(&w, &rm.done));
	CU_ASSERT_EQUAL(rm.result.code, 0);
	world_free(&w);
}

/* The stream ends in the middle: unknown, never success; the next operation gets a new runner. */
static void test_lost(void)
{
	struct world w;
	struct got g = { 0 }, again = { 0 };

	world_new(&w);
	go_line(&w, &g, "echo before; sleep 5100");
	while (g.out_len == 0)
		CU_ASSERT_EQUAL_FATAL(event_base_loop(w.base, EVLOOP_ONCE), 0);
	kill(w.stub, SIGKILL);
	CU_ASSERT_TRUE(wait_for(&w, &g.done));
	CU_ASSERT_EQUAL(g.outcome.end, EXEC_LOST);
	CU_ASSERT_EQUAL(g.outcome.exit_code, -1);
	CU_ASSERT_EQUAL(g.outcome.oom, EXEC_UNKNOWN);
	CU_ASSERT_STRING_EQUAL(g.out, "before\n");
	go_line(&w, &again, "echo again");
	CU_ASSERT_TRUE(wait_for(&w, &again.done));
	CU_ASSERT_STRING_EQUAL(again.out, "again\n");
	CU_ASSERT_EQUAL(w.asked, 2);
	world_free(&w);
}

/* The process behind the stub. */
static pid_t runner_pid(const struct world *w)
{
	char path[64], text[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)w->stub, (int)w->stub);
	FILE *f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_PTR_NOT_NULL(fgets(text, sizeof(text), f));
	fclose(f);
	return (pid_t)strtol(text, NULL, 10);
}

/* A runner that is stopped answers nothing: a cancelled file operation ends all the same, and what comes later is not missed. */
static void test_stopped(void)
{
	struct world w;
	struct got made = { 0 }, cancelled = { .hold = true }, waits = { 0 };
	char path[128], line[256];

	world_new(&w);
	snprintf(path, sizeof(path), "%s/much", room_dir);
	snprintf(line, sizeof(line), "head -c 4000000 /dev/zero >%s", path);
	go_line(&w, &made, line);
	CU_ASSERT_TRUE(wait_for(&w, &made.done));
	/* It fills its window and waits for this side. */
	go_file(&w, &cancelled, &(struct file_request){ .kind = FILE_READ, .path = slice_str(path) });
	while (cancelled.out_len == 0)
		CU_ASSERT_EQUAL_FATAL(event_base_loop(w.base, EVLOOP_ONCE), 0);
	pid_t runner = runner_pid(&w);
	CU_ASSERT_EQUAL_FATAL(kill(runner, SIGSTOP), 0);
	go_file(&w, &waits, &(struct file_request){ .kind = FILE_STAT, .path = SLICE_LIT("/") });
	w.b->ops->kill(cancelled.op);
	CU_ASSERT_TRUE(wait_for(&w, &cancelled.done));
	CU_ASSERT_EQUAL(cancelled.result.code, ECANCELED);
	CU_ASSERT_TRUE(cancelled.result.lost);
	CU_ASSERT_FALSE(waits.done);
	CU_ASSERT_EQUAL(kill(runner, SIGCONT), 0);
	CU_ASSERT_TRUE(wait_for(&w, &waits.done));
	CU_ASSERT_EQUAL(waits.result.code, 0);
	CU_ASSERT_EQUAL(w.asked, 1);
	world_free(&w);
}

/* A stream that was idle may be a dead one, though open: what is begun then is not sent before it is heard of, and not lost. */
static void test_dead_stream(void)
{
	struct world w;
	struct got first = { 0 }, second = { 0 }, again = { 0 };

	world_new(&w);
	go_line(&w, &first, "true");
	CU_ASSERT_TRUE(wait_for(&w, &first.done));
	usleep(150000);
	pid_t runner = runner_pid(&w);
	CU_ASSERT_EQUAL_FATAL(kill(runner, SIGSTOP), 0);
	go_line(&w, &second, "true");
	CU_ASSERT_TRUE(wait_for(&w, &w.suspected));
	CU_ASSERT_FALSE(second.done);
	runner_detach(w.runner, "its sandbox was stopped");
	CU_ASSERT_TRUE(second.done);
	CU_ASSERT_EQUAL(second.outcome.end, EXEC_START_FAILED);
	CU_ASSERT_EQUAL(second.outcome.code, EBUSY);
	go_line(&w, &again, "exit 5");
	CU_ASSERT_TRUE(wait_for(&w, &again.done));
	CU_ASSERT_EQUAL(again.outcome.exit_code, 5);
	CU_ASSERT_EQUAL(w.asked, 2);
	CU_ASSERT_EQUAL(kill(runner, SIGKILL), 0);
	world_free(&w);
}

/* An image without the program, an engine that refuses: nothing ran, and the reason reaches the caller. */
static void test_no_runner(void)
{
	struct world w;
	struct got g = { 0 }, r = { 0 };

	world_new(&w);
	w.path = "/no/such/runner";
	go_line(&w, &g, "true");
	CU_ASSERT_TRUE(wait_for(&w, &g.done));
	CU_ASSERT_EQUAL(g.outcome.end, EXEC_START_FAILED);
	CU_ASSERT_PTR_NOT_NULL(strstr(g.text, "OCI runtime exec failed"));
	w.refuse = true;
	go_line(&w, &r, "true");
	CU_ASSERT_FALSE(r.done);
	CU_ASSERT_TRUE(wait_for(&w, &r.done));
	CU_ASSERT_EQUAL(r.outcome.end, EXEC_START_FAILED);
	CU_ASSERT_EQUAL(r.outcome.code, ECONNREFUSED);
	world_free(&w);
}

static void test_free_with_operations(void)
{
	struct world w;
	struct got g = { 0 }, unsent = { 0 };

	world_new(&w);
	go_line(&w, &g, "sleep 5200");
	CU_ASSERT_TRUE(wait_for(&w, &g.started));
	go_line(&w, &unsent, "true");
	w.b->ops->free(w.b);
	w.b = NULL;
	CU_ASSERT_TRUE(g.done);
	CU_ASSERT_EQUAL(g.outcome.end, EXEC_LOST);
	CU_ASSERT_TRUE(unsent.done);
	world_free(&w);
}

static void test_limits(void)
{
	static char big[200000];
	static const struct exec_events events = { on_started, on_output, feed, on_exec_done };
	struct world w;
	struct got g[241] = { { 0 } };
	struct err err = ERR_INIT;
	struct slice arg = slice_make(big, sizeof(big));
	struct exec_request rq = { .argv = &arg, .nargv = 1, .id = SLICE_LIT("x"), .timeout_ms = 1000 };

	world_new(&w);
	memset(big, 'x', sizeof(big));
	CU_ASSERT_PTR_NULL(w.b->ops->start(w.b, &rq, &events, &g[0], &err));
	CU_ASSERT_EQUAL(err.code, E2BIG);
	for (size_t i = 0; i < 240; i++)
		go_line(&w, &g[i], "sleep 0.5");
	rq.line = SLICE_LIT("true");
	CU_ASSERT_PTR_NULL(w.b->ops->start(w.b, &rq, &events, &g[240], &err));
	CU_ASSERT_EQUAL(err.code, EAGAIN);
	for (size_t i = 0; i < 240; i++) {
		CU_ASSERT_TRUE(wait_for(&w, &g[i].done));
		CU_ASSERT_EQUAL(g[i].outcome.exit_code, 0);
	}
	world_free(&w);
}

/* At the other end speaks whoever made his way there: what he says is told as lost or not at all, and fills no memory. */
static void test_hostile_runner(void)
{
	static const char hello[] = "#!/bin/sh\nprintf '\\0\\0\\015\\1\\0\\0\\0\\0\\1\\0\\0\\0\\010\\0\\0\\0\\0\\0\\0\\0\\1'\n"
		"head -c 80 >/dev/null\n"; /* the controller's hello, and the start behind it */
	static const struct {
		const char *name, *says;
		enum exec_end end;
		const char *text;
	} cases[] = {
		{ "more than the window",
			"i=0; while [ $i -lt 40 ]; do printf '\\1\\0\\0\\012\\0\\0\\0\\1'; head -c 65536 /dev/zero 2>/dev/null || exit; i=$((i + 1)); done; sleep 60",
			EXEC_LOST, "more than its window" },
		{ "a frame that is too long", "printf '\\377\\377\\377\\012\\0\\0\\0\\1'; sleep 60", EXEC_LOST, "" },
		{ "an unknown frame", "printf '\\0\\0\\0\\356\\0\\0\\0\\1'; sleep 60", EXEC_LOST, "" },
		{ "the controller's own frame", "printf '\\0\\0\\0\\016\\0\\0\\0\\1'; sleep 60", EXEC_LOST, "" },
		{ "an end of another kind, of another operation, then none",
			"printf '\\0\\0\\0\\024\\0\\0\\0\\1\\0\\0\\0\\021\\0\\0\\0\\1\\0\\0\\0\\017\\0\\0\\0\\143'", EXEC_LOST, "" },
		{ "an end without a word", "printf '\\0\\0\\0\\017\\0\\0\\0\\1'; sleep 60", EXEC_START_FAILED, "" },
		{ "a fatal text with escapes", "printf '\\0\\0\\011\\2\\0\\0\\0\\0\\7\\0\\0\\0\\4\\033[2J'; sleep 60", EXEC_LOST, "" },
	};
	char path[128], script[1024];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world w;
		struct got g = { .hold = true };
		int fd;

		snprintf(path, sizeof(path), "%s/hostile%zu", room_dir, i);
		int n = snprintf(script, sizeof(script), "%s%s\n", hello, cases[i].says);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
		CU_ASSERT_EQUAL_FATAL(write(fd, script, (size_t)n), n);
		close(fd);
		world_new(&w);
		w.path = path;
		go_line(&w, &g, "true; : a line that is long enough to be read together with the hello before it, and more");
		CU_ASSERT_TRUE(wait_for(&w, &g.done));
		UNIT_CHECK(g.outcome.end == cases[i].end && strstr(g.text, cases[i].text) != NULL && strchr(g.text, '\033') == NULL,
			"%s: %d, %s", cases[i].name, (int)g.outcome.end, g.text);
		UNIT_CHECK(g.out_len <= 512 * 1024, "%s: %zu bytes were taken", cases[i].name, g.out_len);
		world_free(&w);
	}
}

static const struct unit_test tests[] = {
	{ "command", test_command },
	{ "start failure", test_start_failure },
	{ "input", test_input },
	{ "narrow stream", test_narrow_stream },
	{ "back-pressure", test_back_pressure },
	{ "kill", test_kill },
	{ "files", test_files },
	{ "lost", test_lost },
	{ "stopped runner", test_stopped },
	{ "dead stream", test_dead_stream },
	{ "no runner", test_no_runner },
	{ "free with operations", test_free_with_operations },
	{ "limits", test_limits },
	{ "hostile runner", test_hostile_runner },
};

static uid_t sandbox_user(void)
{
	return 1000;
}

int main(int argc, char **argv)
{
	return room_run("runner client", sandbox_user, tests, ARRAY_SIZE(tests), argc, argv);
}
