/* Asks for one target after the other and writes their addresses into the list. */
#include "controller/pin.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "controller/mem.h"
#include "controller/tcp_target.h"
#include "libgate/addr.h"
#include "libgate/dns_resolve.h"

#define NAME_MS 5000 /* both questions of one name */

struct pin {
	struct spec *spec;
	const char *rest; /* of spec->tcp_targets */
	char *pinned; /* what becomes of it */
	struct resolver *resolver;
	struct event *step; /* goes on outside of the resolver's callbacks, which it must outlive */
	struct tcp_target target; /* being asked for */
	struct err err;
	pin_cb cb;
	void *arg;
};

static void finish(struct pin *p, bool good)
{
	struct err err = p->err;
	pin_cb cb = p->cb;
	void *arg = p->arg;

	if (good) {
		free(p->spec->tcp_targets);
		p->spec->tcp_targets = STEAL(p->pinned);
	}
	resolver_free(p->resolver);
	if (p->step != NULL)
		event_free(p->step);
	free(p->pinned);
	free(p);
	cb(good ? NULL : &err, arg);
}

/* text: an entry, with its addresses where it needs some. */
static void append(struct pin *p, const char *text)
{
	char *longer = mem_printf("%s%s%s", p->pinned != NULL ? p->pinned : "", p->pinned != NULL ? " " : "", text);

	free(p->pinned);
	p->pinned = longer;
}

static int refuse(struct pin *p, const char *why)
{
	return err_set(&p->err, EHOSTUNREACH, "limits.tcpTargets: %.*s:%u cannot be pinned: %s", SLICE_ARG(p->target.host),
		p->target.port, why);
}

static int take_answer(struct pin *p, const struct answer *answer)
{
	auto_free char *entry = mem_dup(p->target.text);

	if (answer->n > TCP_TARGET_ADDRS_MAX)
		return err_set(&p->err, EHOSTUNREACH, "the name has more than %d addresses", TCP_TARGET_ADDRS_MAX);
	for (unsigned i = 0; i < answer->n; i++) {
		struct addr_verdict verdict = addr_judge(&answer->addrs[i]);
		char text[64];

		addr_format(&answer->addrs[i], text, sizeof(text));
		if (verdict.refused)
			return err_set(&p->err, EACCES, "%s is %s (%s, %s), and every address of a target must be public", text,
				verdict.class, verdict.block, verdict.rfc);
		char *longer = mem_printf("%s%s%s", entry, i == 0 ? "@" : ",", text);
		free(entry);
		entry = longer;
	}
	append(p, entry);
	return 0;
}

static void on_resolved(enum dns_result result, const struct answer *answer, void *arg)
{
	struct pin *p = arg;

	if (result != DNS_OK)
		(void)refuse(p, dns_result_text(result));
	else if (take_answer(p, answer) != 0)
		err_wrap(&p->err, "limits.tcpTargets: %.*s:%u", SLICE_ARG(p->target.host), p->target.port);
	event_active(p->step, EV_TIMEOUT, 0);
}

/* A test host has its addresses from whoever tests, and egressd has them too. */
static bool is_test_host(const struct spec *s, struct slice host)
{
	auto_free char *wanted = mem_printf("%.*s=", SLICE_ARG(host));

	for (const char *at = s->test_hosts; at != NULL; at = strchr(at, ' ')) {
		at += *at == ' ';
		if (strncmp(at, wanted, strlen(wanted)) == 0)
			return true;
	}
	return false;
}

static int ask(struct pin *p)
{
	struct host host;
	enum dns_result why = DNS_MALFORMED;

	if (host_take(&host, p->target.host) && resolve_start(p->resolver, &host, p, on_resolved, p, &why) != NULL)
		return 0;
	return refuse(p, dns_result_text(why));
}

static void go_on(struct pin *p)
{
	bool failed = p->err.text[0] != '\0';

	while (!failed && tcp_target_next(&p->rest, &p->target)) {
		if (!p->target.pinned && !is_test_host(p->spec, p->target.host)) {
			if (ask(p) == 0)
				return;
			failed = true;
		} else {
			auto_free char *entry = mem_dup(p->target.text);
			append(p, entry);
		}
	}
	finish(p, !failed);
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
	go_on(arg);
}

void pin_targets(struct event_base *base, const char *servers, struct spec *spec, pin_cb cb, void *arg)
{
	const struct resolver_settings settings = { .servers = servers,
		.timeout_ms = NAME_MS,
		.max_lookups = 1,
		.max_per_group = 1 };
	struct pin *p = mem_zalloc(sizeof(*p));

	p->spec = spec;
	p->rest = spec->tcp_targets;
	p->cb = cb;
	p->arg = arg;
	p->err = (struct err)ERR_INIT;
	p->step = evtimer_new(base, on_step, p);
	if (p->step == NULL)
		err_set(&p->err, ENOMEM, "limits.tcpTargets: out of memory");
	else if ((p->resolver = resolver_new(base, &settings, &p->err)) == NULL)
		p->err.code = EHOSTUNREACH;
	go_on(p);
}
