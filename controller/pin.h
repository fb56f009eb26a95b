/*
 * Resolves the TCP targets of a sandbox before anything of it is made. [libevent, c-ares]
 *
 * The addresses become part of the list and, with it, of the labels: no name is asked for again, by whoever resumes it. As at
 * egressd each answer must be public as a whole, by the same resolver and the same table.
 */
#ifndef CONTROLLER_PIN_H
#define CONTROLLER_PIN_H

#include "controller/spec.h"
#include "libgate/err.h"

struct event_base;

/* err NULL: every target of the spec has its addresses. Else EACCES for an address, EHOSTUNREACH for a name. */
typedef void (*pin_cb)(const struct err *err, void *arg);

/* servers: as resolve.h takes them. spec stays the caller's until cb, which comes once, from the loop or at once. */
void pin_targets(struct event_base *base, const char *servers, struct spec *spec, pin_cb cb, void *arg);

#endif
