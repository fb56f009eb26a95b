/* Error text: formatting, context, cutting at a whole character. */
#include "libgate/err.h"

#include <errno.h>

#include "tests/unit/unit.h"

static void set(void)
{
	struct err err = ERR_INIT;

	CU_ASSERT_EQUAL(err_set(&err, EINVAL, "limit %d", 7), -1);
	CU_ASSERT_EQUAL(err.code, EINVAL);
	CU_ASSERT_STRING_EQUAL(err.text, "limit 7");
}

static void from_errno(void)
{
	struct err err = ERR_INIT;

	errno = ENOENT;
	CU_ASSERT_EQUAL(err_errno(&err, "cannot open %s", "/x"), -1);
	CU_ASSERT_EQUAL(err.code, ENOENT);
	CU_ASSERT_STRING_EQUAL(err.text, "cannot open /x: No such file or directory");
}

static void wrap(void)
{
	struct err err = ERR_INIT;

	err_set(&err, EACCES, "denied");
	CU_ASSERT_EQUAL(err_wrap(&err, "listener %d", 2), -1);
	CU_ASSERT_EQUAL(err.code, EACCES);
	CU_ASSERT_STRING_EQUAL(err.text, "listener 2: denied");
	err_set(&err, 1, "again: %s", err.text);
	CU_ASSERT_STRING_EQUAL(err.text, "again: listener 2: denied");
}

/* Whatever the alignment, a cut never leaves part of a character. */
static void cut(void)
{
	static const char *const units[] = { "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\xb3" };

	for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
		for (size_t shift = 0; shift < 4; shift++) {
			char in[ERR_TEXT_MAX + 16];
			size_t size = strlen(units[u]);
			size_t n = shift;
			struct err err = ERR_INIT;

			memset(in, '.', shift);
			while (n + size < sizeof(in)) {
				memcpy(in + n, units[u], size);
				n += size;
			}
			in[n] = '\0';
			err_set(&err, 0, "%s", in);
			UNIT_CHECK((strlen(err.text) - shift) % size == 0, "unit %zu shift %zu", u, shift);
			UNIT_CHECK(strlen(err.text) > ERR_TEXT_MAX - 5, "unit %zu shift %zu", u, shift);
			err_set(&err, 0, "tail %s", units[u]);
			err_wrap(&err, "%s", in);
			/* Part of ": " may fit behind the cut context; no part of a character may. */
			size_t len = strcspn(err.text, ":");
			UNIT_CHECK((len - shift) % size == 0, "wrapped unit %zu shift %zu", u, shift);
		}
	}
}

static const struct unit_test tests[] = {
	{ "set", set },
	{ "errno", from_errno },
	{ "wrap", wrap },
	{ "cut", cut },
};

UNIT_MAIN("err", tests)
