/*
 * TLS ClientHello. Input: step, then the bytes.
 * Properties: the outcome and the name do not depend on where the bytes are cut; a name is a canonical host.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "egressd/hello.h"

static enum hello_result feed(struct hello *h, const uint8_t *p, size_t size, size_t step)
{
	enum hello_result r = HELLO_MORE;

	hello_init(h);
	for (size_t at = 0; at < size && r == HELLO_MORE; at += step)
		r = hello_read(h, p + at, size - at < step ? size - at : step);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello whole, slow;
	struct host again;

	if (size < 2)
		return 0;
	size_t step = (size_t)(data[0] % 16) + 1;
	enum hello_result a = feed(&whole, data + 1, size - 1, size - 1);
	enum hello_result b = feed(&slow, data + 1, size - 1, step);
	FUZZ_CHECK(a == b);
	if (a == HELLO_NAME) {
		FUZZ_CHECK(slice_eq(host_slice(&whole.name), host_slice(&slow.name)) && whole.ech == slow.ech);
		FUZZ_CHECK(host_parse(host_slice(&whole.name), &again) == REASON_OK);
		FUZZ_CHECK(slice_eq(host_slice(&whole.name), host_slice(&again)));
	}
	hello_release(&whole);
	hello_release(&slow);
	return 0;
}
