/*
 * The operator's log: lines on stderr, "LEVEL program: text"; with a journald priority in place of
 * LEVEL when the journal reads stderr. Every byte that is not printable ASCII is
 * escaped at the writer. Library code does not log; sessions log at LOG_DEBUG with their own prefix.
 */
#ifndef GATE_LOG_H
#define GATE_LOG_H

#include "libgate/util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_init(const char *program, enum log_level max);
void log_set_level(enum log_level max);
enum log_level log_get_level(void);
/* Tests take the lines; NULL restores stderr. */
void log_set_sink(void (*sink)(enum log_level level, const char *line, void *arg), void *arg);
void log_error(const char *fmt, ...) PRINTF(1, 2);
void log_warn(const char *fmt, ...) PRINTF(1, 2);
void log_info(const char *fmt, ...) PRINTF(1, 2);
void log_debug(const char *fmt, ...) PRINTF(1, 2);

#endif
