/* egressd --probe: a HEALTHCHECK for an image that has no shell. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "egressd/commands.h"
#include "egressd/conf.h"
#include "egressd/connect.h"

/* Asks for nothing: the answer is a refusal by form, which is counted but not logged. */
static const char question[] = "OPTIONS * HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n";

#define ENOUGH 12 /* bytes of an answer: version and status */

/* "0.0.0.0:3128" as an address that can be connected to. */
static socklen_t reach(const char *listen, struct sockaddr_storage *out)
{
	static const struct addr loopback4 = { 4, { 127, 0, 0, 1 } };
	static const struct addr loopback6 = { 16, { [15] = 1 } };
	struct slice text = slice_str(listen), host;
	const char *colon = strrchr(listen, ':');
	struct addr a;
	uint16_t port;
	bool any = true;

	if (colon == NULL || !port_parse(slice_str(colon + 1), &port))
		return 0;
	host = slice_make(text.p, (size_t)(colon - text.p));
	if (host.len >= 2 && host.p[0] == '[' && host.p[host.len - 1] == ']')
		host = slice_make(host.p + 1, host.len - 2);
	if (!addr_parse(host, &a))
		return 0;
	for (unsigned i = 0; i < a.len; i++)
		any = any && a.bytes[i] == 0;
	if (any)
		a = a.len == 4 ? loopback4 : loopback6;
	return addr_to_sockaddr(&a, port, out);
}

static int probe(const char *listen, bool speaks_http)
{
	const struct timeval limit = { 2, 500000 };
	struct sockaddr_storage to;
	socklen_t len = reach(listen, &to);
	auto_close int fd = len > 0 ? socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	char answer[64];
	size_t have = 0;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&to, len) != 0)
		return -1;
	if (!speaks_http)
		return 0;
	if (send(fd, question, sizeof(question) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(question) - 1)
		return -1;
	/* No MSG_WAITALL: gVisor's host network does not know it. */
	while (have < ENOUGH) {
		ssize_t n = recv(fd, answer + have, sizeof(answer) - have, 0);
		if (n <= 0)
			return -1;
		have += (size_t)n;
	}
	return memcmp(answer, "HTTP/1.", 7) == 0 ? 0 : -1;
}

int command_probe(int argc, char **argv)
{
	static const struct option options[] = { { "config", required_argument, NULL, 'c' }, { NULL, 0, NULL, 0 } };
	const char *file = NULL, *at;
	struct err err = ERR_INIT;
	struct egress_conf *conf;
	bool http;
	int c, rc;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'c')
			return EXIT_USAGE;
		file = optarg;
	}
	conf = egress_conf_load(file, &err);
	if (conf == NULL) {
		fprintf(stderr, "egressd: %s\n", err.text);
		return EXIT_USAGE;
	}
	http = conf->listen.n > 0;
	at = http ? conf->listen.at[0] : conf->targets.target[0]->listen;
	rc = probe(at, http);
	if (rc != 0)
		fprintf(stderr, "egressd: nothing answers on %s: %s\n", at, errno != 0 ? strerror(errno) : "not egressd");
	egress_conf_free(conf);
	return rc == 0 ? 0 : 1;
}
