/*
 * DNS answers as c-ares hands them on. Input: one byte that chooses the question's type, then the message.
 * Properties: only whole addresses of the asked family come out, never more than fit, and reading the same message twice
 * gives the same; without DNS_OK nothing may be used, so nothing else is said about it.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "libgate/dns_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct answer first, again;
	struct host host;
	uint16_t type;
	enum dns_result r;

	if (size < 1)
		return 0;
	FUZZ_CHECK(host_take(&host, SLICE_LIT("allowed.test")));
	type = data[0] & 1 ? DNS_TYPE_AAAA : DNS_TYPE_A;
	answer_init(&first);
	answer_init(&again);
	r = answer_read(data + 1, size - 1, &host, type, &first);
	FUZZ_CHECK(r < DNS_RESULT_COUNT && first.n <= ANSWER_ADDRS_MAX);
	FUZZ_CHECK(answer_read(data + 1, size - 1, &host, type, &again) == r && again.n == first.n);
	for (unsigned i = 0; i < first.n; i++) {
		FUZZ_CHECK(first.addrs[i].len == (type == DNS_TYPE_A ? 4 : 16));
		FUZZ_CHECK(addr_equal(&first.addrs[i], &again.addrs[i]));
	}
	/* A second family is added behind the first, up to the limit. */
	first.n = ANSWER_ADDRS_MAX - 1;
	r = answer_read(data + 1, size - 1, &host, type, &first);
	FUZZ_CHECK(r < DNS_RESULT_COUNT);
	FUZZ_CHECK(first.n <= ANSWER_ADDRS_MAX);
	return 0;
}
