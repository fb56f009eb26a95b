/* The ClientHello reader: names, the ways to have none, and every split of the bytes. */
#include "egressd/hello.h"

#include "tests/unit/unit.h"

struct bytes {
	uint8_t p[2 * HELLO_MAX];
	size_t n;
};

static void put(struct bytes *b, const void *p, size_t n)
{
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static void put_number(struct bytes *b, size_t width, size_t value)
{
	while (width-- > 0)
		b->p[b->n++] = (uint8_t)(value >> (8 * width));
}

/* A handshake message; name NULL: no server name. twice: the extension stands there two times. */
static struct bytes message(const char *name, bool ech, bool twice)
{
	struct bytes ext = { .n = 0 }, out = { .n = 0 };
	size_t n = name != NULL ? strlen(name) : 0;

	for (int i = 0; name != NULL && i < (twice ? 2 : 1); i++) {
		put_number(&ext, 2, 0);
		put_number(&ext, 2, n + 5);
		put_number(&ext, 2, n + 3);
		put_number(&ext, 1, 0);
		put_number(&ext, 2, n);
		put(&ext, name, n);
	}
	if (ech) {
		put_number(&ext, 2, 0xfe0d);
		put_number(&ext, 2, 1);
		put_number(&ext, 1, 0);
	}
	put_number(&out, 1, 1);
	put_number(&out, 3, 2 + 32 + 1 + 4 + 2 + 2 + ext.n);
	put_number(&out, 2, 0x0303);
	out.n += 32;
	put_number(&out, 1, 0);
	put_number(&out, 2, 2);
	put_number(&out, 2, 0x1301);
	put_number(&out, 2, 0x0100);
	put_number(&out, 2, ext.n);
	put(&out, ext.p, ext.n);
	return out;
}

/* The message in records of at most `size` bytes. */
static struct bytes records(const struct bytes *m, size_t size)
{
	struct bytes out = { .n = 0 };

	for (size_t at = 0; at < m->n; at += size) {
		size_t n = m->n - at < size ? m->n - at : size;
		put_number(&out, 1, 22);
		put_number(&out, 2, 0x0301);
		put_number(&out, 2, n);
		put(&out, m->p + at, n);
	}
	return out;
}

/* Reads in steps of `step` bytes and says what came out at the end. */
static enum hello_result read_by(const struct bytes *b, size_t step, struct host *name, bool *ech)
{
	struct hello h;
	enum hello_result r = HELLO_MORE;

	hello_init(&h);
	for (size_t at = 0; at < b->n && r == HELLO_MORE; at += step)
		r = hello_read(&h, b->p + at, b->n - at < step ? b->n - at : step);
	if (name != NULL)
		*name = h.name;
	if (ech != NULL)
		*ech = h.ech;
	hello_release(&h);
	return r;
}

static void test_name_however_split(void)
{
	struct bytes m = message("Allowed.Test", false, false);

	for (size_t size = 2; size <= m.n; size++) {
		struct bytes b = records(&m, size);
		for (size_t step = 1; step <= b.n; step += step < 8 ? 1 : 7) {
			struct host name = { 0, "" };
			enum hello_result r = read_by(&b, step, &name, NULL);
			UNIT_CHECK(r == HELLO_NAME && strcmp(name.name, "allowed.test") == 0, "records of %zu, steps of %zu: %d",
				size, step, (int)r);
		}
	}
}

static void test_every_cut_waits_for_more(void)
{
	struct bytes m = message("allowed.test", true, false), b = records(&m, 4096);

	for (size_t n = 0; n < b.n; n++) {
		struct bytes cut = b;
		cut.n = n;
		UNIT_CHECK(read_by(&cut, 4096, NULL, NULL) == HELLO_MORE, "%zu bytes", n);
	}
}

static void test_encrypted_hello_is_noticed(void)
{
	struct bytes m = message("public.test", true, false), b = records(&m, 4096);
	struct host name;
	bool ech = false;

	CU_ASSERT_EQUAL(read_by(&b, 4096, &name, &ech), HELLO_NAME);
	CU_ASSERT(ech);
	m = message("public.test", false, false);
	b = records(&m, 4096);
	CU_ASSERT_EQUAL(read_by(&b, 4096, &name, &ech), HELLO_NAME);
	CU_ASSERT(!ech);
}

static void test_no_name(void)
{
	struct bytes m = message(NULL, false, false), b = records(&m, 4096);

	CU_ASSERT_EQUAL(read_by(&b, 4096, NULL, NULL), HELLO_MISSING);
	m.n -= 2; /* no extensions at all, as TLS 1.0 may */
	m.p[3] = (uint8_t)(m.p[3] - 2);
	b = records(&m, 4096);
	CU_ASSERT_EQUAL(read_by(&b, 4096, NULL, NULL), HELLO_MISSING);
}

static void test_names_that_are_none(void)
{
	static const char *const bad[] = { "", "allowed.test.", "127.0.0.1", "[::1]", "a..b", "\xc3\xbcml\xc3\xa4ut.test", "a b" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct bytes m = message(bad[i], false, false), b = records(&m, 4096);
		UNIT_CHECK(read_by(&b, 4096, NULL, NULL) == HELLO_MALFORMED, "%s", bad[i]);
	}
	struct bytes m = message("allowed.test", false, true), b = records(&m, 4096);
	CU_ASSERT_EQUAL(read_by(&b, 4096, NULL, NULL), HELLO_MALFORMED);
}

/* What clients of all ages send: the version, GREASE (RFC 8701) around the name, much after it, up to the limit. */
static void test_shapes(void)
{
	static const struct {
		unsigned version;
		bool grease;
		size_t padding;
		enum hello_result result;
	} rows[] = {
		{ 0x0301, false, 0, HELLO_NAME }, /* TLS 1.0 */
		{ 0x0302, false, 0, HELLO_NAME },
		{ 0x0303, false, 0, HELLO_NAME },
		{ 0x0304, false, 0, HELLO_NAME }, /* nobody's legacy_version, and no harm */
		{ 0x0300, false, 0, HELLO_NAME }, /* SSL 3.0 with extensions: the server refuses it */
		{ 0x0200, false, 0, HELLO_MALFORMED },
		{ 0x0303, true, 0, HELLO_NAME },
		{ 0x0303, true, 1800, HELLO_NAME }, /* post-quantum key shares */
		{ 0x0303, true, SIZE_MAX, HELLO_NAME }, /* as long as it may be */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bytes plain = message("allowed.test", false, false), m = { .n = 0 };
		size_t fixed = 4 + 2 + 32 + 1 + 32 + 2 + 4 + 2 + 2, name = plain.n - 47, grease = rows[i].grease ? 4 : 0;
		size_t pad = rows[i].padding == SIZE_MAX ? HELLO_MAX + 4 - fixed - name - 2 * grease - 4 : rows[i].padding;
		size_t extensions = name + 2 * grease + (pad > 0 ? 4 + pad : 0);
		put_number(&m, 1, 1);
		put_number(&m, 3, fixed - 4 + extensions);
		put_number(&m, 2, rows[i].version);
		m.n += 32;
		put_number(&m, 1, 32); /* a session id */
		m.n += 32;
		put_number(&m, 2, 4);
		put_number(&m, 2, rows[i].grease ? 0x3a3a : 0x1302);
		put_number(&m, 2, 0x1301);
		put_number(&m, 2, 0x0100);
		put_number(&m, 2, extensions);
		put_number(&m, rows[i].grease ? 4 : 0, 0x0a0a0000);
		put(&m, plain.p + 47, name);
		put_number(&m, rows[i].grease ? 4 : 0, 0xfafa0000);
		if (pad > 0) {
			put_number(&m, 2, 21);
			put_number(&m, 2, pad);
			m.n += pad;
		}
		struct bytes b = records(&m, 16000);
		struct host host = { 0, "" };
		enum hello_result r = read_by(&b, 1400, &host, NULL);
		UNIT_CHECK(r == rows[i].result, "row %zu: %d", i, (int)r);
		UNIT_CHECK(r != HELLO_NAME || strcmp(host.name, "allowed.test") == 0, "row %zu", i);
	}
}

static void test_not_tls(void)
{
	static const char *const other[] = { "SSH-2.0-OpenSSH", "GET / HTTP/1.1\r\n", "\x16\x02\x01", "\x15\x03\x01", "\x80\x2e" };

	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		struct bytes b = { .n = 0 };
		put(&b, other[i], strlen(other[i]));
		UNIT_CHECK(read_by(&b, 1, NULL, NULL) == HELLO_NOT_TLS, "%zu", i);
	}
}

