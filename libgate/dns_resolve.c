/* c-ares on libevent: shared lookups of both families with one deadline, and a small cache. */
#include "libgate/dns_resolve.h"

#define CARES_NO_DEPRECATED
#include <ares.h>
#include <arpa/inet.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "libgate/slice.h"

#define CLASS_IN 1
#define EDNS_SIZE 1232 /* DNS flag day 2020: no fragments */
#define ASK_AGAIN_MS 250 /* with less time left there is no sense in it */

struct dns_socket {
	TAILQ_ENTRY(dns_socket) link;
	struct resolver *resolver;
	ares_socket_t fd;
	struct event event;
};

struct lookup_wait {
	TAILQ_ENTRY(lookup_wait) link;
	struct lookup *lookup;
	resolve_cb cb;
	void *arg;
};

/* One name that is being resolved. It outlives its deadline until c-ares has called back twice. */
struct lookup {
	TAILQ_ENTRY(lookup) link;
	struct resolver *resolver;
	const void *group;
	struct host host;
	struct event deadline; /* and, made active, the report of the result */
	int64_t until_ms;
	unsigned outstanding; /* questions */
	bool done; /* the result was given out; nobody waits any more */
	enum dns_result results[2]; /* of A and AAAA */
	struct answer answer;
	TAILQ_HEAD(, lookup_wait) waiters;
};

struct question {
	struct lookup *lookup;
	unsigned which; /* 0: A, 1: AAAA */
};

struct cached {
	TAILQ_ENTRY(cached) link;
	struct host host;
	int64_t until_ms;
	unsigned n;
	struct addr addrs[];
};

struct resolver {
	struct event_base *base;
	struct resolver_settings settings;
	ares_channel channel;
	struct event timer;
	TAILQ_HEAD(, dns_socket) sockets;
	TAILQ_HEAD(, lookup) lookups;
	TAILQ_HEAD(, cached) cache; /* the oldest first */
	unsigned nlookups;
	unsigned ncached;
	struct answer out; /* what resolve_cached() lends */
	struct resolver_counts counts;
	char *servers; /* as they were configured; NULL: those of /etc/resolv.conf */
	bool changing; /* questions end because others are about to be asked */
	bool stopping;
};

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- c-ares on libevent ------------------------------------------------------------------------------------------ */

static void set_timer(struct resolver *r)
{
	struct timeval tv;

	if (ares_timeout(r->channel, NULL, &tv) != NULL)
		event_add(&r->timer, &tv);
	else
		event_del(&r->timer);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct dns_socket *s = arg;
	struct resolver *r = s->resolver;

	/* s may be gone when this returns. */
	ares_process_fd(r->channel, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	set_timer(r);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct resolver *r = arg;

	(void)fd;
	(void)what;
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(r);
}

static struct dns_socket *find_socket(struct resolver *r, ares_socket_t fd)
{
	struct dns_socket *s;

	TAILQ_FOREACH (s, &r->sockets, link)
		if (s->fd == fd)
			return s;
	return NULL;
}

static void drop_socket(struct resolver *r, struct dns_socket *s)
{
	event_del(&s->event);
	TAILQ_REMOVE(&r->sockets, s, link);
	free(s);
}

/* c-ares says which of its sockets to watch, and for what. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	struct dns_socket *s = find_socket(r, fd);

	if (!readable && !writable) {
		if (s != NULL)
			drop_socket(r, s);
		return;
	}
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return; /* the question then times out */
		s->resolver = r;
		s->fd = fd;
		TAILQ_INSERT_TAIL(&r->sockets, s, link);
	} else {
		event_del(&s->event);
	}
	event_assign(&s->event, r->base, fd, (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0)),
		on_socket, s);
	event_add(&s->event, NULL);
}

/* --- the cache --------------------------------------------------------------------------------------------------- */

static void forget(struct resolver *r, struct cached *c)
{
	TAILQ_REMOVE(&r->cache, c, link);
	r->ncached--;
	free(c);
}

static struct cached *find_cached(struct resolver *r, const struct host *host)
{
	struct cached *c;

	TAILQ_FOREACH (c, &r->cache, link)
		if (slice_eq(host_slice(&c->host), host_slice(host)))
			return c;
	return NULL;
}

