/* Configuration: what each type takes, where a message points, and who wins. */
#include "libgate/conf.h"

#include <fcntl.h>

#include "tests/unit/unit.h"

struct sample {
	char *name;
	bool flag;
	int64_t count;
	int64_t wait_ms;
	int64_t size;
	int level;
	int64_t list_sum;
};

static const char *const level_names[] = { "low", "high", NULL };

static int parse_list(void *conf, const struct json_node *node, struct slice text, struct err *err)
{
	struct sample *s = conf;

	s->list_sum = 0;
	if (node == NULL) {
		s->list_sum = (int64_t)text.len;
		return 0;
	}
	for (const struct json_node *i = node->child; i != NULL; i = i->next) {
		if (i->type != JSON_INT) {
			err_set(err, 0, "entry is no integer");
			return conf_blame(i);
		}
		s->list_sum += i->integer;
	}
	return 0;
}

static const struct conf_key keys[] = {
	{ .path = "name", .type = CONF_STRING, .offset = offsetof(struct sample, name), .env = "T_NAME" },
	{ .path = "flag", .type = CONF_BOOL, .offset = offsetof(struct sample, flag), .dflt = "on", .env = "T_FLAG" },
	{ .path = "limits.count",
		.type = CONF_INT,
		.offset = offsetof(struct sample, count),
		.min = -5,
		.max = 100,
		.dflt = "7",
		.env = "T_COUNT" },
	{ .path = "timeouts.head",
		.type = CONF_DURATION,
		.offset = offsetof(struct sample, wait_ms),
		.min = 100,
		.max = 3600000,
		.dflt = "10s",
		.env = "T_HEAD" },
	{ .path = "limits.size",
		.type = CONF_SIZE,
		.offset = offsetof(struct sample, size),
		.min = 1024,
		.max = 1 << 20,
		.dflt = "16KiB" },
	{ .path = "level",
		.type = CONF_ENUM,
		.offset = offsetof(struct sample, level),
		.names = level_names,
		.dflt = "high" },
	{ .path = "list", .type = CONF_CUSTOM, .parse = parse_list, .env = "T_LIST" },
	{ .path = NULL },
};

static void test_defaults(void)
{
	struct sample s = { .name = NULL };
	struct err err = ERR_INIT;

	CU_ASSERT_EQUAL(conf_load(&s, keys, NULL, &err), 0);
	CU_ASSERT_PTR_NULL(s.name);
	CU_ASSERT_TRUE(s.flag);
	CU_ASSERT_EQUAL(s.count, 7);
	CU_ASSERT_EQUAL(s.wait_ms, 10000);
	CU_ASSERT_EQUAL(s.size, 16384);
	CU_ASSERT_EQUAL(s.level, 1);
	conf_release(&s, keys);
}

static void test_file(void)
{
	struct sample s = { .name = NULL };
	struct err err = ERR_INIT;

	CU_ASSERT_EQUAL(
		conf_load_text(&s, keys,
			SLICE_LIT(
				"// a comment\n{\"name\": \"x\", \"flag\": false, /* y */"
				"\"limits\": {\"count\": -5, \"size\": \"64KiB\"}, \"timeouts\": {\"head\": \"250ms\"}, \"level\": \"low\","
				"\"list\": [1, 2, 3]}"),
			"f", &err),
		0);
	CU_ASSERT_STRING_EQUAL(s.name, "x");
	CU_ASSERT_FALSE(s.flag);
	CU_ASSERT_EQUAL(s.count, -5);
	CU_ASSERT_EQUAL(s.size, 65536);
	CU_ASSERT_EQUAL(s.wait_ms, 250);
	CU_ASSERT_EQUAL(s.level, 0);
	CU_ASSERT_EQUAL(s.list_sum, 6);
	conf_release(&s, keys);
	CU_ASSERT_PTR_NULL(s.name);
}

