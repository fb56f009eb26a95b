/*
 * The master process, run for real around a small worker: start, crash, reload good and bad, audit reopening, stop.
 * The worker answers one-word lines on its listener; the configuration is one line of a file.
 */
#include "dockerproxy/master.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "dockerproxy/conf.h"
#include "dockerproxy/link.h"
#include "dockerproxy/metrics.h"
#include "dockerproxy/worker.h"
#include "libgate/audit.h"
#include "libgate/confine.h"
#include "libgate/listen.h"
#include "libgate/log.h"
#include "tests/unit/unit.h"

#define PATIENCE_S 20 /* until a condition that must come true counts as failed */

static char dir[] = "/tmp/test_master.XXXXXX";
static char conf_path[64], sock_path[64], engine_path[64], audit_path[64], log_path[64];

/* --- in place of the program's own parts -------------------------------------------------------------------------- */

/*
 * "WORKERS DRAIN_MS MARK", or anything else to be refused. The mark "dies" makes the workers end at once, "hangs" lets them say
 * who they are and never that they serve.
 */
int proxy_conf_load(struct proxy_conf *conf, const char *file, struct err *err)
{
	FILE *f = fopen(file, "re");
	int workers = 0, drain = 0, n;
	char mark[16] = "";

	*conf = (struct proxy_conf){ .nlisten = 1 };
	n = f != NULL ? fscanf(f, "%d %d %15s", &workers, &drain, mark) : 0;
	if (f != NULL)
		fclose(f);
	if (n != 3)
		return err_set(err, EINVAL, "%s:1:1: no configuration", file);
	conf->listen[0] = (struct proxy_listen){ .mode = 0666, .uid = (uid_t)-1, .gid = (gid_t)-1 };
	conf->listen[0].at.unix_path = strdup(sock_path);
	conf->upstream.unix_path = strdup(engine_path);
	conf->policy_file = strdup(mark);
	conf->audit_path = strdup(audit_path);
	conf->workers = workers;
	conf->drain_ms = drain;
	conf->connect_ms = 1000;
	conf->connections = 64;
	conf->log_level = LOG_LEVEL_INFO;
	conf->confine = true;
	return 0;
}

void proxy_conf_release(struct proxy_conf *conf)
{
	free(conf->listen[0].at.unix_path);
	free(conf->upstream.unix_path);
	free(conf->policy_file);
	free(conf->audit_path);
}

const char *policy_digest(const struct policy *p)
{
	return "sha256:test";
}

void metrics_set_policy(struct metrics *m, uint64_t generation, const char *digest)
{
}

void metrics_lost(struct metrics *m, unsigned slot)
{
	log_info("place %u is left", slot);
}

struct worker {
	const struct worker_setup *setup;
	struct event_base *base;
	struct link *link;
	struct listener *listener;
	unsigned nclients;
};

struct client {
	struct worker *worker;
	int fd;
	struct event *event;
};

static void say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(int fd, const char *fmt, ...)
{
	char line[128];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	(void)!write(fd, line, (size_t)n);
}

static void on_dialed(int fd, int error, void *arg)
{
	struct client *c = arg;
	char hello[6] = "";

	if (fd >= 0) {
		/* The engine of this test has written its greeting before it accepts anything else. */
		fcntl(fd, F_SETFL, 0);
		(void)!read(fd, hello, 5);
		close(fd);
	}
	say(c->fd, "%s %d\n", hello[0] != '\0' ? hello : "none", error);
}

static void end_if_idle(struct worker *w)
{
	if (w->listener == NULL && w->nclients == 0)
		event_base_loopbreak(w->base);
}

static void on_line(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	struct worker *w = c->worker;
	char line[32] = "";
	ssize_t n = read(fd, line, sizeof(line) - 1);

	if (n <= 0) {
		event_free(c->event);
		close(c->fd);
		free(c);
		w->nclients--;
		end_if_idle(w);
	} else if (strcmp(line, "who\n") == 0) {
		say(fd, "%d %u %u %s\n", (int)getpid(), w->setup->generation, w->setup->slot, w->setup->conf->policy_file);
	} else if (strcmp(line, "dial\n") == 0) {
		if (link_connect(w->link, on_dialed, c) == NULL)
			say(fd, "no dial\n");
	} else if (strcmp(line, "open\n") == 0) {
		int f = open("/etc/passwd", O_RDONLY);

		say(fd, "%d uid %u seccomp %d\n", f < 0 ? errno : 0, getuid(), w->setup->confined->seccomp);
	} else if (strcmp(line, "audit\n") == 0) {
		audit_begin(w->setup->audit, "test");
		audit_end(w->setup->audit);
		say(fd, "done\n");
	} else if (strcmp(line, "socket\n") == 0) {
		say(fd, "%d\n", socket(AF_INET, SOCK_STREAM, 0));
	} else if (strcmp(line, "break\n") == 0) {
		(void)!send(w->setup->link_fd, "x", 1, 0);
	}
}