static void remember(struct resolver *r, const struct host *host, const struct answer *a)
{
	int64_t keep =
		(int64_t)a->ttl * 1000 < r->settings.max_cache_ms ? (int64_t)a->ttl * 1000 : r->settings.max_cache_ms;
	struct cached *c = find_cached(r, host);

	if (c != NULL)
		forget(r, c);
	if (keep <= 0 || a->n == 0 || r->settings.max_cached == 0)
		return;
	c = malloc(sizeof(*c) + a->n * sizeof(c->addrs[0]));
	if (c == NULL)
		return;
	while (r->ncached >= r->settings.max_cached)
		forget(r, TAILQ_FIRST(&r->cache));
	c->host = *host;
	c->until_ms = now_ms() + keep;
	c->n = a->n;
	memcpy(c->addrs, a->addrs, a->n * sizeof(c->addrs[0]));
	TAILQ_INSERT_TAIL(&r->cache, c, link);
	r->ncached++;
}

const struct answer *resolve_cached(struct resolver *r, const struct host *host)
{
	struct cached *c = find_cached(r, host);

	if (c == NULL)
		return NULL;
	if (c->until_ms <= now_ms()) {
		forget(r, c);
		return NULL;
	}
	r->counts.cached++;
	r->out.n = c->n;
	memcpy(r->out.addrs, c->addrs, c->n * sizeof(c->addrs[0]));
	return &r->out;
}

/* --- lookups ----------------------------------------------------------------------------------------------------- */

static void lookup_free(struct lookup *l)
{
	event_del(&l->deadline);
	TAILQ_REMOVE(&l->resolver->lookups, l, link);
	l->resolver->nlookups--;
	free(l);
}

/* Both families together: what failed decides, else what is there. */
static enum dns_result outcome(const struct lookup *l)
{
	for (unsigned i = 0; i < 2; i++)
		if (l->results[i] != DNS_OK && l->results[i] != DNS_NXDOMAIN)
			return l->results[i];
	if (l->answer.n > 0)
		return DNS_OK;
	return l->results[0] == DNS_NXDOMAIN && l->results[1] == DNS_NXDOMAIN ? DNS_NXDOMAIN : DNS_EMPTY;
}

/* Gives the result to all who wait. They may start other lookups, also of this name. */
static void give_out(struct lookup *l, enum dns_result reason)
{
	struct lookup_wait *w;

	l->done = true;
	if (reason != DNS_OK)
		l->resolver->counts.failed++;
	while ((w = TAILQ_FIRST(&l->waiters)) != NULL) {
		resolve_cb cb = w->cb;
		void *arg = w->arg;
		TAILQ_REMOVE(&l->waiters, w, link);
		free(w);
		cb(reason, reason == DNS_OK ? &l->answer : NULL, arg);
	}
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct lookup *l = arg;

	(void)fd;
	(void)what;
	if (!l->done) {
		enum dns_result r = l->outstanding == 0 ? outcome(l) : DNS_TIMEOUT;
		if (r == DNS_OK)
			remember(l->resolver, &l->host, &l->answer);
		give_out(l, r);
	}
	if (l->outstanding == 0)
		lookup_free(l);
}

static enum dns_result of_status(int status)
{
	switch (status) {
	case ARES_ENODATA:
		return DNS_OK;
	case ARES_ENOTFOUND:
		return DNS_NXDOMAIN;
	case ARES_ETIMEOUT:
		return DNS_TIMEOUT;
	case ARES_ENOMEM:
		return DNS_NO_MEMORY;
	case ARES_EBADRESP:
	case ARES_EFORMERR:
		return DNS_MALFORMED;
	default:
		return DNS_FAILED;
	}
}

static bool ask(struct lookup *l, unsigned which);

/* c-ares: one of the two questions ended. It may call from within ares_query(), so the report waits for the loop. */
static void on_answer(void *arg, int status, int timeouts, unsigned char *message, int len)
{
	struct question *q = arg;
	struct lookup *l = q->lookup;
	unsigned which = q->which;

	(void)timeouts;
	free(q);
	l->outstanding--;
	if (l->resolver->stopping || l->resolver->changing)
		return;
	/* c-ares has times of its own, adapted to how quick the servers were (1.34) or those of the start; the lookup's decide. */
	if (!l->done && status == ARES_ETIMEOUT && now_ms() + ASK_AGAIN_MS < l->until_ms && ask(l, which))
		return;
	if (!l->done) {
		if (status == ARES_SUCCESS && message != NULL && len > 0)
			l->results[which] =
				answer_read(message, (size_t)len, &l->host, which == 0 ? DNS_TYPE_A : DNS_TYPE_AAAA, &l->answer);
		else
			l->results[which] = of_status(status);
	}
	if (l->outstanding == 0)
		event_active(&l->deadline, EV_TIMEOUT, 0);
}

