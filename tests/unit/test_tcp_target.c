/* Pinned TCP targets: spellings, limits, and the list that is read again. */
#include "controller/tcp_target.h"

#include <stdlib.h>

#include "tests/unit/unit.h"

static void test_entries(void)
{
	static const struct {
		const char *entry, *list, *error;
	} rows[] = {
		{ "db.example:5432", "5432=db.example:5432", NULL },
		{ "DB.Example:65535", "65535=db.example:65535", NULL },
		{ "443=db.example:5432", "443=db.example:5432", NULL },
		{ "db.example", NULL, "HOST:PORT" },
		{ "", NULL, "HOST:PORT" },
		{ "=", NULL, "HOST:PORT" },
		{ ":5432", NULL, "host name" },
		{ "db.example:", NULL, "1 to 65535" },
		{ "db.example:0", NULL, "1 to 65535" },
		{ "db.example:05432", NULL, "1 to 65535" },
		{ "db.example:65536", NULL, "1 to 65535" },
		{ "db.example:+1", NULL, "1 to 65535" },
		{ "=db.example:1", NULL, "1 to 65535" },
		{ "0=db.example:1", NULL, "1 to 65535" },
		{ "1=2=db.example:1", NULL, "host name" },
		{ "db.example:1-9", NULL, "range" },
		{ "1-9=db.example:1", NULL, "range" },
		{ "udp:db.example:53", NULL, "UDP" },
		{ "53=udp:db.example:53", NULL, "UDP" },
		{ "db.example:53/udp", NULL, "UDP" },
		{ "db.example:53/UDP", NULL, "UDP" },
		{ "10.0.0.1:1", NULL, "IP address" },
		{ "[::1]:1", NULL, "IP address" },
		{ "*.example:1", NULL, "host name" },
		{ "db.example:1@10.0.0.1", NULL, "1 to 65535" },
		{ "a b.example:1", NULL, "host name" },
		{ "b\xc3\xbc.example:1", NULL, "punycode" },
		{ "a_b.example:1", NULL, "no underscore" },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example:1", NULL, "at most 63" },
		{ "db.example:3128", NULL, "listens on port 3128" },
		{ "5432=db.example:3128", "5432=db.example:3128", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_free char *list = NULL;
		struct err err = ERR_INIT;
		int rc = tcp_target_add(&list, slice_str(rows[i].entry), 3128, &err);
		UNIT_CHECK(rc == (rows[i].list != NULL ? 0 : -1), "%s: %s", rows[i].entry, err.text);
		if (rows[i].list != NULL)
			UNIT_CHECK(list != NULL && strcmp(list, rows[i].list) == 0, "%s: %s", rows[i].entry, list);
		else
			UNIT_CHECK(list == NULL && strstr(err.text, rows[i].error) != NULL, "%s: %s", rows[i].entry, err.text);
	}
}

static void test_lists(void)
{
	auto_free char *list = NULL;
	struct err err = ERR_INIT;
	char entry[64];

	for (unsigned i = 0; i < TCP_TARGETS_MAX; i++) {
		snprintf(entry, sizeof(entry), "%u=db.example:5432", 1000 + i);
		CU_ASSERT_FATAL(tcp_target_add(&list, slice_str(entry), 3128, &err) == 0);
	}
	CU_ASSERT(tcp_target_add(&list, SLICE_LIT("1001=x.example:1"), 3128, &err) != 0 && strstr(err.text, "port 1001") != NULL);
	CU_ASSERT(tcp_target_add(&list, SLICE_LIT("1=x.example:1"), 3128, &err) != 0 && strstr(err.text, "at most") != NULL);
	const char *rest = list;
	struct tcp_target t;
	unsigned n = 0;
	for (; tcp_target_next(&rest, &t); n++)
		CU_ASSERT(t.listen == 1000 + n && t.port == 5432 && slice_is(t.host, "db.example") && !t.pinned);
	CU_ASSERT(n == TCP_TARGETS_MAX);
}

/* Labels are the engine's to keep, and anybody's to write. */
static void test_reading(void)
{
	const char *rest = "5432=db.example:5432@192.0.2.7,2001:db8::7  1=a.example:2", *none = "", *odd[] = { "x", "=", "1=", "a:1", "1=b:", ":=", "@", "1=@a:1" };
	struct tcp_target t;

	CU_ASSERT_FATAL(tcp_target_next(&rest, &t));
	CU_ASSERT(t.pinned && t.port == 5432 && slice_is(t.host, "db.example"));
	CU_ASSERT(slice_is(t.text, "5432=db.example:5432@192.0.2.7,2001:db8::7"));
	CU_ASSERT(tcp_target_next(&rest, &t) && !t.pinned && t.listen == 1 && t.port == 2);
	CU_ASSERT(!tcp_target_next(&rest, &t));
	CU_ASSERT(!tcp_target_next(&none, &t));
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		rest = odd[i];
		UNIT_CHECK(!tcp_target_next(&rest, &t), "%s", odd[i]);
	}
}

static const struct unit_test tests[] = {
	{ "entries", test_entries },
	{ "lists", test_lists },
	{ "reading", test_reading },
};

UNIT_MAIN("tcp_target", tests)
