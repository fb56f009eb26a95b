/*
 * A small HTTP server for operators: health, readiness, metrics. GET and HEAD of a few fixed paths, one request a
 * connection, everything bounded. For a unix socket or a loopback address; it has no access control of its own, but a
 * browser that a foreign page sends to it gets nothing: over TCP, Host must be an address or localhost. [libevent]
 */
#ifndef GATE_ADMIN_H
#define GATE_ADMIN_H

#include "libgate/buf.h"
#include "libgate/slice.h"

#define ADMIN_MAX_CONNECTIONS 16
#define ADMIN_MAX_ANSWER (4 * 1024 * 1024)

struct admin;
struct admin_call;
struct event_base;

struct admin_route {
	const char *path; /* "/healthz" */
	/* Answers now or later, by exactly one admin_answer(), also after the client or the server is gone. */
	void (*answer)(struct admin_call *call, void *arg);
};

/* Takes over the listening socket fd. routes end with a path NULL. NULL on lack of memory: fd stays the caller's. */
struct admin *admin_new(struct event_base *base, int fd, const struct admin_route *routes, void *arg) MUSTCHECK;
void admin_free(struct admin *a); /* closes all connections */

void admin_answer(struct admin_call *call, int status, const char *content_type, struct slice body);

#endif
