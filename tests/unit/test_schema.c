/* Each keyword of the policy language: values that it takes and refuses, and what is left in the canonical form. */
#include "unit.h"

#include "dockerproxy/policy_impl.h"
#include "dockerproxy/verdict_text.h"

static const struct {
	const char *schema;
	const char *value;
	const char *out; /* canonical form; NULL: refused */
	const char *at; /* of a refusal: pointer to the value */
} cases[] = {
	{ "true", "[1.5]", "[1.5]", NULL },
	{ "false", "1", NULL, "" },
	{ "{\"type\":\"integer\"}", "1", "1", NULL },
	{ "{\"type\":\"integer\"}", "1.0", NULL, "" },
	{ "{\"type\":\"integer\"}", "9223372036854775808", NULL, "" },
	{ "{\"type\":\"integer\"}", "\"1\"", NULL, "" },
	{ "{\"type\":[\"null\",\"string\"]}", "null", "null", NULL },
	{ "{\"type\":[\"null\",\"string\"]}", "\"\"", "\"\"", NULL },
	{ "{\"type\":[\"null\",\"string\"]}", "false", NULL, "" },
	{ "{\"const\":{\"a\":[1,null]}}", "{\"a\":[1,null]}", "{\"a\":[1,null]}", NULL },
	{ "{\"const\":{\"a\":1,\"b\":2}}", "{\"b\":2,\"a\":1}", "{\"b\":2,\"a\":1}", NULL },
	{ "{\"const\":{\"a\":[1,null]}}", "{\"a\":[1]}", NULL, "" },
	{ "{\"const\":1}", "1.0", NULL, "" },
	{ "{\"enum\":[1,\"1\"]}", "\"1\"", "\"1\"", NULL },
	{ "{\"enum\":[1,\"1\"]}", "true", NULL, "" },
	{ "{\"pattern\":\"^a.c$\"}", "\"abc\"", "\"abc\"", NULL },
	{ "{\"pattern\":\"^a.c$\"}", "\"xabc\"", NULL, "" },
	{ "{\"pattern\":\"^a.c$\"}", "\"abc\\n\"", NULL, "" },
	{ "{\"pattern\":\"^a.c$\"}", "\"a\\nc\"", NULL, "" },
	{ "{\"pattern\":\"^a.c$\"}",
		"\"a\xe4\xbd\xa0"
		"c\"",
		"\"a\xe4\xbd\xa0"
		"c\"",
		NULL },
	{ "{\"pattern\":\"^a.c$\"}", "1", "1", NULL },
	{ "{\"minLength\":2,\"maxLength\":3}", "\"\xe4\xbd\xa0\xe4\xbd\xa0\"", "\"\xe4\xbd\xa0\xe4\xbd\xa0\"", NULL },
	{ "{\"minLength\":2,\"maxLength\":3}", "\"\xe4\xbd\xa0\"", NULL, "" },
	{ "{\"minLength\":2,\"maxLength\":3}", "\"abcd\"", NULL, "" },
	{ "{\"minimum\":-1,\"maximum\":1}", "-1", "-1", NULL },
	{ "{\"minimum\":-1,\"maximum\":1}", "2", NULL, "" },
	{ "{\"minimum\":-1,\"maximum\":1}", "0.5", NULL, "" },
	{ "{\"items\":{\"type\":\"string\"}}", "[\"a\",\"b\"]", "[\"a\",\"b\"]", NULL },
	{ "{\"items\":{\"type\":\"string\"}}", "[\"a\",1]", NULL, "/1" },
	{ "{\"minItems\":1,\"maxItems\":2}", "[]", NULL, "" },
	{ "{\"minItems\":1,\"maxItems\":2}", "[1,2,3]", NULL, "" },
	{ "{\"contains\":{\"const\":1}}", "[2,1]", "[2,1]", NULL },
	{ "{\"contains\":{\"const\":1}}", "[]", NULL, "" },
	/* structs */
	{ "{\"properties\":{\"A\":{}}}", "{\"A\":1}", "{\"A\":1}", NULL },
	{ "{\"properties\":{\"A\":{}}}", "{\"B\":1}", NULL, "/B" },
	{ "{\"properties\":{\"A\":{}}}", "{\"a\":1}", NULL, "/a" },
	{ "{\"properties\":{\"A\":{}},\"additionalProperties\":true}", "{\"B\":1}", "{\"B\":1}", NULL },
	{ "{\"properties\":{\"A\":{}},\"additionalProperties\":true}", "{\"a\":1}", NULL, "/a" },
	{ "{\"properties\":{\"Sk\":{}},\"additionalProperties\":true}", "{\"\xc5\xbf\xe2\x84\xaa\":1}", NULL,
		"/\xc5\xbf\xe2\x84\xaa" },
	{ "{\"properties\":{\"A\":{}},\"additionalProperties\":true}", "{\"\\u0042\":1}", NULL, "/B" },
	{ "{\"properties\":{\"A\":{}},\"additionalProperties\":true}", "{\"\xc3\xa9\":1}", NULL, "/\xc3\xa9" },
	{ "{\"type\":\"object\"}", "{\"A\":1}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{}},\"required\":[\"A\"]}", "{}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{}},\"required\":[\"A\"]}", "[]", "[]", NULL },
	{ "{\"required\":[\"A\"],\"additionalProperties\":true}", "{\"A\":1,\"B\":2}", "{\"A\":1,\"B\":2}", NULL },
	{ "{\"required\":[\"A\"],\"additionalProperties\":true}", "{\"B\":2}", NULL, "/A" },
	{ "{\"maxProperties\":1,\"additionalProperties\":true}", "{\"a\":1,\"b\":1}", NULL, "" },
	/* data maps */
	{ "{\"patternProperties\":{\"^x-\":{}}}", "{}", NULL, NULL },
	{ "{\"patternProperties\":{\"^x.*$\":{\"type\":\"integer\"}}}", "{\"x1\":1,\"X\":1}", NULL, "/X" },
	{ "{\"patternProperties\":{\"^x.*$\":{\"type\":\"integer\"}}}", "{\"x1\":1,\"\\u0078\":2,\"x\xc3\xa9\":3}",
		"{\"x1\":1,\"x\":2,\"x\xc3\xa9\":3}", NULL },
	{ "{\"patternProperties\":{\"^x.*$\":{\"type\":\"integer\"},\"^.*y$\":{\"minimum\":5}}}", "{\"xy\":4}", NULL,
		"/xy" },
	{ "{\"propertyNames\":{\"enum\":[\"a\",\"A\"]},\"additionalProperties\":true}", "{\"a\":1,\"A\":2}",
		"{\"a\":1,\"A\":2}", NULL },
	{ "{\"propertyNames\":{\"enum\":[\"a\"]},\"additionalProperties\":true}", "{\"b\":1}", NULL, "/b" },
	{ "{\"propertyNames\":{\"enum\":[\"a\"]}}", "{\"a\":1}", NULL, "/a" },
	{ "{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":\"\",\"A\":\"\"}", "{\"a\":\"\",\"A\":\"\"}", NULL },
	{ "{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a~/b\":1}", NULL, "/a~0~1b" },
	{ "{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"],\"additionalProperties\":{}}", "{\"K\":1}", NULL,
		"/k" },
	/* combinations */
	{ "{\"allOf\":[{\"minimum\":1},{\"maximum\":2}]}", "2", "2", NULL },
	{ "{\"allOf\":[{\"minimum\":1},{\"maximum\":2}]}", "3", NULL, "" },
	{ "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"string\"}}]}", "[1]", NULL, "/0" },
	{ "{\"anyOf\":[{\"properties\":{\"T\":{\"const\":1},\"A\":{}},\"required\":[\"A\"]},"
	  "{\"properties\":{\"T\":{\"const\":2},\"B\":{}},\"required\":[\"B\"]}]}",
		"{\"T\":2}", NULL, "/B" },
	{ "{\"not\":{\"const\":1}}", "1", NULL, "" },
	{ "{\"not\":{\"const\":1}}", "2", "2", NULL },
	{ "{\"not\":{\"properties\":{\"T\":{\"const\":1}},\"required\":[\"T\"]}}", "{\"T\":1,\"X\":2}", NULL, "" },
	{ "{\"not\":{\"properties\":{\"T\":{\"const\":1}},\"required\":[\"T\"]}}", "{\"t\":1}", NULL, "/t" },
	{ "{\"not\":{\"not\":{\"properties\":{\"T\":{}}}}}", "{\"X\":1}", NULL, "" },
	/* x-zero */
	{ "{\"properties\":{\"A\":{\"type\":\"string\",\"minLength\":2,\"x-zero\":true}}}", "{\"A\":\"\"}", "{}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"string\",\"minLength\":2,\"x-zero\":true}}}", "{\"A\":null}", "{}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"string\",\"minLength\":2,\"x-zero\":true}}}", "{\"A\":\"x\"}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"string\",\"x-zero\":true}}}", "{\"A\":0}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"string\",\"x-zero\":true}}}", "{\"A\":false}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"integer\",\"x-zero\":true}}}", "{\"A\":-0}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"integer\",\"x-zero\":true}}}", "{\"A\":0.0}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":[\"array\",\"object\"],\"x-zero\":true}}}", "{\"A\":{}}", "{}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"integer\",\"const\":-1,\"x-zero\":[-1]}}}", "{\"A\":-1}", "{}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"integer\",\"const\":-1,\"x-zero\":[-1]}}}", "{\"A\":0}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"array\",\"x-zero\":[null]}}}", "{\"A\":[]}", "{\"A\":[]}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"integer\",\"x-zero\":true}},\"required\":[\"A\"]}", "{\"A\":0}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"object\",\"x-zero\":true,\"properties\":{\"B\":{\"type\":\"integer\",\"x-zero\":true}}}}}",
		"{\"A\":{\"B\":0}}", "{}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"object\",\"properties\":{\"B\":{\"type\":\"integer\",\"x-zero\":true}}}}}",
		"{\"A\":{\"B\":0}}", "{\"A\":{}}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"object\",\"x-zero\":[null],\"properties\":{\"B\":{\"type\":\"integer\",\"x-zero\":true}}}}}",
		"{\"A\":{\"B\":0}}", "{\"A\":{}}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"object\",\"x-zero\":true,\"properties\":{\"B\":{\"type\":\"integer\",\"x-zero\":true},\"C\":{}}}}}",
		"{\"A\":{\"B\":0,\"C\":0}}", "{\"A\":{\"C\":0}}", NULL },
	{ "{\"properties\":{\"A\":{\"type\":\"object\",\"x-zero\":true,\"properties\":{\"B\":{\"type\":\"integer\",\"x-zero\":true}}}},"
	  "\"required\":[\"A\"]}",
		"{\"A\":{\"B\":0}}", NULL, "/A" },
	{ "{\"properties\":{\"A\":{\"type\":\"object\",\"x-zero\":true,\"properties\":{\"A\":{\"type\":\"object\",\"x-zero\":true,"
	  "\"properties\":{\"B\":{\"type\":\"null\",\"x-zero\":true}}}}}}}",
		"{\"A\":{\"A\":{\"B\":null}}}", "{}", NULL },
	/* what a branch that failed left out stays */
	{ "{\"anyOf\":[{\"properties\":{\"A\":{\"type\":\"integer\",\"x-zero\":true},\"B\":{\"const\":1}},\"required\":[\"B\"]},"
	  "{\"properties\":{\"A\":{\"type\":\"integer\"}}}]}",
		"{\"A\":0}", "{\"A\":0}", NULL },
	/* x-json */
	{ "{\"properties\":{\"F\":{\"x-json\":{\"type\":\"array\"}}}}", "{\"F\":\" [ 1 ] \"}", "{\"F\":\"[1]\"}", NULL },
	{ "{\"properties\":{\"F\":{\"x-json\":{\"type\":\"array\"}}}}", "{\"F\":\"[\"}", NULL, "/F" },
	{ "{\"properties\":{\"F\":{\"x-json\":{\"items\":{\"const\":1}}}}}", "{\"F\":\"[2]\"}", NULL, "/F/0" },
	{ "{\"properties\":{\"F\":{\"x-json\":{\"properties\":{\"A\":{\"type\":\"integer\",\"x-zero\":true}}}}}}",
		"{\"F\":\"{\\\"A\\\":0}\"}", "{\"F\":\"{}\"}", NULL },
	{ "{\"x-json\":{\"items\":{\"x-json\":{\"type\":\"integer\"}}}}", "\"[\\\" 1\\\"]\"", "\"[\\\"1\\\"]\"", NULL },
	/* the matcher's work is bounded */
	{ "{\"pattern\":\"^(a|aa)*(a|aa)*(a|aa)*b$\"}",
		"\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", NULL, "" },
};

