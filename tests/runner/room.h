/*
 * A process and mount namespace for tests whose commands may kill every process of their user. Needs root; skipped (77)
 * without it.
 */
#ifndef TESTS_RUNNER_ROOM_H
#define TESTS_RUNNER_ROOM_H

#include <sys/types.h>

#include "tests/unit/unit.h"

extern const char *room_program; /* the runner: $SANDBOX_RUNNER, or that of the build */
extern char room_dir[64]; /* of whom `owner` says within the namespaces; removed after the tests */

/* What main() returns; it may end the process instead. */
int room_run(const char *suite, uid_t (*owner)(void), const struct unit_test *tests, size_t n, int argc, char **argv);

#endif
