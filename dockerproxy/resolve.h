/*
 * Where the engine is: a unix socket's path, or address and port, or a host's name and port. [I/O: the system's resolver]
 *
 * A name is resolved once, when the configuration is loaded, and its addresses hold for that configuration: what the name
 * says later changes nothing before the next reload.
 */
#ifndef DOCKERPROXY_RESOLVE_H
#define DOCKERPROXY_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>

#include "dockerproxy/conf.h"

#define ENGINE_ADDRS 8 /* of a name; further ones are left aside */

struct engine_addrs {
	unsigned n;
	struct {
		struct sockaddr_storage addr;
		socklen_t len;
	} at[ENGINE_ADDRS]; /* tried in this order */
};

/* The TCP port, the same for all; 0: a unix socket. */
uint16_t engine_port(const struct engine_addrs *a);

int resolve_engine(const struct proxy_endpoint *at, struct engine_addrs *out, struct err *err) MUSTCHECK;

#endif
