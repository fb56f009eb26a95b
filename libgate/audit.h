/*
 * The audit log: one line of JSON a decision, the same shape in every program, written without blocking the loop.
 *
 * Every value is escaped here, at the writer: no caller can break a line. Lines that the sink cannot take at once wait,
 * up to 256 KiB; more are dropped, counted in audit_dropped(), and the next line that gets through says how many are
 * missing ("missing": N). Lines reach the sink whole, so several processes may share one: a value that would make a
 * line too long for that is cut and the line says so ("cut": true). A line that a full disk tore stands there again, whole,
 * behind its beginning and perhaps an empty line.
 */
#ifndef GATE_AUDIT_H
#define GATE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/slice.h"

struct audit;

/* where: a file (appended, mode 0640), "stderr", "syslog" or "off". program stands in each line. */
struct audit *audit_open(const char *where, const char *program, struct err *err) MUSTCHECK;
void audit_free(struct audit *a);
uint64_t audit_dropped(const struct audit *a);

/*
 * Opens a file again by its path (after log rotation) and connects to syslog again; others: 0. On failure the old sink
 * stays in use. A confined process cannot: its parent reopens, and passes audit_fd() for audit_adopt().
 */
int audit_reopen(struct audit *a, struct err *err) MUSTCHECK;
int audit_fd(const struct audit *a); /* -1 when off */
bool audit_lost(const struct audit *a); /* syslog is gone (restarted, perhaps): reopening helps */
void audit_adopt(struct audit *a, int fd); /* takes the descriptor in place of its own */

/* One record: begin writes time (RFC 3339, UTC, microseconds), program and event ("decision", "close", …). */
void audit_begin(struct audit *a, const char *event);
void audit_str(struct audit *a, const char *key, struct slice value);
void audit_cstr(struct audit *a, const char *key, const char *value); /* NULL: left out */
void audit_int(struct audit *a, const char *key, int64_t value);
void audit_bool(struct audit *a, const char *key, int value);
void audit_end(struct audit *a); /* written at once, unless buffered */

/* Buffered: lines go out by audit_flush(), once a turn of the loop, or when 64 KiB wait. */
void audit_set_buffered(struct audit *a, bool on);
void audit_flush(struct audit *a);

#endif
