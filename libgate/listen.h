/*
 * Listening sockets: unix and TCP, accept with back-off when descriptors run out, credentials of unix peers. [libevent]
 */
#ifndef GATE_LISTEN_H
#define GATE_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "libgate/err.h"

struct event_base;
struct listener;

/* Opens, binds and listens; non-blocking, close-on-exec. A stale unix socket (nobody accepts) is replaced; one that
 * somebody serves is an error. Returns the descriptor or -1. */
int listen_unix(const char *path, mode_t mode, uid_t uid, gid_t gid, struct err *err) MUSTCHECK;
/* "127.0.0.1:2375", "[::1]:2375", "0.0.0.0:3128" - numeric addresses only. Its connections have TCP_NODELAY and keepalive. */
int listen_tcp(const char *address, struct err *err) MUSTCHECK;
/* The same spelling as a socket address: its length, or 0 when it is none. */
socklen_t listen_parse_tcp(const char *address, struct sockaddr_storage *out);

#define PEER_NAME_MAX 96
#define PEER_TEXT_MAX 160

struct peer {
	bool is_unix;
	pid_t pid; /* unix: SO_PEERCRED */
	uid_t uid;
	gid_t gid;
	struct sockaddr_storage addr; /* TCP */
	char name[PEER_NAME_MAX]; /* subject of a TLS client's certificate, cut; "" for none */
};

/* "uid=0 gid=0 pid=12", "127.0.0.1:40312" or "127.0.0.1:40312 CN=builder"; size: PEER_TEXT_MAX. */
void peer_format(const struct peer *p, char *out, size_t size);

/* fd of an accepted connection (non-blocking, close-on-exec) passes to the callback. */
typedef void (*listen_cb)(int fd, const struct peer *peer, void *arg);

struct listener *listener_new(struct event_base *base, int fd, listen_cb cb, void *arg);
void listener_pause(struct listener *l); /* stop accepting, e.g. at the connection cap */
void listener_resume(struct listener *l);
void listener_free(struct listener *l); /* closes fd; allowed inside the callback */

#endif
