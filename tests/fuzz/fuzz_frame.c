/*
 * Frames between controller and runner. Input: sender, then the stream.
 * Properties: cutting the stream changes nothing; a whole frame lies within it, names a type that its sender may send,
 * and is the same when it is written anew.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "libgate/frame.h"

#define OUT_MAX (FRAME_REQUEST_MAX + FRAME_HEAD)

static void check_attributes(const struct frame *f)
{
	for (int attr = 0; attr < 256; attr++) {
		struct slice value;
		size_t at = 0;

		while (frame_each(f, (enum frame_attr)attr, &at, &value))
			FUZZ_CHECK(value.p >= f->payload.p && value.p + value.len <= f->payload.p + f->payload.len);
		frame_num_or(f, (enum frame_attr)attr, 0);
		frame_bytes(f, (enum frame_attr)attr);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char head[FRAME_HEAD];

	if (size < 1)
		return 0;
	enum frame_sender from = (data[0] & 1) != 0 ? FRAME_CONTROLLER : FRAME_RUNNER;
	const char *p = (const char *)data + 1;
	size_t left = size - 1;
	for (;;) {
		struct frame f, again;
		enum frame_fault fault = FRAME_OK, other = FRAME_OK;
		size_t used, need;

		enum frame_result r = frame_read(from, p, left, &f, &used, &fault);
		/* With less of it the same is said, or more is asked for. */
		for (size_t n = 0; n < left && n < 64; n++) {
			enum frame_result early = frame_read(from, p, n, &again, &need, &other);

			FUZZ_CHECK(early == FRAME_MORE || (early == r && (r != FRAME_BAD || other == fault)));
			FUZZ_CHECK(early != FRAME_MORE || need > n);
		}
		if (r == FRAME_BAD)
			FUZZ_CHECK(fault != FRAME_OK && fault < FRAME_FAULT_COUNT);
		if (r != FRAME_WHOLE)
			return 0;
		FUZZ_CHECK(used >= FRAME_HEAD && used <= left && used <= OUT_MAX);
		FUZZ_CHECK(f.payload.len == used - FRAME_HEAD);
		FUZZ_CHECK(strcmp(frame_type_id(f.type), "?") != 0);
		frame_put_head(head, f.type, f.channel, f.payload.len);
		FUZZ_CHECK(memcmp(head, p, FRAME_HEAD) == 0);
		check_attributes(&f);
		p += used;
		left -= used;
	}
}
