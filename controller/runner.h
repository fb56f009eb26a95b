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

#define RUNNER_PATH "/usr/libexec/sandbox-runner"

struct runner_owner {
	void (*want_stream)(void *arg); /* answered, now or later, by runner_attach() or runner_no_stream() */
	/* The stream ended. Operations have had their done(); the owner may look whether the sandbox still runs. */
	void (*lost)(const char *text, void *arg);
	void *arg;
};

/* Freed by the backend's free(). */
struct runner *runner_new(struct channel_set *channels, const struct runner_owner *owner) MUSTCHECK;
struct exec_backend *runner_backend(struct runner *r);

/* fd: non-blocking, after the 101; early: bytes of the engine's multiplexed stream that were read with the head. */
void runner_attach(struct runner *r, int fd, struct slice early);
void runner_no_stream(struct runner *r, const struct err *err);
/* Closes the stream (the runner in the sandbox keeps its commands' limits), e.g. before suspend or when idle. */
void runner_detach(struct runner *r, const char *why);
bool runner_attached(const struct runner *r);

#endif
