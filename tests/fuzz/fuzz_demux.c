/*
 * The engine's multiplexed stream. Input: step, then the stream.
 * Properties: cutting it changes neither what comes out of each stream nor its end.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "controller/demux.h"
#include "libgate/buf.h"

static void feed(struct demux *d, struct buf out[4], const char *p, size_t size, size_t step)
{
	demux_init(d);
	for (int i = 0; i < 4; i++)
		buf_init(&out[i], 1 << 20);
	for (size_t at = 0; at < size && !d->broken; at += step) {
		size_t here = size - at < step ? size - at : step, done = 0, used;
		struct slice run;
		uint8_t stream;

		while (demux_next(d, p + at + done, here - done, &used, &stream, &run)) {
			FUZZ_CHECK(stream < 4 && used <= here - done);
			FUZZ_CHECK(run.p >= p + at + done && run.p + run.len <= p + at + done + used);
			FUZZ_CHECK(buf_put_slice(&out[stream], run) == 0);
			done += used;
		}
		FUZZ_CHECK(d->broken || done + used == here);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct demux whole, slow;
	struct buf a[4], b[4];

	if (size < 2)
		return 0;
	feed(&whole, a, (const char *)data + 1, size - 1, size - 1);
	feed(&slow, b, (const char *)data + 1, size - 1, (size_t)(data[0] % 16) + 1);
	FUZZ_CHECK(whole.broken == slow.broken && demux_complete(&whole) == demux_complete(&slow));
	for (int i = 0; i < 4; i++) {
		FUZZ_CHECK(slice_eq(buf_slice(&a[i]), buf_slice(&b[i])));
		buf_release(&a[i]);
		buf_release(&b[i]);
	}
	return 0;
}
