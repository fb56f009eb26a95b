/*
 * The runner of a unit test program: one table of tests, CUnit's own report, a non-zero exit on any failure.
 *
 *     test_buf                 runs all
 *     test_buf ceiling json    runs these
 *     test_buf --list          prints the names
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "libgate/util.h"

struct unit_test {
	const char *name;
	void (*run)(void);
};

/* An assertion that names its case: for tests that run over a table. */
#define UNIT_CHECK(cond, ...) unit_check((cond), __LINE__, __FILE__, #cond, __VA_ARGS__)

static inline bool __attribute__((format(printf, 5, 6)))
unit_check(bool ok, unsigned line, const char *file, const char *cond, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (ok) {
		CU_assertImplementation(CU_TRUE, line, cond, file, "", CU_FALSE);
		return true;
	}
	size_t n = (size_t)snprintf(text, sizeof(text), "%s in ", cond);
	va_start(ap, fmt);
	if (n < sizeof(text))
		vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	CU_assertImplementation(CU_FALSE, line, text, file, "", CU_FALSE);
	return false;
}

static inline bool unit_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

/* A program with no test to run fails: a mistyped name must not look like success. */
static inline int unit_main(const char *suite_name, const struct unit_test *tests, size_t n, int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < n; i++)
			puts(tests[i].name);
		return 0;
	}
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 2;
	CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
	unsigned added = 0;
	for (size_t i = 0; suite != NULL && i < n; i++)
		if (unit_wanted(tests[i].name, argc, argv) && CU_add_test(suite, tests[i].name, tests[i].run) != NULL)
			added++;
	if (added == 0) {
		fprintf(stderr, "%s: no test of that name; --list prints them\n", suite_name);
		CU_cleanup_registry();
		return 2;
	}
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_ErrorCode e = CU_basic_run_tests();
	unsigned failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
	unsigned asserted = CU_get_number_of_asserts();
	CU_cleanup_registry();
	if (e == CUE_SUCCESS && failed == 0 && asserted == 0)
		fprintf(stderr, "%s: nothing was asserted\n", suite_name);
	return e == CUE_SUCCESS && failed == 0 && asserted > 0 ? 0 : 1;
}

#define UNIT_MAIN(suite_name, tests) \
	int main(int argc, char **argv) \
	{ \
		return unit_main((suite_name), (tests), ARRAY_SIZE(tests), argc, argv); \
	}

#endif
