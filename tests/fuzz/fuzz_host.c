/*
 * Hosts, authorities and allowlists. Input: an allowlist, a line end, an authority.
 * Properties: a host that is accepted is its own canonical form, never an address; a match is one that the rule's text
 * explains; a list that is accepted holds entries that are accepted by themselves.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "egressd/host.h"
#include "egressd/rule.h"
#include "libgate/addr.h"

static void check_host(const struct host *h)
{
	struct host again;
	struct addr a;

	FUZZ_CHECK(h->len > 0 && h->len <= HOST_MAX && strlen(h->name) == h->len);
	for (unsigned i = 0; i < h->len; i++)
		FUZZ_CHECK(h->name[i] > 0x20 && h->name[i] < 0x7f && slice_lower(h->name[i]) == h->name[i]);
	FUZZ_CHECK(host_parse(host_slice(h), &again) == REASON_OK && slice_eq(host_slice(h), host_slice(&again)));
	FUZZ_CHECK(!addr_parse(host_slice(h), &a));
}

/* What the entry says, worked out again from its parts. */
static void check_match(const struct rule *rule, const struct host *host, uint16_t port, const struct ports *listed)
{
	size_t n = strlen(rule->name);

	FUZZ_CHECK(rule->port == 0 ? ports_has(listed, port) : rule->port == port);
	if (!rule->wildcard)
		FUZZ_CHECK(slice_is(host_slice(host), rule->name));
	else
		FUZZ_CHECK(host->len > n + 1 && host->name[host->len - n - 1] == '.' &&
			strcmp(host->name + host->len - n, rule->name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ports listed = { 2, { 443, 80 } };
	const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t n = end != NULL ? (size_t)(end - data) : size;
	struct slice authority = n < size ? slice_make((const char *)data + n + 1, size - n - 1) : slice_make("", 0);
	struct err err = ERR_INIT;
	struct host host;
	uint16_t port;

	struct rules *rules = rules_parse(slice_make(n > 0 ? (const char *)data : "", n), &err);
	FUZZ_CHECK(rules != NULL || err.text[0] != '\0');
	if (authority_parse(authority, 443, &host, &port) == REASON_OK) {
		const struct rule *which = NULL;

		check_host(&host);
		FUZZ_CHECK(port > 0);
		if (rules != NULL && rules_match(rules, &host, port, &listed, &which) == REASON_OK)
			check_match(which, &host, port, &listed);
	}
	for (size_t i = 0; rules != NULL && i < rules_count(rules); i++) {
		struct rules *one = rules_parse(slice_str(rules_at(rules, i)->text), &err);

		FUZZ_CHECK(one != NULL && rules_count(one) == 1);
		rules_free(one);
	}
	rules_free(rules);
	return 0;
}
