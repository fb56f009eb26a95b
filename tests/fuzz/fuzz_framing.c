/*
 * JSON-RPC message framing. Input: step, then the stream.
 * Properties: every message lies within the input; cutting the stream does not change the messages.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "controller/framing.h"

/* The messages, each ended by a NUL; a message that holds NUL comes out the same both times. */
static void feed(struct buf *out, const char *p, size_t size, size_t step)
{
	struct framing f;
	struct buf in;
	enum framing_result r = FRAMING_MORE;

	framing_init(&f);
	buf_init(&in, 1 << 20);
	buf_init(out, 1 << 21);
	for (size_t at = 0; at < size && r != FRAMING_BROKEN; at += step) {
		FUZZ_CHECK(buf_put(&in, p + at, size - at < step ? size - at : step) == 0);
		do {
			struct slice message, here = buf_slice(&in);
			size_t used = 0;

			r = framing_next(&f, here, &message, &used);
			FUZZ_CHECK(r == FRAMING_BROKEN || used <= here.len);
			if (r == FRAMING_MESSAGE) {
				FUZZ_CHECK(message.p >= here.p && message.p + message.len <= here.p + here.len);
				FUZZ_CHECK(buf_put_slice(out, message) == 0 && buf_putc(out, '\0') == 0);
			}
			if (r == FRAMING_MESSAGE || r == FRAMING_TOO_LONG)
				buf_consume(&in, used);
		} while (r == FRAMING_MESSAGE || r == FRAMING_TOO_LONG);
	}
	buf_release(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, slow;

	if (size < 2)
		return 0;
	feed(&whole, (const char *)data + 1, size - 1, size - 1);
	feed(&slow, (const char *)data + 1, size - 1, (size_t)(data[0] % 16) + 1);
	FUZZ_CHECK(slice_eq(buf_slice(&whole), buf_slice(&slow)));
	buf_release(&whole);
	buf_release(&slow);
	return 0;
}
