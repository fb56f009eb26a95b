/* The audit log: every line is one JSON object whatever is logged, and nothing is lost without a word. */
#include "libgate/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "libgate/buf.h"
#include "libgate/json.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/test_audit.XXXXXX";
static char path[64];

static void open_dir(void)
{
	if (strchr(dir, 'X') != NULL && mkdtemp(dir) == NULL)
		abort();
	snprintf(path, sizeof(path), "%s/audit.log", dir);
	unlink(path);
}

static void close_dir(void)
{
	unlink(path);
	rmdir(dir);
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
}

static size_t slurp(const char *file, char *out, size_t size)
{
	auto_close int fd = open(file, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n < 0 ? 0 : n] = '\0';
	return n < 0 ? 0 : (size_t)n;
}

/* Parses one line; false when it is no JSON object. */
static bool line_ok(struct json_doc *doc, struct slice line, const struct json_node **root)
{
	enum json_fault fault;
	size_t offset;

	*root = json_parse(doc, line, JSON_STRICT, &fault, &offset);
	return *root != NULL && (*root)->type == JSON_OBJECT;
}

static void test_record(void)
{
	struct err err = ERR_INIT;
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = NULL;
	struct audit *a;
	struct stat st;
	char text[4096];
	size_t n;
	struct slice s;
	int64_t i;
	bool b = false;

	open_dir();
	umask(0);
	a = audit_open(path, "dockerproxy", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0640);
	audit_begin(a, "decision");
	audit_str(a, "target", SLICE_LIT("/x\"\n\x01\xff{}"));
	audit_cstr(a, "absent", NULL);
	audit_cstr(a, "reason", "policy");
	audit_int(a, "status", -403);
	audit_int(a, "none", 0);
	audit_int(a, "least", INT64_MIN);
	audit_int(a, "most", INT64_MAX);
	audit_bool(a, "warn", 1);
	audit_end(a);
	n = slurp(path, text, sizeof(text));
	CU_ASSERT_TRUE_FATAL(n > 0 && text[n - 1] == '\n');
	CU_ASSERT_PTR_EQUAL(strchr(text, '\n'), text + n - 1);
	CU_ASSERT_TRUE_FATAL(line_ok(doc, slice_make(text, n - 1), &root));
	CU_ASSERT_TRUE(json_get_string(root, "time", &s) && s.len == 27 && s.p[10] == 'T' && s.p[26] == 'Z');
	CU_ASSERT_TRUE(json_get_string(root, "program", &s) && slice_is(s, "dockerproxy"));
	CU_ASSERT_TRUE(json_get_string(root, "event", &s) && slice_is(s, "decision"));
	/* A byte that is no UTF-8 is kept as the code point of its value. */
	CU_ASSERT_TRUE(json_get_string(root, "target", &s) && slice_is(s, "/x\"\n\x01\xc3\xbf{}"));
	CU_ASSERT_TRUE(json_get_int(root, "status", &i) && i == -403);
	CU_ASSERT_TRUE(json_get_int(root, "none", &i) && i == 0);
	CU_ASSERT_TRUE(json_get_int(root, "least", &i) && i == INT64_MIN);
	CU_ASSERT_TRUE(json_get_int(root, "most", &i) && i == INT64_MAX);
	CU_ASSERT_TRUE(json_get_bool(root, "warn", &b) && b);
	CU_ASSERT_PTR_NULL(json_get(root, "absent"));
	CU_ASSERT_PTR_NULL(json_get(root, "missing"));
	audit_free(a);
	json_doc_free(doc);
	close_dir();
}

