/*
 * Confinement, shown from inside: a child applies the plan of a role and then tries what a captured process would try.
 * Each probe is one child; what it gets is the evidence: death by SIGSYS, an errno, or success.
 */
#include "libgate/confine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/unit.h"

#define NOBODY 65534
#define EXIT_DONE 0 /* the call succeeded */
#define EXIT_NOT_CONFINED 200
#define EXIT_ERRNO 100 /* + errno, for errno values below 100 */

/* Made before confinement, as a worker has such things. */
static struct {
	int tcp; /* an unconnected TCP socket */
	int tcp6;
	int unix_stream;
	int pair[2];
	int listener;
	int file;
	struct sockaddr_in server; /* somebody listens there */
	struct sockaddr_in other; /* and there */
	pid_t parent;
} have;

static long probe_open(void)
{
	return open("/etc/passwd", O_RDONLY);
}

static long probe_openat_creat(void)
{
	return openat(AT_FDCWD, "/tmp/x", O_CREAT | O_WRONLY, 0600);
}

static long probe_openat2(void)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = { 0, 0, 0 };

	return syscall(437, AT_FDCWD, "/etc/passwd", &how, sizeof(how));
}

static long probe_open_by_handle(void)
{
	return syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY);
}

static long probe_reopen_own_file(void)
{
	return openat(have.file, "", O_RDONLY);
}

static long probe_unlink(void)
{
	return unlink("/tmp/confine-probe-that-is-not-there");
}

static long probe_rename(void)
{
	return rename("/tmp/a-not-there", "/tmp/b-not-there");
}

static long probe_mkdir(void)
{
	return mkdir("/tmp/confine-probe", 0700);
}

static long probe_chmod(void)
{
	return fchmod(have.file, 0777);
}

static long probe_getdents(void)
{
	char b[64];

	return syscall(SYS_getdents64, have.file, b, sizeof(b));
}

static long probe_execve(void)
{
	char *argv[] = { NULL };

	return execve("/bin/true", argv, argv);
}

static long probe_execveat(void)
{
	char *argv[] = { NULL };

	return syscall(SYS_execveat, have.file, "", argv, argv, AT_EMPTY_PATH);
}

static long probe_fork(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return pid;
}

static long probe_thread(void)
{
	struct {
		uint64_t v[11];
	} args = { { 0 } };

	return syscall(435, &args, sizeof(args));
}

