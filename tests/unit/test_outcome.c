/* What a sandbox says of commands whose answer was lost. */
#include "controller/outcome.h"

#include "tests/unit/unit.h"

#define SIXTY_FOUR "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_records(void)
{
	static const struct {
		const char *line;
		bool ok;
		enum outcome_state state;
		const char *id, *tag;
		int number;
		bool oom;
		int64_t time;
	} cases[] = {
		{ "1 a-1 _ exited 5 no 1700000000", true, OUTCOME_EXITED, "a-1", NULL, 5, false, 1700000000 },
		{ "1 a t signaled 9 yes 0", true, OUTCOME_SIGNALED, "a", "t", 9, true, 0 },
		{ "1 a t timeout 9 unknown 1", true, OUTCOME_TIMEOUT, "a", "t", 9, false, 1 },
		{ "1 a t killed 9 no 1", true, OUTCOME_KILLED, "a", "t", 9, false, 1 },
		{ "1 a t failed 2 no 1", true, OUTCOME_FAILED, "a", "t", 2, false, 1 },
		{ "1 " SIXTY_FOUR " t exited 0 no 1", true, OUTCOME_EXITED, SIXTY_FOUR, "t", 0, false, 1 },
		{ "R a", true, OUTCOME_RUNNING, "a", NULL, 0, false, 0 },
		{ "R _/a", true, OUTCOME_RUNNING, "a", NULL, 0, false, 0 },
		{ "R t/a", true, OUTCOME_RUNNING, "a", "t", 0, false, 0 },
		/* The file is the sandbox user's. */
		{ .line = "" },
		{ .line = "1" },
		{ .line = "2 a t exited 0 no 1" },
		{ .line = "1 " SIXTY_FOUR "a t exited 0 no 1" },
		{ .line = "1 a t running 0 no 1" },
		{ .line = "1 a t lost 0 no 1" },
		{ .line = "1 a t exited -1 no 1" },
		{ .line = "1 a t exited 4096 no 1" },
		{ .line = "1 a t exited 99999999999999999999 no 1" },
		{ .line = "1 a t exited 0 no 1 more" },
		{ .line = "1 a t exited 0 no" },
		{ .line = "1 a\033[2J t exited 0 no 1" },
		{ .line = "1 a t/x exited 0 no 1" },
		{ .line = "1  a t exited 0 no 1" },
		{ .line = "R " },
		{ .line = "R a b" },
		{ .line = "R /a" },
		{ .line = "R a/b/c" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome o = { .number = -1 };
		bool ok = outcome_parse(slice_str(cases[i].line), &o);

		UNIT_CHECK(ok == cases[i].ok, "%s", cases[i].line);
		if (!ok || !cases[i].ok)
			continue;
		UNIT_CHECK(o.state == cases[i].state && slice_is(o.id, cases[i].id) && o.number == cases[i].number &&
			o.oom == cases[i].oom && o.time_s == cases[i].time, "%s", cases[i].line);
		UNIT_CHECK(cases[i].tag == NULL ? o.tag.p == NULL : slice_is(o.tag, cases[i].tag), "%s", cases[i].line);
	}
}

static const struct unit_test tests[] = {
	{ "records", test_records },
};

UNIT_MAIN("outcome", tests)
