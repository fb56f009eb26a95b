/* The answers of the admin listener. */
#include "egressd/status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egressd/egress.h"
#include "libgate/dns_resolve.h"
#include "libgate/admin.h"
#include "libgate/listen.h"

struct status {
	struct egress *egress;
	const struct confine_result *confined;
	struct admin *admin;
};

static void answer_buf(struct admin_call *call, int status, int rc, const char *type, struct buf *b)
{
	if (rc == 0)
		admin_answer(call, status, type, buf_slice(b));
	else
		admin_answer(call, 500, "text/plain", SLICE_LIT("the answer is too long\n"));
	buf_release(b);
}

static void answer_health(struct admin_call *call, void *arg)
{
	const struct status *s = arg;
	const struct egress *e = s->egress;
	const struct confine_result *c = s->confined;
	struct buf b;
	int rc;

	buf_init(&b, ADMIN_MAX_ANSWER);
	rc = buf_putf(&b,
		"{\"status\":\"ok\",\"mode\":\"%s\",\"connections\":%u,\"maxConnections\":%u,\"allowlist\":%zu,"
		"\"confinement\":{\"noNewPrivs\":%s,\"seccomp\":%s,\"landlock\":%d,\"missing\":\"",
		e->conf->mode == MODE_WARN ? "warn" : "enforce", e->nclients, e->max_clients, rules_count(e->conf->allow),
		c->no_new_privs ? "true" : "false", c->seccomp ? "true" : "false", c->landlock_abi);
	if (rc == 0)
		rc = buf_put_json(&b, slice_str(c->missing));
	if (rc == 0)
		rc = buf_puts(&b, "\"}}\n");
	answer_buf(call, 200, rc, "application/json", &b);
}

/* Ready: it takes requests and has room for them. */
static void answer_ready(struct admin_call *call, void *arg)
{
	const struct egress *e = ((struct status *)arg)->egress;
	const char *why = e->draining ? "draining" : e->spent ? "budget" : e->nclients >= e->max_clients ? "full" : NULL;
	struct buf b;
	int rc;

	buf_init(&b, ADMIN_MAX_ANSWER);
	rc = buf_putf(&b, "{\"ready\":%s,\"reason\":\"%s\"}\n", why == NULL ? "true" : "false", why == NULL ? "" : why);
	answer_buf(call, why == NULL ? 200 : 503, rc, "application/json", &b);
}

static void answer_metrics(struct admin_call *call, void *arg)
{
	struct egress *e = ((struct status *)arg)->egress;
	struct resolver_counts counts;
	struct buf b;
	int rc;

	resolver_counts(e->resolver, &counts);
	e->metrics.lookups = counts.asked;
	e->metrics.lookups_cached = counts.cached;
	e->metrics.lookups_failed = counts.failed;
	e->metrics.buffered_bytes = e->pool.used;
	e->metrics.audit_dropped = audit_dropped(e->audit);
	buf_init(&b, ADMIN_MAX_ANSWER);
	rc = metrics_put(&b, &e->metrics);
	answer_buf(call, 200, rc, "text/plain; version=0.0.4; charset=utf-8", &b);
}

static void answer_allowlist(struct admin_call *call, void *arg)
{
	const struct rules *rules = ((struct status *)arg)->egress->conf->allow;
	struct buf b;
	int rc = 0;

	buf_init(&b, ADMIN_MAX_ANSWER);
	for (size_t i = 0; i < rules_count(rules) && rc == 0; i++)
		rc = buf_putf(&b, "%s\n", rules_at(rules, i)->text);
	answer_buf(call, 200, rc, "text/plain; charset=utf-8", &b);
}

static const struct admin_route routes[] = {
	{ "/healthz", answer_health },
	{ "/readyz", answer_ready },
	{ "/metrics", answer_metrics },
	{ "/allowlist", answer_allowlist },
	{ NULL, NULL },
};

int status_open(const char *where, struct err *err)
{
	if (strncmp(where, "unix:", 5) == 0)
		return listen_unix(where + 5, 0660, (uid_t)-1, (gid_t)-1, err);
	/* The sandbox can reach every other address of this host. */
	if (strncmp(where, "127.", 4) != 0 && strncmp(where, "[::1]:", 6) != 0)
		return err_set(err, 0, "admin: %s is neither unix:PATH nor a loopback address with a port", where);
	return listen_tcp(where, err);
}

struct status *status_new(struct egress *e, int fd, const struct confine_result *confined)
{
	struct status *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->egress = e;
	s->confined = confined;
	s->admin = admin_new(e->base, fd, routes, s);
	if (s->admin == NULL) {
		free(s);
		return NULL;
	}
	return s;
}

void status_free(struct status *s)
{
	if (s == NULL)
		return;
	admin_free(s->admin);
	free(s);
}
