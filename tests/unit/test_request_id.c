/* The id in the text of a request that cannot be parsed. */
#include "controller/request_id.h"

#include "tests/unit/unit.h"

static void test_find(void)
{
	static const struct {
		const char *text;
		const char *want; /* NULL: none */
	} cases[] = {
		{ "{\"id\":1}", "1" },
		{ " {\n\"id\" :\t-12 , \"x\":\"\\ud800\"}", "-12" },
		{ "{\"x\":\"\\ud800\",\"id\":\"a\\\"b\"}", "\"a\\\"b\"" },
		{ "{\"x\":\"\\\\\",\"id\":\"\"}", "\"\"" },
		{ "{\"x\":{\"id\":1},\"y\":[{\"id\":2}],\"id\":3}", "3" },
		{ "{\"x\":\"\\\",\\\"id\\\":5\"}", NULL },
		{ "{\"x\":\"id\",\"y\":\"id\"}", NULL },
		{ "{\"params\":{\"id\":\"cap-a\"}}", NULL },
		{ "{\"id\":1,\"id\":2}", NULL },
		{ "{\"id\":1.5}", "1.5" },
		{ "{\"id\":{\"a\":1}}", "" },
		{ "{\"id\":", "" },
		{ "{\"id\"", NULL },
		{ "{\"id", NULL },
		{ "[{\"id\":1}]", NULL },
		{ "\"id\":1", NULL },
		{ "{}{\"id\":1}", NULL },
		{ "}", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t len = strlen(cases[i].text);
		char *text = malloc(len > 0 ? len : 1); /* its end is where a sanitizer looks */
		struct slice value = { NULL, 0 };

		CU_ASSERT_PTR_NOT_NULL_FATAL(text);
		memcpy(text, cases[i].text, len);
		bool found = request_id_find(slice_make(text, len), &value);
		UNIT_CHECK(found == (cases[i].want != NULL), "%s", cases[i].text);
		if (found && cases[i].want != NULL)
			UNIT_CHECK(slice_is(value, cases[i].want), "%s: %.*s", cases[i].text, SLICE_ARG(value));
		free(text);
	}
}

static void test_survives(void)
{
	CU_ASSERT_TRUE(request_id_survives(JSON_FAULT_SURROGATE));
	CU_ASSERT_TRUE(request_id_survives(JSON_FAULT_NUL));
	CU_ASSERT_FALSE(request_id_survives(JSON_FAULT_SYNTAX));
	CU_ASSERT_FALSE(request_id_survives(JSON_FAULT_END));
}

static const struct unit_test tests[] = {
	{ "find", test_find },
	{ "survives", test_survives },
};

UNIT_MAIN("request id", tests)