static void on_client(int fd, const struct peer *peer, void *arg)
{
	struct worker *w = arg;
	struct client *c = calloc(1, sizeof(*c));

	fcntl(fd, F_SETFL, 0);
	c->worker = w;
	c->fd = fd;
	c->event = event_new(w->base, fd, EV_READ | EV_PERSIST, on_line, c);
	event_add(c->event, NULL);
	w->nclients++;
}

static void on_drain(bool bounded, void *arg)
{
	struct worker *w = arg;

	listener_free(w->listener);
	w->listener = NULL;
	end_if_idle(w);
}

static void on_audit(int fd, void *arg)
{
	struct worker *w = arg;

	audit_adopt(w->setup->audit, fd);
}

int worker_main(const struct worker_setup *setup)
{
	const struct link_handlers handlers = { on_drain, on_audit };
	struct worker w = { .setup = setup, .base = event_base_new() };

	if (strcmp(setup->conf->policy_file, "dies") == 0)
		return 3;
	w.link = link_new(w.base, setup->link_fd, &handlers, &w);
	if (strcmp(setup->conf->policy_file, "hangs") == 0) {
		log_info("hangs: %d.", (int)getpid());
		event_base_dispatch(w.base);
		return 0;
	}
	w.listener = listener_new(w.base, setup->fds[0], on_client, &w);
	link_ready(w.link);
	event_base_dispatch(w.base);
	return 0;
}

/* --- the test's side --------------------------------------------------------------------------------------------- */

static void configure(const char *text)
{
	FILE *f = fopen(conf_path, "we");

	fputs(text, f);
	fclose(f);
}

static void nap(void)
{
	const struct timespec t = { 0, 2000000 };

	nanosleep(&t, NULL);
}

/* Evaluates cond until it holds or patience ends. */
#define WAIT_FOR(cond) \
	__extension__({ \
		time_t until_ = time(NULL) + PATIENCE_S; \
		bool ok_; \
		while (!(ok_ = (cond)) && time(NULL) < until_) \
			nap(); \
		ok_; \
	})

static int dial_path(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval patience = { PATIENCE_S, 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool refused(void)
{
	int fd = dial_path(sock_path);

	if (fd >= 0)
		close(fd);
	return fd < 0;
}

/* Sends a line and reads one back; "" when the connection ended. */
static const char *ask(int fd, const char *line)
{
	static char answer[128];
	ssize_t n = -1;

	answer[0] = '\0';
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) > 0)
		n = read(fd, answer, sizeof(answer) - 1);
	answer[n > 0 ? n : 0] = '\0';
	return answer;
}

struct who {
	int pid;
	unsigned generation, slot;
	char mark[16];
};

static struct who who(int fd)
{
	struct who w = { .pid = -1 };

	if (sscanf(ask(fd, "who\n"), "%d %u %u %15s", &w.pid, &w.generation, &w.slot, w.mark) != 4)
		w.pid = -1;
	return w;
}

static struct who who_new(void)
{
	int fd = dial_path(sock_path);
	struct who w = { .pid = -1 };

	if (fd >= 0) {
		w = who(fd);
		close(fd);
	}
	return w;
}

static bool log_has(const char *text)
{
	static char all[65536];
	FILE *f = fopen(log_path, "re");
	size_t n = f != NULL ? fread(all, 1, sizeof(all) - 1, f) : 0;

	if (f != NULL)
		fclose(f);
	all[n] = '\0';
	return strstr(all, text) != NULL;
}

/* Starts a master in a process of its own; its log goes to a file. */
static pid_t start(const char *conf)
{
	pid_t pid;

	configure(conf);
	unlink(log_path);
	pid = fork();
	if (pid == 0) {
		int log = open(log_path, O_CREAT | O_WRONLY | O_APPEND, 0600);

		dup2(log, STDERR_FILENO);
		close(log);
		log_init("dockerproxy", LOG_LEVEL_INFO);
		exit(master_run(conf_path, NULL));
	}
	return pid;
}

