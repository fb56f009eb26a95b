/*
 * The runner as a program, over pipes. Kill-all reaches every process of the sandbox user, so the tests run in a
 * process and mount namespace of their own; without the right to make one (root) they are skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "image/runner/clock.h"
#include "image/runner/outcome.h"
#include "tests/runner/peer.h"
#include "tests/unit/unit.h"

#define WINDOW 262144
static const char *program;
static char dir[64]; /* the sandbox user's own */

static bool ended(struct peer *p, uint32_t c, enum frame_end end, uint64_t status)
{
	return peer_num(p, c, FRAME_ATTR_END) == end && peer_num(p, c, FRAME_ATTR_STATUS) == status;
}

static bool exited(struct peer *p, uint32_t c, uint64_t status)
{
	return ended(p, c, FRAME_END_EXITED, status);
}

static struct peer *fresh(void)
{
	struct peer *p = peer_new(program);

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	peer_hello(p, WINDOW);
	return p;
}

static uint32_t run(struct peer *p, const char *line)
{
	uint32_t c = peer_start(p, &(struct peer_command){ .line = line });

	CU_ASSERT_TRUE(peer_wait(p, c));
	return c;
}

static uint32_t begin(struct peer *p, const struct peer_command *command)
{
	uint32_t c = peer_start(p, command);

	CU_ASSERT_TRUE(peer_wait_started(p, c));
	return c;
}

/* Processes whose command line is exactly "sleep SECONDS". */
static unsigned sleepers(const char *seconds)
{
	char line[128], text[64];
	unsigned n = 0;
	FILE *f;

	snprintf(line, sizeof(line), "pgrep -cfx '(/bin/)?sleep %s'", seconds);
	f = popen(line, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	if (fgets(text, sizeof(text), f) != NULL)
		n = (unsigned)strtoul(text, NULL, 10);
	pclose(f);
	return n;
}

static void wait_sleepers(const char *seconds, unsigned wanted)
{
	for (int i = 0; i < 3000 && sleepers(seconds) != wanted; i++)
		usleep(10000);
	CU_ASSERT_EQUAL(sleepers(seconds), wanted);
}

static void test_ends(void)
{
	static const struct {
		const char *line;
		uint64_t end, status;
	} cases[] = {
		{ "true", FRAME_END_EXITED, 0 },
		{ "exit 5", FRAME_END_EXITED, 5 },
		{ "exit 137", FRAME_END_EXITED, 137 },
		{ "exit 126", FRAME_END_EXITED, 126 },
		{ "kill -KILL $$", FRAME_END_SIGNALED, SIGKILL },
		{ "kill -TERM $$", FRAME_END_SIGNALED, SIGTERM },
		{ "kill -SEGV $$", FRAME_END_SIGNALED, SIGSEGV },
	};
	struct peer *p = fresh();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t c = run(p, cases[i].line);

		UNIT_CHECK(peer_num(p, c, FRAME_ATTR_END) == cases[i].end, "%s", cases[i].line);
		UNIT_CHECK(peer_num(p, c, FRAME_ATTR_STATUS) == cases[i].status, "%s", cases[i].line);
		UNIT_CHECK(peer_num(p, c, FRAME_ATTR_FLAGS) == 0, "%s", cases[i].line);
	}
	peer_free(p);
}

static void test_start_failures(void)
{
	static const char *const missing[] = { "/no/such/program", NULL };
	static const char *const directory[] = { "/tmp", NULL };
	static const char *const printed[] = { "/bin/sh", "-c", "echo OCI runtime exec failed; exit 126", NULL };
	struct peer *p = fresh();
	uint32_t c;

	c = peer_start(p, &(struct peer_command){ .argv = missing });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_END), FRAME_END_START_FAILED);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_CODE), ENOENT);
	CU_ASSERT_FALSE(peer_op(p, c)->started);
	c = peer_start(p, &(struct peer_command){ .argv = directory });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_CODE), EACCES);
	c = peer_start(p, &(struct peer_command){ .line = "true", .cwd = "/no/such/directory" });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_END), FRAME_END_START_FAILED);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_CODE), ENOENT);
	/* What a command prints is never taken for a failure to start. */
	c = peer_start(p, &(struct peer_command){ .argv = printed });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_TRUE(exited(p, c, 126));
	CU_ASSERT_TRUE(peer_op(p, c)->started);
	peer_free(p);
}

static void test_environment(void)
{
	static const char *const env[] = { "A=one", "B=two words", "A=three", "PATH=/usr/bin:/bin", NULL };
	static const char *const argv[] = { "printf", "<%s>", "a b", "", "*", "\xff", NULL };
	struct peer *p = fresh();
	uint32_t c;

	c = peer_start(p, &(struct peer_command){ .line = "echo \"$A|$B|$PWD|$PATH\"", .env = env, .cwd = "/usr" });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "three|two words|/usr|/usr/bin:/bin\n");
	c = peer_start(p, &(struct peer_command){ .argv = argv });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "<a b><><*><\xff>");
	/* No descriptor of the runner's reaches a command. */
	c = run(p, "ls /proc/self/fd | tr '\\n' ' '");
	UNIT_CHECK(strcmp(peer_op(p, c)->out, "0 1 2 3 ") == 0, "%s", peer_op(p, c)->out); /* 3 is the directory that ls reads */
	peer_free(p);
}

static void test_output(void)
{
	struct peer *p = fresh();
	uint32_t c = run(p, "echo out; echo err >&2; printf '\\0\\377\\n'");

	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 7);
	CU_ASSERT_EQUAL(memcmp(peer_op(p, c)->out, "out\n\0\377\n", 7), 0);
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->err, "err\n");
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_STDOUT_BYTES), 7);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_STDERR_BYTES), 4);
	c = run(p, "head -c 16777216 /dev/zero | tr '\\0' x; head -c 100000 /dev/zero >&2");
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 16777216);
	CU_ASSERT_EQUAL(peer_op(p, c)->err_len, 100000);
	peer_free(p);
}

