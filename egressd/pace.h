/*
 * So many a minute, and as many at once after a pause: a token bucket. [pure]
 *
 * The pace of a wildcard entry bounds what a sandbox can say to that zone's name servers in the labels of the names it asks
 * for. Zeroed memory is a full bucket.
 */
#ifndef EGRESSD_PACE_H
#define EGRESSD_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/util.h"

#define PACE_MOST 1000000 /* per_minute */

struct pace {
	int64_t level; /* in sixty-thousandths, so that a millisecond adds per_minute */
	int64_t at_ms; /* of the level; 0: full */
};

/* Takes one; false: there is none now. per_minute 0: no limit. now_ms never goes back and is not 0. */
bool pace_take(struct pace *p, int64_t per_minute, int64_t now_ms) MUSTCHECK;

#endif
