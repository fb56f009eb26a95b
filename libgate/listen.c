/* Listening sockets: making them, and accepting from them until descriptors run out. */
#include "libgate/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define LISTEN_BACKLOG 1024
#define LISTEN_BATCH 32 /* most accepts in one turn of the loop: other events have their turn too */
#define LISTEN_STREAK 8 /* turns in which as many were there as were asked for: then twice as many are */
#define LISTEN_RETRY_MS 100 /* pause when descriptors or memory ran out */

/* --- unix ------------------------------------------------------------------------------------------------------- */

/* 1: somebody accepts at path; 0: nobody does, the file is stale; -1: cannot tell. */
static int somebody_serves(const struct sockaddr_un *sun)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 || errno == EAGAIN)
		return 1;
	return errno == ECONNREFUSED ? 0 : -1;
}

static int remove_stale(const struct sockaddr_un *sun, struct err *err)
{
	struct stat st;

	if (lstat(sun->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "%s", sun->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, EEXIST, "%s exists and is no socket; remove it or choose another path", sun->sun_path);
	switch (somebody_serves(sun)) {
	case 0:
		break;
	case 1:
		return err_set(err, EADDRINUSE, "%s is served by another process; stop it first", sun->sun_path);
	default:
		return err_errno(err, "%s exists and cannot be probed", sun->sun_path);
	}
	if (unlink(sun->sun_path) < 0 && errno != ENOENT)
		return err_errno(err, "stale socket %s cannot be removed", sun->sun_path);
	return 0;
}

int listen_unix(const char *path, mode_t mode, uid_t uid, gid_t gid, struct err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	auto_close int fd = -1;
	mode_t old;
	int rc;

	if (strlen(path) >= sizeof(sun.sun_path))
		return err_set(err, ENAMETOOLONG, "socket path %s is longer than %zu bytes", path, sizeof(sun.sun_path) - 1);
	memcpy(sun.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "socket for %s", path);
	if (remove_stale(&sun, err) < 0)
		return -1;
	/* Nobody can connect before listen(), and the file has its final rights by then. */
	old = umask(0177);
	rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(old);
	if (rc < 0)
		return err_errno(err, "cannot bind %s", path);
	if ((uid != (uid_t)-1 || gid != (gid_t)-1) && lchown(path, uid, gid) < 0) {
		err_errno(err, "cannot give %s to uid %d gid %d", path, (int)uid, (int)gid);
		unlink(path);
		return -1;
	}
	if (chmod(path, mode) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
		err_errno(err, "cannot listen at %s", path);
		unlink(path);
		return -1;
	}
	return STEAL_FD(fd);
}

/* --- TCP -------------------------------------------------------------------------------------------------------- */

socklen_t listen_parse_tcp(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	const char *colon = strrchr(text, ':');
	char host[64];
	size_t n;
	unsigned port = 0;

	memset(out, 0, sizeof(*out));
	if (colon == NULL || colon[1] == '\0')
		return 0;
	for (const char *p = colon + 1; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || port > 6553)
			return 0;
		port = port * 10 + (unsigned)(*p - '0');
	}
	n = (size_t)(colon - text);
	if (port > 65535 || n == 0 || n >= sizeof(host))
		return 0;
	memcpy(host, text, n);
	host[n] = '\0';
	if (host[0] == '[') {
		if (n < 3 || host[n - 1] != ']')
			return 0;
		host[n - 1] = '\0';
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host + 1, &in6->sin6_addr) == 1 ? sizeof(*in6) : 0;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? sizeof(*in) : 0;
}

/* Of each connection. A peer that vanished without a word is noticed after idle + count * interval seconds. */
static const struct {
	int level;
	int name;
	int value;
} options[] = {
	{ IPPROTO_TCP, TCP_NODELAY, 1 },
	{ SOL_SOCKET, SO_KEEPALIVE, 1 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 15 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
};

static void set_options(int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

static bool has_options(int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		int value = 0;
		socklen_t len = sizeof(value);
		if (getsockopt(fd, options[i].level, options[i].name, &value, &len) < 0 || value != options[i].value)
			return false;
	}
	return true;
}

int listen_tcp(const char *address, struct err *err)
{
	struct sockaddr_storage ss;
	socklen_t len = listen_parse_tcp(address, &ss);
	auto_close int fd = -1;
	int on = 1;

	if (len == 0)
		return err_set(err, EINVAL, "\"%s\" is no numeric ADDRESS:PORT, as 127.0.0.1:2375 or [::1]:2375", address);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "socket for %s", address);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return err_errno(err, "SO_REUSEADDR on %s", address);
	/* [::] means IPv6 alone, so that an IPv4 listener beside it is possible and each has its own rules. */
	if (ss.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return err_errno(err, "IPV6_V6ONLY on %s", address);
	set_options(fd); /* Linux hands them down to what is accepted; accept_one() looks whether that is so */
	if (bind(fd, (struct sockaddr *)&ss, len) < 0)
		return err_errno(err, "cannot bind %s", address);
	if (listen(fd, LISTEN_BACKLOG) < 0)
		return err_errno(err, "cannot listen at %s", address);
	return STEAL_FD(fd);
}

/* --- peers ------------------------------------------------------------------------------------------------------ */

static bool peer_read(int fd, struct peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!peer->is_unix)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	return true;
}