static int finish(pid_t master, int sig)
{
	int status = 0;

	if (sig != 0)
		kill(master, sig);
	while (waitpid(master, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool gone(int pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

static void open_dir(void)
{
	if (mkdtemp(dir) == NULL)
		abort();
	chmod(dir, 0755);
	snprintf(conf_path, sizeof(conf_path), "%s/conf", dir);
	snprintf(sock_path, sizeof(sock_path), "%s/sock", dir);
	snprintf(engine_path, sizeof(engine_path), "%s/engine", dir);
	snprintf(audit_path, sizeof(audit_path), "%s/audit", dir);
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
}

static void close_dir(void)
{
	char old[80];

	snprintf(old, sizeof(old), "%s.1", audit_path);
	unlink(conf_path);
	unlink(engine_path);
	unlink(audit_path);
	unlink(old);
	unlink(log_path);
	CU_ASSERT_EQUAL(access(sock_path, F_OK), -1);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
}

static void test_serves_and_stops(void)
{
	struct stat st;
	pid_t master;
	int c;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	CU_ASSERT_EQUAL(stat(sock_path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0666);
	c = dial_path(sock_path);
	if (geteuid() == 0)
		CU_ASSERT_STRING_EQUAL(ask(c, "open\n"), "13 uid 65534 seccomp 1\n");
	close(c);
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	CU_ASSERT_TRUE(log_has("engine at unix:"));
	CU_ASSERT_TRUE(log_has("stopped"));
	close_dir();
}

static void test_dials_for_the_worker(void)
{
	struct err err = ERR_INIT;
	pid_t master, engine;
	int c;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	CU_ASSERT_STRING_EQUAL(ask(c, "dial\n"), "none 2\n"); /* ENOENT: no engine */
	engine = fork();
	if (engine == 0) {
		int l = listen_unix(engine_path, 0600, (uid_t)-1, (gid_t)-1, &err);

		fcntl(l, F_SETFL, 0);
		for (;;) {
			int s = accept(l, NULL, NULL);

			(void)!write(s, "hello", 5);
			close(s);
		}
	}
	CU_ASSERT_TRUE(WAIT_FOR(strcmp(ask(c, "dial\n"), "hello 0\n") == 0));
	/* Several at once: each gets its own. */
	CU_ASSERT_STRING_EQUAL(ask(c, "dial\n"), "hello 0\n");
	kill(engine, SIGKILL);
	waitpid(engine, NULL, 0);
	CU_ASSERT_STRING_EQUAL(ask(c, "dial\n"), "none 111\n"); /* ECONNREFUSED */
	close(c);
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

/* The other worker's connection outlives the crash, and a successor takes the dead one's place. */
static void test_crash_is_survived(void)
{
	struct who a, b = { .pid = -1 };
	pid_t master;
	int ca, cb = -1;

	open_dir();
	master = start("2 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	ca = dial_path(sock_path);
	a = who(ca);
	CU_ASSERT_TRUE(WAIT_FOR((close(cb), cb = dial_path(sock_path), b = who(cb), b.pid != a.pid && b.pid > 0)));
	CU_ASSERT_NOT_EQUAL(a.slot, b.slot);
	CU_ASSERT_EQUAL(kill(a.pid, SIGKILL), 0);
	CU_ASSERT_STRING_EQUAL(ask(ca, "who\n"), "");
	CU_ASSERT_EQUAL(who(cb).pid, b.pid);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("was ended by signal 9")));
	CU_ASSERT_TRUE(WAIT_FOR(log_has("is left"))); /* what it had open is no longer counted */
	struct who next = { .pid = -1 };
	CU_ASSERT_TRUE(WAIT_FOR((next = who_new(), next.pid > 0 && next.pid != b.pid)));
	CU_ASSERT_EQUAL(next.slot, a.slot);
	CU_ASSERT_EQUAL(next.generation, 1);
	CU_ASSERT_EQUAL(who(cb).pid, b.pid);
	close(ca);
	close(cb);
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

/* A worker that leaves its allowlist is ended by the kernel, told apart in the log, and replaced. */
static void test_forbidden_call_ends_the_worker(void)
{
	pid_t master;
	int c;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	CU_ASSERT_STRING_EQUAL(ask(c, "socket\n"), "");
	CU_ASSERT_TRUE(WAIT_FOR(log_has("outside its allowlist")));
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	close(c);
	c = dial_path(sock_path);
	CU_ASSERT_STRING_EQUAL(ask(c, "break\n"), "");
	CU_ASSERT_TRUE(WAIT_FOR(log_has("breaks the protocol with its master")));
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	close(c);
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

static void test_reload(void)
{
	struct who old, next;
	pid_t master;
	int c;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	old = who(c);
	CU_ASSERT_STRING_EQUAL(old.mark, "a");
	configure("2 5000 b");
	kill(master, SIGHUP);
	CU_ASSERT_TRUE(WAIT_FOR((next = who_new(), strcmp(next.mark, "b") == 0)));
	CU_ASSERT_EQUAL(next.generation, 2);
	/* What the old worker holds goes on, under the old configuration. */
	CU_ASSERT_EQUAL(who(c).pid, old.pid);
	CU_ASSERT_STRING_EQUAL(who(c).mark, "a");
	close(c);
	CU_ASSERT_TRUE(WAIT_FOR(gone(old.pid)));
	CU_ASSERT_FALSE(log_has("ended with status"));
	CU_ASSERT_FALSE(log_has("another worker starts"));
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

static void test_bad_reload_changes_nothing(void)
{
	struct who old;
	pid_t master;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR((old = who_new(), old.pid > 0)));
	configure("nonsense");
	kill(master, SIGHUP);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("reload refused, nothing changes: ")));
	CU_ASSERT_TRUE(log_has("/conf:1:1: no configuration"));
	CU_ASSERT_EQUAL(who_new().pid, old.pid);
	/* It loads, but its workers do not live. */
	configure("1 5000 dies");
	kill(master, SIGHUP);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("reload failed, nothing changes")));
	CU_ASSERT_EQUAL(who_new().pid, old.pid);
	configure("1 5000 c");
	kill(master, SIGHUP);
	CU_ASSERT_TRUE(WAIT_FOR(strcmp(who_new().mark, "c") == 0));
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

/* The worker that says in the log that it hangs; 0: none does yet. */
static int hanging(void)
{
	static const char words[] = "hangs: ";
	char all[65536];
	FILE *f = fopen(log_path, "re");
	size_t n = f != NULL ? fread(all, 1, sizeof(all) - 1, f) : 0;
	const char *at;

	if (f != NULL)
		fclose(f);
	all[n] = '\0';
	at = strstr(all, words);
	return at != NULL && strchr(at, '\n') != NULL ? (int)strtol(at + strlen(words), NULL, 10) : 0;
}

/* SIGHUP while a configuration is on its way that comes to nothing: what it was sent for is read all the same. */
static void test_signal_while_reloading(void)
{
	pid_t master;
	int pid = 0;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	configure("1 5000 hangs");
	kill(master, SIGHUP);
	CU_ASSERT_TRUE_FATAL(WAIT_FOR((pid = hanging()) > 0));
	configure("1 5000 c");
	kill(master, SIGHUP);
	kill(pid, SIGKILL);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("reload failed, nothing changes")));
	CU_ASSERT_TRUE(WAIT_FOR(strcmp(who_new().mark, "c") == 0));
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

/* As many workers as a configuration may ask for find a place beside those that they take over from. */
static void test_reload_of_many(void)
{
	pid_t master;

	open_dir();
	master = start("64 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	configure("64 5000 b");
	kill(master, SIGHUP);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("reload failed") || strcmp(who_new().mark, "b") == 0));
	CU_ASSERT_FALSE(log_has("reload failed"));
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

static void test_bad_start(void)
{
	open_dir();
	CU_ASSERT_EQUAL(finish(start("nonsense"), 0), 1);
	CU_ASSERT_TRUE(log_has("no configuration"));
	CU_ASSERT_EQUAL(finish(start("2 5000 dies"), 0), 1);
	CU_ASSERT_TRUE(log_has("start failed"));
	close_dir();
}

static void test_drain(void)
{
	struct who w;
	pid_t master;
	int c;

	open_dir();
	master = start("1 60000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	w = who(c);
	kill(master, SIGTERM);
	CU_ASSERT_TRUE(WAIT_FOR(refused()));
	CU_ASSERT_EQUAL(who(c).pid, w.pid); /* still served */
	close(c);
	CU_ASSERT_EQUAL(finish(master, 0), 0);
	CU_ASSERT_FALSE(log_has("the rest is cut"));
	close_dir();
}

static void test_drain_is_bounded(void)
{
	pid_t master;
	int c;

	open_dir();
	master = start("1 10 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	CU_ASSERT_TRUE(who(c).pid > 0);
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	CU_ASSERT_TRUE(log_has("the rest is cut"));
	CU_ASSERT_STRING_EQUAL(ask(c, "who\n"), "");
	close(c);
	close_dir();
}

static void test_second_signal_forces(void)
{
	pid_t master;
	int c;

	open_dir();
	master = start("1 3600000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	CU_ASSERT_TRUE(who(c).pid > 0);
	kill(master, SIGTERM);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("stopping")));
	CU_ASSERT_EQUAL(finish(master, SIGINT), 0);
	CU_ASSERT_TRUE(log_has("told to stop again"));
	close(c);
	close_dir();
}

static void test_master_killed(void)
{
	struct who w;
	pid_t master;
	int c;

	open_dir();
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	w = who(c);
	CU_ASSERT_EQUAL(finish(master, SIGKILL), -SIGKILL);
	CU_ASSERT_TRUE(WAIT_FOR(refused()));
	CU_ASSERT_EQUAL(who(c).pid, w.pid);
	close(c);
	CU_ASSERT_TRUE(WAIT_FOR(gone(w.pid)));
	/* The next master takes the stale socket over. */
	master = start("1 5000 b");
	CU_ASSERT_TRUE(WAIT_FOR(strcmp(who_new().mark, "b") == 0));
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

static void test_audit_reopen(void)
{
	char old[80];
	struct stat st;
	pid_t master;
	int c;

	open_dir();
	snprintf(old, sizeof(old), "%s.1", audit_path);
	master = start("1 5000 a");
	CU_ASSERT_TRUE(WAIT_FOR(who_new().pid > 0));
	c = dial_path(sock_path);
	CU_ASSERT_STRING_EQUAL(ask(c, "audit\n"), "done\n");
	CU_ASSERT_EQUAL(rename(audit_path, old), 0);
	kill(master, SIGUSR1);
	CU_ASSERT_TRUE(WAIT_FOR(log_has("audit log reopened")));
	CU_ASSERT_TRUE(WAIT_FOR(strcmp(ask(c, "audit\n"), "done\n") == 0 && stat(audit_path, &st) == 0 && st.st_size > 0));
	CU_ASSERT_EQUAL(stat(audit_path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0640);
	close(c);
	CU_ASSERT_EQUAL(finish(master, SIGTERM), 0);
	close_dir();
}

static void test_tells_the_service_manager(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval patience = { PATIENCE_S, 0 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[256];
	ssize_t n;
	pid_t master;

	open_dir();
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/notify", dir);
	CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setenv("NOTIFY_SOCKET", sun.sun_path, 1);
	master = start("1 5000 a");
#define EXPECT(prefix) \
	n = recv(fd, text, sizeof(text) - 1, 0); \
	text[n > 0 ? n : 0] = '\0'; \
	UNIT_CHECK(strncmp(text, prefix, strlen(prefix)) == 0, "%s", text)
	EXPECT("READY=1\nSTATUS=configuration 1, policy sha256:test");
	kill(master, SIGHUP);
	EXPECT("RELOADING=1\nMONOTONIC_USEC=");
	EXPECT("READY=1\nSTATUS=configuration 2");
	kill(master, SIGTERM);
	EXPECT("STOPPING=1");
	CU_ASSERT_EQUAL(finish(master, 0), 0);
	unsetenv("NOTIFY_SOCKET");
	close(fd);
	unlink(sun.sun_path);
	close_dir();
}

static const struct unit_test tests[] = {
	{ "serves and stops", test_serves_and_stops },
	{ "dials for the worker", test_dials_for_the_worker },
	{ "crash is survived", test_crash_is_survived },
	{ "forbidden call ends the worker", test_forbidden_call_ends_the_worker },
	{ "reload", test_reload },
	{ "bad reload changes nothing", test_bad_reload_changes_nothing },
	{ "signal while reloading", test_signal_while_reloading },
	{ "reload of many", test_reload_of_many },
	{ "bad start", test_bad_start },
	{ "drain", test_drain },
	{ "drain is bounded", test_drain_is_bounded },
	{ "second signal forces", test_second_signal_forces },
	{ "master killed", test_master_killed },
	{ "audit reopen", test_audit_reopen },
	{ "tells the service manager", test_tells_the_service_manager },
};

UNIT_MAIN("master", tests)
