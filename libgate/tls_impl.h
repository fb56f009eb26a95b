/* What tls_context.c and tls.c share. For these two alone. */
#ifndef GATE_TLS_IMPL_H
#define GATE_TLS_IMPL_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/queue.h>

struct tls_end;

struct tls_context {
	SSL_CTX *ssl;
	bool server;
	char *name; /* whom a client expects */
	TAILQ_HEAD(, tls_end) ends; /* connections that live */
	unsigned nends;
};

bool tls_expect_name(SSL *ssl, const char *name);
void tls_end_free(struct tls_end *end);

#endif