/* Any length that does not fit what is around it. */
static void test_every_length_is_checked(void)
{
	struct bytes m = message("allowed.test", false, false);

	for (size_t at = 1; at < m.n; at++) {
		struct bytes bent = m;
		bent.p[at] ^= 0x40;
		struct bytes b = records(&bent, 4096);
		struct host name = { 0, "" };
		enum hello_result r = read_by(&b, 4096, &name, NULL);
		/* Random, cipher suites and letters may change; the name that comes out is still one that stands there whole. */
		UNIT_CHECK(r != HELLO_NAME || name.len == 12 || name.len == 0, "byte %zu gives %s", at, name.name);
	}
}

static void test_bounds(void)
{
	struct bytes b = { .n = 0 };
	struct bytes m = message("allowed.test", false, false);

	put_number(&b, 1, 22);
	put_number(&b, 2, 0x0301);
	put_number(&b, 2, 4);
	put_number(&b, 1, 1);
	put_number(&b, 3, HELLO_MAX + 1);
	CU_ASSERT_EQUAL(read_by(&b, 4096, NULL, NULL), HELLO_MALFORMED);
	b = records(&m, 1); /* a record a byte: more records than any client makes */
	CU_ASSERT_EQUAL(read_by(&b, 4096, NULL, NULL), HELLO_MALFORMED);
}

static const struct unit_test tests[] = {
	{ "name_however_split", test_name_however_split },
	{ "every_cut_waits_for_more", test_every_cut_waits_for_more },
	{ "encrypted_hello_is_noticed", test_encrypted_hello_is_noticed },
	{ "no_name", test_no_name },
	{ "names_that_are_none", test_names_that_are_none },
	{ "shapes", test_shapes },
	{ "not_tls", test_not_tls },
	{ "every_length_is_checked", test_every_length_is_checked },
	{ "bounds", test_bounds },
};

UNIT_MAIN("hello", tests)
