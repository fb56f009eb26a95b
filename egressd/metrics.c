/* The metrics text. */
#include "egressd/metrics.h"

#include <inttypes.h>

static int put(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
	return buf_putf(out, "# HELP egressd_%s %s\n# TYPE egressd_%s %s\negressd_%s %" PRIu64 "\n", name, help, name, type,
		name, value);
}

static int put_requests(struct buf *out, const struct metrics *m)
{
	if (buf_puts(out, "# HELP egressd_requests_total Requests by outcome.\n# TYPE egressd_requests_total counter\n") !=
		0)
		return -1;
	for (int i = 0; i < REASON_COUNT; i++)
		if (buf_putf(out, "egressd_requests_total{reason=\"%s\"} %" PRIu64 "\n", reason_id((enum reason)i),
				m->requests[i]) != 0)
			return -1;
	return buf_putf(out, "egressd_requests_total{reason=\"malformed\"} %" PRIu64 "\n", m->malformed);
}

int metrics_put(struct buf *out, const struct metrics *m)
{
#define COUNTER(name, help) \
	if (put(out, #name, "counter", help, m->name) != 0) \
		return -1;
#define GAUGE(name, help) \
	if (put(out, #name, "gauge", help, m->name) != 0) \
		return -1;
#include "egressd/metrics.def"
#undef COUNTER
#undef GAUGE
	if (put_requests(out, m) != 0 ||
		put(out, "lookups_total", "counter", "Names asked of a resolver.", m->lookups) != 0 ||
		put(out, "lookups_cached_total", "counter", "Names answered from the cache.", m->lookups_cached) != 0 ||
		put(out, "lookups_failed_total", "counter", "Names without a usable answer.", m->lookups_failed) != 0)
		return -1;
	return put(out, "audit_dropped_total", "counter", "Audit lines that the sink did not take.", m->audit_dropped);
}
