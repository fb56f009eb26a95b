/*
 * The runner of one sandbox, seen from the controller: commands, files and kills multiplexed over one engine exec.
 *
 * It owns no engine client. When it needs the runner it asks its owner for a stream by want_stream(); the owner starts
 * `/usr/libexec/sandbox-runner` by an engine exec (stdin, stdout, stderr, no tty, user 1000:1000), and hands over the
 * hijacked connection, or says why there is none. A lost stream ends what ran over it as lost, and what was not yet sent
 * as not started; the next operation asks for a new stream.
 */
#ifndef CONTROLLER_RUNNER_H
#define CONTROLLER_RUNNER_H

#include "controller/exec_backend.h"

struct channel_set;
struct runner;

#define RUNNER_OUTCOMES "/workspace/.capybara-outcomes"
#define RUNNER_PATH "/usr/libexec/sandbox-runner"
/* On an image that holds it: the version of the protocol that it speaks. */
#define RUNNER_LABEL "dev.capybara.sandbox.runner"
#define RUNNER_LABEL_VERSION "1"

struct runner_owner {
	/* Answered, now or later, by runner_attach() or runner_no_stream(). */
	void (*want_stream)(void *arg);
	/* What came over the stream was no runner: to be answered by runner_no_stream(), with this reason or a better one. */
	void (*no_runner)(const struct err *err, void *arg);
	/* Operations wait and nothing is heard: is the runner's exec still there? If not: runner_detach(). */
	void (*suspect)(void *arg);
	/* The backend's free() was called; nothing of the runner may be used any more. */
	void (*freed)(void *arg);
	void *arg;
};

/* Freed by the backend's free(). */
struct runner *runner_new(struct channel_set *channels, const struct runner_owner *owner) MUSTCHECK;
struct exec_backend *runner_backend(struct runner *r);

/* fd: non-blocking, after the 101; early: bytes of the engine's multiplexed stream that were read with the head. */
void runner_attach(struct runner *r, int fd, struct slice early);
void runner_no_stream(struct runner *r, const struct err *err);
/*
 * Closes the stream: what runs over it ends as lost (the runner in the sandbox keeps its limits), and what was not sent as
 * not started, by EBUSY: with the sandbox started again it can be.
 */
void runner_detach(struct runner *r, const char *why);

#endif