static void test_output_limit(void)
{
	struct peer *p = fresh();
	uint32_t c = peer_start(p, &(struct peer_command){
		.line = "head -c 3000000 /dev/zero; echo done >&2; exit 3", .max_output = 1000 });

	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 1000);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_STDOUT_BYTES), 3000000);
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->err, "done\n");
	CU_ASSERT_TRUE(exited(p, c, 3));
	peer_free(p);
}

/* The window of one command is full and nobody empties it: it waits, and no other does. */
static void test_slow_reader(void)
{
	struct peer *p = fresh();
	uint32_t slow = peer_start(p, &(struct peer_command){ .line = "yes | head -c 1000000; echo end >&2", .hold = true });
	uint32_t c;

	CU_ASSERT_TRUE(peer_wait_out(p, slow, WINDOW));
	c = run(p, "echo quick");
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "quick\n");
	CU_ASSERT_TRUE(peer_wait_pong(p));
	CU_ASSERT_EQUAL(peer_op(p, slow)->out_len, WINDOW);
	CU_ASSERT_FALSE(peer_op(p, slow)->ended);
	peer_op(p, slow)->hold = false;
	peer_credit(p, slow, WINDOW);
	CU_ASSERT_TRUE(peer_wait(p, slow));
	CU_ASSERT_EQUAL(peer_op(p, slow)->out_len, 1000000);
	CU_ASSERT_STRING_EQUAL(peer_op(p, slow)->err, "end\n");
	peer_free(p);
}

/* What was in the pipe at the exit is passed on however late the credit comes, also when a child still holds the pipe. */
static void test_late_credit_after_exit(void)
{
	struct peer *p = fresh();
	uint32_t c = peer_start(p, &(struct peer_command){
		.line = "sleep 4711 & head -c 300000 /dev/zero", .hold = true });
	uint32_t other;

	CU_ASSERT_TRUE(peer_wait_out(p, c, WINDOW));
	other = run(p, "while pgrep -x head >/dev/null; do sleep 0.01; done; sleep 0.6");
	CU_ASSERT_TRUE(exited(p, other, 0));
	peer_op(p, c)->hold = false;
	peer_credit(p, c, WINDOW);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 300000);
	peer_free(p);
}

/* Bytes that a child of the command reads back out of its own output never come: nobody waits for them. */
static void test_stolen_output(void)
{
	struct peer *p = fresh();
	char line[512];
	uint32_t c, other;

	snprintf(line, sizeof(line),
		"exec 3</proc/self/fd/1; (while kill -0 $$; do sleep 0.01; done; head -c %d <&3 >/dev/null; : >%s/stolen; sleep 4712)"
		" 2>/dev/null & head -c 300000 /dev/zero", 300000 - WINDOW, dir);
	c = peer_start(p, &(struct peer_command){ .line = line, .hold = true });
	CU_ASSERT_TRUE(peer_wait_out(p, c, WINDOW));
	snprintf(line, sizeof(line), "while ! test -e %s/stolen; do sleep 0.01; done", dir);
	other = run(p, line);
	CU_ASSERT_TRUE(exited(p, other, 0));
	peer_op(p, c)->hold = false;
	peer_credit(p, c, WINDOW);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_TRUE(exited(p, c, 0));
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, WINDOW);
	peer_free(p);
}

/* A background child that holds the output stalls neither its own command nor another, lives on and may still write. */
static void test_background_child(void)
{
	struct peer *p = fresh();
	char line[512];
	uint32_t c, other;

	snprintf(line, sizeof(line),
		"(trap 'echo broken >%s/broken' PIPE; for i in 1 2 3 4 5 6 7 8 9 10; do head -c 20000 /dev/zero; sleep 0.05; done;"
		" echo alive >%s/alive) & echo hi", dir, dir);
	c = peer_start(p, &(struct peer_command){ .line = line });
	other = peer_start(p, &(struct peer_command){ .line = "echo other" });
	CU_ASSERT_TRUE(peer_wait(p, other));
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_PTR_NOT_NULL(strstr(peer_op(p, c)->out, "hi\n"));
	CU_ASSERT_TRUE(exited(p, c, 0));
	snprintf(line, sizeof(line), "while ! test -e %s/alive; do sleep 0.01; done; test ! -e %s/broken", dir, dir);
	c = run(p, line);
	CU_ASSERT_TRUE(exited(p, c, 0));
	c = peer_start(p, &(struct peer_command){ .line = "yes & echo $!" });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_TRUE(exited(p, c, 0));
	peer_free(p);
}

static void test_stdin(void)
{
	static char big[3 << 20];
	struct peer *p = fresh();
	uint32_t c;

	c = run(p, "cat; echo end");
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "end\n");
	c = begin(p, &(struct peer_command){ .line = "cat; echo end", .want_stdin = true });
	peer_stdin(p, c, "one ", 4);
	CU_ASSERT_TRUE(peer_wait_out(p, c, 4));
	peer_stdin(p, c, "two\n", 4);
	peer_plain(p, FRAME_STDIN_END, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "one two\nend\n");
	memset(big, 'b', sizeof(big));
	c = begin(p, &(struct peer_command){ .line = "wc -c", .want_stdin = true });
	peer_stdin(p, c, big, sizeof(big));
	peer_plain(p, FRAME_STDIN_END, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "3145728\n");
	/* One that closes its stdin takes the rest away without blocking. */
	c = begin(p, &(struct peer_command){ .line = "exec <&-; sleep 0.3; echo closed", .want_stdin = true });
	peer_stdin(p, c, big, sizeof(big));
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "closed\n");
	/* One that does not read holds up nobody else. */
	c = begin(p, &(struct peer_command){ .line = "sleep 30", .want_stdin = true });
	peer_stdin(p, c, big, 65536);
	CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
	peer_plain(p, FRAME_KILL, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	peer_free(p);
}

