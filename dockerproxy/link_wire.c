/* Messages between master and worker: sending and receiving one, with its descriptor. */
#include "dockerproxy/link_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

int link_pair(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
}

int link_send(int line, const struct link_msg *msg, int fd)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)msg, .iov_len = sizeof(*msg) };
	struct msghdr head = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control = { .space = { 0 } };
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		head.msg_control = control.space;
		head.msg_controllen = sizeof(control.space);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	do {
		n = sendmsg(line, &head, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
	return n == (ssize_t)sizeof(*msg) ? 1 : -1;
}

static int take_fd(struct msghdr *head)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(head);
	int fd = -1;

	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

/*
 * The control buffer is one descriptor long to the byte: CMSG_SPACE() has room for padding, which the kernel fills with a
 * second descriptor. What a broken peer sends beyond one, the kernel closes.
 */
enum link_result link_receive(int line, struct link_msg *msg, int *fd)
{
	struct iovec iov = { .iov_base = msg, .iov_len = sizeof(*msg) };
	union control control = { .space = { 0 } };
	struct msghdr head = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t n;

	do {
		n = recvmsg(line, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	*fd = -1;
	if (n < 0)
		return errno == EAGAIN ? LINK_NOTHING : LINK_GONE;
	*fd = take_fd(&head);
	if (n == (ssize_t)sizeof(*msg) && (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
		return LINK_GOT;
	util_closep(fd);
	return n == 0 ? LINK_GONE : LINK_BROKEN;
}
