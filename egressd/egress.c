/* Small things that all connections need: the clock, sums, and when the audit lines of a turn are written. */
#include "egressd/egress.h"

#include <time.h>

#include "libgate/relay.h"

int64_t egress_now_ms(void)
{
	return egress_now_us() / 1000;
}

int64_t egress_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void egress_count_relayed(struct egress *e, const struct relay_stats *stats)
{
	e->bytes += stats->a_to_b + stats->b_to_a;
	e->metrics.bytes_up_total += stats->a_to_b;
	e->metrics.bytes_down_total += stats->b_to_a;
}

bool egress_address_stands(const struct egress *e, const struct host *host, const struct addr *addr)
{
	struct addr pin;

	return !guard_refuses(&e->guard, addr) || egress_conf_pins(e->conf, host, &pin, 1) > 0;
}

void egress_audit_done(struct egress *e)
{
	audit_end(e->audit);
	if (!event_pending(&e->flush, EV_TIMEOUT, NULL))
		event_active(&e->flush, EV_TIMEOUT, 0);
}
