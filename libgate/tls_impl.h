/* What tls_context.c, tls.c and tls_library.c share. For these alone. */
#ifndef GATE_TLS_IMPL_H
#define GATE_TLS_IMPL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "libgate/err.h"

struct tls_end;

struct tls_context {
	SSL_CTX *ssl;
	bool server;
	char *name; /* whom a client expects */
	TAILQ_HEAD(, tls_end) ends; /* connections that live */
	unsigned nends;
	unsigned left_looks; /* how often, at one a second, an end sees the program gone before it gives up its peer */
};

#define TLS_LEFT_LOOKS 30

/*
 * OpenSSL's functions. The library is not linked: mapped, it costs each process half a megabyte of memory of its own, for
 * relocated tables that nobody reads where no TLS is configured.
 */
struct tls_library {
#define ROW(name) __typeof__(name) *name;
#include "libgate/tls_call.def"
#undef ROW
};

/* Of the process, as a linked library is. Empty until tls_library_load(), which the first context does. */
#ifdef STATIC_PROGRAM
extern const struct tls_library ossl;
#else
extern struct tls_library ossl;
#endif

int tls_library_load(struct err *err) MUSTCHECK;
bool tls_expect_name(SSL *ssl, const char *name);
void tls_end_free(struct tls_end *end);

#endif
