/*
 * The error of one operation: a code that callers may switch on and a sentence for a person.
 *
 * Convention: the last argument of a function that can fail is `struct err *err` (never NULL); the function returns 0 or
 * a pointer on success and -1 or NULL on failure. err is written on failure only. Only main.c prints and exits.
 * The text says what failed, where, and what to do; err_wrap() puts the caller's context in front.
 */
#ifndef GATE_ERR_H
#define GATE_ERR_H

#include "libgate/util.h"

#define ERR_TEXT_MAX 512

struct err {
	int code; /* an errno value, or 0 where none fits */
	char text[ERR_TEXT_MAX]; /* always terminated; cut at a whole character */
};

#define ERR_INIT \
	{ \
		0, "" \
	}

/* Sets code and text. Returns -1, so that a failing function can `return err_set(...)`. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF(3, 4);

/* Sets code from errno and appends its description to the text. Returns -1. */
int err_errno(struct err *err, const char *fmt, ...) PRINTF(2, 3);

/* Puts "<context>: " in front of the text. Returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF(2, 3);

#endif