static void test_terminal(void)
{
	/* Whoever started the runner may ignore the interrupt, as a shell does for what it starts in the background. */
	void (*before)(int) = signal(SIGINT, SIG_IGN);
	struct peer *p = fresh();
	char space[128];
	struct frame_writer w;
	uint32_t c = begin(p, &(struct peer_command){
		.line = "tty >/dev/null && echo yes; stty size; read x; stty size; echo got $x; exit 4", .tty = true });

	CU_ASSERT_TRUE(peer_wait_out(p, c, strlen("yes\r\n33 101\r\n")));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "yes\r\n33 101\r\n");
	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_RESIZE, c);
	frame_put_num(&w, FRAME_ATTR_ROWS, 40);
	frame_put_num(&w, FRAME_ATTR_COLS, 132);
	CU_ASSERT_TRUE(frame_end(&w));
	peer_frame(p, &w);
	peer_stdin(p, c, "word\n", 5);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_PTR_NOT_NULL(strstr(peer_op(p, c)->out, "40 132\r\ngot word\r\n"));
	CU_ASSERT_TRUE(exited(p, c, 4));
	/* Interrupt by a character, as a person does. */
	c = begin(p, &(struct peer_command){ .line = "echo r; exec cat", .tty = true });
	CU_ASSERT_TRUE(peer_wait_out(p, c, 3));
	peer_stdin(p, c, "\003", 1);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_TRUE(ended(p, c, FRAME_END_SIGNALED, SIGINT));
	peer_free(p);
	signal(SIGINT, before);
}

/* Children that ignore signals, change session twice, shed their environment and lose their parents. */
#define TREE(seconds) \
	"trap '' TERM HUP INT; sleep " seconds " & " \
	"setsid sh -c 'setsid sleep " seconds " & sleep " seconds " & wait' & " \
	"(setsid sh -c 'setsid -f sleep " seconds "' &) ; " \
	"env -i /usr/bin/setsid -f /usr/bin/setsid -f /bin/sleep " seconds "; "

static bool there(const char *name)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return stat(path, &st) == 0;
}

/*
 * A command that says nothing is ended in time as well, and what it wrote before is not lost. With the first limit, of
 * doubled ones, in which it got so far: how fast a machine starts a shell is not what is tested.
 */
static void check_output_before_timeout(struct peer *p)
{
	char line[256];
	int64_t limit_ms = 200;
	uint32_t c;

	snprintf(line, sizeof(line), "echo partial; : >%s/wrote; sleep 4000", dir);
	do {
		c = peer_start(p, &(struct peer_command){ .line = line, .timeout_ms = limit_ms });
		CU_ASSERT_TRUE(peer_wait(p, c));
		limit_ms *= 2;
	} while (!there("wrote") && limit_ms < 25000);
	CU_ASSERT_TRUE(there("wrote"));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "partial\n");
}

static void test_timeout_kills_the_tree(void)
{
	struct peer *p = fresh();
	uint32_t other = begin(p, &(struct peer_command){ .line = "sleep 4001" });
	uint32_t c = peer_start(p, &(struct peer_command){ .line = TREE("4000") "wait", .timeout_ms = 700 });

	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_TRUE(ended(p, c, FRAME_END_SIGNALED, SIGKILL));
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_FLAGS), FRAME_EXIT_TIMED_OUT);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_SURVIVORS), 0);
	CU_ASSERT_EQUAL(sleepers("4000"), 0);
	wait_sleepers("4001", 1);
	check_output_before_timeout(p);
	peer_plain(p, FRAME_KILL, other);
	CU_ASSERT_TRUE(peer_wait(p, other));
	CU_ASSERT_EQUAL(peer_num(p, other, FRAME_ATTR_FLAGS), FRAME_EXIT_KILLED);
	peer_free(p);
}

static void test_kill_tagged(void)
{
	static const char *const tags[] = { "red", "none", NULL };
	struct peer *p = fresh();
	uint32_t red = begin(p, &(struct peer_command){ .line = TREE("4100") "echo r; wait", .tag = "red" });
	uint32_t blue = begin(p, &(struct peer_command){ .line = TREE("4101") "echo r; wait", .tag = "blue" });
	uint32_t k;

	CU_ASSERT_TRUE(peer_wait_out(p, red, 2));
	CU_ASSERT_TRUE(peer_wait_out(p, blue, 2));
	wait_sleepers("4100", 5);
	wait_sleepers("4101", 5);
	k = peer_kill_tagged(p, tags);
	CU_ASSERT_TRUE(peer_wait(p, k));
	CU_ASSERT_TRUE(peer_wait(p, red));
	CU_ASSERT_TRUE(ended(p, red, FRAME_END_SIGNALED, SIGKILL));
	CU_ASSERT_TRUE(peer_num(p, k, FRAME_ATTR_COUNT) >= 5);
	CU_ASSERT_EQUAL(peer_num(p, k, FRAME_ATTR_SURVIVORS), 0);
	CU_ASSERT_TRUE(sleepers("4100") <= 1); /* env -i has no tag */
	CU_ASSERT_EQUAL(sleepers("4101"), 5);
	CU_ASSERT_FALSE(peer_op(p, blue)->ended);
	k = peer_kill_tagged(p, NULL);
	CU_ASSERT_TRUE(peer_wait(p, k));
	CU_ASSERT_TRUE(peer_wait(p, blue));
	CU_ASSERT_EQUAL(sleepers("4100"), 0);
	CU_ASSERT_EQUAL(sleepers("4101"), 0);
	CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
	peer_free(p);
}

