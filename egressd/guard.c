/* The check that every address passes before it is connected to. */
#include "egressd/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egressd/connect.h"

void guard_init(struct guard *g, const struct cidr_list *refuse)
{
	memset(g, 0, sizeof(*g));
	g->refuse = refuse;
}

void guard_know_gateway(struct guard *g, const struct addr *addr)
{
	if (g->ngateways < GUARD_KNOWN_MAX)
		g->known[g->ngateways++] = *addr;
	g->nknown = g->ngateways;
}

void guard_know_resolvers(struct guard *g, const struct addr *addrs, unsigned n)
{
	g->nknown = g->ngateways;
	for (unsigned i = 0; i < n && i < GUARD_KNOWN_MAX; i++)
		g->known[g->nknown++] = addrs[i];
}

void guard_know_port(struct guard *g, uint16_t port)
{
	if (g->nports < ARRAY_SIZE(g->ports))
		g->ports[g->nports++] = port;
}

/* The n-th field of a line of words, as text; NULL when there are fewer. */
static char *field(char *line, unsigned n)
{
	char *rest = NULL, *word = strtok_r(line, " \t\n", &rest);

	while (word != NULL && n-- > 0)
		word = strtok_r(NULL, " \t\n", &rest);
	return word;
}

static void read_gateways4(struct guard *g)
{
	FILE *f = fopen("/proc/net/route", "re");
	char line[256], copy[256];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		memcpy(copy, line, sizeof(copy));
		char *to = field(copy, 1), *gateway = field(line, 2);
		if (to == NULL || gateway == NULL || strcmp(to, "00000000") != 0)
			continue;
		uint32_t word = (uint32_t)strtoul(gateway, NULL, 16); /* in the byte order of memory */
		struct addr a = { 4, { 0 } };
		memcpy(a.bytes, &word, 4);
		if (word != 0)
			guard_know_gateway(g, &a);
	}
	if (f != NULL)
		fclose(f);
}

static void read_gateways6(struct guard *g)
{
	FILE *f = fopen("/proc/net/ipv6_route", "re");
	char line[256], copy[256];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		memcpy(copy, line, sizeof(copy));
		char *bits = field(copy, 1), *gateway = field(line, 4);
		struct addr a = { 16, { 0 } };
		bool any = false;
		if (bits == NULL || gateway == NULL || strcmp(bits, "00") != 0 || strlen(gateway) != 32)
			continue;
		for (unsigned i = 0; i < 16; i++) {
			char hex[3] = { gateway[2 * i], gateway[2 * i + 1], '\0' };
			a.bytes[i] = (uint8_t)strtoul(hex, NULL, 16);
			any = any || a.bytes[i] != 0;
		}
		if (any)
			guard_know_gateway(g, &a);
	}
	if (f != NULL)
		fclose(f);
}

void guard_read_gateways(struct guard *g)
{
	read_gateways4(g);
	read_gateways6(g);
}

/* Would a packet to the address come back to this host? REASON_INTERNAL: it cannot be told. */
static enum reason check_local(const struct addr *addr)
{
	struct sockaddr_storage to, from;
	socklen_t len = addr_to_sockaddr(addr, 9, &to), from_len = sizeof(from);
	struct addr target, source;
	uint16_t port;
	enum reason r = REASON_OK; /* where nothing leads, nothing leads back */
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno == EAFNOSUPPORT ? REASON_OK : REASON_INTERNAL;
	if (connect(fd, (struct sockaddr *)&to, len) == 0) {
		if (getsockname(fd, (struct sockaddr *)&from, &from_len) != 0 ||
			!addr_from_sockaddr((struct sockaddr *)&from, &source, &port) ||
			!addr_from_sockaddr((struct sockaddr *)&to, &target, &port))
			r = REASON_INTERNAL;
		else if (addr_equal(&source, &target))
			r = REASON_ADDRESS_OWN;
	}
	close(fd);
	return r;
}

static bool is_own_port(const struct guard *g, uint16_t port)
{
	for (unsigned i = 0; i < g->nports; i++)
		if (g->ports[i] == port)
			return true;
	return false;
}

static bool is_known(const struct guard *g, const struct addr *addr)
{
	struct addr v4;
	bool embeds = addr_embedded(addr, &v4);

	for (unsigned i = 0; i < g->nknown; i++)
		if (addr_equal(&g->known[i], addr) || (embeds && addr_equal(&g->known[i], &v4)))
			return true;
	return false;
}

static bool is_listed(const struct guard *g, const struct addr *addr)
{
	for (unsigned i = 0; i < g->refuse->n; i++)
		if (cidr_has(&g->refuse->cidr[i], addr))
			return true;
	return false;
}

/* What can be said without the kernel. */
static enum reason check_tables(const struct guard *g, const struct addr *addr, struct addr_verdict *verdict)
{
	*verdict = addr_judge(addr);
	if (verdict->refused)
		return REASON_ADDRESS_REFUSED;
	if (is_listed(g, addr))
		return REASON_ADDRESS_LISTED;
	return is_known(g, addr) ? REASON_ADDRESS_OWN : REASON_OK;
}

bool guard_refuses(const struct guard *g, const struct addr *addr)
{
	struct addr_verdict verdict;

	return check_tables(g, addr, &verdict) != REASON_OK;
}

static enum reason check_one(const struct guard *g, const struct addr *addr, uint16_t port, bool exempt,
	struct addr_verdict *verdict)
{
	enum reason r;

	if (exempt)
		return is_own_port(g, port) ? check_local(addr) : REASON_OK;
	r = check_tables(g, addr, verdict);
	return r == REASON_OK ? check_local(addr) : r;
}

struct guard_fault guard_check(const struct guard *g, const struct addr *addrs, unsigned n, uint16_t port, bool exempt)
{
	struct guard_fault fault = { .reason = REASON_OK };

	for (unsigned i = 0; i < n && fault.reason == REASON_OK; i++) {
		fault.reason = check_one(g, &addrs[i], port, exempt, &fault.verdict);
		fault.addr = addrs[i];
	}
	return fault;
}

void guard_explain(const struct guard_fault *fault, char *out, size_t size)
{
	char text[INET6_ADDRSTRLEN];
	const struct addr_verdict *v = &fault->verdict;

	addr_format(&fault->addr, text, sizeof(text));
	if (fault->reason != REASON_ADDRESS_REFUSED)
		snprintf(out, size, "%s: %s", text, reason_text(fault->reason));
	else
		snprintf(out, size, "%s is %s (%s, %s%s%s)%s%s", text, v->class, v->block, v->rfc,
			v->via != NULL ? ", inside " : "", v->via != NULL ? v->via : "", v->hint != NULL ? "; " : "",
			v->hint != NULL ? v->hint : "");
}
