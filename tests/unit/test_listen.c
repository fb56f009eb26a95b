/* Listening sockets: rights of the file, stale sockets, addresses, peers, and what happens without descriptors. */
#include "libgate/listen.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/unit.h"

static char dir[] = "/tmp/test_listen.XXXXXX";
static char path[64];

static void open_dir(void)
{
	if (mkdtemp(dir) == NULL)
		abort();
	snprintf(path, sizeof(path), "%s/s", dir);
}

static void close_dir(void)
{
	unlink(path);
	rmdir(dir);
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
}

static int dial_unix(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int dial_tcp(int listener, struct sockaddr_storage *own)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getsockname(listener, (struct sockaddr *)&ss, &len) < 0)
		return -1;
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&ss, len) == 0) {
		len = sizeof(*own);
		getsockname(fd, (struct sockaddr *)own, &len);
		return fd;
	}
	close(fd);
	return -1;
}

static void test_unix_file(void)
{
	struct err err = ERR_INIT;
	struct stat st;
	mode_t old = umask(022);
	int fd;

	open_dir();
	fd = listen_unix(path, 0666, (uid_t)-1, (gid_t)-1, &err);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_TRUE(S_ISSOCK(st.st_mode));
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0666);
	CU_ASSERT_EQUAL(umask(old), 022);
	CU_ASSERT_TRUE((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	CU_ASSERT_TRUE((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	/* Served: refused, and the file stays. */
	CU_ASSERT_EQUAL(listen_unix(path, 0600, (uid_t)-1, (gid_t)-1, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "served by another process"));
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	close(fd);
	/* Stale: replaced. */
	fd = listen_unix(path, 0600, getuid(), getgid(), &err);
	CU_ASSERT_TRUE(fd >= 0);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	close(fd);
	close_dir();
}

static void test_unix_refusals(void)
{
	struct err err = ERR_INIT;
	struct stat st;
	char longer[200];
	int fd;

	open_dir();
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	CU_ASSERT_EQUAL(listen_unix(path, 0600, (uid_t)-1, (gid_t)-1, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is no socket"));
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	CU_ASSERT_EQUAL(listen_unix(longer, 0600, (uid_t)-1, (gid_t)-1, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "longer than 107 bytes"));
	CU_ASSERT_EQUAL(listen_unix("/nonexistent/s", 0600, (uid_t)-1, (gid_t)-1, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nonexistent/s"));
	close_dir();
}

static void test_tcp_addresses(void)
{
	static const char *const good[] = { "127.0.0.1:0", "[::1]:0" };
	static const char *const bad[] = { "", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:99999999999",
		"127.0.0.1:1a", "127.0.0.1:-1", "localhost:1", "127.1:1", "::1:0", "[::1]", "[::1:0", "[]:1", "[127.0.0.1]:1",
		"127.0.0.1 :1", "*:1", ":1", "127.0.0.1:+1", "[fe80::1%lo]:1" };
	struct err err = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		int fd = listen_tcp(good[i], &err);

		if (UNIT_CHECK(fd >= 0, "%s: %s", good[i], err.text))
			close(fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err.text[0] = '\0';
		UNIT_CHECK(listen_tcp(bad[i], &err) == -1 && strstr(err.text, "numeric") != NULL, "%s: %s", bad[i], err.text);
	}
}

struct taken {
	struct event_base *base;
	struct listener *listener;
	unsigned n;
	unsigned stop_at; /* break the loop after so many */
	bool pause, free_inside;
	struct peer peer;
	int fds[64];
};

static void on_accept(int fd, const struct peer *peer, void *arg)
{
	struct taken *t = arg;

	t->peer = *peer;
	t->fds[t->n++] = fd;
	if (t->pause)
		listener_pause(t->listener);
	if (t->free_inside) {
		listener_free(t->listener);
		t->listener = NULL;
	}
	if (t->n >= t->stop_at)
		event_base_loopbreak(t->base);
}

static void close_taken(struct taken *t)
{
	for (unsigned i = 0; i < t->n; i++)
		close(t->fds[i]);
	t->n = 0;
}

static void test_peers(void)
{
	struct err err = ERR_INIT;
	struct taken t = { .base = event_base_new(), .stop_at = 1 };
	struct sockaddr_storage own;
	char got[64], want[64];
	int c;

	open_dir();
	t.listener = listener_new(t.base, listen_unix(path, 0600, (uid_t)-1, (gid_t)-1, &err), on_accept, &t);
	c = dial_unix();
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL_FATAL(t.n, 1);
	peer_format(&t.peer, got, sizeof(got));
	snprintf(want, sizeof(want), "uid=%u gid=%u pid=%d", getuid(), getgid(), getpid());
	CU_ASSERT_STRING_EQUAL(got, want);
	CU_ASSERT_TRUE((fcntl(t.fds[0], F_GETFL) & O_NONBLOCK) != 0);
	close(c);
	close_taken(&t);
	listener_free(t.listener);
	close_dir();

	int fd = listen_tcp("127.0.0.1:0", &err);
	t.listener = listener_new(t.base, fd, on_accept, &t);
	c = dial_tcp(fd, &own);
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL_FATAL(t.n, 1);
	peer_format(&t.peer, got, sizeof(got));
	snprintf(want, sizeof(want), "127.0.0.1:%u", ntohs(((struct sockaddr_in *)&own)->sin_port));
	CU_ASSERT_STRING_EQUAL(got, want);
	close(c);
	close_taken(&t);
	listener_free(t.listener);
	event_base_free(t.base);
}

static void test_pause_and_free(void)
{
	struct err err = ERR_INIT;
	struct taken t = { .base = event_base_new(), .stop_at = 64, .pause = true };
	int c[3];

	open_dir();
	t.listener = listener_new(t.base, listen_unix(path, 0600, (uid_t)-1, (gid_t)-1, &err), on_accept, &t);
	for (int i = 0; i < 3; i++)
		c[i] = dial_unix();
	/* Paused in the first callback: the loop has nothing left to wait for. */
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL(t.n, 1);
	t.pause = false;
	t.stop_at = 3;
	listener_resume(t.listener);
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL(t.n, 3);
	for (int i = 0; i < 3; i++)
		close(c[i]);
	close_taken(&t);
	t.free_inside = true;
	t.stop_at = 64;
	c[0] = dial_unix();
	c[1] = dial_unix();
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL(t.n, 1);
	CU_ASSERT_PTR_NULL(t.listener);
	close(c[0]);
	close(c[1]);
	close_taken(&t);
	close_dir();
	event_base_free(t.base);
}

static void restore_limit(evutil_socket_t fd, short what, void *arg)
{
	setrlimit(RLIMIT_NOFILE, arg);
}

/* With no descriptor left the listener rests instead of spinning, and takes the client once there is one again. */
static void test_descriptors_run_out(void)
{
	struct err err = ERR_INIT;
	struct taken t = { .base = event_base_new(), .stop_at = 1 };
	struct rlimit saved, none;
	struct event *timer;
	const struct timeval later = { 0, 20000 };
	int c;

	open_dir();
	t.listener = listener_new(t.base, listen_unix(path, 0600, (uid_t)-1, (gid_t)-1, &err), on_accept, &t);
	c = dial_unix();
	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &saved), 0);
	none = saved;
	none.rlim_cur = (rlim_t)c + 1;
	timer = evtimer_new(t.base, restore_limit, &saved);
	evtimer_add(timer, &later);
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &none), 0);
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL(t.n, 1);
	setrlimit(RLIMIT_NOFILE, &saved);
	event_free(timer);
	close(c);
	close_taken(&t);
	listener_free(t.listener);
	listener_free(NULL);
	event_base_free(t.base);
	close_dir();
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) == 0 ? value : -1;
}

static void has_options(int listening)
{
	struct taken t = { .base = event_base_new(), .stop_at = 1 };
	struct sockaddr_storage own;

	t.listener = listener_new(t.base, listening, on_accept, &t);
	for (int i = 0; i < 2; i++) { /* the first is how the listener finds out */
		int c = dial_tcp(listening, &own);
		event_base_dispatch(t.base);
		CU_ASSERT_EQUAL_FATAL(t.n, 1);
		CU_ASSERT_EQUAL(option(t.fds[0], IPPROTO_TCP, TCP_NODELAY), 1);
		CU_ASSERT_EQUAL(option(t.fds[0], SOL_SOCKET, SO_KEEPALIVE), 1);
		CU_ASSERT_EQUAL(option(t.fds[0], IPPROTO_TCP, TCP_KEEPIDLE), 60);
		CU_ASSERT_EQUAL(option(t.fds[0], IPPROTO_TCP, TCP_KEEPINTVL), 15);
		CU_ASSERT_EQUAL(option(t.fds[0], IPPROTO_TCP, TCP_KEEPCNT), 4);
		close(c);
		close_taken(&t);
	}
	listener_free(t.listener);
	event_base_free(t.base);
}

/* Also where the listening socket was made by somebody else, without them. */
static void test_options_of_connections(void)
{
	struct err err = ERR_INIT;
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int foreign = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	has_options(listen_tcp("127.0.0.1:0", &err));
	CU_ASSERT_EQUAL_FATAL(bind(foreign, (struct sockaddr *)&sin, sizeof(sin)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(foreign, 16), 0);
	has_options(foreign);
}

static void test_a_crowd(void)
{
	struct err err = ERR_INIT;
	struct taken t = { .base = event_base_new(), .stop_at = 60 };
	struct sockaddr_storage own;
	int fd = listen_tcp("127.0.0.1:0", &err), clients[60];

	for (int i = 0; i < 60; i++)
		clients[i] = dial_tcp(fd, &own);
	t.listener = listener_new(t.base, fd, on_accept, &t);
	event_base_dispatch(t.base);
	CU_ASSERT_EQUAL(t.n, 60);
	for (int i = 0; i < 60; i++)
		close(clients[i]);
	close_taken(&t);
	listener_free(t.listener);
	event_base_free(t.base);
}

static const struct unit_test tests[] = {
	{ "unix file", test_unix_file },
	{ "unix refusals", test_unix_refusals },
	{ "tcp addresses", test_tcp_addresses },
	{ "peers", test_peers },
	{ "pause and free", test_pause_and_free },
	{ "descriptors run out", test_descriptors_run_out },
	{ "options of connections", test_options_of_connections },
	{ "a crowd", test_a_crowd },
};

UNIT_MAIN("listen", tests)
