/* TLS contexts of a configuration. */
#include "dockerproxy/secure.h"

#include <stdio.h>
#include <string.h>

#include "libgate/tls.h"

#define HOST_MAX 256

/* The address of "ADDRESS:PORT" without brackets: whom the engine's certificate is for unless the configuration says. */
static const char *host_of(const char *tcp, char *out, size_t size)
{
	const char *colon = strrchr(tcp, ':');
	size_t n = colon != NULL ? (size_t)(colon - tcp) : strlen(tcp);

	if (n >= 2 && tcp[0] == '[' && tcp[n - 1] == ']') {
		tcp++;
		n -= 2;
	}
	snprintf(out, size, "%.*s", (int)n, tcp);
	return out;
}

int secure_load(struct proxy_conf *conf, struct err *err)
{
	const struct proxy_tls *up = &conf->upstream_tls;
	char host[HOST_MAX];

	for (unsigned i = 0; i < conf->nlisten; i++) {
		struct proxy_listen *l = &conf->listen[i];

		if (l->tls.cert == NULL)
			continue;
		l->secure = tls_server_new(l->tls.cert, l->tls.key, l->tls.ca, err);
		if (l->secure == NULL)
			return err_wrap(err, "listener %s", l->at.tcp);
	}
	if (up->ca == NULL)
		return 0;
	conf->upstream_secure = tls_client_new(up->ca,
		up->name != NULL ? up->name : host_of(conf->upstream.tcp, host, sizeof(host)), up->cert, up->key, err);
	return conf->upstream_secure != NULL ? 0 : err_wrap(err, "upstream");
}

void secure_release(struct proxy_conf *conf)
{
	for (unsigned i = 0; i < conf->nlisten; i++) {
		tls_context_free(conf->listen[i].secure);
		conf->listen[i].secure = NULL;
	}
	tls_context_free(conf->upstream_secure);
	conf->upstream_secure = NULL;
}

unsigned secure_clients(const struct proxy_conf *conf)
{
	unsigned n = 0;

	for (unsigned i = 0; i < conf->nlisten; i++)
		n += tls_active(conf->listen[i].secure);
	return n;
}
