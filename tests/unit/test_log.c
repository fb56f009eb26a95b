/* The operator's log: what a line looks like, and that no text can break it. */
#include "libgate/log.h"

#include "tests/unit/unit.h"

struct capture {
	unsigned lines;
	enum log_level level;
	char last[8192];
};

static void take(enum log_level level, const char *line, void *arg)
{
	struct capture *c = arg;

	c->lines++;
	c->level = level;
	snprintf(c->last, sizeof(c->last), "%s", line);
}

static struct capture start(enum log_level max)
{
	unsetenv("JOURNAL_STREAM");
	log_init("prog", max);
	return (struct capture){ .lines = 0 };
}

static void test_shape(void)
{
	struct capture c = start(LOG_LEVEL_DEBUG);

	log_set_sink(take, &c);
	log_error("cannot open %s", "x");
	CU_ASSERT_STRING_EQUAL(c.last, "ERROR prog: cannot open x");
	log_warn("w");
	CU_ASSERT_STRING_EQUAL(c.last, "WARN prog: w");
	log_info("i");
	CU_ASSERT_STRING_EQUAL(c.last, "INFO prog: i");
	log_debug("d");
	CU_ASSERT_STRING_EQUAL(c.last, "DEBUG prog: d");
	CU_ASSERT_EQUAL(c.level, LOG_LEVEL_DEBUG);
	CU_ASSERT_EQUAL(c.lines, 4);
	log_set_sink(NULL, NULL);
}

static void test_journal_priority(void)
{
	struct capture c = start(LOG_LEVEL_INFO);

	setenv("JOURNAL_STREAM", "8:1", 1);
	log_init("prog", LOG_LEVEL_INFO);
	log_set_sink(take, &c);
	log_warn("w");
	CU_ASSERT_STRING_EQUAL(c.last, "<4>prog: w");
	log_set_sink(NULL, NULL);
	unsetenv("JOURNAL_STREAM");
}

static void test_level(void)
{
	struct capture c = start(LOG_LEVEL_WARN);

	log_set_sink(take, &c);
	log_info("not shown");
	CU_ASSERT_EQUAL(c.lines, 0);
	log_set_level(LOG_LEVEL_INFO);
	CU_ASSERT_EQUAL(log_get_level(), LOG_LEVEL_INFO);
	log_info("shown");
	CU_ASSERT_EQUAL(c.lines, 1);
	log_set_sink(NULL, NULL);
}

static void test_escapes(void)
{
	struct capture c = start(LOG_LEVEL_INFO);

	log_set_sink(take, &c);
	log_info("%s", "a\nERROR prog: forged\x1b[2J\xff");
	CU_ASSERT_STRING_EQUAL(c.last, "INFO prog: a\\x0aERROR prog: forged\\x1b[2J\\xff");
	log_set_sink(NULL, NULL);
}

static void test_bound(void)
{
	struct capture c = start(LOG_LEVEL_INFO);
	char text[10000];

	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_set_sink(take, &c);
	log_info("%s", text);
	CU_ASSERT_TRUE(strlen(c.last) < 4096);
	CU_ASSERT_TRUE(strlen(c.last) > 4000);
	CU_ASSERT_PTR_NULL(strchr(c.last, '\n'));
	log_set_sink(NULL, NULL);
}

static const struct unit_test tests[] = {
	{ "shape", test_shape },
	{ "journal priority", test_journal_priority },
	{ "level", test_level },
	{ "escapes", test_escapes },
	{ "bound", test_bound },
};

UNIT_MAIN("log", tests)
