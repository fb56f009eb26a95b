/* TLS contexts: what is accepted, read from files once. */
#include "libgate/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "libgate/tls_impl.h"

/* The oldest entry of OpenSSL's queue is the cause; the rest is its context. */
static int fail(struct err *err, const char *what, const char *file)
{
	unsigned long e = ossl.ERR_get_error();
	const char *why = ossl.ERR_reason_error_string(e);

	if (ERR_GET_LIB(e) == ERR_LIB_SYS)
		why = strerror((int)ERR_GET_REASON(e));
	ossl.ERR_clear_error();
	return err_set(err, EINVAL, "%s %s: %s", what, file, why != NULL ? why : "cannot be used");
}

static int select_http(SSL *ssl, const unsigned char **out, unsigned char *outlen, const unsigned char *in,
	unsigned inlen, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	if (ossl.SSL_select_next_proto(&chosen, outlen, ours, sizeof(ours) - 1, in, inlen) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static struct tls_context *context_new(bool server, struct err *err)
{
	struct tls_context *ctx;

	if (tls_library_load(err) < 0)
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (ctx != NULL)
		ctx->ssl = ossl.SSL_CTX_new(server ? ossl.TLS_server_method() : ossl.TLS_client_method());
	if (ctx == NULL || ctx->ssl == NULL ||
		ossl.SSL_CTX_ctrl(ctx->ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) != 1) {
		tls_context_free(ctx);
		err_set(err, ENOMEM, "TLS context");
		return NULL;
	}
	ctx->server = server;
	TAILQ_INIT(&ctx->ends);
	ctx->left_looks = TLS_LEFT_LOOKS;
	ossl.SSL_CTX_set_options(ctx->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
	ossl.SSL_CTX_ctrl(ctx->ssl, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	ossl.SSL_CTX_set_num_tickets(ctx->ssl, 0);
	ossl.SSL_CTX_ctrl(ctx->ssl, SSL_CTRL_MODE,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS, NULL);
	return ctx;
}

static int load_identity(struct tls_context *ctx, const char *cert, const char *key, struct err *err)
{
	if (ossl.SSL_CTX_use_certificate_chain_file(ctx->ssl, cert) != 1)
		return fail(err, "TLS certificate", cert);
	if (ossl.SSL_CTX_use_PrivateKey_file(ctx->ssl, key, SSL_FILETYPE_PEM) != 1)
		return fail(err, "TLS key", key);
	if (ossl.SSL_CTX_check_private_key(ctx->ssl) != 1)
		return fail(err, "TLS key does not belong to certificate", cert);
	return 0;
}

static int require_peer(struct tls_context *ctx, const char *ca, struct err *err)
{
	if (ossl.SSL_CTX_load_verify_file(ctx->ssl, ca) != 1)
		return fail(err, "TLS authority", ca);
	ossl.SSL_CTX_set_verify(ctx->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

static int name_clients_authority(struct tls_context *ctx, const char *ca, struct err *err)
{
	STACK_OF(X509_NAME) *names = ossl.SSL_load_client_CA_file(ca);

	if (names == NULL)
		return fail(err, "TLS authority", ca);
	ossl.SSL_CTX_set_client_CA_list(ctx->ssl, names);
	return 0;
}

struct tls_context *tls_server_new(const char *cert, const char *key, const char *client_ca, struct err *err)
{
	struct tls_context *ctx = context_new(true, err);

	if (ctx == NULL)
		return NULL;
	ossl.SSL_CTX_set_options(ctx->ssl, SSL_OP_CIPHER_SERVER_PREFERENCE);
	ossl.SSL_CTX_set_alpn_select_cb(ctx->ssl, select_http, NULL);
	if (load_identity(ctx, cert, key, err) < 0 ||
		(client_ca != NULL &&
			(require_peer(ctx, client_ca, err) < 0 || name_clients_authority(ctx, client_ca, err) < 0))) {
		tls_context_free(ctx);
		return NULL;
	}
	return ctx;
}

struct tls_context *tls_client_new(const char *ca, const char *name, const char *cert, const char *key, struct err *err)
{
	struct tls_context *ctx = context_new(false, err);

	if (ctx == NULL)
		return NULL;
	ctx->name = strdup(name);
	if (ctx->name == NULL || require_peer(ctx, ca, err) < 0 ||
		(cert != NULL && load_identity(ctx, cert, key, err) < 0)) {
		if (ctx->name == NULL)
			err_set(err, ENOMEM, "TLS context");
		tls_context_free(ctx);
		return NULL;
	}
	return ctx;
}

static bool send_server_name(SSL *ssl, const char *name)
{
	return ossl.SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)(uintptr_t)name) == 1;
}

/* Whom a client will believe to be talking to. An address is no server name and is not sent as one. */
bool tls_expect_name(SSL *ssl, const char *name)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
		return ossl.X509_VERIFY_PARAM_set1_ip_asc(ossl.SSL_get0_param(ssl), name) == 1;
	ossl.SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return ossl.SSL_set1_host(ssl, name) == 1 && send_server_name(ssl, name);
}

unsigned tls_active(const struct tls_context *ctx)
{
	return ctx != NULL ? ctx->nends : 0;
}

void tls_context_free(struct tls_context *ctx)
{
	struct tls_end *end;

	if (ctx == NULL)
		return;
	while (ctx->ssl != NULL && (end = TAILQ_FIRST(&ctx->ends)) != NULL)
		tls_end_free(end);
	ossl.SSL_CTX_free(ctx->ssl);
	free(ctx->name);
	free(ctx);
}