static struct policy *load(const char *schema, struct err *err)
{
	struct policy *p;
	struct buf text;

	buf_init(&text, 65536);
	CU_ASSERT(buf_putf(&text,
				  "{\"apiVersions\":{\"min\":\"1.41\",\"max\":\"1.51\",\"default\":\"1.41\"},\"endpoints\":"
				  "[{\"id\":\"a\",\"method\":\"POST\",\"path\":\"/a\",\"body\":%s}]}",
				  schema) == 0);
	p = policy_load(buf_slice(&text), "p.json", err);
	buf_release(&text);
	return p;
}

static void put_pointer(struct buf *b, const struct schema_failure *f)
{
	CU_ASSERT(verdict_put_at(b, PART_BODY, slice_make(NULL, 0), f) == 0);
}

static void check(size_t i, const struct policy *p, struct schema_run *run, struct json_doc *doc)
{
	struct schema_failure failure;
	enum json_fault fault;
	struct json_node *root;
	struct buf out;
	size_t offset;
	bool ok;

	root = json_parse(doc, slice_str(cases[i].value), JSON_STRICT, &fault, &offset);
	CU_ASSERT_FATAL(root != NULL);
	schema_run_reset(run);
	buf_init(&out, 65536);
	ok = schema_eval(run, p->endpoints[0].body, root, &failure);
	UNIT_CHECK(ok == (cases[i].out != NULL), "case %zu: %s of %s", i, cases[i].value, cases[i].schema);
	if (ok) {
		CU_ASSERT(schema_put(&out, root) == 0);
		UNIT_CHECK(cases[i].out == NULL || slice_is(buf_slice(&out), cases[i].out), "case %zu: %.*s", i,
			SLICE_ARG(buf_slice(&out)));
	} else {
		put_pointer(&out, &failure);
		UNIT_CHECK(cases[i].at != NULL && slice_is(buf_slice(&out), cases[i].at), "case %zu: at %.*s", i,
			SLICE_ARG(buf_slice(&out)));
	}
	buf_release(&out);
}