/* The clock's own function is the second opinion on the calendar. */
static void test_time(void)
{
	struct err err = ERR_INIT;
	struct audit *a;
	char text[4096], want[32], got[32];
	time_t before, after;
	struct tm tm;

	open_dir();
	a = audit_open(path, "p", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	do {
		before = time(NULL);
		audit_begin(a, "e");
		audit_end(a);
		after = time(NULL);
	} while (before != after);
	slurp(path, text, sizeof(text));
	snprintf(got, sizeof(got), "%.19s", strrchr(text, '{') + 9);
	gmtime_r(&before, &tm);
	strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S", &tm);
	CU_ASSERT_STRING_EQUAL(got, want);
	audit_free(a);
	close_dir();
}

static void test_long_values_are_cut(void)
{
	struct err err = ERR_INIT;
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = NULL;
	int p[2];
	char big[50000], line[65536];
	struct audit *a;
	struct slice s;
	bool cut = false;
	ssize_t n;

	CU_ASSERT_EQUAL_FATAL(pipe(p), 0);
	int saved = dup(STDERR_FILENO);
	dup2(p[1], STDERR_FILENO);
	a = audit_open("stderr", "p", &err);
	dup2(saved, STDERR_FILENO);
	close(saved);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	memset(big, 1, sizeof(big));
	audit_begin(a, "e");
	audit_str(a, "target", slice_make(big, sizeof(big)));
	audit_str(a, "agent", SLICE_LIT("curl"));
	audit_cstr(a, "decision", "deny");
	audit_end(a);
	n = read(p[0], line, sizeof(line));
	CU_ASSERT_TRUE_FATAL(n > 0 && n <= 4096);
	CU_ASSERT_TRUE_FATAL(line_ok(doc, slice_make(line, (size_t)n - 1), &root));
	CU_ASSERT_TRUE(json_get_string(root, "target", &s) && s.len > 50);
	CU_ASSERT_TRUE(json_get_string(root, "decision", &s) && slice_is(s, "deny"));
	CU_ASSERT_TRUE(json_get_bool(root, "cut", &cut) && cut);
	audit_free(a);
	close(p[0]);
	close(p[1]);
	json_doc_free(doc);
}

static void test_cut_keeps_characters_whole(void)
{
	struct err err = ERR_INIT;
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = NULL;
	char big[30001], text[65536];
	struct audit *a;
	struct slice s;
	size_t n;

	open_dir();
	a = audit_open(path, "p", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	big[0] = 'a';
	for (size_t i = 1; i < sizeof(big); i += 2)
		memcpy(big + i, "\xc3\xa4", 2);
	audit_begin(a, "e");
	audit_str(a, "v", slice_make(big, sizeof(big)));
	audit_end(a);
	n = slurp(path, text, sizeof(text));
	CU_ASSERT_TRUE_FATAL(n > 1 && line_ok(doc, slice_make(text, n - 1), &root));
	CU_ASSERT_TRUE(json_get_string(root, "v", &s) && s.len % 2 == 1 && memcmp(s.p, big, s.len) == 0);
	audit_free(a);
	json_doc_free(doc);
	close_dir();
}

/* A pipe that nobody reads: the writer goes on, and the gap is told once it can be. */
static void full_sink(bool as_stranger)
{
	struct err err = ERR_INIT;
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = NULL;
	static char got[1 << 20];
	size_t have = 0;
	int p[2];
	struct audit *a;
	int64_t missing = 0;
	uint64_t dropped;
	ssize_t n;

	CU_ASSERT_EQUAL_FATAL(pipe2(p, O_CLOEXEC), 0);
	int saved = dup(STDERR_FILENO);
	dup2(p[1], STDERR_FILENO);
	/* Another user's pipe cannot be opened a second time: it is then shared, and must still not block. */
	if (as_stranger && seteuid(65534) < 0)
		abort();
	a = audit_open("stderr", "p", &err);
	if (as_stranger && seteuid(0) < 0)
		abort();
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(p[1]);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	for (int i = 0; i < 10000; i++) {
		audit_begin(a, "e");
		audit_int(a, "i", i);
		audit_end(a);
	}
	dropped = audit_dropped(a);
	CU_ASSERT_TRUE(dropped > 0 && dropped < 10000);
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	for (int round = 0; round < 20; round++) {
		while ((n = read(p[0], got + have, sizeof(got) - have)) > 0)
			have += (size_t)n;
		audit_flush(a);
	}
	audit_begin(a, "last");
	audit_end(a);
	audit_free(a);
	while ((n = read(p[0], got + have, sizeof(got) - have)) > 0)
		have += (size_t)n;
	unsigned lines = 0;
	for (char *at = got, *end; (end = memchr(at, '\n', have - (size_t)(at - got))) != NULL; at = end + 1) {
		if (!UNIT_CHECK(line_ok(doc, slice_make(at, (size_t)(end - at)), &root), "line %u", lines))
			break;
		if (json_get_int(root, "missing", &missing))
			CU_ASSERT_EQUAL(missing, (int64_t)dropped);
		lines++;
	}
	CU_ASSERT_EQUAL(missing, (int64_t)dropped);
	CU_ASSERT_EQUAL(lines + dropped, 10001);
	close(p[0]);
	json_doc_free(doc);
}

static void test_full_sink(void)
{
	full_sink(false);
	if (geteuid() == 0)
		full_sink(true);
}

static void put_numbers(struct audit *a, const char *key, int from, int to)
{
	for (int i = from; i < to; i++) {
		audit_begin(a, "e");
		audit_int(a, key, i);
		audit_end(a);
	}
}

/* Two workers' file on a disk that is full for a while: of the line that it tore nothing is lost, nor of the other's. */
static void test_full_disk(void)
{
	enum { LINES = 500 };
	struct err err = ERR_INIT;
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = NULL;
	struct rlimit was, full = { .rlim_cur = 20000 };
	struct audit *w[2];
	static char text[1 << 20];
	unsigned seen[2][LINES] = { { 0 } }, torn = 0;
	size_t have;

	open_dir();
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	full.rlim_max = was.rlim_max;
	for (int k = 0; k < 2; k++) {
		w[k] = audit_open(path, "p", &err);
		CU_ASSERT_PTR_NOT_NULL_FATAL(w[k]);
		audit_set_buffered(w[k], true);
	}
	put_numbers(w[0], "0", 0, LINES);
	put_numbers(w[1], "1", 0, LINES);
	setrlimit(RLIMIT_FSIZE, &full);
	audit_flush(w[0]);
	audit_flush(w[1]);
	CU_ASSERT_EQUAL(slurp(path, text, sizeof(text)), 20000);
	CU_ASSERT_NOT_EQUAL(text[19999], '\n'); /* within a line */
	setrlimit(RLIMIT_FSIZE, &was);
	audit_flush(w[1]);
	audit_flush(w[0]);
	have = slurp(path, text, sizeof(text));
	for (char *at = text, *end; (end = memchr(at, '\n', have - (size_t)(at - text))) != NULL; at = end + 1) {
		int64_t i = -1;

		if (end == at)
			continue;
		if (!line_ok(doc, slice_make(at, (size_t)(end - at)), &root))
			torn++;
		else if ((json_get_int(root, "0", &i) || json_get_int(root, "1", &i)) && i >= 0 && i < LINES)
			seen[json_get(root, "1") != NULL][i]++;
	}
	CU_ASSERT_EQUAL(torn, 1);
	for (int i = 0; i < LINES; i++)
		UNIT_CHECK(seen[0][i] == 1 && seen[1][i] == 1, "line %d: %u, %u", i, seen[0][i], seen[1][i]);
	audit_free(w[0]);
	audit_free(w[1]);
	json_doc_free(doc);
	close_dir();
}

/* The log and the audit log in one file, as a shell's redirection makes it: neither overwrites the other. */
static void test_shares_standard_error(void)
{
	struct err err = ERR_INIT;
	struct audit *a;
	char text[4096];
	int fd, saved;

	open_dir();
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	saved = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	a = audit_open("stderr", "p", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(write(STDERR_FILENO, "log line\n", 9), 9);
		audit_begin(a, "e");
		audit_end(a);
	}
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fd);
	slurp(path, text, sizeof(text));
	CU_ASSERT_EQUAL(strncmp(text, "log line\n{\"time\"", 16), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "}\nlog line\n{\"time\""));
	audit_free(a);
	close_dir();
}

