/* Takes the engine's multiplexed stream apart. */
#include "controller/demux.h"

void demux_init(struct demux *d)
{
	*d = (struct demux){ .left = 0 };
}

static bool header_valid(const uint8_t *h)
{
	return h[0] <= DEMUX_SYSTEM && h[1] == 0 && h[2] == 0 && h[3] == 0;
}

bool demux_next(struct demux *d, const char *p, size_t len, size_t *used, uint8_t *stream, struct slice *run)
{
	size_t i = 0;

	*used = len;
	while (i < len && !d->broken) {
		if (d->left == 0) {
			d->header[d->have++] = (uint8_t)p[i++];
			if (d->have < DEMUX_HEADER)
				continue;
			d->have = 0;
			if (!header_valid(d->header)) {
				d->broken = true;
				break;
			}
			d->left = (uint32_t)d->header[4] << 24 | (uint32_t)d->header[5] << 16 | (uint32_t)d->header[6] << 8 |
				d->header[7];
			continue;
		}
		size_t n = len - i < d->left ? len - i : d->left;
		*stream = d->header[0];
		*run = slice_make(p + i, n);
		d->left -= (uint32_t)n;
		*used = i + n;
		return true;
	}
	return false;
}
