/* TLS of the listeners and of the engine: contexts made at load, connections adapted to plain descriptors. [libevent] */
#ifndef DOCKERPROXY_SECURE_H
#define DOCKERPROXY_SECURE_H

#include "dockerproxy/conf.h"

/* Reads certificates and keys for everything in conf that has tls. */
int secure_load(struct proxy_conf *conf, struct err *err) MUSTCHECK;
void secure_release(struct proxy_conf *conf);

/* TLS connections of clients that live, handshakes and those that still carry a last answer included. */
unsigned secure_clients(const struct proxy_conf *conf);

#endif
