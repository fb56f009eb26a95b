/* The master's listening sockets over reloads: what stays open, what goes, and what a failed reload leaves. */
#include "dockerproxy/sockets.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/unit.h"

static char dir[] = "/tmp/test_sockets.XXXXXX";
static char paths[4][64];

static void open_dir(void)
{
	if (mkdtemp(dir) == NULL)
		abort();
	for (int i = 0; i < 4; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%c", dir, 'a' + i);
}

static void close_dir(void)
{
	CU_ASSERT_EQUAL(rmdir(dir), 0); /* nothing is left in it */
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
}

static void add(struct proxy_conf *conf, char *path, mode_t mode)
{
	struct proxy_listen *l = &conf->listen[conf->nlisten++];

	*l = (struct proxy_listen){ .mode = mode, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	l->at.unix_path = path;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static bool serves(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	return connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0;
}

static void test_reload_keeps_what_is_named(void)
{
	static struct proxy_conf first, second;
	struct err err = ERR_INIT;
	struct sockets *s = sockets_new();
	int before[PROXY_MAX_LISTEN], after[PROXY_MAX_LISTEN], admin;

	open_dir();
	first.nlisten = second.nlisten = 0;
	add(&first, paths[0], 0600);
	add(&first, paths[1], 0600);
	first.admin.unix_path = paths[2];
	add(&second, paths[3], 0600);
	add(&second, paths[0], 0666);
	CU_ASSERT_EQUAL(sockets_prepare(s, &first, before, &admin, &err), 0);
	CU_ASSERT_TRUE(admin >= 0);
	sockets_commit(s);
	CU_ASSERT_TRUE(serves(paths[0]) && serves(paths[1]) && serves(paths[2]));
	CU_ASSERT_EQUAL(sockets_prepare(s, &second, after, &admin, &err), 0);
	CU_ASSERT_EQUAL(admin, -1);
	CU_ASSERT_EQUAL(after[1], before[0]);
	/* Until the commit nothing of the first is different. */
	CU_ASSERT_TRUE(serves(paths[1]) && serves(paths[2]) && serves(paths[3]));
	CU_ASSERT_EQUAL(mode_of(paths[0]), 0600);
	sockets_commit(s);
	CU_ASSERT_TRUE(serves(paths[0]) && serves(paths[3]));
	CU_ASSERT_FALSE(exists(paths[1]) || exists(paths[2]));
	CU_ASSERT_EQUAL(mode_of(paths[0]), 0666);
	sockets_free(s);
	close_dir();
}

static void test_abort_closes_what_is_new(void)
{
	static struct proxy_conf first, second;
	struct err err = ERR_INIT;
	struct sockets *s = sockets_new();
	int fds[PROXY_MAX_LISTEN], admin;

	open_dir();
	first.nlisten = second.nlisten = 0;
	add(&first, paths[0], 0600);
	add(&second, paths[0], 0666);
	add(&second, paths[1], 0600);
	CU_ASSERT_EQUAL(sockets_prepare(s, &first, fds, &admin, &err), 0);
	sockets_commit(s);
	CU_ASSERT_EQUAL(sockets_prepare(s, &second, fds, &admin, &err), 0);
	sockets_abort(s);
	CU_ASSERT_TRUE(serves(paths[0]));
	CU_ASSERT_EQUAL(mode_of(paths[0]), 0600);
	CU_ASSERT_FALSE(exists(paths[1]));
	/* One that cannot be opened: the same, by itself. */
	second.listen[1].at.unix_path = (char *)(uintptr_t) "/nonexistent/s";
	CU_ASSERT_EQUAL(sockets_prepare(s, &second, fds, &admin, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nonexistent/s"));
	CU_ASSERT_TRUE(serves(paths[0]));
	/* The same address twice. */
	second.listen[1].at.unix_path = paths[0];
	CU_ASSERT_EQUAL(sockets_prepare(s, &second, fds, &admin, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "named twice"));
	/* And after all that a good one is taken. */
	second.listen[1].at.unix_path = paths[1];
	CU_ASSERT_EQUAL(sockets_prepare(s, &second, fds, &admin, &err), 0);
	sockets_commit(s);
	CU_ASSERT_TRUE(serves(paths[0]) && serves(paths[1]));
	sockets_free(s);
	sockets_free(NULL);
	close_dir();
}

/* A path that somebody else has taken over meanwhile is not removed. */
static void test_foreign_file_stays(void)
{
	static struct proxy_conf conf;
	struct err err = ERR_INIT;
	struct sockets *s = sockets_new(), *other = sockets_new();
	int fds[PROXY_MAX_LISTEN], admin;

	open_dir();
	conf.nlisten = 0;
	add(&conf, paths[0], 0600);
	CU_ASSERT_EQUAL(sockets_prepare(s, &conf, fds, &admin, &err), 0);
	sockets_commit(s);
	unlink(paths[0]);
	CU_ASSERT_EQUAL(sockets_prepare(other, &conf, fds, &admin, &err), 0);
	sockets_commit(other);
	sockets_free(s);
	CU_ASSERT_TRUE(serves(paths[0]));
	sockets_free(other);
	close_dir();
}

static const struct unit_test tests[] = {
	{ "reload keeps what is named", test_reload_keeps_what_is_named },
	{ "abort closes what is new", test_abort_closes_what_is_new },
	{ "foreign file stays", test_foreign_file_stays },
};

UNIT_MAIN("sockets", tests)
