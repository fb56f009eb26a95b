/*
 * The policy loader. Input: a policy's text.
 * Properties: a refusal has words; what loads prints as plain JSON that loads and prints the same.
 */
#include "tests/fuzz/fuzz.h"

#include "dockerproxy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = ERR_INIT;
	struct policy *p = policy_load(slice_make((const char *)data, size), "fuzz.json", &err);
	struct policy *again;
	struct buf once, twice;

	if (p == NULL) {
		FUZZ_CHECK(err.text[0] != '\0');
		return 0;
	}
	buf_init(&once, 64 << 20);
	buf_init(&twice, 64 << 20);
	FUZZ_CHECK(policy_print(p, &once) == 0);
	again = policy_load(buf_slice(&once), "again.json", &err);
	FUZZ_CHECK(again != NULL);
	FUZZ_CHECK(policy_print(again, &twice) == 0);
	FUZZ_CHECK(slice_eq(buf_slice(&once), buf_slice(&twice)));
	for (unsigned i = 0; i < policy_endpoint_count(p); i++)
		FUZZ_CHECK(strcmp(policy_endpoint(p, i)->id, policy_endpoint(again, i)->id) == 0);
	policy_free(p);
	policy_free(again);
	buf_release(&once);
	buf_release(&twice);
	return 0;
}
