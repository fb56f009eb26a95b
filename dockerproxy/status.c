/* What a worker answers on the admin listener. Readiness asks the engine; everything else is at hand. */
#include "dockerproxy/status.h"

#include <event2/event.h>
#include <stdio.h>
#include <sys/queue.h>

#include "dockerproxy/metrics.h"
#include "dockerproxy/policy.h"
#include "dockerproxy/upstream.h"
#include "libgate/admin.h"
#include "libgate/confine.h"

#define STATUS_TEXT_MAX ADMIN_MAX_ANSWER
#define STATUS_READY_S 5 /* an engine that needs longer for a ping is not ready */

struct status {
	struct event_base *base;
	const struct worker_setup *setup;
	struct upstream *upstream;
	struct admin *admin;
	TAILQ_HEAD(, ping) pings;
};

/* One question to the engine, for one caller. */
struct ping {
	TAILQ_ENTRY(ping) entry;
	struct status *status;
	struct admin_call *call;
	struct upstream_exchange *exchange;
	struct event *deadline;
	int code; /* the engine's answer */
};

static const char json[] = "application/json";
static const char ping_head[] = "GET /_ping HTTP/1.1\r\nHost: docker\r\nUser-Agent: dockerproxy\r\n\r\n";

static void answer_buf(struct admin_call *call, int ok, const char *content_type, struct buf *b)
{
	if (ok == 0)
		admin_answer(call, 200, content_type, buf_slice(b));
	else
		admin_answer(call, 500, "text/plain", SLICE_LIT("the answer is too long\n"));
	buf_release(b);
}

static void answer_health(struct admin_call *call, void *arg)
{
	const struct worker_setup *s = ((struct status *)arg)->setup;
	struct buf b;
	int rc;

	buf_init(&b, STATUS_TEXT_MAX);
	rc = buf_putf(&b,
		"{\"status\":\"ok\",\"configuration\":%u,\"policy\":\"%s\",\"mode\":\"%s\",\"confinement\":"
		"{\"noNewPrivs\":%s,\"seccomp\":%s,\"landlock\":%d,\"missing\":\"",
		s->generation, policy_digest(s->conf->policy), s->conf->mode == PROXY_WARN ? "warn" : "enforce",
		s->confined->no_new_privs ? "true" : "false", s->confined->seccomp ? "true" : "false",
		s->confined->landlock_abi);
	if (rc == 0)
		rc = buf_put_json(&b, slice_str(s->confined->missing));
	if (rc == 0)
		rc = buf_puts(&b, "\"}}\n");
	answer_buf(call, rc, json, &b);
}

static void answer_metrics(struct admin_call *call, void *arg)
{
	struct status *s = arg;
	struct buf b;
	int rc;

	buf_init(&b, STATUS_TEXT_MAX);
	rc = metrics_render(s->setup->metrics, &b);
	answer_buf(call, rc, "text/plain; version=0.0.4; charset=utf-8", &b);
}

static void answer_policy(struct admin_call *call, void *arg)
{
	struct status *s = arg;
	struct buf b;
	int rc;

	buf_init(&b, STATUS_TEXT_MAX);
	rc = policy_print(s->setup->conf->policy, &b);
	answer_buf(call, rc, json, &b);
}

/* --- readiness ---------------------------------------------------------------------------------------------------- */

static void ping_end(struct ping *p, int status, const char *text)
{
	char body[256];
	int n = snprintf(body, sizeof(body), "{\"ready\":%s,\"engine\":\"%s\"}\n", status == 200 ? "true" : "false", text);

	TAILQ_REMOVE(&p->status->pings, p, entry);
	if (p->exchange != NULL)
		upstream_abort(p->exchange);
	if (p->deadline != NULL)
		event_free(p->deadline);
	admin_answer(p->call, status, json, slice_make(body, (size_t)n));
	free(p);
}

static void ping_head_came(void *arg)
{
	struct ping *p = arg;

	p->code = upstream_head(p->exchange)->status;
}

static void ping_data(void *arg, struct slice run)
{
}

static void ping_flush(void *arg)
{
}

static void ping_done(void *arg)
{
	struct ping *p = arg;
	char text[64];

	p->exchange = NULL;
	snprintf(text, sizeof(text), "answers %d", p->code);
	ping_end(p, p->code == 200 ? 200 : 503, text);
}

static void ping_failed(void *arg, enum upstream_fault fault, const char *detail)
{
	struct ping *p = arg;

	p->exchange = NULL;
	switch (fault) {
	case UPSTREAM_UNREACHABLE:
		ping_end(p, 503, "unreachable");
		break;
	case UPSTREAM_GONE:
		ping_end(p, 503, "closed the connection");
		break;
	case UPSTREAM_MALFORMED:
		ping_end(p, 503, "answers no HTTP");
		break;
	}
}

static const struct upstream_events ping_events = {
	.head = ping_head_came,
	.data = ping_data,
	.flush = ping_flush,
	.end = ping_done,
	.fail = ping_failed,
};

static void ping_late(evutil_socket_t fd, short what, void *arg)
{
	ping_end(arg, 503, "does not answer in time");
}

static void answer_ready(struct admin_call *call, void *arg)
{
	const struct timeval limit = { STATUS_READY_S, 0 };
	const struct upstream_request request = { .method = HTTP_GET,
		.head = SLICE_LIT(ping_head),
		.flags = UPSTREAM_REPEATABLE };
	struct status *s = arg;
	struct ping *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		admin_answer(call, 503, "text/plain", SLICE_LIT("out of memory\n"));
		return;
	}
	p->status = s;
	p->call = call;
	TAILQ_INSERT_TAIL(&s->pings, p, entry);
	p->deadline = evtimer_new(s->base, ping_late, p);
	p->exchange = p->deadline != NULL ? upstream_start(s->upstream, &request, &ping_events, p) : NULL;
	if (p->exchange == NULL || event_add(p->deadline, &limit) < 0)
		ping_end(p, 503, "not asked: out of memory");
}

static const struct admin_route routes[] = {
	{ "/healthz", answer_health },
	{ "/readyz", answer_ready },
	{ "/metrics", answer_metrics },
	{ "/policy", answer_policy },
	{ NULL, NULL },
};

struct status *status_new(struct event_base *base, const struct worker_setup *setup, struct upstream *upstream)
{
	struct status *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	TAILQ_INIT(&s->pings);
	s->base = base;
	s->setup = setup;
	s->upstream = upstream;
	s->admin = admin_new(base, setup->admin_fd, routes, s);
	if (s->admin == NULL) {
		free(s);
		return NULL;
	}
	return s;
}

void status_free(struct status *s)
{
	struct ping *p;

	if (s == NULL)
		return;
	admin_free(s->admin);
	while ((p = TAILQ_FIRST(&s->pings)) != NULL)
		ping_end(p, 503, "the worker ends");
	free(s);
}
