/* The engine's addresses. */
#include "dockerproxy/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "libgate/listen.h"

#define NAME_MAX_LEN 253

static int unix_address(const char *path, struct engine_addrs *out, struct err *err)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)&out->at[0].addr;

	if (strlen(path) >= sizeof(sun->sun_path))
		return err_set(err, ENAMETOOLONG, "upstream.unix: %s is longer than %zu bytes", path,
			sizeof(sun->sun_path) - 1);
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, path, strlen(path));
	out->at[0].len = sizeof(*sun);
	out->n = 1;
	return 0;
}

/* "name:port" in two, the port decimal and not 0. */
static bool split(const char *text, char name[NAME_MAX_LEN + 1], const char **port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon != NULL ? (size_t)(colon - text) : 0;
	unsigned long number = 0;

	if (len == 0 || len > NAME_MAX_LEN || memchr(text, ':', len) != NULL)
		return false;
	for (const char *p = colon + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || (number = number * 10 + (unsigned long)(*p - '0')) > 65535)
			return false;
	}
	for (size_t i = 0; i < len; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", text[i]) == NULL)
			return false;
	memcpy(name, text, len);
	name[len] = '\0';
	*port = colon + 1;
	return number > 0;
}

static int tcp_addresses(const char *text, struct engine_addrs *out, struct err *err)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	char name[NAME_MAX_LEN + 1];
	struct addrinfo *found;
	const char *port;
	int rc;

	out->at[0].len = listen_parse_tcp(text, &out->at[0].addr);
	if (out->at[0].len > 0) {
		out->n = 1;
		return 0;
	}
	if (!split(text, name, &port))
		return err_set(err, EINVAL, "upstream.tcp: \"%s\" is neither ADDRESS:PORT nor NAME:PORT", text);
	rc = getaddrinfo(name, port, &hints, &found);
	if (rc != 0)
		return err_set(err, ENOENT,
			"upstream.tcp: \"%s\" does not resolve: %s; check /etc/hosts and the resolver, or give "
			"the address",
			name, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	for (const struct addrinfo *a = found; a != NULL && out->n < ENGINE_ADDRS; a = a->ai_next) {
		if (a->ai_addrlen > sizeof(out->at[0].addr))
			continue;
		memcpy(&out->at[out->n].addr, a->ai_addr, a->ai_addrlen);
		out->at[out->n++].len = a->ai_addrlen;
	}
	freeaddrinfo(found);
	return out->n > 0 ? 0 : err_set(err, ENOENT, "upstream.tcp: \"%s\" has no address", name);
}

uint16_t engine_port(const struct engine_addrs *a)
{
	const struct sockaddr_storage *first = &a->at[0].addr;

	if (first->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)(const void *)first)->sin_port);
	return first->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)(const void *)first)->sin6_port) : 0;
}

int resolve_engine(const struct proxy_endpoint *at, struct engine_addrs *out, struct err *err)
{
	out->n = 0;
	return at->tcp != NULL ? tcp_addresses(at->tcp, out, err) : unix_address(at->unix_path, out, err);
}