/* A tree that forks as fast as it can, without any process left to start. */
static void test_fork_bomb(void)
{
	struct rlimit before, few;
	struct peer *p;
	uint32_t bomb, c, k;

	getrlimit(RLIMIT_NPROC, &before);
	few = before;
	few.rlim_cur = 200;
	prlimit(0, RLIMIT_NPROC, &few, NULL);
	p = fresh();
	bomb = begin(p, &(struct peer_command){ .line = "f() { f | f & }; exec 2>/dev/null; f; sleep 4200", .tag = "bomb" });
	for (int i = 0;; i++) {
		c = run(p, "true");
		if (peer_num(p, c, FRAME_ATTR_END) == FRAME_END_START_FAILED)
			break;
		CU_ASSERT_TRUE_FATAL(i < 2000);
	}
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_CODE), EAGAIN);
	k = peer_kill_tagged(p, (const char *const[]){ "bomb", NULL });
	CU_ASSERT_TRUE(peer_wait(p, k));
	CU_ASSERT_EQUAL(peer_num(p, k, FRAME_ATTR_SURVIVORS), 0);
	CU_ASSERT_TRUE(peer_wait(p, bomb));
	CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
	peer_free(p);
	prlimit(0, RLIMIT_NPROC, &before, NULL);
}

static void test_stream_end(void)
{
	char line[256];
	int64_t limit_ms = 2000;

	snprintf(line, sizeof(line), "while ! test -e %s/closed; do sleep 0.05; done; echo still >%s/still; sleep 4300", dir, dir);
	do {
		struct peer *p = fresh();
		char path[128];

		begin(p, &(struct peer_command){ .line = line, .timeout_ms = limit_ms });
		peer_close(p);
		snprintf(path, sizeof(path), "%s/closed", dir);
		CU_ASSERT_EQUAL(close(creat(path, 0644)), 0);
		/* The command runs on to its limit, then nothing is left, the runner included. */
		CU_ASSERT_EQUAL(waitpid(p->pid, NULL, 0), p->pid);
		CU_ASSERT_EQUAL(sleepers("4300"), 0);
		peer_free(p);
		limit_ms *= 2; /* a busy machine needs longer to start a shell */
	} while (!there("still") && limit_ms < 40000);
	CU_ASSERT_TRUE(there("still"));
}

static size_t read_outcomes(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "r");
	size_t n;

	text[0] = '\0';
	if (f == NULL)
		return 0;
	n = fread(text, 1, size - 1, f);
	text[n] = '\0';
	fclose(f);
	return n;
}

/* What the controller has settled is nobody's business any more; what it has not is found in the file. */
static void test_outcomes(void)
{
	char path[128], text[4096];
	struct peer *p;
	int64_t began;
	bool in_time;
	uint32_t c;

	snprintf(path, sizeof(path), "%s/outcomes", dir);
	p = peer_new_with(program, path);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	peer_hello(p, WINDOW);
	began = clock_us();
	c = peer_start(p, &(struct peer_command){ .line = "exit 3", .id = "settled" });
	CU_ASSERT_TRUE(peer_wait(p, c));
	peer_plain(p, FRAME_SETTLED, c);
	CU_ASSERT_TRUE(peer_wait_pong(p));
	in_time = clock_us() - began < OUTCOME_WAIT_US; /* a machine that is too busy for that settles nothing */
	c = peer_start(p, &(struct peer_command){ .line = "exit 4", .id = "unsettled", .tag = "t" });
	CU_ASSERT_TRUE(peer_wait(p, c));
	for (int i = 0; i < 1000 && read_outcomes(path, text, sizeof(text)) == 0; i++)
		usleep(10000);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 unsettled t exited 4 no "));
	begin(p, &(struct peer_command){ .line = "sleep 1; kill -TERM $$", .id = "late" });
	begin(p, &(struct peer_command){ .line = "sleep 4310", .id = "slow", .timeout_ms = 1500 });
	peer_close(p);
	CU_ASSERT_EQUAL(waitpid(p->pid, NULL, 0), p->pid);
	read_outcomes(path, text, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 late _ signaled 15 no "));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 slow _ timeout 9 no "));
	CU_ASSERT_TRUE(!in_time || strstr(text, "1 settled ") == NULL);
	peer_free(p);
}

