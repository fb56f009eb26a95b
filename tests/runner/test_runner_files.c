/* The runner's file operations, over pipes: what is made, read, listed and removed, and what a root holds back. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/runner/steps.h"

static const char *at(const char *name)
{
	static char text[4][512];
	static unsigned next;
	char *out = text[next++ % 4];

	snprintf(out, sizeof(text[0]), "%s/%s", room_dir, name);
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

static void make_socket(const char *path)
{
	struct sockaddr_un where = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(where.sun_path, sizeof(where.sun_path), "%s", path);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
	CU_ASSERT_EQUAL(chmod(path, 0666), 0);
	close(fd);
}

/* Until the runner has written so much of what it was sent. */
static void wait_size(struct peer *p, const char *path, uint64_t size)
{
	for (int i = 0; i < 10000; i++)
		if (peer_num(p, file(p, FRAME_FILE_STAT, path, 0), FRAME_ATTR_SIZE) == size)
			return;
	CU_FAIL("it was not written");
}

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
	/* One that has no reader, and a socket, cannot be opened for appending at all. */
	CU_ASSERT_EQUAL(CODE(p, put(p, at("fifo"), "x", FRAME_FILE_APPEND, -1)), EINVAL);
	make_socket(at("socket"));
	CU_ASSERT_EQUAL(CODE(p, put(p, at("socket"), "x", FRAME_FILE_APPEND, -1)), EINVAL);
	CU_ASSERT_EQUAL(CODE(p, put(p, at("socket"), "x", 0, -1)), EINVAL);
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, at("socket"), 0)), EINVAL);
	/* A write that is given up, or whose controller goes away, leaves the old file and nothing else. */
	c = file(p, FRAME_FILE_WRITE, at("w"), 0);
	peer_stdin(p, c, "half", 4);
	peer_plain(p, FRAME_KILL, c);
	CU_ASSERT_TRUE(peer_wait(p, c));
	CU_ASSERT_EQUAL(CODE(p, c), ECANCELED);
	for (int others = 0; others < 2; others++) {
		c = file(p, FRAME_FILE_WRITE, at("w"), FRAME_FILE_APPEND);
		peer_stdin(p, c, "half", 4);
		wait_size(p, at("w"), 11);
		/* What another one has appended behind it stays, and with it the half. */
		if (others != 0)
			CU_ASSERT_EQUAL(CODE(p, put(p, at("w"), "!", FRAME_FILE_APPEND, -1)), 0);
		peer_plain(p, FRAME_KILL, c);
		CU_ASSERT_TRUE(peer_wait(p, c));
		CU_ASSERT_EQUAL(CODE(p, c), ECANCELED);
		CU_ASSERT_STRING_EQUAL(peer_op(p, file(p, FRAME_FILE_READ, at("w"), 0))->out, others != 0 ? "throughhalf!" : "through");
	}
	CU_ASSERT_EQUAL(CODE(p, put(p, at("w"), "through", 0, -1)), 0);
	c = file(p, FRAME_FILE_WRITE, at("w"), 0);
	peer_stdin(p, c, "half", 4);
	peer_free(p);
	p = fresh();
	CU_ASSERT_STRING_EQUAL(peer_op(p, file(p, FRAME_FILE_READ, at("w"), 0))->out, "through");
	c = file(p, FRAME_FILE_LIST, room_dir, 0);
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
	CU_ASSERT_EQUAL(CODE(p, file(p, FRAME_FILE_READ, room_dir, 0)), EISDIR);
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
	snprintf(name, sizeof(name), "mkdir -p %s/t/u/v && touch %s/t/{1..1500} %s/t/u/v/x && ln -s / %s/t/u/root", room_dir, room_dir,
		room_dir, room_dir);
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

	snprintf(root, sizeof(root), "%s/root", room_dir);
	snprintf(line, sizeof(line),
		"cd %s && mkdir -p root/in/side outside && echo s >outside/secret && echo i >root/in/file && "
		"ln -s ../outside root/out && ln -s /etc root/etc && ln -s in root/inner && ln -s ../outside/secret root/f && "
		"ln -s root rootlink", room_dir);
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

	snprintf(root, sizeof(root), "%s/race", room_dir);
	snprintf(line, sizeof(line),
		"cd %s && mkdir -p race/a race/real out2 && echo in >race/real/f && echo out >out2/f && echo r && "
		"exec perl -e 'while (1) { rename \"race/a\", \"race/b\"; symlink \"../out2\", \"race/a\"; "
		"unlink \"race/a\"; symlink \"real\", \"race/a\"; unlink \"race/a\"; rename \"race/b\", \"race/a\"; }'", room_dir);
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
	{ "write", test_file_write },
	{ "read", test_file_read },
	{ "stat, list, remove", test_file_stat_list_remove },
	{ "roots", test_file_roots },
	{ "race", test_file_race },
};

int main(int argc, char **argv)
{
	return room_run("runner files", peer_uid, tests, ARRAY_SIZE(tests), argc, argv);
}