static void keywords(void)
{
	struct schema_run *run = schema_run_new();
	struct json_doc *doc = json_doc_new();

	CU_ASSERT_FATAL(run != NULL && doc != NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;
		struct policy *p = load(cases[i].schema, &err);

		if (cases[i].out == NULL && cases[i].at == NULL) {
			UNIT_CHECK(p == NULL, "case %zu must not load", i);
			policy_free(p);
			continue;
		}
		UNIT_CHECK(p != NULL, "case %zu: %s", i, err.text);
		if (p != NULL)
			check(i, p, run, doc);
		policy_free(p);
	}
	json_doc_free(doc);
	schema_run_free(run);
}

/* A branch's failure is reported though another one read the same text after it: it must not point into freed memory. */
static void failure_outlives_branch(void)
{
	struct err err = ERR_INIT;
	struct policy *p = load("{\"anyOf\":[{\"x-json\":{\"items\":{\"const\":1}}},{\"x-json\":{\"const\":0}}]}", &err);
	struct schema_run *run = schema_run_new();
	struct json_doc *doc = json_doc_new();
	struct schema_failure failure;
	enum json_fault fault;
	struct json_node *root;
	struct buf text;
	size_t offset;

	CU_ASSERT_FATAL(p != NULL && run != NULL && doc != NULL);
	buf_init(&text, 65536);
	CU_ASSERT(buf_puts(&text, "\"[") == 0);
	for (int i = 0; i < 5000; i++) /* more nodes than a document keeps memory for */
		CU_ASSERT(buf_puts(&text, "1,") == 0);
	CU_ASSERT(buf_puts(&text, "2]\"") == 0);
	root = json_parse(doc, buf_slice(&text), JSON_STRICT, &fault, &offset);
	CU_ASSERT_FATAL(root != NULL);
	CU_ASSERT(!schema_eval(run, p->endpoints[0].body, root, &failure));
	buf_clear(&text);
	put_pointer(&text, &failure);
	CU_ASSERT(slice_is(buf_slice(&text), "/5000"));
	CU_ASSERT(verdict_put_message(&text, PART_BODY, slice_make(NULL, 0), &failure) == 0);
	CU_ASSERT(slice_is(slice_skip(buf_slice(&text), 5), "[5000] must be 1, not 2"));
	buf_release(&text);
	json_doc_free(doc);
	schema_run_free(run);
	policy_free(p);
}

static void folding(void)
{
	static const struct {
		const char *key, *folded;
	} keys[] = {
		{ "HostConfig", "hostconfig" },
		{ "\xc5\xbf", "s" },
		{ "\xe2\x84\xaa", "k" },
		{ "a\xc5\xbf\xe2\x84\xaaZ", "askz" },
		{ "\xc5", "\xc5" },
		{ "\xe2\x84", "\xe2\x84" },
		{ "\xc3\xa9", "\xc3\xa9" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char out[64];
		size_t n = schema_fold(slice_str(keys[i].key), out);

		UNIT_CHECK(slice_is(slice_make(out, n), keys[i].folded), "case %zu", i);
	}
}

static const struct unit_test tests[] = {
	{ "keywords", keywords },
	{ "failure outlives branch", failure_outlives_branch },
	{ "folding", folding },
};

UNIT_MAIN("schema", tests)