static bool ask(struct lookup *l, unsigned which)
{
	struct question *q = malloc(sizeof(*q));

	if (q == NULL)
		return false;
	*q = (struct question){ l, which };
	l->outstanding++;
	ares_query(l->resolver->channel, l->host.name, CLASS_IN, which == 0 ? DNS_TYPE_A : DNS_TYPE_AAAA, on_answer, q);
	return true;
}

static void ask_both(struct lookup *l)
{
	answer_init(&l->answer);
	for (unsigned which = 0; which < 2; which++)
		l->results[which] = ask(l, which) ? DNS_OK : DNS_NO_MEMORY;
	if (l->outstanding == 0)
		event_active(&l->deadline, EV_TIMEOUT, 0);
	set_timer(l->resolver);
}

static struct lookup *find_lookup(struct resolver *r, const struct host *host)
{
	struct lookup *l;

	TAILQ_FOREACH (l, &r->lookups, link)
		if (!l->done && slice_eq(host_slice(&l->host), host_slice(host)))
			return l;
	return NULL;
}

bool resolve_pending(struct resolver *r, const struct host *host)
{
	return find_lookup(r, host) != NULL;
}

static bool has_room(struct resolver *r, const void *group)
{
	struct lookup *l;
	unsigned n = 0;

	if (r->nlookups >= r->settings.max_lookups)
		return false;
	TAILQ_FOREACH (l, &r->lookups, link)
		n += l->group == group;
	return n < r->settings.max_per_group;
}

static struct lookup *lookup_new(struct resolver *r, const struct host *host, const void *group)
{
	struct lookup *l = calloc(1, sizeof(*l));
	struct timeval tv = { (time_t)(r->settings.timeout_ms / 1000),
		(suseconds_t)(r->settings.timeout_ms % 1000 * 1000) };

	if (l == NULL)
		return NULL;
	l->resolver = r;
	l->host = *host;
	l->group = group;
	TAILQ_INIT(&l->waiters);
	TAILQ_INSERT_TAIL(&r->lookups, l, link);
	r->nlookups++;
	evtimer_assign(&l->deadline, r->base, on_deadline, l);
	event_add(&l->deadline, &tv);
	l->until_ms = now_ms() + r->settings.timeout_ms;
	r->counts.asked++;
	ask_both(l);
	return l;
}

