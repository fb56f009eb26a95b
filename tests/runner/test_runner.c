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
#include "tests/runner/steps.h"


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
	static const char *const own[] = { "of-its-own-path", NULL };
	struct peer *p = fresh();
	char line[600], path[128];
	const char *const own_env[] = { path, NULL };
	uint32_t c;

	c = peer_start(p, &(struct peer_command){ .line = "echo \"$A|$B|$PWD|$PATH\"", .env = env, .cwd = "/usr" });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "three|two words|/usr|/usr/bin:/bin\n");
	c = peer_start(p, &(struct peer_command){ .argv = argv });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "<a b><><*><\xff>");
	/* A program is looked for in the PATH that the command gets, not in the runner's. */
	snprintf(path, sizeof(path), "PATH=%s", room_dir);
	snprintf(line, sizeof(line), "cd %s && printf '#!/bin/sh\necho found\n' >of-its-own-path && chmod +x of-its-own-path", room_dir);
	CU_ASSERT_TRUE(exited(p, run(p, line), 0));
	c = peer_start(p, &(struct peer_command){ .argv = own, .env = own_env });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_STRING_EQUAL(peer_op(p, c)->out, "found\n");
	c = peer_start(p, &(struct peer_command){ .argv = own });
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(peer_num(p, c, FRAME_ATTR_END), FRAME_END_START_FAILED);
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
		" 2>/dev/null & head -c 300000 /dev/zero", 300000 - WINDOW, room_dir);
	c = peer_start(p, &(struct peer_command){ .line = line, .hold = true });
	CU_ASSERT_TRUE(peer_wait_out(p, c, WINDOW));
	snprintf(line, sizeof(line), "while ! test -e %s/stolen; do sleep 0.01; done", room_dir);
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
		" echo alive >%s/alive) & echo hi", room_dir, room_dir);
	c = peer_start(p, &(struct peer_command){ .line = line });
	other = peer_start(p, &(struct peer_command){ .line = "echo other" });
	CU_ASSERT_TRUE(peer_wait(p, other));
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_PTR_NOT_NULL(strstr(peer_op(p, c)->out, "hi\n"));
	CU_ASSERT_TRUE(exited(p, c, 0));
	snprintf(line, sizeof(line), "while ! test -e %s/alive; do sleep 0.01; done; test ! -e %s/broken", room_dir, room_dir);
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

	snprintf(path, sizeof(path), "%s/%s", room_dir, name);
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

	snprintf(line, sizeof(line), "echo partial; : >%s/wrote; sleep 4000", room_dir);
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

	snprintf(line, sizeof(line), "while ! test -e %s/closed; do sleep 0.05; done; echo still >%s/still; sleep 4300", room_dir, room_dir);
	do {
		struct peer *p = fresh();
		char path[128];

		begin(p, &(struct peer_command){ .line = line, .timeout_ms = limit_ms });
		peer_close(p);
		snprintf(path, sizeof(path), "%s/closed", room_dir);
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

	snprintf(path, sizeof(path), "%s/outcomes", room_dir);
	p = peer_new_with(room_program, path);
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

	snprintf(path, sizeof(path), "%s/trap", room_dir);
	snprintf(target, sizeof(target), "%s/target", room_dir);
	for (int kind = 0; kind < 3; kind++) {
		struct peer *p = peer_new_with(room_program, path);

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
		struct peer *p = peer_new(room_program);

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
};

int main(int argc, char **argv)
{
	return room_run("runner", peer_uid, tests, ARRAY_SIZE(tests), argc, argv);
}
