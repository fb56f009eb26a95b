/* Policies that must not load, with the place and words of the message; and what a loaded one says. */
#include "unit.h"

#include "dockerproxy/policy.h"

#define HEAD "{\"apiVersions\":{\"min\":\"1.41\",\"max\":\"1.51\",\"default\":\"1.41\"},"
#define ROW "{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\"}"
/* The schema under test stands at column 2 of line 2. */
#define SCHEMA(s) \
	HEAD "\"$defs\":{\"d\":\n " s "},\"endpoints\":[" ROW \
	"]}"
#define ENDPOINT(row) HEAD "\"endpoints\":[\n " row "]}"

static const struct {
	const char *text;
	const char *message; /* begins with this */
} bad[] = {
	/* the document */
	{ "", "p.json:1:1: : the document ends too early" },
	{ "{\n\"a\":1,\n  \"a\":2}", "p.json:3:3: : a member name is repeated" },
	{ "[]", "p.json:1:1: : must be an object" },
	{ "{}", "p.json:1:1: : \"apiVersions\" is missing" },
	{ HEAD "\"endpoints\":[" ROW "],\n\"x\":1}", "p.json:2:1: /x: unknown key" },
	{ HEAD "\"endpoints\":[]}", "p.json:1:73: /endpoints: endpoints must be a list of at least one row" },
	{ "{\"apiVersions\":{\"min\":\"1.41\",\"max\":\"1.51\"},\"endpoints\":[" ROW "]}",
		"p.json:1:16: /apiVersions: apiVersions needs" },
	{ "{\"apiVersions\":{\"min\":\"1.41\",\"max\":\"1.40\",\"default\":\"1.41\"},\"endpoints\":[" ROW "]}",
		"p.json:1:16: /apiVersions: default must lie" },
	{ "{\"apiVersions\":{\"min\":\"1.4\",\"max\":\"1.51\",\"default\":\"1.41\"},\"endpoints\":[" ROW "]}",
		"p.json:1:23: /apiVersions: an API version is written" },
	/* keywords */
	{ SCHEMA("{\"patern\":\"^a$\"}"), "p.json:2:3: /$defs/d/patern: unknown keyword" },
	{ SCHEMA("1"), "p.json:2:2: /$defs/d: a schema must be an object or a boolean" },
	{ SCHEMA("{\"type\":\"number\"}"), "p.json:2:10: /$defs/d/type: unknown type \"number\"" },
	{ SCHEMA("{\"type\":[]}"), "p.json:2:10: /$defs/d/type: an empty list" },
	{ SCHEMA("{\"type\":1}"), "p.json:2:10: /$defs/d/type: must be a string" },
	{ SCHEMA("{\"enum\":[]}"), "p.json:2:10: /$defs/d/enum: enum must be" },
	{ SCHEMA("{\"minLength\":-1}"), "p.json:2:15: /$defs/d/minLength: must be an integer from 0" },
	{ SCHEMA("{\"minLength\":3,\"maxLength\":2}"), "p.json:2:2: /$defs/d: the minimum is above" },
	{ SCHEMA("{\"minimum\":1.5}"), "p.json:2:13: /$defs/d/minimum: must be an integer" },
	{ SCHEMA("{\"minimum\":2,\"maximum\":1}"), "p.json:2:2: /$defs/d: minimum is above maximum" },
	{ SCHEMA("{\"type\":\"integer\",\"pattern\":\"^a$\"}"), "p.json:2:20: /$defs/d: the keyword has no meaning" },
	{ SCHEMA("{\"items\":1}"), "p.json:2:11: /$defs/d/items: a schema must be" },
	{ SCHEMA("{\"anyOf\":{}}"), "p.json:2:11: /$defs/d/anyOf: must be a list" },
	{ SCHEMA("{\"anyOf\":[{},{\"x\":1}]}"), "p.json:2:16: /$defs/d/anyOf/1/x: unknown keyword" },
	{ SCHEMA("{\"not\":{\"type\":\"x\"}}"), "p.json:2:17: /$defs/d/not/type: unknown type" },
	{ SCHEMA("{\"description\":1}"), "p.json:2:17: /$defs/d/description: must be a string" },
	{ SCHEMA("{\"properties\":{\"a\177\":true}}"), "p.json:2:17: /$defs/d/properties: the name of a property must be printable" },
	/* patterns */
	{ SCHEMA("{\"pattern\":\"a$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern must begin with ^" },
	{ SCHEMA("{\"pattern\":\"^a\"}"), "p.json:2:13: /$defs/d/pattern: the pattern must end with $" },
	{ SCHEMA("{\"pattern\":\"^a\\\\$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern must end with $" },
	{ SCHEMA("{\"pattern\":\"^[a$]\"}"), "p.json:2:13: /$defs/d/pattern: the pattern must end with $" },
	{ SCHEMA("{\"pattern\":\"^(a$)\"}"), "p.json:2:13: /$defs/d/pattern: the pattern must end with $" },
	{ SCHEMA("{\"pattern\":\"^a|b$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern has an alternative outside" },
	{ SCHEMA("{\"pattern\":\"^(a)|(b)$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern has an alternative outside" },
	{ SCHEMA("{\"pattern\":\"^(a$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern must end with $" },
	{ SCHEMA("{\"pattern\":\"^[z-a]$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern does not compile" },
	{ SCHEMA("{\"pattern\":\"^\\\\Qa|b\\\\E$\"}"), "p.json:2:13: /$defs/d/pattern: \\Q and \\E are not accepted" },
	{ SCHEMA("{\"pattern\":\"^\\\\Ca$\"}"), "p.json:2:13: /$defs/d/pattern: the pattern does not compile" },
	{ SCHEMA("{\"pattern\":\"^(?x)a #|\\n$\"}"), "p.json:2:13: /$defs/d/pattern: inline options" },
	{ SCHEMA("{\"patternProperties\":{\"a$\":{}}}"),
		"p.json:2:24: /$defs/d/patternProperties: the pattern must begin" },
	{ SCHEMA("{\"propertyNames\":{\"x-json\":{}}}"),
		"p.json:2:19: /$defs/d/propertyNames: x-json has no meaning for a name" },
	{ SCHEMA("{\"propertyNames\":{\"allOf\":[{\"$ref\":\"#/$defs/e\"}]}},\"e\":{\"x-json\":{}}"),
		"p.json:2:19: /$defs/d/propertyNames: x-json has no meaning for a name" },
	/* references */
	{ SCHEMA("{\"$ref\":\"#/$defs/none\"}"), "p.json:2:10: /$defs/d/$ref: $ref leads nowhere" },
	{ SCHEMA("{\"$ref\":\"other.json\"}"), "p.json:2:10: /$defs/d/$ref: $ref must be" },
	{ SCHEMA("{\"$ref\":\"#/$defs/d\"}"), "p.json:2:10: /$defs/d/$ref: $ref leads back to itself" },
	{ SCHEMA("{\"items\":{\"$ref\":\"#/$defs/e\"}},\"e\":{\"items\":{\"$ref\":\"#/$defs/d\"}}"),
		"p.json:2:54: /$defs/e/items/$ref: $ref leads back" },
	/* objects */
	{ SCHEMA("{\"properties\":{\"Ab\":{},\"aB\":{}}}"),
		"p.json:2:25: /$defs/d/properties: the name differs from another" },
	{ SCHEMA("{\"properties\":{\"\\u0041\":{}}}"),
		"p.json:2:17: /$defs/d/properties: the name of a property must be printable" },
	{ SCHEMA("{\"properties\":{\"\":{}}}"), "p.json:2:17: /$defs/d/properties: the name of a property must have" },
	{ SCHEMA("{\"required\":[\"a\"]}"), "p.json:2:15: /$defs/d/required: a required name is not among" },
	{ SCHEMA("{\"properties\":{\"a\":{}},\"required\":[\"a\",\"a\"]}"),
		"p.json:2:41: /$defs/d/required: the name is required twice" },
	{ SCHEMA("{\"required\":1}"), "p.json:2:14: /$defs/d/required: required must be" },
	{ SCHEMA("{\"properties\":{\"a\":{\"type\":\"strin\"}}}"),
		"p.json:2:29: /$defs/d/properties/a/type: unknown type" },
	/* x-zero */
	{ SCHEMA("{\"x-zero\":false}"), "p.json:2:12: /$defs/d/x-zero: x-zero must be true" },
	{ SCHEMA("{\"x-zero\":[]}"), "p.json:2:12: /$defs/d/x-zero: an empty list of zeros" },
	{ SCHEMA("{\"x-zero\":true}"), "p.json:2:2: /$defs/d: x-zero needs a type" },
	{ SCHEMA("{\"items\":{\"type\":\"string\",\"x-zero\":true}}"),
		"p.json:2:11: /$defs/d/items: x-zero has a meaning only" },
	{ SCHEMA("{\"anyOf\":[{\"type\":\"string\",\"x-zero\":true}]}"),
		"p.json:2:12: /$defs/d/anyOf/0: x-zero has a meaning only" },
	{ SCHEMA("{\"additionalProperties\":{\"type\":\"string\",\"x-zero\":true}}"),
		"p.json:2:26: /$defs/d/additionalProperties: x-zero has a meaning only" },
	{ SCHEMA("{\"not\":{\"properties\":{\"a\":{\"type\":\"string\",\"x-zero\":true}}}}"),
		"p.json:2:54: /$defs/d/not/properties/a/x-zero: x-zero cannot stand below not" },
	{ SCHEMA("{\"items\":{\"$ref\":\"#/$defs/z\"}},\"z\":{\"type\":\"string\",\"x-zero\":true}"),
		"p.json:2:11: /$defs/d/items: x-zero has a meaning only" },
	/* endpoints */
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\"}"), "p.json:2:2: /endpoints/0: \"path\" is missing" },
	{ ENDPOINT(ROW ",{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/b\"}"),
		"p.json:2:40: /endpoints/1: the id \"a\" is used twice" },
	{ ENDPOINT(ROW ",{\"id\":\"b\",\"method\":\"GET\",\"path\":\"/a\"}"),
		"p.json:2:40: /endpoints/1: method and path are those of \"a\"" },
	{ ENDPOINT("{\"id\":\"a b\",\"method\":\"GET\",\"path\":\"/a\"}"), "p.json:2:8: /endpoints/0/id: an id is" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"get\",\"path\":\"/a\"}"),
		"p.json:2:21: /endpoints/0/method: method must be" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"a\"}"), "p.json:2:34: /endpoints/0/path: path must begin" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a/\"}"),
		"p.json:2:34: /endpoints/0/path: a segment of the path" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/..\"}"),
		"p.json:2:34: /endpoints/0/path: a segment of the path" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/{x}\"}"),
		"p.json:2:2: /endpoints/0: path parameter \"x\" has no schema" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/{x}/{x}\"}"),
		"p.json:2:34: /endpoints/0/path: a path parameter is named twice" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/{x...}/{y...}\"}"),
		"p.json:2:34: /endpoints/0/path: only one" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"params\":{\"x\":{}}}"),
		"p.json:2:49: /endpoints/0/params/x: the path has no such" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"query\":{}}"),
		"p.json:2:47: /endpoints/0/query: query must be a schema" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"body\":{}}"),
		"p.json:2:2: /endpoints/0: only POST and PUT" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"response\":\"hijack\"}"),
		"p.json:2:2: /endpoints/0: only POST rows can" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"response\":\"x\"}"),
		"p.json:2:50: /endpoints/0/response: unknown word" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"owner\":\"container\"}"),
		"p.json:2:2: /endpoints/0: owner needs a parameter" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"POST\",\"path\":\"/a\",\"owner\":\"container\",\"object\":\"body.C\","
			   "\"body\":{\"properties\":{\"C\":{}}}}"),
		"p.json:2:2: /endpoints/0: owner needs a parameter in the path or a required member" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/{x}\",\"params\":{\"x\":{}},\"owner\":\"container\"}"),
		"p.json:1:1: : endpoint a has an owner, but containerName" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"answerLabel\":\"x\"}"),
		"p.json:2:53: /endpoints/0/answerLabel: answerLabel must be" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"object\":\"query.x\"}"),
		"p.json:2:2: /endpoints/0: object names a parameter" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"POST\",\"path\":\"/a\",\"body\":{},\"maxBody\":0}"),
		"p.json:2:60: /endpoints/0/maxBody: must be an integer" },
	{ ENDPOINT("{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\",\"x\":0}"),
		"p.json:2:39: /endpoints/0/x: unknown key" },
};