struct lookup_wait *resolve_start(struct resolver *r, const struct host *host, const void *group, resolve_cb cb,
	void *arg, enum dns_result *why)
{
	struct lookup *l = find_lookup(r, host);
	struct lookup_wait *w;

	if (l == NULL && !has_room(r, group)) {
		*why = DNS_BUSY;
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (w != NULL && l == NULL)
		l = lookup_new(r, host, group);
	if (w == NULL || l == NULL) {
		free(w);
		*why = DNS_NO_MEMORY;
		return NULL;
	}
	w->lookup = l;
	w->cb = cb;
	w->arg = arg;
	TAILQ_INSERT_TAIL(&l->waiters, w, link);
	return w;
}

void resolve_cancel(struct lookup_wait *w)
{
	if (w == NULL)
		return;
	TAILQ_REMOVE(&w->lookup->waiters, w, link);
	free(w);
}

/* --- the resolver ------------------------------------------------------------------------------------------------ */

static int set_servers(struct resolver *r, const char *servers, struct err *err)
{
	int rc = ares_set_servers_ports_csv(r->channel, servers);

	if (rc != ARES_SUCCESS)
		return err_set(err, 0, "resolver \"%s\": %s; give ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT, with commas",
			servers, ares_strerror(rc));
	return 0;
}

/* With no question outstanding: c-ares 1.18 changes its servers at no other time. */
static int swap_servers(struct resolver *r, const char *servers, struct err *err)
{
	struct lookup *l, *next;
	int rc;

	r->changing = true;
	ares_cancel(r->channel);
	r->changing = false;
	rc = set_servers(r, servers, err);
	while (rc == 0 && !TAILQ_EMPTY(&r->cache))
		forget(r, TAILQ_FIRST(&r->cache));
	TAILQ_FOREACH_SAFE (l, &r->lookups, link, next) {
		if (l->done)
			event_active(&l->deadline, EV_TIMEOUT, 0); /* nothing is owed any more: it is freed there */
		else
			ask_both(l);
	}
	return rc;
}

int resolver_change(struct resolver *r, const struct resolver_settings *settings, struct err *err)
{
	bool same = settings->servers == NULL || (r->servers != NULL && strcmp(r->servers, settings->servers) == 0);

	if (!same) {
		char *copy = strdup(settings->servers);
		if (copy == NULL)
			return err_errno(err, "resolver");
		if (swap_servers(r, copy, err) != 0) {
			free(copy);
			return -1;
		}
		free(r->servers);
		r->servers = copy;
	}
	r->settings = *settings;
	r->settings.servers = NULL; /* the caller's */
	while (r->ncached > r->settings.max_cached)
		forget(r, TAILQ_FIRST(&r->cache));
	return 0;
}

struct resolver *resolver_new(struct event_base *base, const struct resolver_settings *settings, struct err *err)
{
	struct resolver *r = calloc(1, sizeof(*r));
	struct ares_options options;
	char lookups[] = "b";
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
		ARES_OPT_EDNSPSZ;
	int rc;

	if (r == NULL) {
		err_errno(err, "resolver");
		return NULL;
	}
	r->base = base;
	r->settings = *settings;
	TAILQ_INIT(&r->sockets);
	TAILQ_INIT(&r->lookups);
	TAILQ_INIT(&r->cache);
	evtimer_assign(&r->timer, base, on_timer, r);
	memset(&options, 0, sizeof(options));
	options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
	options.ednspsz = EDNS_SIZE;
	/* Two rounds, the second twice as long as the first: together a name's time. */
	options.timeout = settings->timeout_ms >= 3 ? (int)(settings->timeout_ms / 3) : 1;
	options.tries = 2;
	options.lookups = lookups;
	options.sock_state_cb = on_socket_state;
	options.sock_state_cb_data = r;
#ifdef ARES_OPT_UDP_MAX_QUERIES
	options.udp_max_queries = 32; /* then a fresh socket, with a fresh source port */
	mask |= ARES_OPT_UDP_MAX_QUERIES;
#endif
#ifdef ARES_OPT_QUERY_CACHE
	options.qcache_max_ttl = 0; /* the cache above is the only one */
	mask |= ARES_OPT_QUERY_CACHE;
#endif
	rc = ares_library_init(ARES_LIB_INIT_ALL);
	if (rc == ARES_SUCCESS)
		rc = ares_init_options(&r->channel, &options, mask);
	if (rc != ARES_SUCCESS) {
		err_set(err, 0, "resolver: %s", ares_strerror(rc));
		free(r);
		return NULL;
	}
	r->settings.servers = NULL; /* the caller's */
	if (settings->servers != NULL) {
		r->servers = strdup(settings->servers);
		if (r->servers == NULL ? err_errno(err, "resolver") != 0 : set_servers(r, settings->servers, err) != 0) {
			resolver_free(r);
			return NULL;
		}
	}
	return r;
}

unsigned resolver_servers(struct resolver *r, struct addr *out, unsigned max)
{
	struct ares_addr_port_node *list = NULL;
	unsigned n = 0;

	if (ares_get_servers_ports(r->channel, &list) != ARES_SUCCESS)
		return 0;
	for (const struct ares_addr_port_node *s = list; s != NULL && n < max; s = s->next) {
		struct addr *a = &out[n++];
		memset(a, 0, sizeof(*a));
		a->len = s->family == AF_INET ? 4 : 16;
		memcpy(a->bytes, &s->addr, a->len);
	}
	ares_free_data(list);
	return n;
}

void resolver_counts(const struct resolver *r, struct resolver_counts *out)
{
	*out = r->counts;
	out->pending = r->nlookups;
}

void resolver_free(struct resolver *r)
{
	struct lookup *l;
	struct cached *c;
	struct dns_socket *s;

	if (r == NULL)
		return;
	r->stopping = true;
	ares_destroy(r->channel); /* ends every question */
	ares_library_cleanup();
	while ((l = TAILQ_FIRST(&r->lookups)) != NULL) {
		struct lookup_wait *w;
		while ((w = TAILQ_FIRST(&l->waiters)) != NULL)
			resolve_cancel(w);
		lookup_free(l);
	}
	while ((c = TAILQ_FIRST(&r->cache)) != NULL)
		forget(r, c);
	while ((s = TAILQ_FIRST(&r->sockets)) != NULL)
		drop_socket(r, s);
	event_del(&r->timer);
	free(r->servers);
	free(r);
}
