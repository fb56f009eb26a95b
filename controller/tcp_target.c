/* Reads and writes lists of pinned TCP targets. */
#include "controller/tcp_target.h"

#include <errno.h>
#include <string.h>

#include "controller/mem.h"
#include "controller/name.h"

#define ALIAS_MAX 63 /* the host's name becomes an alias of the relay in the sandbox's network */

static bool read_port(struct slice s, uint16_t *out)
{
	unsigned n = 0;

	if (s.len == 0 || s.len > 5 || s.p[0] == '0')
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		n = n * 10 + (unsigned)(s.p[i] - '0');
	}
	*out = (uint16_t)n;
	return n <= 65535;
}

static bool is_udp(struct slice s)
{
	return slice_starts(s, "udp:") || (s.len > 4 && slice_case_is(slice_skip(s, s.len - 4), "/udp"));
}

static const char *find_last(struct slice s, char c)
{
	return s.len > 0 ? memrchr(s.p, c, s.len) : NULL;
}

static int read_ports(struct tcp_target *t, struct slice listen, struct slice port, struct err *err)
{
	if (memchr(port.p, '-', port.len) != NULL || memchr(listen.p, '-', listen.len) != NULL)
		return err_set(err, EINVAL, "a range of ports cannot be pinned: a relay has one target; list each port");
	if (!read_port(port, &t->port) || !read_port(listen, &t->listen))
		return err_set(err, EINVAL, "a port is a number from 1 to 65535");
	return 0;
}

static int read_entry(struct tcp_target *t, struct slice entry, struct err *err)
{
	const char *equals = entry.len > 0 ? memchr(entry.p, '=', entry.len) : NULL;
	struct slice to = equals != NULL ? slice_skip(entry, (size_t)(equals - entry.p) + 1) : entry;
	const char *colon = find_last(to, ':');

	if (is_udp(entry) || is_udp(to))
		return err_set(err, EINVAL, "UDP is not relayed: a datagram has no connection that could be pinned");
	if (colon == NULL)
		return err_set(err, EINVAL, "a target is HOST:PORT, or LISTENPORT=HOST:PORT");
	t->host = slice_make(to.p, (size_t)(colon - to.p));
	struct slice port = slice_skip(to, t->host.len + 1);
	if (read_ports(t, equals != NULL ? slice_make(entry.p, (size_t)(equals - entry.p)) : port, port, err) != 0 ||
		name_check_host(t->host, err) != 0)
		return -1;
	if (t->host.len > ALIAS_MAX || memchr(t->host.p, '_', t->host.len) != NULL)
		return err_set(err, EINVAL, "the host of a target has at most %d characters and no underscore", ALIAS_MAX);
	return 0;
}

bool tcp_target_next(const char **rest, struct tcp_target *out)
{
	const char *p = *rest + strspn(*rest, " ");
	size_t len = strcspn(p, " ");
	struct slice to, head;
	const char *equals, *at, *colon;

	if (len == 0)
		return false;
	*rest = p + len;
	out->text = slice_make(p, len);
	at = memchr(p, '@', len);
	out->pinned = at != NULL;
	head = slice_make(p, at != NULL ? (size_t)(at - p) : len);
	equals = memchr(head.p, '=', head.len);
	colon = find_last(head, ':');
	if (equals == NULL || colon == NULL || colon < equals) /* a label that was not ours */
		return false;
	to = slice_skip(head, (size_t)(equals - p) + 1);
	out->host = slice_make(to.p, (size_t)(colon - to.p));
	return read_port(slice_make(p, (size_t)(equals - p)), &out->listen) &&
		read_port(slice_skip(to, out->host.len + 1), &out->port);
}

int tcp_target_add(char **list, struct slice entry, uint16_t taken, struct err *err)
{
	struct tcp_target t = { .pinned = false }, other;
	const char *rest = *list != NULL ? *list : "";
	unsigned n = 0;

	if (read_entry(&t, entry, err) != 0)
		return -1;
	if (t.listen == taken)
		return err_set(err, EINVAL, "the egress proxy itself listens on port %u; write LISTENPORT=HOST:PORT", taken);
	while (tcp_target_next(&rest, &other)) {
		if (other.listen == t.listen)
			return err_set(err, EINVAL, "another target listens on port %u; write LISTENPORT=HOST:PORT", t.listen);
		n++;
	}
	if (n >= TCP_TARGETS_MAX)
		return err_set(err, EINVAL, "at most %d targets", TCP_TARGETS_MAX);
	auto_free char *host = mem_dup(t.host);
	for (char *c = host; *c != '\0'; c++)
		*c = slice_lower(*c);
	char *longer =
		mem_printf("%s%s%u=%s:%u", *list != NULL ? *list : "", *list != NULL ? " " : "", t.listen, host, t.port);
	free(*list);
	*list = longer;
	return 0;
}