static void test_buffered(void)
{
	struct err err = ERR_INIT;
	struct audit *a;
	char text[4096];

	open_dir();
	a = audit_open(path, "p", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	audit_set_buffered(a, true);
	audit_begin(a, "one");
	audit_end(a);
	CU_ASSERT_EQUAL(slurp(path, text, sizeof(text)), 0);
	audit_begin(a, "two");
	audit_end(a);
	audit_flush(a);
	CU_ASSERT_TRUE(slurp(path, text, sizeof(text)) > 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"one\"}\n{"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"two\"}\n"));
	audit_free(a);
	close_dir();
}

static void test_reopen(void)
{
	struct err err = ERR_INIT;
	struct audit *a;
	char old[80], text[4096];

	open_dir();
	a = audit_open(path, "p", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	snprintf(old, sizeof(old), "%s.1", path);
	CU_ASSERT_EQUAL(rename(path, old), 0);
	audit_begin(a, "before");
	audit_end(a);
	CU_ASSERT_EQUAL(audit_reopen(a, &err), 0);
	audit_begin(a, "after");
	audit_end(a);
	slurp(old, text, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "before"));
	CU_ASSERT_PTR_NULL(strstr(text, "after"));
	slurp(path, text, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "after"));
	/* The path is gone for good: the old file stays in use and the error names it. */
	unlink(path);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	CU_ASSERT_EQUAL(audit_reopen(a, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	CU_ASSERT_TRUE(audit_fd(a) >= 0);
	rmdir(path);
	unlink(old);
	audit_free(a);
	close_dir();
}

/* Two processes write to one file: no line is torn. */
static void test_shared_file(void)
{
	struct err err = ERR_INIT;
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = NULL;
	static char text[1 << 20];
	struct audit *a;
	size_t n;
	unsigned lines = 0;
	int status = 0;

	open_dir();
	a = audit_open(path, "p", &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	pid_t pid = fork();
	for (int i = 0; i < 1000; i++) {
		audit_begin(a, pid == 0 ? "child" : "parent");
		audit_str(a, "v", SLICE_LIT("some value that makes the line longer"));
		audit_end(a);
	}
	if (pid == 0)
		_exit(0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	n = slurp(path, text, sizeof(text));
	for (char *at = text, *end; (end = memchr(at, '\n', n - (size_t)(at - text))) != NULL; at = end + 1, lines++)
		if (!UNIT_CHECK(line_ok(doc, slice_make(at, (size_t)(end - at)), &root), "line %u", lines))
			break;
	CU_ASSERT_EQUAL(lines, 2000);
	audit_free(a);
	json_doc_free(doc);
	close_dir();
}

static bool write_text(const char *file, const char *text)
{
	auto_close int fd = open(file, O_WRONLY);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* /dev becomes ours, in a mount namespace of our own; without root also in a user namespace, where we are root. Only /dev is
 * made private: / is no mount in a plain chroot. */
static bool own_dev(void)
{
	char uid_map[32], gid_map[32];
	bool root = geteuid() == 0;

	snprintf(uid_map, sizeof(uid_map), "0 %u 1", (unsigned)geteuid());
	snprintf(gid_map, sizeof(gid_map), "0 %u 1", (unsigned)getegid());
	if (unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) < 0)
		return false;
	if (!root && (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", uid_map) ||
			!write_text("/proc/self/gid_map", gid_map)))
		return false;
	return mount(NULL, "/dev", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("none", "/dev", "tmpfs", 0, NULL) == 0;
}

/* Syslog at its fixed path. */
static int syslog_child(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };
	struct err err = ERR_INIT;
	struct audit *a;
	char text[4096];
	ssize_t n;
	int daemon;

	if (!own_dev())
		return 77;
	if (audit_open("syslog", "p", &err) != NULL || strstr(err.text, "/dev/log") == NULL)
		return 1;
	daemon = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (bind(daemon, (struct sockaddr *)&sun, sizeof(sun)) < 0 || (a = audit_open("syslog", "p", &err)) == NULL)
		return 2;
	audit_begin(a, "one");
	audit_end(a);
	n = recv(daemon, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	if (strncmp(text, "<86>p[", 6) != 0 || strstr(text, "]: {\"time\"") == NULL || text[n - 1] != '}' || audit_lost(a))
		return 3;
	/* It restarts: what is logged meanwhile waits, and goes to the new one. */
	close(daemon);
	audit_begin(a, "two");
	audit_end(a);
	if (!audit_lost(a))
		return 4;
	unlink("/dev/log");
	daemon = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (bind(daemon, (struct sockaddr *)&sun, sizeof(sun)) < 0 || audit_reopen(a, &err) < 0)
		return 5;
	audit_begin(a, "three");
	audit_end(a);
	n = recv(daemon, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	if (strstr(text, "\"two\"") == NULL || strstr(text, "\"three\"") != NULL)
		return 6;
	n = recv(daemon, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	audit_free(a);
	return strstr(text, "\"three\"") != NULL ? 0 : 7;
}

static void test_syslog(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(syslog_child());
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		printf("(no mount namespace here) ");
	else
		CU_ASSERT_EQUAL(status, 0);
}

static void test_off_and_errors(void)
{
	struct err err = ERR_INIT;
	struct audit *a = audit_open("off", "p", &err);

	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	audit_begin(a, "e");
	audit_int(a, "i", 1);
	audit_end(a);
	CU_ASSERT_EQUAL(audit_fd(a), -1);
	CU_ASSERT_EQUAL(audit_dropped(a), 0);
	CU_ASSERT_EQUAL(audit_reopen(a, &err), 0);
	audit_free(a);
	CU_ASSERT_PTR_NULL(audit_open("/nonexistent/audit.log", "p", &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nonexistent/audit.log"));
	audit_free(NULL);
}

static const struct unit_test tests[] = {
	{ "record", test_record },
	{ "time", test_time },
	{ "long values are cut", test_long_values_are_cut },
	{ "cut keeps characters whole", test_cut_keeps_characters_whole },
	{ "full sink", test_full_sink },
	{ "full disk", test_full_disk },
	{ "shares standard error", test_shares_standard_error },
	{ "buffered", test_buffered },
	{ "reopen", test_reopen },
	{ "shared file", test_shared_file },
	{ "syslog", test_syslog },
	{ "off and errors", test_off_and_errors },
};

UNIT_MAIN("audit", tests)
