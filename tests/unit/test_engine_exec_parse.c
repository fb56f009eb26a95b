/* What the scripts of the engine mode print, and what the engine prints in their place. */
#include "controller/engine_exec_parse.h"

#include <errno.h>

#include "tests/unit/unit.h"

static void test_exec_line(void)
{
	static const struct {
		const char *line;
		bool ok;
		enum exec_end end;
		int code, signal;
		enum exec_tristate oom;
		unsigned survivors;
	} cases[] = {
		{ "E 0 0 0 0 0", true, EXEC_EXITED, 0, 0, EXEC_NO, 0 },
		{ "E 137 0 - 0 0", true, EXEC_EXITED, 137, 0, EXEC_UNKNOWN, 0 },
		{ "E 137 9 1 0 0", true, EXEC_SIGNALED, 137, 9, EXEC_YES, 0 },
		{ "E 0 0 1 0 0", true, EXEC_EXITED, 0, 0, EXEC_NO, 0 },
		{ "E 137 9 - 3 2", true, EXEC_SIGNALED, 137, 9, EXEC_UNKNOWN, 2 },
		{ .line = "E 256 0 0 0 0" }, { .line = "E 0 65 0 0 0" }, { .line = "E -1 0 0 0 0" }, { .line = "E 0 0 0 0" },
		{ .line = "E" }, { .line = "" }, { .line = "X 0 0 0 0 0" }, { .line = "E 99999999999999999999 0 0 0 0" }, { .line = "E 0 0 x 0 0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct exec_outcome o = { .end = EXEC_LOST };
		bool ok = exec_line_parse(cases[i].line, &o);

		UNIT_CHECK(ok == cases[i].ok, "%s", cases[i].line);
		if (ok)
			UNIT_CHECK(o.end == cases[i].end && o.exit_code == cases[i].code && o.signal == cases[i].signal &&
				o.oom == cases[i].oom && o.survivors == cases[i].survivors, "%s", cases[i].line);
	}
}

static void test_kill_line(void)
{
	unsigned p, s, c;

	CU_ASSERT(kill_line_parse("E 0 5 1 2\n", &p, &s, &c) && p == 5 && s == 1 && c == 2);
	CU_ASSERT(!kill_line_parse("E 0 5 1", &p, &s, &c));
	CU_ASSERT(!kill_line_parse("E 1 5 1 2", &p, &s, &c));
}

static void test_file_notes(void)
{
	static const struct {
		const char *notes;
		int code;
		uint64_t size;
	} cases[] = {
		{ "#E 0\n", 0, 0 },
		{ "##I f 12 644 1000 1000 1700000000.5\n#E 0\n", 0, 12 },
		{ "##E F No such file or directory\n", ENOENT, 0 },
		{ "##E F Permission denied\n", EACCES, 0 },
		{ "##E F Is a directory\n", EISDIR, 0 },
		{ "##E F No space left on device\n", ENOSPC, 0 },
		{ "##E F Disk quota exceeded\n", EDQUOT, 0 },
		{ "##E F Read-only file system\n", EROFS, 0 },
		{ "##E F what nobody says\n", EIO, 0 },
		{ "##", EPROTO, 0 },
		{ "", EPROTO, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct file_info info = { .type = FILE_TYPE_NONE };
		char text[128] = "";
		int code = file_notes_parse(slice_str(cases[i].notes), "#", &info, text, sizeof(text));

		UNIT_CHECK(code == cases[i].code && info.size == cases[i].size, "%s: %d %s", cases[i].notes, code, text);
	}
}

static void test_entries(void)
{
	static const char stat_link[] = "l 3 777 0 0 1700000000.1234567890 a\nb";
	static const char list[] = "f 5 4755 1000 1000 -1.0000000000\0name\nx\0\0d 4096 700 0 0 1700000000.0\0d\0\0l 1 777 0 0 1.0\0l\0t\0";
	struct file_info info;
	struct slice name, rest = slice_make(list, sizeof(list) - 1);
	size_t used;

	CU_ASSERT(stat_entry_parse(slice_make(stat_link, sizeof(stat_link)), &info));
	CU_ASSERT(info.type == FILE_TYPE_SYMLINK && slice_is(info.target, "a\nb") && info.mtime_ms == 1700000000123);
	CU_ASSERT(!stat_entry_parse(slice_make(stat_link, sizeof(stat_link) - 1), &info));
	for (size_t n = 0; n < 40; n++)
		UNIT_CHECK(list_entry_parse(slice_make(list, n), &name, &info) == 0, "%zu bytes are no entry", n);
	used = list_entry_parse(rest, &name, &info);
	CU_ASSERT(used > 0 && slice_is(name, "name\nx") && info.mode == 04755 && info.mtime_ms == -1000);
	rest = slice_skip(rest, used);
	used = list_entry_parse(rest, &name, &info);
	CU_ASSERT(used > 0 && slice_is(name, "d") && info.type == FILE_TYPE_DIRECTORY);
	rest = slice_skip(rest, used);
	used = list_entry_parse(rest, &name, &info);
	CU_ASSERT(used == rest.len && slice_is(name, "l") && slice_is(info.target, "t"));
}

static void test_start_failures(void)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "OCI runtime exec failed: exec failed: unable to start container process: read init-p: connection reset by peer", E2BIG },
		{ "unable to find user nobody2: no matching entries in passwd file", EINVAL },
		{ "cannot exec in a stopped state: unknown", EBUSY },
		{ "OCI runtime exec failed: exec: \"bash\": executable file not found in $PATH", EINVAL },
		{ "", EAGAIN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(start_failure_code(cases[i].text) == cases[i].code, "%s", cases[i].text);
}

static void test_marks(void)
{
	CU_ASSERT(after_last_mark(SLICE_LIT("abc"), "N").p == NULL);
	CU_ASSERT(slice_is(after_last_mark(SLICE_LIT("NaNb"), "N"), "b"));
	CU_ASSERT(after_last_mark(SLICE_LIT("aN"), "N").p != NULL && after_last_mark(SLICE_LIT("aN"), "N").len == 0);
}

static void test_started_since(void)
{
	enum { NOON = 1796040000 }; /* 2026-11-30T12:00:00Z */
	static const struct {
		const char *name, *stamp;
		time_t made, now;
		bool since;
	} cases[] = {
		{ "before", "2026-11-30T11:59:59.9Z", NOON, NOON + 60, false },
		{ "within the same second", "2026-11-30T12:00:00.999999999Z", NOON, NOON + 60, false },
		{ "after", "2026-11-30T12:00:01.0Z", NOON, NOON + 60, true },
		{ "by a clock that was set back", "2026-11-30T13:00:00.0Z", NOON, NOON + 60, false },
		{ "no time of the exec", "2026-11-30T12:00:01.0Z", 0, NOON + 60, false },
		{ "no time of the look", "2026-11-30T12:00:01.0Z", NOON, 0, false },
		{ "no stamp", "", NOON, NOON + 60, false },
		{ "no date", "yesterday, a little after four", NOON, NOON + 60, false },
		{ "never", "0001-01-01T00:00:00Z", NOON, NOON + 60, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(started_since(slice_str(cases[i].stamp), cases[i].made, cases[i].now) == cases[i].since, "%s",
			cases[i].name);
}

static const struct unit_test tests[] = {
	{ "exec-line", test_exec_line },
	{ "kill-line", test_kill_line },
	{ "file-notes", test_file_notes },
	{ "entries", test_entries },
	{ "start-failures", test_start_failures },
	{ "marks", test_marks },
	{ "started-since", test_started_since },
};

UNIT_MAIN("engine-exec-parse", tests)
