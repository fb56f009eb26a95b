/*
 * The configuration in force, and its replacement by SIGHUP. [libevent]
 *
 * A reload takes over lists, ports, limits, time-outs and resolvers, or nothing when the file has a fault. What was opened or
 * given up at start (listeners, user, confinement) stays, and the log says so when the file asks for something else.
 */
#ifndef EGRESSD_RELOAD_H
#define EGRESSD_RELOAD_H

#include "egressd/egress.h"
#include "libgate/dns_resolve.h"

/* file NULL: the configuration is the environment's alone. Opens the audit file again in any case. */
void reload(struct egress *e, const char *file);

/* What an operator should know of a configuration, to the log. */
void reload_say(const struct egress_conf *c);

/* A full pace for each entry of the allowlist; the caller frees. */
struct pace *reload_paces(const struct egress_conf *c, struct err *err) MUSTCHECK;

/* The servers' text stays the configuration's. */
struct resolver_settings reload_resolver_settings(const struct egress_conf *c);
/* The guard refuses the resolvers' addresses as destinations. */
void reload_know_resolvers(struct egress *e);

#endif