/* Whatever the sandbox user puts in the file's place, the runner neither follows, blocks nor ends. */
static void test_outcomes_in_the_way(void)
{
	char path[128], target[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/trap", dir);
	snprintf(target, sizeof(target), "%s/target", dir);
	for (int kind = 0; kind < 3; kind++) {
		struct peer *p = peer_new_with(program, path);

		CU_ASSERT_PTR_NOT_NULL_FATAL(p);
		int made = kind == 0 ? mkfifo(path, 0666) : kind == 1 ? symlink(target, path) : mkdir(path, 0777);
		CU_ASSERT_EQUAL(made, 0);
		peer_hello(p, WINDOW);
		CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
		peer_close(p);
		CU_ASSERT_EQUAL(waitpid(p->pid, NULL, 0), p->pid);
		CU_ASSERT_EQUAL(stat(target, &st), -1);
		peer_free(p);
		CU_ASSERT_EQUAL(remove(path), 0);
	}
}

/* The next runner finds by its tag what an older one started, also after that one was killed. */
static void test_next_runner_kills(void)
{
	struct peer *old = fresh(), *p;
	uint32_t k;

	begin(old, &(struct peer_command){ .line = TREE("4400") "wait", .tag = "old" });
	wait_sleepers("4400", 5);
	kill(old->pid, SIGKILL);
	peer_free(old);
	CU_ASSERT_TRUE(sleepers("4400") >= 4);
	p = fresh();
	k = peer_kill_tagged(p, (const char *const[]){ "old", NULL });
	CU_ASSERT_TRUE(peer_wait(p, k));
	CU_ASSERT_TRUE(sleepers("4400") <= 1);
	k = peer_kill_tagged(p, NULL);
	CU_ASSERT_TRUE(peer_wait(p, k));
	CU_ASSERT_EQUAL(sleepers("4400"), 0);
	peer_free(p);
}

static void test_protocol_faults(void)
{
	static const struct {
		const char *name;
		struct slice bytes;
		const char *fatal;
	} cases[] = {
		{ "unknown type", SLICE_LIT("\0\0\0\xee\0\0\0\x01"), "an unknown frame type" },
		{ "the runner's own", SLICE_LIT("\0\0\0\x04\0\0\0\0"), "a frame that this side does not send" },
		{ "hello twice", SLICE_LIT("\0\0\0\x01\0\0\0\0"), "a second hello" },
		{ "ping on a channel", SLICE_LIT("\0\0\0\x03\0\0\0\x01"), "a frame on the wrong kind of channel" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct peer *p = fresh();

		peer_send(p, cases[i].bytes.p, cases[i].bytes.len);
		UNIT_CHECK(peer_wait_eof(p), "%s", cases[i].name);
		UNIT_CHECK(strcmp(p->fatal, cases[i].fatal) == 0, "%s: %s", cases[i].name, p->fatal);
		peer_free(p);
	}
	{
		struct peer *p = peer_new(program);

		peer_plain(p, FRAME_PING, 0);
		CU_ASSERT_TRUE(peer_wait_eof(p));
		CU_ASSERT_STRING_EQUAL(p->fatal, "the first frame is no hello");
		peer_free(p);
	}
}

static void test_requests_refused(void)
{
	struct peer *p = fresh();
	uint32_t c = peer_start(p, &(struct peer_command){ .line = "true", .timeout_ms = INT64_C(31) * 24 * 3600 * 1000 });

	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_END), FRAME_END_START_FAILED);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_CODE), EINVAL);
	/* Frames for what has ended, or never was, are late and not wrong. */
	peer_plain(p, FRAME_KILL, c);
	peer_plain(p, FRAME_STDIN_END, 400);
	peer_credit(p, 401, 5);
	CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
	c = begin(p, &(struct peer_command){ .line = "sleep 30" });
	p->next = c;
	peer_start(p, &(struct peer_command){ .line = "true" });
	CU_ASSERT_TRUE(peer_wait_eof(p));
	CU_ASSERT_STRING_EQUAL(p->fatal, "the channel is in use");
	kill(p->pid, SIGKILL);
	peer_free(p);
}

static void test_split_at_every_byte(void)
{
	struct peer *p = fresh();
	char space[512];
	struct frame_writer w;

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_START, 1);
	frame_put_bytes(&w, FRAME_ATTR_ID, SLICE_LIT("split"));
	frame_put_num(&w, FRAME_ATTR_FLAGS, FRAME_START_LINE);
	frame_put_num(&w, FRAME_ATTR_TIMEOUT_MS, 10000);
	frame_put_bytes(&w, FRAME_ATTR_ARG, SLICE_LIT("echo whole"));
	CU_ASSERT_TRUE(frame_end(&w));
	for (size_t cut = 0; cut <= w.len; cut++) {
		struct peer_op *op = peer_op(p, 1);

		op->ended = false;
		op->out_len = 0;
		peer_send(p, space, cut);
		CU_ASSERT_TRUE(cut == w.len || cut == 0 || waitpid(p->pid, NULL, WNOHANG) == 0);
		usleep(200);
		peer_send(p, space + cut, w.len - cut);
		CU_ASSERT_TRUE_FATAL(peer_wait(p, 1));
		UNIT_CHECK(op->out != NULL && strcmp(op->out, "whole\n") == 0, "cut at %zu", cut);
	}
	peer_free(p);
}

static void test_many_at_once(void)
{
	enum { MANY = 250 };
	struct peer *p = fresh();
	uint32_t c[MANY];
	unsigned good = 0, refused = 0;

	for (int i = 0; i < MANY; i++) {
		char line[64];

		snprintf(line, sizeof(line), "sleep 0.2; echo %d; exit %d", i, i % 100);
		c[i] = peer_start(p, &(struct peer_command){ .line = line });
	}
	for (int i = 0; i < MANY; i++) {
		char text[16];

		CU_ASSERT_TRUE(peer_wait(p, c[i]));
		snprintf(text, sizeof(text), "%d\n", i);
		if (!exited(p, c[i], (unsigned)i % 100) || strcmp(peer_op(p, c[i])->out, text) != 0) {
			struct slice why = frame_bytes(&peer_op(p, c[i])->end_frame, FRAME_ATTR_TEXT);

			UNIT_CHECK(false, "command %d: %.*s", i, SLICE_ARG(why));
			continue;
		}
		good++;
	}
	CU_ASSERT_EQUAL(good, MANY);
	for (int i = 0; i < MANY + 20; i++)
		c[i % MANY] = peer_start(p, &(struct peer_command){ .line = "sleep 4500", .tag = "many" });
	CU_ASSERT_TRUE(peer_wait_pong(p));
	for (uint32_t i = 0; i < PEER_OPS; i++)
		refused += p->ops[i].ended && peer_num(p, i, FRAME_ATTR_CODE) == EAGAIN;
	CU_ASSERT_EQUAL(refused, MANY + 20 - 256);
	kill(p->pid, SIGKILL);
	peer_free(p);
	p = fresh();
	c[0] = peer_kill_tagged(p, (const char *const[]){ "many", NULL });
	CU_ASSERT_TRUE(peer_wait(p, c[0]));
	CU_ASSERT_EQUAL(sleepers("4500"), 0);
	peer_free(p);
}

