/*
 * The audit log: one line of JSON a decision, the same shape in every program, written without blocking the loop.
 *
 * Every value is escaped here, at the writer: no caller can break a line. When the sink cannot take a line at once it is
 * counted in audit_dropped() and the next line that gets through says how many are missing.
 */
#ifndef GATE_AUDIT_H
#define GATE_AUDIT_H

#include <stdint.h>

#include "libgate/err.h"
#include "libgate/slice.h"

struct audit;

/* where: a file (appended, mode 0640), "stderr", "syslog" or "off". program stands in each line. */
struct audit *audit_open(const char *where, const char *program, struct err *err) MUSTCHECK;
void audit_free(struct audit *a);
int audit_reopen(struct audit *a, struct err *err) MUSTCHECK; /* files only; others: 0 */
uint64_t audit_dropped(const struct audit *a);

/* One record: begin writes time (RFC 3339, UTC, microseconds), program and event ("decision", "close", …). */
void audit_begin(struct audit *a, const char *event);
void audit_str(struct audit *a, const char *key, struct slice value);
void audit_cstr(struct audit *a, const char *key, const char *value); /* NULL: left out */
void audit_int(struct audit *a, const char *key, int64_t value);
void audit_bool(struct audit *a, const char *key, int value);
void audit_end(struct audit *a);

#endif
