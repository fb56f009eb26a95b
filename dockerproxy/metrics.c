/* Shared counters and their exposition. */
#include "dockerproxy/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ENDPOINT_BYTES 72 /* ids of rows have at most 64 */
#define REASON_BYTES 128 /* the longest of the shipped policies has 56; what a policy makes longer is cut */
#define ROWS 512 /* kinds of outcomes a slot tells apart; what comes later is counted in the last row */

/* Upper bounds in microseconds; their text is what Prometheus sees, in seconds. */
static const struct {
	int64_t us;
	const char *le;
} buckets[METRICS_BUCKETS] = {
	{ 100, "0.0001" },
	{ 250, "0.00025" },
	{ 500, "0.0005" },
	{ 1000, "0.001" },
	{ 2500, "0.0025" },
	{ 5000, "0.005" },
	{ 10000, "0.01" },
	{ 50000, "0.05" },
	{ 100000, "0.1" },
	{ 500000, "0.5" },
	{ 1000000, "1" },
	{ 10000000, "10" },
	{ 60000000, "60" },
	{ INT64_MAX, "+Inf" },
};

struct row {
	char endpoint[ENDPOINT_BYTES]; /* empty: the row is free */
	char reason[REASON_BYTES];
	uint32_t decision;
	uint64_t count;
};

struct histogram {
	uint64_t bucket[METRICS_BUCKETS];
	uint64_t sum_us;
};

struct slot {
	struct metrics_counters counters;
	struct histogram request;
	struct histogram own; /* without the engine's time: what the proxy adds */
	uint64_t nrows; /* taken; where there is none, reading need not touch their memory */
	struct row rows[ROWS];
};

struct metrics {
	unsigned nslots;
	uint64_t generation;
	char digest[80];
	struct slot slots[];
};

static size_t metrics_size(unsigned nslots)
{
	return sizeof(struct metrics) + nslots * sizeof(struct slot);
}

