/*
 * The configuration of egressd. Input: the text of a file.
 * Properties: it loads or says why not; what loaded is within its limits, and every allowlist entry, printed and read again,
 * is the same entry.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "egressd/conf.h"

static void check_rules(const struct rules *rules)
{
	struct err err = ERR_INIT;

	FUZZ_CHECK(rules_count(rules) <= RULES_MAX);
	for (size_t i = 0; i < rules_count(rules); i++) {
		const struct rule *rule = rules_at(rules, i);
		struct rules *again = rules_parse(slice_str(rule->text), &err);
		FUZZ_CHECK(again != NULL && rules_count(again) == 1);
		FUZZ_CHECK(strcmp(rules_at(again, 0)->text, rule->text) == 0);
		rules_free(again);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = ERR_INIT;
	struct egress_conf *conf;

	conf = egress_conf_load_text(slice_make((const char *)data, size), "fuzz.json", &err);
	if (conf == NULL) {
		FUZZ_CHECK(err.text[0] != '\0');
		return 0;
	}
	FUZZ_CHECK(conf->listen.n <= CONF_LISTEN_MAX && conf->refuse.n <= CONF_CIDRS_MAX && conf->pins.n <= CONF_PINS_MAX);
	FUZZ_CHECK(conf->targets.n <= CONF_TARGETS_MAX && conf->connect_ports.n <= PORTS_MAX);
	for (unsigned i = 0; i < conf->targets.n; i++)
		FUZZ_CHECK(conf->targets.target[i]->port != 0 && conf->targets.target[i]->naddrs <= CONF_TARGET_ADDRS_MAX);
	check_rules(conf->allow);
	egress_conf_free(conf);
	return 0;
}