/* ---- files ---- */

static const char *at(const char *name)
{
	static char text[4][512];
	static unsigned next;
	char *out = text[next++ % 4];

	snprintf(out, sizeof(text[0]), "%s/%s", dir, name);
	return out;
}

static uint32_t file(struct peer *p, enum frame_file_kind kind, const char *path, uint64_t flags)
{
	uint32_t c = peer_file(p, &(struct peer_file){ .kind = kind, .path = path, .flags = flags, .mode = -1 });

	CU_ASSERT_TRUE(kind == FRAME_FILE_WRITE || peer_wait(p, c));
	return c;
}

static uint32_t put(struct peer *p, const char *path, const char *text, uint64_t flags, int64_t mode)
{
	uint32_t c = peer_file(p, &(struct peer_file){ .kind = FRAME_FILE_WRITE, .path = path, .flags = flags, .mode = mode });

	peer_stdin(p, c, text, strlen(text));
	peer_plain(p, FRAME_STDIN_END, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	return c;
}

#define CODE(p, c) peer_num((p), (c), FRAME_ATTR_CODE)

static void test_file_write(void)
{
	struct peer *p = fresh();
	struct stat st;
	uint32_t c;

	c = put(p, at("w"), "one\n", 0, -1);
	CU_ASSERT_EQUAL(CODE(p, c), 0);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_SIZE), 4);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_MODE), 0644);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("w"), "more\n", FRAME_FILE_APPEND, -1)), 0);
	c = run(p, "true");
	c = file(p, FRAME_FILE_READ, at("w"), 0);
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "one\nmore\n");
	/* Shorter content leaves no tail; the mode stays, or is as asked. */
	CU_ASSERT_EQUAL(chmod(at("w"), 0755), 0);
	CU_ASSERT_EQUAL(peer_num(p, put(p, at("w"), "x", 0, -1), FRAME_ATTR_MODE), 0755);
	CU_ASSERT_EQUAL(peer_num(p, put(p, at("w"), "x", 0, 0600), FRAME_ATTR_MODE), 0600);
	CU_ASSERT_STRING_EQUAL(peer_op(p, file(p, FRAME_FILE_READ, at("w"), 0))->out, "x");
	CU_ASSERT_EQUAL(CODE(p, put(p, at("w"), "y", FRAME_FILE_EXCLUSIVE, -1)), EEXIST);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("new"), "y", FRAME_FILE_EXCLUSIVE, -1)), 0);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("a/b/c/d"), "deep", 0, -1)), ENOENT);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("a/b/c/d"), "deep", FRAME_FILE_PARENTS, -1)), 0);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("a/b"), "dir", 0, -1)), EISDIR);
	CU_ASSERT_EQUAL(CODE(p, put(p, "/proc/self/comm", "x", 0, -1)), EACCES);
	CU_ASSERT_EQUAL(CODE(p, put(p, "/dev/null", "x", 0, -1)), EINVAL);
	CU_ASSERT_EQUAL(CODE(p, put(p, "/etc/capybara", "x", 0, -1)), EACCES);
	CU_ASSERT_EQUAL(CODE(p, put(p, "relative", "x", 0, -1)), EINVAL);
	/* Through a symlink the target is replaced and the link stays; a fifo is not touched. */
	CU_ASSERT_EQUAL(symlink("w", at("link")), 0);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("link"), "through", 0, -1)), 0);
	CU_ASSERT_STRING_EQUAL(peer_op(p, file(p, FRAME_FILE_READ, at("w"), 0))->out, "through");
	CU_ASSERT_TRUE(lstat(at("link"), &st) == 0 && S_ISLNK(st.st_mode));
	CU_ASSERT_EQUAL(symlink("loop", at("loop")), 0);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("loop"), "x", 0, -1)), ELOOP);
	CU_ASSERT_EQUAL(mkfifo(at("fifo"), 0666), 0);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("fifo"), "x", 0, -1)), EINVAL);
	/* A write that is given up, or whose controller goes away, leaves the old file and nothing else. */
	c = file(p, FRAME_FILE_WRITE, at("w"), 0);
	peer_stdin(p, c, "half", 4);
	peer_plain(p, FRAME_KILL, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(CODE(p, c), ECANCELED);
	c = file(p, FRAME_FILE_WRITE, at("w"), 0);
	peer_stdin(p, c, "half", 4);
	peer_free(p);
	p = fresh();
	CU_ASSERT_STRING_EQUAL(peer_op(p, file(p, FRAME_FILE_READ, at("w"), 0))->out, "through");
	c = file(p, FRAME_FILE_LIST, dir, 0);
	CU_ASSERT_PTR_NULL(strstr(peer_op(p, c)->names, ".capybara-write"));
	CU_ASSERT_PTR_NOT_NULL(strstr(peer_op(p, c)->names, "fifo\n"));
	peer_free(p);
}

