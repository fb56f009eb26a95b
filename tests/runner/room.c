/* Runs a table of tests in namespaces of its own. */
#include "tests/runner/room.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *room_program = "image/runner/sandbox-runner";
char room_dir[64];

static int inside(const char *suite, uid_t (*owner)(void), const struct unit_test *tests, size_t n, int argc, char **argv)
{
	int status;

	if (mount("none", "/proc", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0) {
		perror("mount");
		return 99;
	}
	signal(SIGPIPE, SIG_IGN);
	snprintf(room_dir, sizeof(room_dir), "/tmp/runner-test-XXXXXX");
	if (mkdtemp(room_dir) == NULL || chown(room_dir, owner(), owner()) != 0) {
		perror(room_dir);
		return 99;
	}
	umask(0);
	status = unit_main(suite, tests, n, argc, argv);
	if (fork() == 0) {
		execlp("rm", "rm", "-rf", room_dir, (char *)NULL);
		_exit(127);
	}
	wait(NULL);
	return status;
}

int room_run(const char *suite, uid_t (*owner)(void), const struct unit_test *tests, size_t n, int argc, char **argv)
{
	int status;
	pid_t pid;

	if (getenv("SANDBOX_RUNNER") != NULL)
		room_program = getenv("SANDBOX_RUNNER");
	if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
		fprintf(stderr, "%s: skipped, it needs namespaces of its own (run as root): %s\n", suite, strerror(errno));
		return 77;
	}
	pid = fork();
	if (pid == 0) {
		/* Not pid 1 itself: that one is spared and reaps what loses its parents. */
		pid = fork();
		if (pid == 0) {
			status = inside(suite, owner, tests, n, argc, argv);
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