static void refused(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = ERR_INIT;
		struct policy *p = policy_load(slice_str(bad[i].text), "p.json", &err);

		UNIT_CHECK(p == NULL, "case %zu: %s", i, bad[i].message);
		UNIT_CHECK(strncmp(err.text, bad[i].message, strlen(bad[i].message)) == 0, "case %zu: wanted %s, got %s", i,
			bad[i].message, err.text);
		policy_free(p);
	}
}

static void accepted(void)
{
	static const char *const good[] = {
		SCHEMA("true"),
		SCHEMA("{}"),
		SCHEMA("{\"pattern\":\"^(a|b)$\"}"),
		SCHEMA("{\"pattern\":\"^[|()$]a\\\\|$\"}"),
		SCHEMA("{\"pattern\":\"^[]|]$\"}"),
		SCHEMA("{\"pattern\":\"^(?!a)(?:b|c)$\"}"),
		SCHEMA("{\"required\":[\"a\"],\"additionalProperties\":true}"),
		SCHEMA("{\"not\":{\"required\":[\"a\"]}}"),
		SCHEMA("{\"patternProperties\":{\"^a$\":{}},\"properties\":{\"A\":{},\"a\":{}}}"),
		ENDPOINT("{\"id\":\"a\",\"method\":\"POST\",\"path\":\"/a\",\"body\":null} /* none */"),
		ENDPOINT(
			"{\"id\":\"a\",\"method\":\"GET\",\"path\":\"/a\"},{\"id\":\"b\",\"method\":\"HEAD\",\"path\":\"/a\"}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct err err = ERR_INIT;
		struct policy *p = policy_load(slice_str(good[i]), "p.json", &err);

		UNIT_CHECK(p != NULL, "case %zu: %s", i, err.text);
		policy_free(p);
	}
}

static void answers(void)
{
	struct err err = ERR_INIT;
	struct policy *p = policy_builtin(&err);
	struct policy *again;
	struct buf printed;

	CU_ASSERT_FATAL(p != NULL);
	CU_ASSERT(policy_versions(p)->min == 41 && policy_versions(p)->max == 51 && policy_versions(p)->dflt == 41);
	CU_ASSERT(strncmp(policy_digest(p), "sha256:", 7) == 0 && strlen(policy_digest(p)) == 71);
	CU_ASSERT(policy_endpoint_count(p) > 20);
	for (unsigned i = 0; i < policy_endpoint_count(p); i++)
		UNIT_CHECK(policy_endpoint(p, i)->index == i && policy_endpoint(p, i)->id != NULL, "row %u", i);
	CU_ASSERT(policy_container_name_ok(p, SLICE_LIT("cap-x")));
	CU_ASSERT(!policy_container_name_ok(p, SLICE_LIT("/cap-x")));
	CU_ASSERT(!policy_container_name_ok(p, SLICE_LIT("kernel")));
	CU_ASSERT(!policy_container_name_ok(p, SLICE_LIT("cap-\xff")));
	CU_ASSERT(!policy_container_name_ok(p, SLICE_LIT("cap-x\n")));
	CU_ASSERT(!policy_container_name_ok(p, SLICE_LIT("")));
	buf_init(&printed, 1 << 20);
	CU_ASSERT(policy_print(p, &printed) == 0);
	again = policy_load(buf_slice(&printed), "printed", &err);
	CU_ASSERT(again != NULL);
	policy_free(again);
	buf_release(&printed);
	policy_free(p);
}

static void digest(void)
{
	struct err err = ERR_INIT;
	struct policy *p = policy_load(slice_str(HEAD "\"endpoints\":[" ROW "]}"), "p.json", &err);

	CU_ASSERT_FATAL(p != NULL);
	CU_ASSERT_STRING_EQUAL(policy_digest(p), "sha256:de0a46adfb4601f869d56e521cfdbeb8df1be48f276236d44c12b76021512765");
	policy_free(p);
}

static const struct unit_test tests[] = {
	{ "refused", refused },
	{ "accepted", accepted },
	{ "answers", answers },
	{ "digest", digest },
};

UNIT_MAIN("policy load", tests)