static void test_file_read(void)
{
	static char big[5 << 20];
	struct peer *p = fresh();
	uint32_t c;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 % 251);
	c = file(p, FRAME_FILE_WRITE, at("big"), 0);
	peer_stdin(p, c, big, sizeof(big));
	peer_plain(p, FRAME_STDIN_END, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	c = file(p, FRAME_FILE_READ, at("big"), 0);
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, sizeof(big));
	CU_ASSERT_EQUAL(memcmp(peer_op(p, c)->out, big, sizeof(big)), 0);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_FLAGS), 0);
	c = peer_file(p, &(struct peer_file){
		.kind = FRAME_FILE_READ, .path = at("big"), .offset = 1000, .limit = 100000, .mode = -1 });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 100000);
	CU_ASSERT_EQUAL(memcmp(peer_op(p, c)->out, big + 1000, 100000), 0);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_FLAGS), FRAME_DONE_TRUNCATED);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_SIZE), sizeof(big));
	c = peer_file(p, &(struct peer_file){
		.kind = FRAME_FILE_READ, .path = at("big"), .offset = sizeof(big) - 5, .limit = 5, .mode = -1 });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 5);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_FLAGS), 0);
	c = peer_file(p, &(struct peer_file){
		.kind = FRAME_FILE_READ, .path = at("big"), .offset = sizeof(big) + 5, .mode = -1 });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(CODE(p, c), 0);
	CU_ASSERT_EQUAL(peer_op(p, c)->out_len, 0);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, at("missing"), 0)), ENOENT);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, dir, 0)), EISDIR);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, "/dev/zero", 0)), EINVAL);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, "/etc/shadow", 0)), EACCES);
	CU_ASSERT_EQUAL(mkfifo(at("fifo2"), 0666), 0);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, at("fifo2"), 0)), EINVAL);
	c = file(p, FRAME_FILE_READ, "/proc/uptime", 0); /* of size 0, yet with content */
	CU_ASSERT_TRUE(peer_op(p, c)->out_len > 3);
	if (p->features & FRAME_FEATURE_OPENAT2)
		CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, "/proc/self/exe", 0)), ELOOP);
	peer_free(p);
}

static void test_file_stat_list_remove(void)
{
	struct peer *p = fresh();
	uint32_t c;
	char name[600];

	CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
	c = put(p, at("s\nline'\"\xff"), "12345", 0, 0640);
	CU_ASSERT_EQUAL(CODE(p, c), 0);
	c = file(p, FRAME_FILE_STAT, at("s\nline'\"\xff"), 0);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_TYPE), FRAME_TYPE_REGULAR);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_SIZE), 5);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_MODE), 0640);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_UID), peer_uid());
	CU_ASSERT_EQUAL(symlink("nowhere", at("dangling")), 0);
	c = file(p, FRAME_FILE_STAT, at("dangling"), 0);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_TYPE), FRAME_TYPE_SYMLINK);
	CU_ASSERT_TRUE(slice_is(frame_bytes(&peer_op(p, c)->end_frame, FRAME_ATTR_TARGET), "nowhere"));
	c = file(p, FRAME_FILE_STAT, at("dangling"), FRAME_FILE_FOLLOW);
	CU_ASSERT_EQUAL(CODE(p, c), 0);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_TYPE), UINT64_MAX);
	CU_ASSERT_EQUAL(peer_num(p, file(p, FRAME_FILE_STAT, "/", 0), FRAME_ATTR_TYPE), FRAME_TYPE_DIRECTORY);
	CU_ASSERT_EQUAL(peer_num(p, file(p, FRAME_FILE_STAT, "/dev/null", 0), FRAME_ATTR_TYPE), FRAME_TYPE_OTHER);

	CU_ASSERT_TRUE(exited(p, run(p, "true"), 0));
	snprintf(name, sizeof(name), "mkdir -p %s/t/u/v && touch %s/t/{1..1500} %s/t/u/v/x && ln -s / %s/t/u/root", dir, dir,
		dir, dir);
	CU_ASSERT_TRUE(exited(p, run(p, name), 0));
	c = file(p, FRAME_FILE_LIST, at("t"), 0);
	CU_ASSERT_EQUAL(peer_op(p, c)->entries, 1501);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_FLAGS), 0);
	c = peer_file(p, &(struct peer_file){ .kind = FRAME_FILE_LIST, .path = at("t"), .limit = 10, .mode = -1 });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_op(p, c)->entries, 10);
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_FLAGS), FRAME_DONE_TRUNCATED);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_LIST, at("t/1"), 0)), ENOTDIR);

	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_REMOVE, at("t"), 0)), ENOTEMPTY);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_REMOVE, at("dangling"), 0)), 0);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_REMOVE, at("dangling"), 0)), ENOENT);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_REMOVE, at("t"), FRAME_FILE_RECURSIVE)), 0);
	CU_ASSERT_EQUAL(access(at("t"), F_OK), -1);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_REMOVE, "/etc/passwd", 0)), EACCES);
	peer_free(p);
}

