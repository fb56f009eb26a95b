/* The clock of the process, and when the audit lines of a turn are written. */
#include "egressd/egress.h"

#include <time.h>

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

void egress_audit_done(struct egress *e)
{
	audit_end(e->audit);
	if (!event_pending(&e->flush, EV_TIMEOUT, NULL))
		event_active(&e->flush, EV_TIMEOUT, 0);
}
