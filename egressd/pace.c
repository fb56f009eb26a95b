/* The token bucket. */
#include "egressd/pace.h"

#define ONE 60000

bool pace_take(struct pace *p, int64_t per_minute, int64_t now_ms)
{
	int64_t full = per_minute * ONE;

	if (per_minute <= 0)
		return true;
	if (p->at_ms == 0 || now_ms - p->at_ms >= ONE)
		p->level = full;
	else
		p->level += (now_ms - p->at_ms) * per_minute;
	if (p->level > full) /* also after the limit was lowered */
		p->level = full;
	p->at_ms = now_ms;
	if (p->level < ONE)
		return false;
	p->level -= ONE;
	return true;
}
