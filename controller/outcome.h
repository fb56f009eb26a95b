/*
 * How commands ended whose answer was lost, as the sandbox tells it. [pure]
 *
 * Lines of two kinds: the outcome records of image/runner/outcome.h, and "R MARK" for each command that still runs, MARK
 * being its id or TAG/ID. The sandbox user can forge all of it: it is told as what the sandbox reports.
 */
#ifndef CONTROLLER_OUTCOME_H
#define CONTROLLER_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/slice.h"

enum outcome_state {
#define ROW(symbol, word) OUTCOME_##symbol,
#include "controller/outcome.def"
#undef ROW
};

struct outcome {
	enum outcome_state state;
	struct slice id; /* borrowed, [A-Za-z0-9_-]{1,64} */
	struct slice tag; /* p == NULL: none */
	int number; /* exit code, signal or errno value, by state */
	bool oom;
	int64_t time_s; /* 0: unknown */
};

const char *outcome_state_word(enum outcome_state s);

/* One line, without its newline; false: it is none of ours. */
bool outcome_parse(struct slice line, struct outcome *out);

#endif
