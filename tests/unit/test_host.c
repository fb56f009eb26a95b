/* Host names and authorities: the table of spellings in tests/cases/egress-hosts.tsv, and lengths. */
#include "egressd/host.h"

#include "tests/unit/unit.h"

static size_t unescape(const char *in, size_t len, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < size; i++) {
		unsigned byte;
		char hex[3] = { 0 };
		if (in[i] == '\\' && i + 1 < len && in[i + 1] == '\\') {
			out[n++] = '\\';
			i++;
		} else if (in[i] == '\\' && i + 3 < len && in[i + 1] == 'x') {
			memcpy(hex, in + i + 2, 2);
			byte = (unsigned)strtoul(hex, NULL, 16);
			out[n++] = (char)byte;
			i += 3;
		} else {
			out[n++] = in[i];
		}
	}
	return n;
}

static void check_line(char *line)
{
	char *rest = line, *authority = strsep(&rest, "\t"), *reason = strsep(&rest, "\t"), *name = strsep(&rest, "\t");
	char text[512];
	struct host host = { 0, "" };
	uint16_t port = 0;

	if (!UNIT_CHECK(reason != NULL, "%s", line))
		return;
	size_t n = unescape(authority, strlen(authority), text, sizeof(text));
	enum reason r = authority_parse(slice_make(text, n), 0, &host, &port);
	UNIT_CHECK(strcmp(reason_id(r), reason) == 0, "%s gives %s", authority, reason_id(r));
	if (r != REASON_OK)
		return;
	UNIT_CHECK(name != NULL && strcmp(host.name, name) == 0, "%s gives %s", authority, host.name);
	UNIT_CHECK(rest != NULL && (unsigned long)port == strtoul(rest, NULL, 10), "%s gives port %u", authority,
		(unsigned)port);
}

static void test_spellings(void)
{
	const char *dir = getenv("srcdir");
	char path[1024], line[1024];
	unsigned cases = 0;

	snprintf(path, sizeof(path), "%s/tests/cases/egress-hosts.tsv", dir != NULL ? dir : ".");
	FILE *f = fopen(path, "r");
	if (!UNIT_CHECK(f != NULL, "%s", path))
		return;
	while (fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' || line[0] == '\0')
			continue;
		check_line(line);
		cases++;
	}
	fclose(f);
	CU_ASSERT(cases > 80);
}

static void test_longest_name(void)
{
	char text[300];
	struct host host;
	size_t n = 0;

	while (n < 252) {
		text[n] = n % 64 == 63 ? '.' : 'a';
		n++;
	}
	text[n++] = 'z';
	CU_ASSERT_EQUAL(host_parse(slice_make(text, 253), &host), REASON_OK);
	CU_ASSERT_EQUAL(host.len, 253);
	text[253] = '.';
	CU_ASSERT_EQUAL(host_parse(slice_make(text, 254), &host), REASON_OK);
	CU_ASSERT_EQUAL(host.len, 253);
	text[253] = 'y';
	CU_ASSERT_EQUAL(host_parse(slice_make(text, 254), &host), REASON_HOST_SYNTAX);
}

static void test_missing_port_takes_the_default(void)
{
	struct host host;
	uint16_t port = 0;

	CU_ASSERT_EQUAL(authority_parse(SLICE_LIT("a.test"), 80, &host, &port), REASON_OK);
	CU_ASSERT_EQUAL(port, 80);
	CU_ASSERT_EQUAL(authority_parse(SLICE_LIT("a.test:"), 80, &host, &port), REASON_PORT_SYNTAX);
	CU_ASSERT_EQUAL(authority_parse(SLICE_LIT(""), 80, &host, &port), REASON_HOST_SYNTAX);
}

static void test_every_reason_has_a_row(void)
{
	for (int i = 0; i < REASON_COUNT; i++) {
		UNIT_CHECK(reason_id((enum reason)i) != NULL && reason_text((enum reason)i) != NULL, "%d", i);
		for (int j = 0; j < i; j++)
			UNIT_CHECK(strcmp(reason_id((enum reason)i), reason_id((enum reason)j)) != 0, "%d %d", i, j);
		int status = reason_status((enum reason)i);
		UNIT_CHECK(status == 200 || (status >= 400 && status < 600), "%s", reason_id((enum reason)i));
	}
}

static const struct unit_test tests[] = {
	{ "spellings", test_spellings },
	{ "longest_name", test_longest_name },
	{ "missing_port_takes_the_default", test_missing_port_takes_the_default },
	{ "every_reason_has_a_row", test_every_reason_has_a_row },
};

UNIT_MAIN("host", tests)
