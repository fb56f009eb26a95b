/*
 * The pipes through which the process splices: bytes go from one socket to another without being copied to user memory.
 *
 * At most PIPES_MAX of them (two descriptors each), made when they are needed; a few are then kept. Who finds none free, for
 * whatever reason, reads and writes instead: there is always that way. Splicing raises SIGPIPE where the reader is gone; a
 * process that uses this ignores that signal.
 */
#ifndef GATE_PIPES_H
#define GATE_PIPES_H

#include <sys/types.h>

#include "libgate/util.h"

#define PIPES_MAX 16
#define PIPES_DESCRIPTORS (2 * PIPES_MAX)

struct pipes_pipe {
	int fd[2];
	enum { PIPES_ABSENT, PIPES_FREE, PIPES_TAKEN } state;
};

/* An empty pipe, or NULL when all are taken or none can be made. */
struct pipes_pipe *pipes_take(void) MUSTCHECK;
void pipes_give(struct pipes_pipe *p); /* it is empty */
void pipes_drop(struct pipes_pipe *p); /* whatever is in it is lost */

/* As read() and write() on the non-blocking socket; n bytes, at least 1, and for the second at most what is in the pipe. */
ssize_t pipes_fill(const struct pipes_pipe *p, int from, size_t n) MUSTCHECK;
ssize_t pipes_drain(const struct pipes_pipe *p, int to, size_t n) MUSTCHECK;

#endif