void peer_format(const struct peer *p, char *out, size_t size)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&p->addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&p->addr;
	const char *space = p->name[0] != '\0' ? " " : "";
	char text[INET6_ADDRSTRLEN];

	if (p->is_unix)
		snprintf(out, size, "uid=%u gid=%u pid=%d", (unsigned)p->uid, (unsigned)p->gid, (int)p->pid);
	else if (p->addr.ss_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)) != NULL)
		snprintf(out, size, "%s:%u%s%s", text, ntohs(in->sin_port), space, p->name);
	else if (p->addr.ss_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text)) != NULL)
		snprintf(out, size, "[%s]:%u%s%s", text, ntohs(in6->sin6_port), space, p->name);
	else
		snprintf(out, size, "unknown");
}

/* --- accepting -------------------------------------------------------------------------------------------------- */

struct listener {
	int fd;
	struct event *readable;
	struct event *retry; /* after descriptors ran out */
	bool paused; /* by the owner */
	enum { OPTIONS_UNKNOWN, OPTIONS_INHERITED, OPTIONS_SET_EACH } options;
	int batch; /* accepts a turn; one more than there are costs a system call to find out */
	int streak;
	bool *freed; /* set by listener_free() inside a callback of accept_some() */
	listen_cb cb;
	void *arg;
};

static void update(struct listener *l)
{
	if (l->paused || event_pending(l->retry, EV_TIMEOUT, NULL))
		event_del(l->readable);
	else
		event_add(l->readable, NULL);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	update(arg);
}

static void back_off(struct listener *l)
{
	const struct timeval wait = { 0, LISTEN_RETRY_MS * 1000 };

	event_add(l->retry, &wait);
	update(l);
}

/* One connection. False when there is no more, or none can be taken now. */
static bool accept_one(struct listener *l)
{
	struct peer peer = { .is_unix = false };
	socklen_t len = sizeof(peer.addr);
	int fd = accept4(l->fd, (struct sockaddr *)&peer.addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			back_off(l);
		/* Everything else concerns the one connection that went away meanwhile: try the next. */
		return errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
	}
	peer.is_unix = peer.addr.ss_family == AF_UNIX;
	if (!peer.is_unix && l->options == OPTIONS_UNKNOWN)
		l->options = has_options(fd) ? OPTIONS_INHERITED : OPTIONS_SET_EACH;
	if (!peer.is_unix && l->options == OPTIONS_SET_EACH)
		set_options(fd);
	if (!peer_read(fd, &peer)) {
		close(fd);
		return true;
	}
	l->cb(fd, &peer, l->arg);
	return true;
}

static void accept_some(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;
	bool freed = false, more = true;

	l->freed = &freed;
	for (int i = 0; i < l->batch && more; i++) {
		more = accept_one(l);
		if (freed)
			return;
		more = more && !l->paused;
	}
	l->freed = NULL;
	l->streak = more ? l->streak + 1 : 0;
	if (!more)
		l->batch = 1;
	else if (l->streak % LISTEN_STREAK == 0 && l->batch < LISTEN_BATCH)
		l->batch *= 2;
}

struct listener *listener_new(struct event_base *base, int fd, listen_cb cb, void *arg)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->fd = -1;
	l->batch = 1;
	l->cb = cb;
	l->arg = arg;
	l->readable = event_new(base, fd, EV_READ | EV_PERSIST, accept_some, l);
	l->retry = event_new(base, -1, 0, on_retry, l);
	if (l->readable == NULL || l->retry == NULL || event_add(l->readable, NULL) < 0) {
		listener_free(l);
		return NULL;
	}
	l->fd = fd;
	return l;
}

void listener_pause(struct listener *l)
{
	l->paused = true;
	update(l);
}

void listener_resume(struct listener *l)
{
	l->paused = false;
	update(l);
}

void listener_free(struct listener *l)
{
	if (l == NULL)
		return;
	if (l->freed != NULL)
		*l->freed = true;
	if (l->readable != NULL)
		event_free(l->readable);
	if (l->retry != NULL)
		event_free(l->retry);
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}
