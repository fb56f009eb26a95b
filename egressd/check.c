/* egressd check: what would be decided for a host, or what class an address has; one JSON object a line. */
#include <event2/event.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egressd/commands.h"
#include "egressd/conf.h"
#include "egressd/guard.h"
#include "libgate/dns_resolve.h"
#include "libgate/buf.h"

#define LINE_MAX_BYTES (256 * 1024)
#define DEFAULT_PORT 443

struct checker {
	struct event_base *base;
	struct egress_conf *conf;
	struct resolver *resolver;
	struct guard guard;
	struct buf out;
	bool done;
	enum dns_result result;
	struct answer answer;
};

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static void put(struct buf *b, const char *text)
{
	if (buf_puts(b, text) != 0)
		abort(); /* the ceiling is far above what one line can hold */
}

static void put_member(struct buf *b, const char *key, struct slice value)
{
	put(b, "\"");
	put(b, key);
	put(b, "\":\"");
	if (buf_put_json(b, value) != 0)
		abort();
	put(b, "\"");
}

static void put_class(struct buf *b, const struct addr *a, const char *verdict, const struct addr_verdict *v)
{
	char text[64];

	addr_format(a, text, sizeof(text));
	put(b, "{");
	put_member(b, "address", slice_str(text));
	put(b, ",");
	put_member(b, "class", slice_str(v->class));
	put(b, ",");
	put_member(b, "verdict", slice_str(verdict));
	put(b, ",");
	put_member(b, "block", slice_str(v->block));
	put(b, ",");
	put_member(b, "rfc", slice_str(v->rfc));
	if (v->via != NULL) {
		put(b, ",");
		put_member(b, "via", slice_str(v->via));
	}
	if (v->hint != NULL) {
		put(b, ",");
		put_member(b, "hint", slice_str(v->hint));
	}
	put(b, "}");
}

static void print_line(struct buf *b)
{
	put(b, "\n");
	fwrite(buf_head(b), 1, buf_len(b), stdout);
	fflush(stdout);
	buf_clear(b);
}

/* --- addresses --------------------------------------------------------------------------------------------------- */

static int check_address(struct buf *b, const char *text)
{
	struct addr a;
	struct addr_verdict v;

	if (!addr_parse(slice_str(text), &a)) {
		put(b, "{");
		put_member(b, "address", slice_str(text));
		put(b, ",\"class\":null,\"verdict\":\"invalid\"}");
		print_line(b);
		return EXIT_USAGE;
	}
	v = addr_judge(&a);
	put_class(b, &a, v.refused ? "refused" : "public", &v);
	print_line(b);
	return v.refused ? EXIT_DENY : 0;
}

static int check_addresses(char **texts)
{
	struct buf b;
	int status = 0;

	buf_init(&b, LINE_MAX_BYTES);
	for (; *texts != NULL; texts++) {
		int one = check_address(&b, *texts);
		if (one > status)
			status = one;
	}
	buf_release(&b);
	return status;
}

/* --- hosts ------------------------------------------------------------------------------------------------------- */

static void on_resolved(enum dns_result result, const struct answer *answer, void *arg)
{
	struct checker *c = arg;

	c->done = true;
	c->result = result;
	if (answer != NULL)
		c->answer = *answer;
}

static enum reason resolve(struct checker *c, const struct host *host, bool *exempt)
{
	struct lookup_wait *wait;
	enum dns_result why = DNS_OK;

	answer_init(&c->answer);
	c->answer.n = egress_conf_known(c->conf, host, c->answer.addrs, ANSWER_ADDRS_MAX, exempt);
	if (c->answer.n > 0)
		return REASON_OK;
	c->done = false;
	wait = resolve_start(c->resolver, host, NULL, on_resolved, c, &why);
	if (wait == NULL)
		return reason_of_dns(why);
	while (!c->done)
		if (event_base_loop(c->base, EVLOOP_ONCE) != 0)
			return REASON_INTERNAL;
	return reason_of_dns(c->result);
}

static void put_addresses(struct checker *c, uint16_t port, bool exempt)
{
	put(&c->out, ",\"addresses\":[");
	for (unsigned i = 0; i < c->answer.n; i++) {
		struct guard_fault one = guard_check(&c->guard, &c->answer.addrs[i], 1, port, exempt);
		struct addr_verdict v = addr_judge(&c->answer.addrs[i]);
		if (i > 0)
			put(&c->out, ",");
		put_class(&c->out, &c->answer.addrs[i], one.reason == REASON_OK ? exempt ? "pinned" : "public" : "refused", &v);
	}
	put(&c->out, "]");
}

