/* The deployment's configuration: closed, and every fault names its key. A.config.1, A.config.2 */
#include "controller/deployment.h"

#include "tests/unit/unit.h"

struct load_case {
	const char *text;
	const char *error; /* part of the message; NULL: fine */
};

static const struct load_case cases[] = {
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://127.0.0.1:2375\"}}", NULL },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://[::1]:2375/\"},\"other\":{\"anything\":[1]}}", NULL },
	{ "{\"sandbox-docker\":{\"endpoint\":\"unix:///run/x.sock\",\"runtime\":\"runsc\",\"network\":\"cap\","
		"\"egressProxyImage\":\"e:1\",\"volumeDriver\":\"d\",\"allowOpenEgress\":true,\"image\":\"i:2\",\"execMode\":\"engine\"}}",
		NULL },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"extra\":1}}", "unknown key \"extra\"" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"Runtime\":\"runc\"}}", "unknown key \"Runtime\"" },
	{ "{\"sandbox-docker\":{\"runtime\":\"runc\"}}", "no endpoint" },
	{ "{\"other\":{}}", "no endpoint" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"http://h:1\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:123456\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:99999\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1/x\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://[]:1\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"unix://run/x\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"unix:///\"}}", "endpoint: must be" },
	{ "{\"sandbox-docker\":{\"endpoint\":1}}", "endpoint: must be a string" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"runtime\":\"kata\"}}", "runtime: must be runc or runsc" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"network\":\"bridge\"}}", "network: a network name matches" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"egressProxyImage\":\"\"}}", "egressProxyImage: not an image" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"volumeDriver\":\"\"}}", "volumeDriver: must not be empty" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"allowOpenEgress\":\"yes\"}}", "allowOpenEgress: must be true or false" },
	{ "{\"sandbox-docker\":{\"endpoint\":\"tcp://h:1\",\"endpoint\":\"tcp://h:2\"}}", "repeated" },
	{ "{\"sandbox-docker\":[]}", "must be an object" },
	{ "[]", "must be an object" },
	{ "{", "CAPYBARA_EXTENSION_CONFIG:1:" },
};

static void test_load(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct config c;
		struct err err = ERR_INIT;

		config_init(&c);
		int rc = config_load_environment(&c, slice_str(cases[i].text), &err);
		if (rc == 0)
			rc = config_finish(&c, &err);
		UNIT_CHECK((rc == 0) == (cases[i].error == NULL), "%s: %s", cases[i].text, err.text);
		if (cases[i].error != NULL)
			UNIT_CHECK(strstr(err.text, cases[i].error) != NULL, "%s: %s", cases[i].text, err.text);
		config_release(&c);
	}
}

static void test_defaults(void)
{
	struct config c;
	struct err err = ERR_INIT;

	config_init(&c);
	CU_ASSERT(config_set_option(&c, "endpoint", "tcp://[fe80::1]:99", &err) == 0 && config_finish(&c, &err) == 0);
	CU_ASSERT_STRING_EQUAL(c.host, "fe80::1");
	CU_ASSERT(c.port == 99 && c.unix_path == NULL);
	CU_ASSERT_STRING_EQUAL(c.network, "capybara-sandbox");
	CU_ASSERT_STRING_EQUAL(c.egress_image, "capybara-sandbox-egress:latest");
	CU_ASSERT(c.runtime == RUNTIME_RUNC && !c.allow_open_egress && c.volume_driver == NULL);
	CU_ASSERT(config_set_option(&c, "nope", "x", &err) != 0);
	CU_ASSERT(config_set_option(&c, "allow-open-egress", NULL, &err) == 0 && c.allow_open_egress);
	config_release(&c);
}

/* Without a tag an engine pulls every one, and the policy lets no such pull pass. */
static void test_images(void)
{
	struct config c;
	struct err err = ERR_INIT;

	config_init(&c);
	CU_ASSERT(config_set_option(&c, "endpoint", "unix:///x", &err) == 0);
	CU_ASSERT(config_set_option(&c, "image", "r.example:5000/own/sandbox", &err) == 0);
	CU_ASSERT(config_set_option(&c, "egress-proxy-image", "own-egress", &err) == 0 && config_finish(&c, &err) == 0);
	CU_ASSERT_STRING_EQUAL(c.image, "r.example:5000/own/sandbox:latest");
	CU_ASSERT_STRING_EQUAL(c.egress_image, "own-egress:latest");
	config_release(&c);
}

static void test_local(void)
{
	static const struct {
		const char *endpoint;
		bool local;
	} endpoints[] = { { "unix:///x", true }, { "tcp://127.9.9.9:1", true }, { "tcp://localhost:1", true }, { "tcp://[::1]:1", true },
		{ "tcp://10.0.0.1:1", false }, { "tcp://127.example:1", false }, { "tcp://[::2]:1", false } };

	for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
		struct config c;
		struct err err = ERR_INIT;

		config_init(&c);
		CU_ASSERT(config_set_option(&c, "endpoint", endpoints[i].endpoint, &err) == 0 && config_finish(&c, &err) == 0);
		UNIT_CHECK(config_is_local(&c) == endpoints[i].local, "%s", endpoints[i].endpoint);
		config_release(&c);
	}
}

static const struct unit_test tests[] = {
	{ "load", test_load },
	{ "defaults", test_defaults },
	{ "images", test_images },
	{ "local", test_local },
};

UNIT_MAIN("deployment", tests)