struct metrics *metrics_new(unsigned nslots)
{
	struct metrics *m = mmap(NULL, metrics_size(nslots), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	m->nslots = nslots;
	return m;
}

void metrics_free(struct metrics *m)
{
	if (m != NULL)
		munmap(m, metrics_size(m->nslots));
}

struct metrics_counters *metrics_counters(struct metrics *m, unsigned slot)
{
	return &m->slots[slot].counters;
}

void metrics_lost(struct metrics *m, unsigned slot)
{
	m->slots[slot].counters.connections_now = 0;
	m->slots[slot].counters.tunnels_now = 0;
}

void metrics_set_policy(struct metrics *m, uint64_t generation, const char *digest)
{
	m->generation = generation;
	snprintf(m->digest, sizeof(m->digest), "%s", digest);
}

/* --- counting --------------------------------------------------------------------------------------------------- */

static unsigned hash_text(unsigned h, const char *s)
{
	for (; *s != '\0'; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static bool row_is(const struct row *r, const char *endpoint, const char *reason, unsigned decision)
{
	return r->decision == decision && strncmp(r->endpoint, endpoint, ENDPOINT_BYTES - 1) == 0 &&
		strncmp(r->reason, reason, REASON_BYTES - 1) == 0;
}

/* Open addressing; the last row takes what finds no place. */
static struct row *find_row(struct slot *s, const char *endpoint, const char *reason, unsigned decision)
{
	unsigned at = hash_text(hash_text(2166136261u + decision, endpoint), reason) % (ROWS - 1);

	for (unsigned probe = 0; probe < 16; probe++, at = (at + 1) % (ROWS - 1)) {
		struct row *r = &s->rows[at];

		if (r->endpoint[0] == '\0') {
			snprintf(r->reason, sizeof(r->reason), "%s", reason);
			r->decision = decision;
			snprintf(r->endpoint, sizeof(r->endpoint), "%s", endpoint);
			s->nrows++;
			return r;
		}
		if (row_is(r, endpoint, reason, decision))
			return r;
	}
	s->rows[ROWS - 1].decision = METRICS_DENY;
	memcpy(s->rows[ROWS - 1].reason, "other", sizeof("other"));
	memcpy(s->rows[ROWS - 1].endpoint, "other", sizeof("other"));
	return &s->rows[ROWS - 1];
}

static void observe(struct histogram *h, int64_t us)
{
	unsigned i = 0;

	while (us > buckets[i].us)
		i++;
	h->bucket[i]++;
	h->sum_us += us > 0 ? (uint64_t)us : 0;
}

void metrics_request(struct metrics *m, unsigned slot, const char *endpoint, enum metrics_decision decision,
	const char *reason, int64_t duration_us, int64_t engine_us)
{
	struct slot *s = &m->slots[slot];

	find_row(s, endpoint != NULL ? endpoint : "none", reason != NULL ? reason : "", decision)->count++;
	observe(&s->request, duration_us);
	observe(&s->own, duration_us - engine_us);
}

/* --- exposition ------------------------------------------------------------------------------------------------- */

static const char *const decision_names[METRICS_DECISIONS] = { "allow", "deny", "would_deny" };

/* clang-format off */
static const struct {
	const char *name;
	const char *type;
	const char *help;
	size_t offset;
} plain[] = {
#define ROW(field, name, type, help) { name, type, help, offsetof(struct metrics_counters, field) },
	ROW(connections, "dockerproxy_connections_total", "counter", "Client connections accepted.")
	ROW(connections_refused, "dockerproxy_connections_refused_total", "counter", "Clients refused by a list or limit.")
	ROW(connections_now, "dockerproxy_connections", "gauge", "Client connections open.")
	ROW(tunnels_now, "dockerproxy_tunnels", "gauge", "Hijacked connections open.")
	ROW(bytes_in, "dockerproxy_received_bytes_total", "counter", "Bytes received from clients.")
	ROW(bytes_out, "dockerproxy_sent_bytes_total", "counter", "Bytes sent to clients.")
	ROW(engine_connects, "dockerproxy_engine_connects_total", "counter", "Connections made to the engine.")
	ROW(engine_reuses, "dockerproxy_engine_reuses_total", "counter", "Exchanges on a kept engine connection.")
	ROW(engine_retries, "dockerproxy_engine_retries_total", "counter", "Exchanges repeated on a fresh connection.")
	ROW(engine_faults, "dockerproxy_engine_errors_total", "counter", "Exchanges that the engine did not complete.")
	ROW(audit_dropped, "dockerproxy_audit_dropped_total", "counter", "Audit lines that could not be written.")
#undef ROW
};
/* clang-format on */

static uint64_t sum_of(const struct metrics *m, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < m->nslots; i++)
		sum += *(const uint64_t *)(const void *)((const char *)&m->slots[i].counters + offset);
	return sum;
}

static int put_plain(const struct metrics *m, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (buf_putf(out, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", plain[i].name, plain[i].help, plain[i].name,
				plain[i].type, plain[i].name, (unsigned long long)sum_of(m, plain[i].offset)) < 0)
			return -1;
	return 0;
}

/* The first slot that has a row tells its sum over all slots. */
static bool seen_before(const struct metrics *m, unsigned slot, const struct row *r)
{
	for (unsigned i = 0; i < slot; i++)
		for (unsigned k = 0; k < ROWS && m->slots[i].nrows > 0; k++)
			if (m->slots[i].rows[k].endpoint[0] != '\0' &&
				row_is(&m->slots[i].rows[k], r->endpoint, r->reason, r->decision))
				return true;
	return false;
}

static uint64_t row_sum(const struct metrics *m, const struct row *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < m->nslots; i++)
		for (unsigned k = 0; k < ROWS && m->slots[i].nrows > 0; k++)
			if (m->slots[i].rows[k].endpoint[0] != '\0' &&
				row_is(&m->slots[i].rows[k], r->endpoint, r->reason, r->decision))
				sum += m->slots[i].rows[k].count;
	return sum;
}

static int put_requests(const struct metrics *m, struct buf *out)
{
	if (buf_puts(out,
			"# HELP dockerproxy_requests_total Requests judged, by endpoint, decision and reason.\n"
			"# TYPE dockerproxy_requests_total counter\n") < 0)
		return -1;
	for (unsigned i = 0; i < m->nslots; i++) {
		for (unsigned k = 0; k < ROWS && m->slots[i].nrows > 0; k++) {
			const struct row *r = &m->slots[i].rows[k];

			if (r->endpoint[0] == '\0' || seen_before(m, i, r))
				continue;
			if (buf_putf(out, "dockerproxy_requests_total{endpoint=\"%s\",decision=\"%s\",reason=\"%s\"} %llu\n",
					r->endpoint, decision_names[r->decision], r->reason, (unsigned long long)row_sum(m, r)) < 0)
				return -1;
		}
	}
	return 0;
}

static int put_histogram(const struct metrics *m, bool own, const char *name, const char *help, struct buf *out)
{
	uint64_t count = 0, sum = 0;

	if (buf_putf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name) < 0)
		return -1;
	for (unsigned b = 0; b < METRICS_BUCKETS; b++) {
		for (unsigned i = 0; i < m->nslots; i++)
			count += (own ? &m->slots[i].own : &m->slots[i].request)->bucket[b];
		if (buf_putf(out, "%s_bucket{le=\"%s\"} %llu\n", name, buckets[b].le, (unsigned long long)count) < 0)
			return -1;
	}
	for (unsigned i = 0; i < m->nslots; i++)
		sum += (own ? &m->slots[i].own : &m->slots[i].request)->sum_us;
	return buf_putf(out, "%s_sum %llu.%06llu\n%s_count %llu\n", name, (unsigned long long)(sum / 1000000),
		(unsigned long long)(sum % 1000000), name, (unsigned long long)count);
}

int metrics_render(const struct metrics *m, struct buf *out)
{
	if (put_requests(m, out) < 0 || put_plain(m, out) < 0)
		return -1;
	if (put_histogram(m, false, "dockerproxy_request_duration_seconds",
			"From a request's first byte to its answer's last.", out) < 0 ||
		put_histogram(m, true, "dockerproxy_own_duration_seconds", "The same without the engine's time.", out) < 0)
		return -1;
	return buf_putf(out,
		"# HELP dockerproxy_policy_info The policy in force.\n# TYPE dockerproxy_policy_info gauge\n"
		"dockerproxy_policy_info{digest=\"%s\"} 1\n"
		"# HELP dockerproxy_policy_generation 1 at start, one more for each reload.\n"
		"# TYPE dockerproxy_policy_generation gauge\ndockerproxy_policy_generation %llu\n",
		m->digest, (unsigned long long)m->generation);
}
