/*
 * TLS as an adaptor: a connection that speaks TLS on one side is handed on as an ordinary stream socket that carries the
 * plain bytes. Everything behind it (readers, relays, half-closes) works on descriptors and knows nothing of TLS.
 * [libevent, OpenSSL]
 *
 * TLS 1.2 and 1.3, no renegotiation, no resumption, ALPN http/1.1 where it is offered. A close_notify is passed on as a
 * half-close and the other way round. Contexts are made before confinement, since they read files. The program ignores
 * SIGPIPE: OpenSSL writes to sockets as to files.
 */
#ifndef GATE_TLS_H
#define GATE_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"

#define TLS_NAME_MAX 256

struct event_base;
struct tls_context;

/* client_ca NULL: clients need no certificate. PEM files; cert may be followed by its chain. */
struct tls_context *tls_server_new(const char *cert, const char *key, const char *client_ca, struct err *err) MUSTCHECK;
/* The server's certificate must be by ca and for name (a host name or an address). cert, key: NULL for none. */
struct tls_context *tls_client_new(const char *ca, const char *name, const char *cert, const char *key,
	struct err *err) MUSTCHECK;
void tls_context_free(struct tls_context *ctx); /* ends what it carries */
unsigned tls_active(const struct tls_context *ctx); /* connections that live; 0 for NULL */

/*
 * fd: non-blocking, carries the plain bytes, the callee's; or -1 and why says what went wrong. name: subject of the
 * peer's certificate (RFC 2253), "" when it showed none. Called once, from the loop.
 */
typedef void (*tls_cb)(int fd, const char *name, const char *why, void *arg);

/*
 * Takes over fd (connected, non-blocking) and shakes hands within handshake_ms. Afterwards it works on its own until both
 * directions ended, or until a peer has not taken within 30 s what was left when the program closed its descriptor. False on
 * lack of memory or descriptors: fd is then closed, and cb is not called.
 */
bool tls_start(struct tls_context *ctx, struct event_base *base, int fd, int64_t handshake_ms, tls_cb cb,
	void *arg) MUSTCHECK;

#endif