static int check_host(struct checker *c, const char *text)
{
	const struct rule *rule = NULL;
	struct host host = { 0, "" };
	struct guard_fault fault = { .reason = REASON_OK };
	char detail[256] = "";
	uint16_t port = 0;
	bool exempt = false, asked = false;
	enum reason r = authority_parse(slice_str(text), DEFAULT_PORT, &host, &port);
	bool syntax = reason_status(r) == 400;

	if (r == REASON_OK)
		r = rules_match(c->conf->allow, &host, port, &c->conf->connect_ports, &rule);
	if (r == REASON_OK) {
		r = resolve(c, &host, &exempt);
		asked = r == REASON_OK;
	}
	if (asked) {
		fault = guard_check(&c->guard, c->answer.addrs, c->answer.n, port, exempt);
		r = fault.reason;
	}
	if (fault.reason != REASON_OK)
		guard_explain(&fault, detail, sizeof(detail));
	put(&c->out, "{");
	put_member(&c->out, "decision", slice_str(r == REASON_OK ? "allow" : "deny"));
	put(&c->out, ",");
	put_member(&c->out, "reason", slice_str(syntax ? "syntax" : reason_id(r)));
	put(&c->out, ",");
	put_member(&c->out, "message", slice_str(reason_text(r)));
	put(&c->out, ",");
	put_member(&c->out, "host", host.len > 0 ? host_slice(&host) : slice_str(text));
	if (port != 0 && buf_putf(&c->out, ",\"port\":%u", (unsigned)port) != 0)
		abort();
	if (rule != NULL && (r != REASON_PORT_DENIED)) {
		put(&c->out, ",");
		put_member(&c->out, "rule", slice_str(rule->text));
	} else {
		put(&c->out, ",\"rule\":null");
	}
	if (detail[0] != '\0') {
		put(&c->out, ",");
		put_member(&c->out, "detail", slice_str(detail));
	}
	if (!asked)
		c->answer.n = 0;
	put_addresses(c, port, exempt);
	put(&c->out, "}");
	print_line(&c->out);
	return r == REASON_OK ? 0 : EXIT_DENY;
}

static int start(struct checker *c, const char *file, struct err *err)
{
	struct resolver_settings settings;
	struct addr servers[8];
	unsigned n;

	c->conf = egress_conf_load(file, err);
	if (c->conf == NULL)
		return -1;
	settings = (struct resolver_settings){ c->conf->resolver, c->conf->timeouts.dns, 1, 1, 0, 0 };
	c->base = event_base_new();
	if (c->base == NULL)
		return err_set(err, 0, "no event loop");
	c->resolver = resolver_new(c->base, &settings, err);
	if (c->resolver == NULL)
		return -1;
	guard_init(&c->guard, &c->conf->refuse);
	guard_read_gateways(&c->guard);
	n = resolver_servers(c->resolver, servers, ARRAY_SIZE(servers));
	guard_know_resolvers(&c->guard, servers, n);
	return 0;
}

static int check_hosts(const char *file, char **texts)
{
	struct checker *c = calloc(1, sizeof(*c));
	struct err err = ERR_INIT;
	int status = 0;

	if (c == NULL)
		return EXIT_USAGE;
	buf_init(&c->out, LINE_MAX_BYTES);
	if (start(c, file, &err) != 0) {
		fprintf(stderr, "egressd check: %s\n", err.text);
		status = EXIT_USAGE;
	}
	for (; status != EXIT_USAGE && *texts != NULL; texts++)
		if (check_host(c, *texts) != 0)
			status = EXIT_DENY;
	resolver_free(c->resolver);
	if (c->base != NULL)
		event_base_free(c->base);
	egress_conf_free(c->conf);
	buf_release(&c->out);
	free(c);
	return status;
}

int command_check(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "address", no_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	const char *file = NULL;
	bool addresses = false;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == 'c')
			file = optarg;
		else if (c == 'a')
			addresses = true;
		else
			return EXIT_USAGE;
	}
	if (optind >= argc) {
		fprintf(stderr,
			"usage: egressd check [--config FILE] [--] HOST[:PORT]...\n"
			"       egressd check --address IP...\n");
		return EXIT_USAGE;
	}
	return addresses ? check_addresses(argv + optind) : check_hosts(file, argv + optind);
}
