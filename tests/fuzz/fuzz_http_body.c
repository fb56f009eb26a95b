/*
 * Bodies. Input: framing and leniency, length or limit (two bytes), then the bytes.
 * Properties: the outcome and the decoded bytes do not depend on where the input is cut; a limit is never passed; each
 * decoded run lies within the input.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "libgate/http1.h"

struct outcome {
	enum http_result result;
	enum http_reason reason;
	size_t used;
	uint64_t total;
	struct buf body;
};

static void feed(struct outcome *o, enum http_framing framing, uint64_t length, uint64_t max, const char *p, size_t size,
	size_t step, bool lenient)
{
	struct http_body b;
	size_t here = 0;

	buf_init(&o->body, 1 << 20);
	http_body_init(&b, framing, length, max);
	b.lenient = lenient;
	o->used = 0;
	do {
		size_t given = size - o->used < step ? size - o->used : step;
		struct slice data;
		size_t n;

		o->result = http_body_read(&b, p + o->used, given, &n, &data);
		FUZZ_CHECK(n <= given);
		if (o->result == HTTP_DATA) {
			FUZZ_CHECK(data.len > 0 && data.p >= p + o->used && data.p + data.len == p + o->used + n);
			FUZZ_CHECK(buf_put_slice(&o->body, data) == 0);
		}
		/* It takes all that it is given, unless it has ended. */
		FUZZ_CHECK(o->result != HTTP_MORE || n == given);
		o->used += n;
		here = given;
	} while (o->result == HTTP_DATA || (o->result == HTTP_MORE && here > 0));
	o->reason = b.reason;
	o->total = b.total;
	FUZZ_CHECK(b.total == buf_len(&o->body) && b.total <= max);
	FUZZ_CHECK((o->result == HTTP_BAD) == (b.reason != HTTP_OK));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum http_framing framings[] = { HTTP_BODY_CHUNKED, HTTP_BODY_LENGTH, HTTP_BODY_EOF, HTTP_BODY_NONE };
	struct outcome whole, slow;

	if (size < 3)
		return 0;
	enum http_framing framing = framings[data[0] & 3];
	uint64_t number = (uint64_t)(data[1] << 8 | data[2]);
	uint64_t max = (data[0] & 4) != 0 ? number : UINT64_MAX;
	const char *p = (const char *)data + 3;
	size_t step = (size_t)(data[0] >> 3 & 15) + 1;
	bool lenient = (data[0] & 128) != 0;

	size -= 3;
	feed(&whole, framing, number, max, p, size, size > 0 ? size : 1, lenient);
	feed(&slow, framing, number, max, p, size, step, lenient);
	FUZZ_CHECK(whole.result == slow.result && whole.reason == slow.reason);
	/* Without framing the cut decides how much of a body that is too large comes before the refusal. */
	if (framing != HTTP_BODY_EOF || whole.result != HTTP_BAD) {
		FUZZ_CHECK(whole.total == slow.total && slice_eq(buf_slice(&whole.body), buf_slice(&slow.body)));
		if (whole.result == HTTP_DONE)
			FUZZ_CHECK(whole.used == slow.used);
	}
	buf_release(&whole.body);
	buf_release(&slow.body);
	return 0;
}
