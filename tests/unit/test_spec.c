/* create's parameters, and the spec read back from labels. A.config.3, A.config.7, A.egress.1, A.egress.7 */
#include "controller/spec.h"

#include "tests/unit/unit.h"

struct spec_case {
	const char *params;
	const char *error; /* part of the message; NULL: fine */
	unsigned flags;
	bool open; /* allowOpenEgress */
};

static const struct spec_case cases[] = {
	{ "{\"name\":\"cap-a\"}", NULL, 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"cpu\":0.5,\"memoryMb\":64,\"diskMb\":10,\"egress\":\"none\",\"maxCommandSeconds\":5}}",
		NULL, 0, false },
	{ "{}", "name is required", 0, false },
	{ "{\"name\":\"x\"}", "a sandbox name is cap-", 0, false },
	{ "{\"name\":\"cap-a\",\"x\":1}", "unknown member \"x\"", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"x\":1}}", "limits: unknown member \"x\"", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":[]}", "limits must be an object", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"cpu\":0}}", "limits.cpu", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"cpu\":65}}", "limits.cpu", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"cpu\":\"1\"}}", "limits.cpu", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"cpu\":1e300}}", "limits.cpu", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"memoryMb\":1.5}}", "limits.memoryMb", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"memoryMb\":1}}", "limits.memoryMb", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"memoryMb\":9223372036854775807}}", "limits.memoryMb", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"all\"}}", "limits.egress", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"open\"}}", "extensionConfig.\"sandbox-docker\".allowOpenEgress", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"open\"}}", NULL, 0, true },
	{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"none\",\"allowHosts\":[\"a.example\"]}}", "only with egress: allowlist", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"allowHosts\":[\"A.Example\",\"*.b.example:8443\"]}}", NULL, 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"allowHosts\":[\"b\\u00fccher.example\"]}}", "punycode", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"allowHosts\":[\"10.0.0.1\"]}}", "IP address", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"allowHosts\":[1]}}", "must be a string", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"tcpTargets\":[\"DB.example:5432\",\"5433=db.example:5432\"]}}", NULL, 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"tcpTargets\":\"a.example:1\"}}", "list of HOST:PORT", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"tcpTargets\":[1]}}", "must be a string", 0, false },
	{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"none\",\"tcpTargets\":[\"a.example:1\"]}}", "only with egress: allowlist", 0, false },
	{ "{\"name\":\"cap-a\",\"image\":\"\\u00e9\"}", "ASCII", 0, false },
	{ "{\"name\":\"cap-a\",\"labels\":{\"dev.capybara.x\":\"1\"}}", NULL, 0, false },
	{ "{\"name\":\"cap-a\",\"labels\":{\"dev.capybara.sandbox.name\":\"cap-b\"}}", "set by the controller", 0, false },
	{ "{\"name\":\"cap-a\",\"labels\":{\"traefik.enable\":\"1\"}}", "labels", 0, false },
	{ "{\"name\":\"cap-a\",\"testOptions\":{}}", "serve --test-options", 0, false },
	{ "{\"name\":\"cap-a\",\"testOptions\":{\"egressTestHosts\":{\"t.example\":[\"10.0.0.1\"]}}}", NULL, SPEC_TEST_OPTIONS, false },
	{ "{\"name\":\"cap-a\",\"testOptions\":{\"egressTestHosts\":{\"t.example\":[\"x\"]}}}", "not an IP", SPEC_TEST_OPTIONS, false },
	{ "{\"name\":\"cap-a\",\"testOptions\":{\"x\":1}}", "testOptions: unknown member", SPEC_TEST_OPTIONS, false },
};

static int read_params(struct spec *s, const char *text, const struct config *c, unsigned flags, struct err *err)
{
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	const struct json_node *root = json_parse(doc, slice_str(text), JSON_STRICT, &fault, &offset);
	int rc = root != NULL ? spec_from_params(s, root, c, flags, err) : -2;

	json_doc_free(doc);
	return rc;
}

static void test_params(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config c;
		struct spec s;
		struct err err = ERR_INIT;

		config_init(&c);
		c.allow_open_egress = cases[i].open;
		int rc = read_params(&s, cases[i].params, &c, cases[i].flags, &err);
		UNIT_CHECK(rc == (cases[i].error == NULL ? 0 : -1), "%s: %s", cases[i].params, err.text);
		if (cases[i].error != NULL)
			UNIT_CHECK(strstr(err.text, cases[i].error) != NULL, "%s: %s", cases[i].params, err.text);
		if (rc == 0)
			spec_release(&s);
		config_release(&c);
	}
}

static void test_values(void)
{
	struct config c;
	struct spec s;
	struct err err = ERR_INIT;

	config_init(&c);
	CU_ASSERT_FATAL(read_params(&s, "{\"name\":\"cap-a\",\"image\":\"r.example/i\",\"limits\":{\"cpu\":0.5,\"memoryMb\":64,"
		"\"diskMb\":10,\"allowHosts\":[\"A.Example\",\"*.b.example:8443\"],\"maxCommandSeconds\":5}}", &c, 0, &err) == 0);
	CU_ASSERT(s.nano_cpus == 500000000 && s.memory == 64LL << 20 && s.disk_mb == 10 && s.max_command_seconds == 5);
	CU_ASSERT_STRING_EQUAL(s.allow_hosts, "a.example,*.b.example:8443");
	CU_ASSERT_STRING_EQUAL(s.image, "r.example/i:latest");
	CU_ASSERT(s.egress == EGRESS_ALLOWLIST && s.disk_unlimited);
	spec_release(&s);
	config_release(&c);
}

static void test_labels(void)
{
	static const char text[] = "{\"dev.capybara.sandbox\":\"1\",\"dev.capybara.sandbox.egress\":\"allowlist\","
		"\"dev.capybara.sandbox.allow-hosts\":\"a.example\",\"dev.capybara.sandbox.max-command-seconds\":\"77\"}";
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	struct config c;
	struct spec s;
	struct err err = ERR_INIT;

	config_init(&c);
	const struct json_node *root = json_parse(doc, slice_str(text), JSON_STRICT, &fault, &offset);
	CU_ASSERT_FATAL(root != NULL && spec_from_labels(&s, SLICE_LIT("cap-a"), root, &c, &err) == 0);
	CU_ASSERT(s.egress == EGRESS_ALLOWLIST && s.max_command_seconds == 77);
	CU_ASSERT_STRING_EQUAL(s.allow_hosts, "a.example");
	spec_release(&s);
	root = json_parse(doc, SLICE_LIT("{\"x\":\"1\"}"), JSON_STRICT, &fault, &offset);
	CU_ASSERT(spec_from_labels(&s, SLICE_LIT("cap-a"), root, &c, &err) != 0);
	config_release(&c);
	json_doc_free(doc);
}

static const struct unit_test tests[] = {
	{ "params", test_params },
	{ "values", test_values },
	{ "labels", test_labels },
};

UNIT_MAIN("spec", tests)
