/* What a listing still holds after the label filter. */
#include "dockerproxy/listing.h"

#include "tests/unit/unit.h"

static const struct {
	const char *name;
	const char *answer;
	const char *filtered; /* NULL: refused */
} cases[] = {
	{ "all", "[{\"Id\":\"1\",\"Labels\":{\"k\":\"v\"}}]", "[{\"Id\":\"1\",\"Labels\":{\"k\":\"v\"}}]\n" },
	{ "empty", "[]", "[]\n" },
	{ "none", "[{\"Id\":\"1\",\"Labels\":{\"k\":\"w\"}},{\"Id\":\"2\",\"Labels\":{\"kk\":\"v\"}}]", "[]\n" },
	{ "no-labels", "[{\"Id\":\"1\"},{\"Id\":\"2\",\"Labels\":null},{\"Id\":\"3\",\"Labels\":[\"k=v\"]}]", "[]\n" },
	{ "label-not-text", "[{\"Labels\":{\"k\":true}},{\"Labels\":{\"k\":null}}]", "[]\n" },
	{ "deeper", "[{\"Id\":\"1\",\"Config\":{\"Labels\":{\"k\":\"v\"}}}]", "[]\n" },
	{ "not-an-object", "[1,\"k=v\",[{\"Labels\":{\"k\":\"v\"}}]]", "[]\n" },
	{ "last-stays", "[{\"Id\":\"1\",\"Labels\":{}},{\"Id\":\"2\",\"Labels\":{\"a\":\"b\",\"k\":\"v\"}}]",
		"[{\"Id\":\"2\",\"Labels\":{\"a\":\"b\",\"k\":\"v\"}}]\n" },
	{ "volumes",
		"{\"Volumes\":[{\"Name\":\"a\",\"Labels\":{\"k\":\"v\"}},{\"Name\":\"b\",\"Labels\":{}}],\"Warnings\":[\"b is odd\"]}",
		"{\"Volumes\":[{\"Name\":\"a\",\"Labels\":{\"k\":\"v\"}}],\"Warnings\":null}\n" },
	{ "volumes-null", "{\"Volumes\":null,\"Warnings\":null}", "{\"Volumes\":null,\"Warnings\":null}\n" },
	{ "volumes-text", "{\"Volumes\":\"x\"}", NULL },
	{ "other-object", "{\"message\":\"x\"}", NULL },
	{ "number", "1", NULL },
	{ "cut", "[{\"Id\":\"1\",", NULL },
	{ "doubled-label", "[{\"Labels\":{\"k\":\"w\",\"k\":\"v\"}}]", NULL },
	{ "nothing", "", NULL },
	/* What an image says, the engine repeats: it must not take the whole listing with it. */
	{ "nul", "[{\"Command\":\"a\\u0000b\",\"Ports\":[],\"Labels\":{\"k\":\"v\",\"x\\u0000\":\"y\",\"z\":\"\\u0000\"}}]",
		"[{\"Command\":\"a\xef\xbf\xbd"
		"b\",\"Ports\":[],\"Labels\":{\"k\":\"v\",\"z\":\"\xef\xbf\xbd\"}}]\n" },
	{ "nul-label", "[{\"Labels\":{\"k\":\"v\\u0000\"}},{\"Labels\":{\"k\\u0000\":\"v\"}}]", "[]\n" },
};

static void test_cases(void)
{
	struct json_doc *doc = json_doc_new();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf out;
		int rc;

		buf_init(&out, 4096);
		rc = listing_filter(doc, slice_str(cases[i].answer), "k=v", &out);
		UNIT_CHECK((rc == 0) == (cases[i].filtered != NULL), "%s: %d", cases[i].name, rc);
		if (rc == 0 && cases[i].filtered != NULL)
			UNIT_CHECK(slice_is(buf_slice(&out), cases[i].filtered), "%s: %.*s", cases[i].name, (int)buf_len(&out),
				buf_head(&out));
		buf_release(&out);
	}
	json_doc_free(doc);
}

static void test_ceiling(void)
{
	struct json_doc *doc = json_doc_new();
	struct buf out;

	buf_init(&out, 16);
	CU_ASSERT_EQUAL(listing_filter(doc, slice_str(cases[0].answer), "k=v", &out), -1);
	buf_release(&out);
	json_doc_free(doc);
}

static const struct unit_test tests[] = {
	{ "cases", test_cases },
	{ "ceiling", test_ceiling },
};

UNIT_MAIN("listing", tests)
