/* Where the engine is: every spelling of an upstream, and a name that is resolved once. */
#include "dockerproxy/resolve.h"

#include <netinet/in.h>

#include "tests/unit/unit.h"

static int resolve(const char *unix_path, const char *tcp, struct engine_addrs *out, struct err *err)
{
	const struct proxy_endpoint at = { .unix_path = (char *)(uintptr_t)unix_path, .tcp = (char *)(uintptr_t)tcp };

	*err = (struct err)ERR_INIT;
	return resolve_engine(&at, out, err);
}

static void test_numbers(void)
{
	struct engine_addrs a;
	struct err err;

	CU_ASSERT_EQUAL_FATAL(resolve(NULL, "127.0.0.1:2375", &a, &err), 0);
	CU_ASSERT(a.n == 1 && a.at[0].addr.ss_family == AF_INET);
	CU_ASSERT_EQUAL(((struct sockaddr_in *)&a.at[0].addr)->sin_port, htons(2375));
	CU_ASSERT_EQUAL_FATAL(resolve(NULL, "[::1]:2376", &a, &err), 0);
	CU_ASSERT(a.n == 1 && a.at[0].addr.ss_family == AF_INET6);
	CU_ASSERT_EQUAL_FATAL(resolve("/run/docker.sock", NULL, &a, &err), 0);
	CU_ASSERT(a.n == 1 && a.at[0].addr.ss_family == AF_UNIX);
}

/* Of the hosts file: both families may be there, the port is on each. */
static void test_name(void)
{
	struct engine_addrs a;
	struct err err;

	if (resolve(NULL, "localhost:2375", &a, &err) < 0) {
		printf("  skipped: %s ", err.text);
		return;
	}
	CU_ASSERT(a.n >= 1 && a.n <= ENGINE_ADDRS);
	for (unsigned i = 0; i < a.n; i++) {
		const struct sockaddr_in *in = (const void *)&a.at[i].addr;
		const struct sockaddr_in6 *in6 = (const void *)&a.at[i].addr;

		CU_ASSERT_EQUAL(in->sin_family == AF_INET ? in->sin_port : in6->sin6_port, htons(2375));
	}
}

static void test_faults(void)
{
	static const char *const bad[] = { "", ":", ":2375", "localhost", "localhost:", "localhost:0", "localhost:65536",
		"localhost:99999999999999999999", "localhost:http", "localhost:-1", "local host:1", "a:b:1", "::1:2375",
		"[::1]", "tcp://localhost:1", "h/x:1", "h%41:1", "\xc3\xa4:1" };
	char path[200];
	struct engine_addrs a;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		UNIT_CHECK(resolve(NULL, bad[i], &a, &err) < 0, "%s", bad[i]);
		UNIT_CHECK(strstr(err.text, "neither ADDRESS:PORT nor NAME:PORT") != NULL, "%s: %s", bad[i], err.text);
	}
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	CU_ASSERT(resolve(path, NULL, &a, &err) < 0);
}

static const struct unit_test tests[] = {
	{ "numbers", test_numbers },
	{ "name", test_name },
	{ "faults", test_faults },
};

UNIT_MAIN("resolve", tests)