static const struct {
	const char *text;
	const char *message; /* NULL: accepted */
} cases[] = {
	{ "{}", NULL },
	{ "{\"timeouts\": {\"head\": 5}}", NULL },
	{ "{\"timeouts\": {\"head\": \"1h\"}}", NULL },
	{ "{\"timeouts\": {\"head\": \"5m\"}}", NULL },
	{ "{\"limits\": {\"size\": 2048}}", NULL },
	{ "{\"limits\": {\"size\": \"1MiB\"}}", NULL },
	{ "{\"limits\": {\"size\": \"2048B\"}}", NULL },
	{ "{\n  \"timeouts\": {\"haed\": 5}}", "f:2:16: unknown key \"timeouts.haed\"; did you mean \"timeouts.head\"?" },
	{ "{\"head\": 5}", "f:1:2: unknown key \"head\"; did you mean \"timeouts.head\"?" },
	{ "{\"Flag\": true}", "f:1:2: unknown key \"Flag\"; did you mean \"flag\"?" },
	{ "{\"xyzzyplugh\": 1}", "f:1:2: unknown key \"xyzzyplugh\"" },
	{ "{\"timeouts.head\": 1}", "f:1:2: unknown key \"timeouts.head\"; did you mean \"timeouts.head\"?" },
	{ "{\"timeouts\": 5}", "f:1:14: timeouts: must be an object" },
	{ "{\"timeouts\": {\"head\": \"99ms\"}}", "f:1:23: timeouts.head: must be within 100ms and 1h" },
	{ "{\"timeouts\": {\"head\": \"2h\"}}", "f:1:23: timeouts.head: must be within 100ms and 1h" },
	{ "{\"timeouts\": {\"head\": 99999999999999999999}}",
		"f:1:23: timeouts.head: must be a number of seconds, or a"
		" string as \"250ms\", \"10s\", \"5m\", \"1h\"" },
	{ "{\"timeouts\": {\"head\": \"99999999999999999999s\"}}", "f:1:23: timeouts.head: must be within 100ms and 1h" },
	{ "{\"timeouts\": {\"head\": 9223372036854775807}}", "f:1:23: timeouts.head: must be within 100ms and 1h" },
	{ "{\"timeouts\": {\"head\": -1}}",
		"f:1:23: timeouts.head: \"-1\" is not a number of seconds, or a string as"
		" \"250ms\", \"10s\", \"5m\", \"1h\"" },
	{ "{\"timeouts\": {\"head\": \"\"}}",
		"f:1:23: timeouts.head: \"\" is not a number of seconds, or a string as"
		" \"250ms\", \"10s\", \"5m\", \"1h\"" },
	{ "{\"timeouts\": {\"head\": \"5 s\"}}",
		"f:1:23: timeouts.head: \"5 s\" is not a number of seconds, or a string"
		" as \"250ms\", \"10s\", \"5m\", \"1h\"" },
	{ "{\"timeouts\": {\"head\": \"s\"}}",
		"f:1:23: timeouts.head: \"s\" is not a number of seconds, or a string as"
		" \"250ms\", \"10s\", \"5m\", \"1h\"" },
	{ "{\"limits\": {\"size\": \"16kb\"}}",
		"f:1:21: limits.size: \"16kb\" is not a number of bytes, or a string as"
		" \"16KiB\", \"64MiB\"" },
	{ "{\"limits\": {\"size\": \"9GiB\"}}", "f:1:21: limits.size: must be within 1KiB and 1MiB" },
	{ "{\"limits\": {\"count\": 101}}", "f:1:22: limits.count: must be within -5 and 100" },
	{ "{\"limits\": {\"count\": \"7\"}}", "f:1:22: limits.count: must be an integer" },
	{ "{\"limits\": {\"count\": 7.0}}", "f:1:22: limits.count: must be an integer" },
	{ "{\"flag\": 1}", "f:1:10: flag: must be true or false" },
	{ "{\"flag\": null}", "f:1:10: flag: must be true or false" },
	{ "{\"name\": \"\"}", "f:1:10: name: must not be empty" },
	{ "{\"name\": 5}", "f:1:10: name: must be a string" },
	{ "{\"level\": \"mid\"}", "f:1:11: level: must be one of: low, high" },
	{ "{\"level\": 1}", "f:1:11: level: must be one of: low, high" },
	{ "{\"list\": [1,\n 2, \"x\"]}", "f:2:5: list: entry is no integer" },
	{ "[]", "f:1:1: the configuration must be an object" },
	{ "{\"name\": \"a\", \"name\": \"b\"}", "f:1:15: a member name is repeated" },
	{ "{\"name\": \"a\\u0000\"}", "f:1:12: NUL is not accepted, raw or escaped" },
};