static uint64_t confined(struct peer *p, enum frame_file_kind kind, const char *path, const char *root)
{
	const char *const roots[] = { "/no/such/root", root, NULL };
	uint32_t c = peer_file(p, &(struct peer_file){
		.kind = kind, .path = path, .roots = roots, .mode = -1, .flags = kind == FRAME_FILE_STAT ? FRAME_FILE_FOLLOW : 0 });

	if (kind == FRAME_FILE_WRITE)
		peer_plain(p, FRAME_STDIN_END, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	return CODE(p, c);
}

static void test_file_roots(void)
{
	struct peer *p = fresh();
	char line[1024], root[128];

	snprintf(root, sizeof(root), "%s/root", dir);
	snprintf(line, sizeof(line),
		"cd %s && mkdir -p root/in/side outside && echo s >outside/secret && echo i >root/in/file && "
		"ln -s ../outside root/out && ln -s /etc root/etc && ln -s in root/inner && ln -s ../outside/secret root/f && "
		"ln -s root rootlink", dir);
	CU_ASSERT_TRUE(exited(p, run(p, line), 0));
	CU_ASSERT_EQUAL(confined(p, FRAME_FILE_READ, at("root/in/file"), root), 0);
	CU_ASSERT_EQUAL(confined(p, FRAME_FILE_LIST, at("root"), root), 0);
	CU_ASSERT_EQUAL(confined(p, FRAME_FILE_WRITE, at("root/in/new"), root), 0);
	CU_ASSERT_EQUAL(confined(p, FRAME_FILE_READ, at("outside/secret"), root), EXDEV);
	CU_ASSERT_EQUAL(confined(p, FRAME_FILE_READ, at("rootx"), root), EXDEV);
	CU_ASSERT_EQUAL(confined(p, FRAME_FILE_READ, at("root/in/../../outside/secret"), root), EXDEV);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_READ, at("root/out/secret"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_READ, at("root/etc/passwd"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_READ, at("root/f"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_WRITE, at("root/f"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_WRITE, at("root/out/new"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_REMOVE, at("root/out/secret"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_STAT, at("root/out/secret"), root), 0);
	CU_ASSERT_NOT_EQUAL(confined(p, FRAME_FILE_READ, at("rootlink/in/file"), at("rootlink")), 0);
	CU_ASSERT_EQUAL(access(at("outside/secret"), F_OK), 0);
	CU_ASSERT_EQUAL(access(at("outside/new"), F_OK), -1);
	peer_free(p);
}

/* A symlink that is swapped all the time between a directory inside and one outside never lets a byte of the outside in. */
static void test_file_race(void)
{
	struct peer *p = fresh();
	char line[1024], root[128];
	uint32_t racer;
	unsigned leaks = 0, reads = 0;

	snprintf(root, sizeof(root), "%s/race", dir);
	snprintf(line, sizeof(line),
		"cd %s && mkdir -p race/a race/real out2 && echo in >race/real/f && echo out >out2/f && echo r && "
		"exec perl -e 'while (1) { rename \"race/a\", \"race/b\"; symlink \"../out2\", \"race/a\"; "
		"unlink \"race/a\"; symlink \"real\", \"race/a\"; unlink \"race/a\"; rename \"race/b\", \"race/a\"; }'", dir);
	racer = begin(p, &(struct peer_command){ .line = line });
	CU_ASSERT_TRUE(peer_wait_out(p, racer, 2));
	for (int i = 0; i < 3000; i++) {
		const char *const roots[] = { root, NULL };
		uint32_t c = peer_file(p, &(struct peer_file){
			.kind = FRAME_FILE_READ, .path = at("race/a/f"), .roots = roots, .mode = -1 });

		CU_ASSERT_TRUE_FATAL(peer_wait(p, c));
		leaks += strcmp(peer_op(p, c)->out, "out\n") == 0;
		reads += strcmp(peer_op(p, c)->out, "in\n") == 0;
	}
	CU_ASSERT_EQUAL(leaks, 0);
	if (p->features & FRAME_FEATURE_OPENAT2)
		CU_ASSERT_TRUE(reads > 0);
	peer_plain(p, FRAME_KILL, racer);
	CU_ASSERT_TRUE(peer_wait(p, racer));
	peer_free(p);
}

static const struct unit_test tests[] = {
	{ "ends", test_ends },
	{ "start failures", test_start_failures },
	{ "environment", test_environment },
	{ "output", test_output },
	{ "output limit", test_output_limit },
	{ "slow reader", test_slow_reader },
	{ "late credit after exit", test_late_credit_after_exit },
	{ "stolen output", test_stolen_output },
	{ "background child", test_background_child },
	{ "stdin", test_stdin },
	{ "terminal", test_terminal },
	{ "timeout kills the tree", test_timeout_kills_the_tree },
	{ "kill tagged", test_kill_tagged },
	{ "fork bomb", test_fork_bomb },
	{ "stream end", test_stream_end },
	{ "outcomes", test_outcomes },
	{ "outcomes-in-the-way", test_outcomes_in_the_way },
	{ "next runner kills", test_next_runner_kills },
	{ "protocol faults", test_protocol_faults },
	{ "requests refused", test_requests_refused },
	{ "split at every byte", test_split_at_every_byte },
	{ "many at once", test_many_at_once },
	{ "file write", test_file_write },
	{ "file read", test_file_read },
	{ "file stat, list, remove", test_file_stat_list_remove },
	{ "file roots", test_file_roots },
	{ "file race", test_file_race },
};

static int in_namespace(int argc, char **argv)
{
	int status;

	if (mount("none", "/proc", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0) {
		perror("mount");
		return 99;
	}
	signal(SIGPIPE, SIG_IGN);
	snprintf(dir, sizeof(dir), "/tmp/runner-test-XXXXXX");
	if (mkdtemp(dir) == NULL || chown(dir, peer_uid(), peer_uid()) != 0)
		return 99;
	umask(0);
	status = unit_main("runner", tests, ARRAY_SIZE(tests), argc, argv);
	if (fork() == 0) {
		execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(127);
	}
	wait(NULL);
	return status;
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	program = getenv("SANDBOX_RUNNER");
	if (program == NULL)
		program = "image/runner/sandbox-runner";
	if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
		fprintf(stderr, "runner: skipped, it needs namespaces of its own (run as root): %s\n", strerror(errno));
		return 77;
	}
	pid = fork();
	if (pid == 0) {
		/* Not pid 1 itself: that one is spared and reaps what loses its parents. */
		pid = fork();
		if (pid == 0) {
			status = in_namespace(argc, argv);
			fflush(NULL);
			_exit(status);
		}
		for (;;)
			if (wait(&status) == pid)
				_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 98;
	/* Not by return: a leak check cannot start its helper once processes go to another namespace. */
	fflush(NULL);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}