static long probe_ptrace(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long probe_process_vm_readv(void)
{
	char b[8];
	struct iovec iov = { b, sizeof(b) };

	return process_vm_readv(have.parent, &iov, 1, &iov, 1, 0);
}

static long probe_pidfd_open(void)
{
	return syscall(434, have.parent, 0);
}

static long probe_kill_parent(void)
{
	return kill(have.parent, 0);
}

static long probe_tgkill_parent(void)
{
	return syscall(SYS_tgkill, have.parent, have.parent, 0);
}

static long probe_own_by_signal(void)
{
	return fcntl(have.pair[0], F_SETOWN, have.parent);
}

static long probe_socket_tcp(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long probe_socket_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long probe_socket_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static long probe_socket_alg(void)
{
	return socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static long probe_socket_packet(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static long probe_connect(void)
{
	return connect(have.tcp, (struct sockaddr *)&have.server, sizeof(have.server));
}

static long probe_connect_other(void)
{
	return connect(have.tcp, (struct sockaddr *)&have.other, sizeof(have.other));
}

static long probe_connect_unix(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = "/run/docker.sock" };

	return connect(have.unix_stream, (struct sockaddr *)&sun, sizeof(sun));
}

static long probe_fast_open(void)
{
	return sendto(have.tcp, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&have.server, sizeof(have.server));
}

static long probe_bind(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return bind(have.tcp, (struct sockaddr *)&any, sizeof(any));
}

static long probe_listen(void)
{
	return listen(have.tcp, 1);
}

static long probe_mount(void)
{
	return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long probe_unshare(void)
{
	return unshare(CLONE_NEWUSER);
}

static long probe_chroot(void)
{
	return chroot("/");
}

static long probe_setuid(void)
{
	return setuid(0);
}

static long probe_bpf(void)
{
	return syscall(SYS_bpf, 0, NULL, 0);
}

static long probe_io_uring(void)
{
	char params[120] = { 0 };

	return syscall(425, 1, params);
}

static long probe_userfaultfd(void)
{
	return syscall(SYS_userfaultfd, 0);
}

static long probe_perf(void)
{
	return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static long probe_keyctl(void)
{
	return syscall(SYS_keyctl, 0, 0);
}

static long probe_memfd(void)
{
	return syscall(SYS_memfd_create, "x", 0);
}

static long probe_undump(void)
{
	return prctl(PR_SET_DUMPABLE, 1);
}

static long probe_map_exec(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static long probe_protect_exec(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static long probe_tiocsti(void)
{
	return ioctl(have.file, TIOCSTI, "x");
}

static long probe_raise_limit(void)
{
	struct rlimit r = { 100000, 100000 };

	return setrlimit(RLIMIT_NOFILE, &r);
}

/* What a worker does all day. */
static long probe_work(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN };
	struct timespec ts;
	int p[2], waiting, from;
	struct stat st;
	char b[16];
	void *big = malloc(8 << 20);

	from = fcntl(have.pair[0], F_GETFL);
	if (ep < 0 || big == NULL || from < 0 || fcntl(have.pair[0], F_SETFL, from | O_NONBLOCK) < 0)
		return -1;
	free(big);
	if (write(have.pair[1], "ping", 4) != 4 || epoll_ctl(ep, EPOLL_CTL_ADD, have.pair[0], &ev) < 0)
		return -1;
	if (epoll_wait(ep, &ev, 1, 1000) != 1 || ioctl(have.pair[0], FIONREAD, &waiting) < 0 || waiting != 4)
		return -1;
	if (recv(have.pair[0], b, sizeof(b), 0) != 4 || send(have.pair[0], "x", 1, MSG_NOSIGNAL) != 1)
		return -1;
	if (fstat(have.file, &st) < 0 || clock_gettime(CLOCK_REALTIME, &ts) < 0 || getrandom(b, sizeof(b), 0) < 0)
		return -1;
	if (accept4(have.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) < 0)
		return -1;
	return pipe2(p, O_CLOEXEC);
}

static long probe_socketpair(void)
{
	int pair[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}

enum expected { WORKS, REFUSED, NOT_HELD /* the role cannot come by such a socket */ };

static const struct probe {
	const char *name;
	long (*run)(void);
	enum expected proxy, egress;
} probes[] = {
	{ "ordinary work", probe_work, WORKS, WORKS },
	{ "open", probe_open, REFUSED, REFUSED },
	{ "openat O_CREAT", probe_openat_creat, REFUSED, REFUSED },
	{ "openat2", probe_openat2, REFUSED, REFUSED },
	{ "open_by_handle_at", probe_open_by_handle, REFUSED, REFUSED },
	{ "openat below a descriptor", probe_reopen_own_file, REFUSED, REFUSED },
	{ "unlink", probe_unlink, REFUSED, REFUSED },
	{ "rename", probe_rename, REFUSED, REFUSED },
	{ "mkdir", probe_mkdir, REFUSED, REFUSED },
	{ "fchmod", probe_chmod, REFUSED, REFUSED },
	{ "getdents", probe_getdents, REFUSED, REFUSED },
	{ "execve", probe_execve, REFUSED, REFUSED },
	{ "execveat", probe_execveat, REFUSED, REFUSED },
	{ "fork", probe_fork, REFUSED, REFUSED },
	{ "clone3", probe_thread, REFUSED, REFUSED },
	{ "ptrace", probe_ptrace, REFUSED, REFUSED },
	{ "process_vm_readv", probe_process_vm_readv, REFUSED, REFUSED },
	{ "pidfd_open", probe_pidfd_open, REFUSED, REFUSED },
	{ "kill of the parent", probe_kill_parent, REFUSED, REFUSED },
	{ "tgkill of the parent", probe_tgkill_parent, REFUSED, REFUSED },
	{ "F_SETOWN", probe_own_by_signal, REFUSED, REFUSED },
	{ "socket AF_INET", probe_socket_tcp, REFUSED, WORKS },
	{ "socket AF_UNIX", probe_socket_unix, REFUSED, REFUSED },
	{ "socket AF_NETLINK", probe_socket_netlink, REFUSED, REFUSED },
	{ "socket AF_ALG", probe_socket_alg, REFUSED, REFUSED },
	{ "socket AF_PACKET", probe_socket_packet, REFUSED, REFUSED },
	{ "connect TCP", probe_connect, REFUSED, WORKS },
	{ "socketpair", probe_socketpair, WORKS, REFUSED },
	{ "connect unix", probe_connect_unix, REFUSED, NOT_HELD },
	{ "TCP fast open", probe_fast_open, REFUSED, WORKS },
	{ "bind", probe_bind, REFUSED, REFUSED },
	{ "listen", probe_listen, REFUSED, REFUSED },
	{ "mount", probe_mount, REFUSED, REFUSED },
	{ "unshare", probe_unshare, REFUSED, REFUSED },
	{ "chroot", probe_chroot, REFUSED, REFUSED },
	{ "setuid 0", probe_setuid, REFUSED, REFUSED },
	{ "bpf", probe_bpf, REFUSED, REFUSED },
	{ "io_uring_setup", probe_io_uring, REFUSED, REFUSED },
	{ "userfaultfd", probe_userfaultfd, REFUSED, REFUSED },
	{ "perf_event_open", probe_perf, REFUSED, REFUSED },
	{ "keyctl", probe_keyctl, REFUSED, REFUSED },
	{ "memfd_create", probe_memfd, REFUSED, REFUSED },
	{ "PR_SET_DUMPABLE", probe_undump, REFUSED, REFUSED },
	{ "mmap PROT_EXEC", probe_map_exec, REFUSED, REFUSED },
	{ "mprotect PROT_EXEC", probe_protect_exec, REFUSED, REFUSED },
	{ "TIOCSTI", probe_tiocsti, REFUSED, REFUSED },
	{ "setrlimit", probe_raise_limit, REFUSED, REFUSED },
};

static int listen_here(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (struct sockaddr *)at, sizeof(*at)) < 0 || listen(fd, 64) < 0 ||
		getsockname(fd, (struct sockaddr *)at, &len) < 0)
		abort();
	return fd;
}

static struct confine_plan plan_of(enum confine_role role)
{
	struct confine_plan plan = { .role = role,
		.uid = (uid_t)-1,
		.gid = (gid_t)-1,
		.max_fds = 128,
		.any_tcp = role == CONFINE_EGRESS };

	if (geteuid() == 0)
		plan.uid = plan.gid = NOBODY;
	return plan;
}

/* The exit status of a child that is confined and then runs the probe; -SIGNAL when it was killed. */
static int run(const struct confine_plan *plan, long (*probe)(void), struct confine_result *seen)
{
	int report[2], status = 0;
	struct confine_result result = { .seccomp = false };
	struct err err = ERR_INIT;
	pid_t pid;

	have.parent = getpid();
	if (pipe2(report, O_CLOEXEC) < 0)
		return EXIT_NOT_CONFINED;
	pid = fork();
	if (pid == 0) {
		have.tcp = socket(AF_INET, SOCK_STREAM, 0);
		have.unix_stream = socket(AF_UNIX, SOCK_STREAM, 0);
		have.file = open("/bin/true", O_RDONLY);
		have.listener = listen_here(&have.server);
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, have.pair) < 0)
			_exit(EXIT_NOT_CONFINED);
		/* One client waits for accept4(). */
		int client = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(client, (struct sockaddr *)&have.server, sizeof(have.server)) < 0)
			_exit(EXIT_NOT_CONFINED);
		if (confine_apply(plan, &result, &err) < 0) {
			fprintf(stderr, "confine_apply: %s\n", err.text);
			_exit(EXIT_NOT_CONFINED);
		}
		if (write(report[1], &result, sizeof(result)) != (ssize_t)sizeof(result))
			_exit(EXIT_NOT_CONFINED);
		errno = 0;
		_exit(probe() >= 0 ? EXIT_DONE : EXIT_ERRNO + (errno < 99 ? errno : 99));
	}
	close(report[1]);
	if (seen != NULL && read(report[0], seen, sizeof(*seen)) != (ssize_t)sizeof(*seen))
		memset(seen, 0, sizeof(*seen));
	close(report[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Does this machine have what the test is about? gVisor and old kernels lack some of it. */
static bool supported(bool need_net)
{
	struct confine_plan plan = plan_of(CONFINE_PROXY_WORKER);
	struct confine_result seen;

	run(&plan, probe_work, &seen);
	if (!seen.seccomp)
		printf("(no seccomp here: %s) ", seen.missing);
	return seen.seccomp && (!need_net || seen.landlock_abi >= 4);
}

static void check_role(enum confine_role role)
{
	struct confine_plan plan = plan_of(role);

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		enum expected want = role == CONFINE_EGRESS ? probes[i].egress : probes[i].proxy;
		int got;

		if (want == NOT_HELD)
			continue;
		got = run(&plan, probes[i].run, NULL);
		if (want == WORKS)
			UNIT_CHECK(got == EXIT_DONE, "%s: %d", probes[i].name, got);
		else
			UNIT_CHECK(got == -SIGSYS || got == EXIT_ERRNO + EACCES, "%s: %d", probes[i].name, got);
	}
}

static void test_proxy_worker(void)
{
	if (supported(false))
		check_role(CONFINE_PROXY_WORKER);
	CU_PASS("ran");
}

static void test_egress(void)
{
	if (supported(false))
		check_role(CONFINE_EGRESS);
	CU_PASS("ran");
}

/* Without a filter every probe that this machine allows at all succeeds: the table above is not refused by accident. */
/* The master may open, fork and make sockets; what it must never do fails, and it lives to say so. */
static void test_proxy_master(void)
{
	static const struct {
		const char *name;
		long (*run)(void);
		enum expected want;
	} cases[] = {
		{ "ordinary work", probe_work, WORKS },
		{ "open", probe_open, WORKS },
		{ "fork", probe_fork, WORKS },
		{ "socket AF_INET", probe_socket_tcp, WORKS },
		{ "execve", probe_execve, REFUSED },
		{ "execveat", probe_execveat, REFUSED },
#ifndef __SANITIZE_ADDRESS__
		{ "ptrace", probe_ptrace, REFUSED },
#endif
		{ "process_vm_readv", probe_process_vm_readv, REFUSED },
		{ "pidfd_open", probe_pidfd_open, REFUSED },
		{ "socket AF_ALG", probe_socket_alg, REFUSED },
		{ "socket AF_PACKET", probe_socket_packet, REFUSED },
		{ "mount", probe_mount, REFUSED },
		{ "unshare", probe_unshare, REFUSED },
		{ "bpf", probe_bpf, REFUSED },
		{ "io_uring_setup", probe_io_uring, REFUSED },
		{ "userfaultfd", probe_userfaultfd, REFUSED },
		{ "perf_event_open", probe_perf, REFUSED },
		{ "keyctl", probe_keyctl, REFUSED },
		{ "memfd_create", probe_memfd, REFUSED },
		{ "TCP fast open", probe_fast_open, REFUSED },
	};
	struct confine_plan plan = { .role = CONFINE_PROXY_MASTER };

	for (size_t i = 0; supported(false) && i < ARRAY_SIZE(cases); i++) {
		int got = run(&plan, cases[i].run, NULL);

		if (cases[i].want == WORKS)
			UNIT_CHECK(got == EXIT_DONE, "%s: %d", cases[i].name, got);
		else
			UNIT_CHECK(got == EXIT_ERRNO + EPERM || got == EXIT_ERRNO + EACCES, "%s: %d", cases[i].name, got);
	}
	/* By TCP it reaches the ports of its plan alone, and with none nobody. */
	if (supported(true))
		CU_ASSERT_EQUAL(run(&plan, probe_connect, NULL), EXIT_ERRNO + EACCES);
	CU_PASS("ran");
}

static void test_probes_work_unconfined(void)
{
	struct confine_plan plan = plan_of(CONFINE_PROXY_WORKER);
	static const char *const names[] = { "open", "execve", "fork", "ptrace", "socket AF_INET", "socket AF_UNIX",
		"connect TCP", "bind", "listen", "kill of the parent", "mmap PROT_EXEC", "mprotect PROT_EXEC", "memfd_create" };

	plan.rights_only = true;
	plan.uid = (uid_t)-1;
	plan.gid = (gid_t)-1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (size_t k = 0; k < ARRAY_SIZE(probes); k++)
			if (strcmp(probes[k].name, names[i]) == 0)
				UNIT_CHECK(run(&plan, probes[k].run, NULL) == EXIT_DONE, "%s", names[i]);
}

static void test_landlock_ports(void)
{
	struct confine_plan plan = plan_of(CONFINE_EGRESS);
	uint16_t port;
	int server, other;

	if (!supported(true)) {
		CU_PASS("this kernel has no TCP rules");
		return;
	}
	server = listen_here(&have.server);
	other = listen_here(&have.other);
	port = ntohs(have.other.sin_port);
	plan.any_tcp = false;
	plan.connect_ports = &port;
	plan.n_connect_ports = 1;
	CU_ASSERT_EQUAL(run(&plan, probe_connect_other, NULL), EXIT_DONE);
	CU_ASSERT_EQUAL(run(&plan, probe_connect, NULL), EXIT_ERRNO + EACCES);
	plan.role = CONFINE_PROXY_MASTER;
	CU_ASSERT_EQUAL(run(&plan, probe_connect_other, NULL), EXIT_DONE);
	CU_ASSERT_EQUAL(run(&plan, probe_connect, NULL), EXIT_ERRNO + EACCES);
	plan.role = CONFINE_EGRESS;
	plan.n_connect_ports = 0;
	CU_ASSERT_EQUAL(run(&plan, probe_connect_other, NULL), EXIT_ERRNO + EACCES);
	close(server);
	close(other);
}

static char dir[] = "/tmp/test_confine.XXXXXX";

static long probe_read_below(void)
{
	char path[64], b[8];
	int fd;

	snprintf(path, sizeof(path), "%s/conf", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : read(fd, b, sizeof(b)) == 4 ? 0 : -1;
}

static long probe_append_below(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/log", dir);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
	return fd < 0 ? -1 : write(fd, "x", 1);
}

static long probe_write_below(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/conf", dir);
	return open(path, O_WRONLY | O_TRUNC);
}

/* What a plan's directories leave, and nothing beside it. */
static void test_directories(void)
{
	struct confine_plan plan = plan_of(CONFINE_EGRESS);
	char path[64];
	int fd;

	if (!supported(true)) {
		CU_PASS("this kernel has no Landlock");
		return;
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	chmod(dir, 0777);
	snprintf(path, sizeof(path), "%s/conf", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	CU_ASSERT_EQUAL(write(fd, "conf", 4), 4);
	close(fd);
	plan.read_dir = dir;
	CU_ASSERT_EQUAL(run(&plan, probe_read_below, NULL), EXIT_DONE);
	CU_ASSERT_EQUAL(run(&plan, probe_open, NULL), EXIT_ERRNO + EACCES);
	CU_ASSERT_EQUAL(run(&plan, probe_append_below, NULL), -SIGSYS);
	CU_ASSERT_EQUAL(run(&plan, probe_write_below, NULL), -SIGSYS);
	plan.read_dir = NULL;
	plan.append_dir = dir;
	CU_ASSERT_EQUAL(run(&plan, probe_append_below, NULL), EXIT_DONE);
	CU_ASSERT_EQUAL(run(&plan, probe_read_below, NULL), -SIGSYS);
	CU_ASSERT_EQUAL(run(&plan, probe_write_below, NULL), -SIGSYS);
	unlink(path);
	snprintf(path, sizeof(path), "%s/log", dir);
	unlink(path);
	rmdir(dir);
}

static long probe_identity(void)
{
	uid_t r, e, s;
	gid_t g;

	/* The filter has no getresuid: rights_only plans alone run this. */
	if (getresuid(&r, &e, &s) < 0 || r != NOBODY || e != NOBODY || s != NOBODY)
		return -1;
	if (getegid() != NOBODY || getgroups(0, &g) != 0)
		return -1;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE) != 0)
		return -1;
	return prctl(PR_CAPBSET_READ, 0) == 0 && setuid(0) < 0 ? 0 : -1;
}

static void test_identity(void)
{
	struct confine_plan plan = plan_of(CONFINE_PROXY_WORKER);
	struct confine_result seen = { .seccomp = true };

	if (geteuid() != 0) {
		CU_PASS("needs root");
		return;
	}
	plan.rights_only = true;
	CU_ASSERT_EQUAL(run(&plan, probe_identity, &seen), EXIT_DONE);
	CU_ASSERT_TRUE(seen.no_new_privs);
	CU_ASSERT_FALSE(seen.seccomp);
	CU_ASSERT_PTR_NOT_NULL(strstr(seen.missing, "turned off by configuration"));
}

/* Another user than root, with root's capabilities to become a third: with groups of its own. */
static bool become_capable(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { .effective = 1U << CAP_SETUID | 1U << CAP_SETGID } };
	const gid_t groups[] = { 4, 24 };

	caps[0].permitted = caps[0].effective;
	return setgroups(2, groups) == 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setresgid(1000, 1000, 1000) == 0 &&
		setresuid(1000, 1000, 1000) == 0 && syscall(SYS_capset, &header, caps) == 0;
}

static long probe_groups(void)
{
	gid_t g;

	return getuid() == NOBODY && getegid() == NOBODY && getgroups(0, &g) == 0 && setuid(0) < 0 ? 0 : -1;
}

static void test_identity_by_capabilities(void)
{
	struct confine_plan plan = plan_of(CONFINE_PROXY_WORKER);
	struct confine_result seen;
	int status = -1;

	if (geteuid() != 0) {
		CU_PASS("needs root");
		return;
	}
	plan.rights_only = true;
	pid_t pid = fork();
	if (pid == 0)
		_exit(become_capable() ? run(&plan, probe_groups, &seen) : 99);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFEXITED(status));
	CU_ASSERT_EQUAL(WEXITSTATUS(status), EXIT_DONE);
}

static void test_keep(void)
{
	struct err err = ERR_INIT;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		/* Of root's capabilities the named ones stay; nobody else gains any. */
		if (confine_keep(1ULL << 0 | 1ULL << 5 | 1ULL << 39, &err) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
			_exit(1);
		char line[256];
		FILE *f = fopen("/proc/self/status", "re");
		unsigned long long eff = 1, permitted = 1;

		while (f != NULL && fgets(line, sizeof(line), f) != NULL)
			if (sscanf(line, "CapEff: %llx", &eff) != 1)
				(void)sscanf(line, "CapPrm: %llx", &permitted);
		_exit(eff == permitted && (eff & ~(1ULL << 0 | 1ULL << 5 | 1ULL << 39)) == 0 && (geteuid() != 0 || eff != 0)
				? 0
				: 2);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
}

static void test_names(void)
{
	struct err err = ERR_INIT;
	uid_t uid = 7;
	gid_t gid = 7;

	CU_ASSERT_EQUAL(confine_find_user("root", &uid, &gid, &err), 0);
	CU_ASSERT_TRUE(uid == 0 && gid == 0);
	CU_ASSERT_EQUAL(confine_find_user("4000000000", &uid, &gid, &err), 0);
	CU_ASSERT_TRUE(uid == 4000000000 && gid == 4000000000);
	CU_ASSERT_EQUAL(confine_find_user("4294967295", &uid, &gid, &err), -1);
	CU_ASSERT_EQUAL(confine_find_user("12x", &uid, &gid, &err), -1);
	CU_ASSERT_EQUAL(confine_find_user("", &uid, &gid, &err), -1);
	CU_ASSERT_EQUAL(confine_find_user("no-such-user-here", &uid, &gid, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no-such-user-here"));
	CU_ASSERT_EQUAL(confine_find_group("root", &gid, &err), 0);
	CU_ASSERT_EQUAL(gid, 0);
	CU_ASSERT_EQUAL(confine_find_group("123", &gid, &err), 0);
	CU_ASSERT_EQUAL(gid, 123);
	CU_ASSERT_EQUAL(confine_find_group("no-such-group-here", &gid, &err), -1);
}

static const struct unit_test tests[] = {
	{ "proxy worker", test_proxy_worker },
	{ "egress", test_egress },
	{ "proxy master", test_proxy_master },
	{ "probes work unconfined", test_probes_work_unconfined },
	{ "landlock ports", test_landlock_ports },
	{ "directories", test_directories },
	{ "identity", test_identity },
	{ "identity by capabilities", test_identity_by_capabilities },
	{ "keep", test_keep },
	{ "names", test_names },
};

UNIT_MAIN("confine", tests)
