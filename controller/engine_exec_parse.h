/*
 * What the scripts of the engine mode print, and what the engine says when it starts none. [pure]
 *
 * All of it comes out of the sandbox: a script's words may have been forged by another process of the same user, who can
 * thereby mislead about its own sandbox only. Numbers are bounded, text is cut.
 */
#ifndef CONTROLLER_ENGINE_EXEC_PARSE_H
#define CONTROLLER_ENGINE_EXEC_PARSE_H

#include <time.h>

#include "controller/exec_backend.h"

/* The errno for an engine's text in place of a process. */
int start_failure_code(const char *text);

/* "E CODE SIGNAL OOM KILLED SURVIVORS" */
bool exec_line_parse(const char *line, struct exec_outcome *out);

/* "E 0 PROCESSES SURVIVORS COMMANDS" */
bool kill_line_parse(const char *line, unsigned *processes, unsigned *survivors, unsigned *commands);

/* What follows the last mark in the text; p == NULL when there is none. */
struct slice after_last_mark(struct slice text, const char *nonce);

/* Attributes ("I ...") into *info, then the end: 0, or an errno value with a text. */
int file_notes_parse(struct slice notes, const char *nonce, struct file_info *info, char *text, size_t size);

/* "TYPE SIZE MODE UID GID TIME TARGET" and NUL; target borrows. */
bool stat_entry_parse(struct slice s, struct file_info *info);

/* One entry of a listing: attributes NUL name NUL target NUL. The bytes used, 0 when it is not complete. */
size_t list_entry_parse(struct slice s, struct slice *name, struct file_info *info);

/* Is an engine's time stamp (RFC 3339, UTC) not after `when`? False also when it is not understood. */
bool started_before(struct slice stamp, time_t when);
/*
 * Was a container with that time stamp started again since `made`, looked at `now`, both by the same clock (0: not told)? A
 * start that is yet to come was told by a clock that has been set back since, and says nothing.
 */
bool started_since(struct slice stamp, time_t made, time_t now);

/* The errno whose text this is in the C locale; EIO when none. */
int errno_of_text(struct slice s);

#endif