static void test_messages(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sample s = { .name = NULL };
		struct err err = ERR_INIT;
		int rc = conf_load_text(&s, keys, slice_str(cases[i].text), "f", &err);

		if (cases[i].message == NULL)
			UNIT_CHECK(rc == 0, "%s: %s", cases[i].text, err.text);
		else
			UNIT_CHECK(rc == -1 && strcmp(err.text, cases[i].message) == 0, "%s: %s", cases[i].text, err.text);
		conf_release(&s, keys);
	}
}

static void test_environment_wins(void)
{
	struct sample s = { .name = NULL };
	struct err err = ERR_INIT;

	setenv("T_NAME", "env", 1);
	setenv("T_FLAG", "No", 1);
	setenv("T_COUNT", "-3", 1);
	setenv("T_HEAD", "3", 1);
	setenv("T_LIST", "abcd", 1);
	CU_ASSERT_EQUAL(conf_load_text(&s, keys, SLICE_LIT("{\"name\": \"file\", \"flag\": true, \"list\": [9]}"), "f",
						&err),
		0);
	CU_ASSERT_STRING_EQUAL(s.name, "env");
	CU_ASSERT_FALSE(s.flag);
	CU_ASSERT_EQUAL(s.count, -3);
	CU_ASSERT_EQUAL(s.wait_ms, 3000);
	CU_ASSERT_EQUAL(s.list_sum, 4);
	conf_release(&s, keys);
	setenv("T_HEAD", "soon", 1);
	CU_ASSERT_EQUAL(conf_load(&s, keys, NULL, &err), -1);
	CU_ASSERT_STRING_EQUAL(err.text,
		"environment variable T_HEAD: \"soon\" is not a number of seconds, or a string as"
		" \"250ms\", \"10s\", \"5m\", \"1h\"");
	conf_release(&s, keys);
	unsetenv("T_NAME");
	unsetenv("T_FLAG");
	unsetenv("T_COUNT");
	unsetenv("T_HEAD");
	unsetenv("T_LIST");
}

static void test_files(void)
{
	char path[] = "/tmp/test_conf.XXXXXX";
	int fd = mkstemp(path);
	struct sample s = { .name = NULL };
	struct err err = ERR_INIT;
	char want[128];
	static char spaces[65536];

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(write(fd, "{\"level\":\n\"no\"}", 15), 15);
	CU_ASSERT_EQUAL(conf_load(&s, keys, path, &err), -1);
	snprintf(want, sizeof(want), "%s:2:1: level: must be one of: low, high", path);
	CU_ASSERT_STRING_EQUAL(err.text, want);
	memset(spaces, ' ', sizeof(spaces));
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(write(fd, spaces, sizeof(spaces)), (ssize_t)sizeof(spaces));
	CU_ASSERT_EQUAL(conf_load(&s, keys, path, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is larger than 1048576 bytes"));
	close(fd);
	unlink(path);
	CU_ASSERT_EQUAL(conf_load(&s, keys, path, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cannot be opened: No such file"));
	CU_ASSERT_EQUAL(conf_load(&s, keys, "/tmp", &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is a directory"));
	conf_release(&s, keys);
}

static const struct unit_test tests[] = {
	{ "defaults", test_defaults },
	{ "file", test_file },
	{ "messages", test_messages },
	{ "environment wins", test_environment_wins },
	{ "files", test_files },
};

UNIT_MAIN("conf", tests)
