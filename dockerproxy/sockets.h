/*
 * The master's listening sockets, kept by address over reloads: one that the new configuration still names is never
 * closed, so that no connection is refused meanwhile.
 */
#ifndef DOCKERPROXY_SOCKETS_H
#define DOCKERPROXY_SOCKETS_H

#include "dockerproxy/conf.h"

struct sockets;

struct sockets *sockets_new(void) MUSTCHECK;
void sockets_free(struct sockets *s); /* closes all, and removes the files of unix sockets */

/*
 * Finds or opens a socket for each conf->listen[] (fds) and for conf->admin (*admin_fd, -1: none). The descriptors are
 * borrowed. On failure what was opened by the call is closed again. A success is ended by exactly one of the two below.
 */
int sockets_prepare(struct sockets *s, const struct proxy_conf *conf, int *fds, int *admin_fd,
	struct err *err) MUSTCHECK;
void sockets_commit(struct sockets *s); /* closes what the prepared configuration does not name */
void sockets_abort(struct sockets *s); /* closes what the prepared configuration alone names */

#endif
