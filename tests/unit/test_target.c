/* Request targets: one spelling, each fault, decoding once. */
#include "libgate/target.h"

#include "libgate/buf.h"
#include "libgate/utf8.h"
#include "tests/unit/unit.h"

#define S8 "/s/s/s/s/s/s/s/s"

static const struct {
	struct slice in;
	enum target_fault fault;
} rows[] = {
	{ SLICE_LIT("/"), TARGET_OK },
	{ SLICE_LIT("/_ping"), TARGET_OK },
	{ SLICE_LIT("/v1.41/images/registry.example/a/b:1/json"), TARGET_OK },
	{ SLICE_LIT("/images/a%2Fb@sha256:0/json"), TARGET_OK },
	{ SLICE_LIT("/..."), TARGET_OK },
	{ SLICE_LIT(S8 S8 S8 S8), TARGET_OK },
	{ SLICE_LIT("/a?b=c"), TARGET_OK },
	{ SLICE_LIT("/a?b="), TARGET_OK },
	{ SLICE_LIT("/a?b=/c:d@e,f!$'()*"), TARGET_OK },
	{ SLICE_LIT("/a?%6eame=%7b%22k%22%3A%5B%22x%3D%C3%A9%22%5D%7D"), TARGET_OK },
	{ SLICE_LIT("/a?b=%0a"), TARGET_OK },
	{ SLICE_LIT("/a?1=&2=&3=&4=&5=&6=&7=&8=&9=&a=&b=&c=&d=&e=&f=&g="), TARGET_OK },

	{ SLICE_LIT(""), TARGET_FAULT_FORM },
	{ SLICE_LIT("*"), TARGET_FAULT_FORM },
	{ SLICE_LIT("a/b"), TARGET_FAULT_FORM },
	{ SLICE_LIT("example.com:443"), TARGET_FAULT_FORM },
	{ SLICE_LIT("http://d/_ping"), TARGET_FAULT_FORM },
	{ SLICE_LIT("?a=b"), TARGET_FAULT_FORM },

	{ SLICE_LIT("/a#b"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/a;b"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/a\\b"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/a b"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/a\0b"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/\xc3\xa9"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/a|b"), TARGET_FAULT_BYTE },
	{ SLICE_LIT("/{a}"), TARGET_FAULT_BYTE },

	{ SLICE_LIT("//"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("//a"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/a//b"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/a/"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/a/?b=c"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/./a"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/a/."), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/a/../b"), TARGET_FAULT_CANONICAL },
	{ SLICE_LIT("/.."), TARGET_FAULT_CANONICAL },

	{ SLICE_LIT(S8 S8 S8 S8 "/s"), TARGET_FAULT_SEGMENTS },

	{ SLICE_LIT("/a?b=c#d"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b=c;d=e"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b=c+d"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a??b=c"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b={}"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b=\""), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b=\\"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b= "), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b=\0"), TARGET_FAULT_QUERY_BYTE },
	{ SLICE_LIT("/a?b=\xc3\xa9"), TARGET_FAULT_QUERY_BYTE },

	{ SLICE_LIT("/a?b=%"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%4"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%4g"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%u0041"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%00"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b%00=c"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%ff"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%c0%af"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%ed%a0%80"), TARGET_FAULT_QUERY_ESCAPE },
	{ SLICE_LIT("/a?b=%c3&c=%a9"), TARGET_FAULT_QUERY_ESCAPE },

	{ SLICE_LIT("/a?"), TARGET_FAULT_QUERY_PAIR },
	{ SLICE_LIT("/a?b"), TARGET_FAULT_QUERY_PAIR },
	{ SLICE_LIT("/a?=c"), TARGET_FAULT_QUERY_PAIR },
	{ SLICE_LIT("/a?b=c&"), TARGET_FAULT_QUERY_PAIR },
	{ SLICE_LIT("/a?&b=c"), TARGET_FAULT_QUERY_PAIR },
	{ SLICE_LIT("/a?b=c&&d=e"), TARGET_FAULT_QUERY_PAIR },
	{ SLICE_LIT("/a?b=c=d"), TARGET_FAULT_QUERY_PAIR },

	{ SLICE_LIT("/a?b=c&b=c"), TARGET_FAULT_QUERY_DUPLICATE },
	{ SLICE_LIT("/a?name=c&n%61me=d"), TARGET_FAULT_QUERY_DUPLICATE },

	{ SLICE_LIT("/a?1=&2=&3=&4=&5=&6=&7=&8=&9=&a=&b=&c=&d=&e=&f=&g=&h="), TARGET_FAULT_QUERY_COUNT },
};

static struct target t;

/* An exact copy: AddressSanitizer sees a read past the end. */
static enum target_fault parse(struct slice in, char **copy)
{
	*copy = malloc(in.len > 0 ? in.len : 1);
	if (in.len > 0)
		memcpy(*copy, in.p, in.len);
	return target_parse(&t, slice_make(*copy, in.len));
}

static void outcomes(void)
{
	bool seen[TARGET_FAULT_COUNT] = { false };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_free char *copy = NULL;
		enum target_fault f = parse(rows[i].in, &copy);

		UNIT_CHECK(f == rows[i].fault, "%s: %s", rows[i].in.p, target_fault_id(f));
		seen[rows[i].fault] = true;
	}
	seen[TARGET_FAULT_SIZE] = true; /* size() */
	for (int f = 0; f < TARGET_FAULT_COUNT; f++)
		UNIT_CHECK(seen[f], "%s", target_fault_id((enum target_fault)f));
}

/* What a refusal points at. */
static void suspect(void)
{
	static const struct {
		const char *in, *name;
	} named[] = {
		{ "/a?b=c&name=d;e", "name" },
		{ "/a?b=c&name=%zz&e=f", "name" },
		{ "/a?n%61me=%00", "name" },
		{ "/a?n%zzme=c", "n%zzme" },
		{ "/a?b=c&n%61me=d&name=e", "name" },
		{ "/a?b=c&name", "name" },
		{ "/a?name=b=c", "name" },
		{ "/a?b=c&", "" },
		{ "/a?=c", "" },
		{ "/a//b?name=c", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		UNIT_CHECK(target_parse(&t, slice_str(named[i].in)) != TARGET_OK, "%s", named[i].in);
		UNIT_CHECK(slice_is(t.suspect, named[i].name), "%s: %.*s", named[i].in, SLICE_ARG(t.suspect));
	}
}

static void size(void)
{
	char in[TARGET_MAX + 1];

	memset(in, 'a', sizeof(in));
	in[0] = '/';
	CU_ASSERT_EQUAL(target_parse(&t, slice_make(in, TARGET_MAX)), TARGET_OK);
	CU_ASSERT_EQUAL(target_parse(&t, slice_make(in, TARGET_MAX + 1)), TARGET_FAULT_SIZE);
	/* Escapes from end to end fit the scratch space. */
	memcpy(in, "/?a=", 4);
	for (size_t i = 4; i + 3 <= TARGET_MAX; i += 3)
		memcpy(in + i, "%41", 3);
	CU_ASSERT_EQUAL(target_parse(&t, slice_make(in, 4 + (TARGET_MAX - 4) / 3 * 3)), TARGET_OK);
	CU_ASSERT_EQUAL(target_param(&t, "a").len, (TARGET_MAX - 4) / 3);
}

static void parts(void)
{
	CU_ASSERT_EQUAL_FATAL(target_parse(&t, slice_str("/v1.41/containers/cap-a?n%61me=x%2fy%2525&empty=&z=1")), TARGET_OK);
	CU_ASSERT(slice_is(t.path, "/v1.41/containers/cap-a"));
	CU_ASSERT_EQUAL_FATAL(t.nsegments, 3);
	CU_ASSERT(slice_is(t.segments[0], "v1.41"));
	CU_ASSERT(slice_is(t.segments[2], "cap-a"));
	CU_ASSERT_EQUAL_FATAL(t.nparams, 3);
	CU_ASSERT(slice_is(t.params[0].name, "name"));
	CU_ASSERT(slice_is(target_param(&t, "name"), "x/y%25"));
	CU_ASSERT(slice_is(target_param(&t, "empty"), ""));
	CU_ASSERT_PTR_NOT_NULL(target_param(&t, "empty").p);
	CU_ASSERT(slice_is(target_param(&t, "z"), "1"));
	CU_ASSERT_PTR_NULL(target_param(&t, "n%61me").p);
	CU_ASSERT_PTR_NULL(target_param(&t, "Name").p);
	CU_ASSERT_EQUAL(target_parse(&t, slice_str("/")), TARGET_OK);
	CU_ASSERT_EQUAL(t.nsegments, 0);
	CU_ASSERT_EQUAL(t.nparams, 0);
}

static void decoding(void)
{
	static const struct {
		const char *in, *allowed, *out; /* out NULL: refused */
	} cases[] = {
		{ "plain", "/", "plain" },
		{ "", "/", "" },
		{ "a%2Fb%3a1%40x", "/:@", "a/b:1@x" },
		{ "a%2fb", ":", NULL },
		{ "%41", "/:@", NULL },
		{ "a%252Fb", "/:@", NULL },
		{ "a%25", "/:@%", "a%" },
		{ "%00", "/", NULL },
		{ "%", "/", NULL },
		{ "%2", "/", NULL },
		{ "%2x", "/", NULL },
		{ "a%2F", "/", "a/" },
		{ "%ff", "/\xff", "\xff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct slice out = SLICE_LIT("untouched");

		CU_ASSERT_EQUAL_FATAL(target_parse(&t, slice_str("/x")), TARGET_OK);
		bool ok = target_decode(&t, slice_str(cases[i].in), cases[i].allowed, &out);
		UNIT_CHECK(ok == (cases[i].out != NULL), "%s", cases[i].in);
		if (ok)
			UNIT_CHECK(slice_is(out, cases[i].out), "%s", cases[i].in);
	}
	/* The scratch space ends: refused, not overrun. */
	CU_ASSERT_EQUAL_FATAL(target_parse(&t, slice_str("/x")), TARGET_OK);
	unsigned n = 0;
	struct slice out;
	while (n < 10 * TARGET_MAX && target_decode(&t, slice_str("%2F"), "/", &out))
		n++;
	CU_ASSERT_EQUAL(n, TARGET_MAX);
}

static void encoding(void)
{
	struct buf b;

	buf_init(&b, 1000);
	CU_ASSERT_EQUAL(target_put_query_value(&b, SLICE_LIT("a/b:1@-._~ +&=%\xc3\xa9\0")), 0);
	CU_ASSERT(slice_is(buf_slice(&b), "a/b:1%40-._~%20%2B%26%3D%25%C3%A9%00"));
	buf_release(&b);
	buf_init(&b, 4);
	CU_ASSERT_EQUAL(buf_putc(&b, 'x'), 0);
	CU_ASSERT_EQUAL(target_put_query_value(&b, SLICE_LIT("a\xff")), -1);
	CU_ASSERT(slice_is(buf_slice(&b), "x"));
	buf_release(&b);
}

/* What is written back is read again as the same value, for every byte that a value may hold. */
static void round_trip(void)
{
	for (unsigned c = 1; c < 128; c++) {
		char value[2] = { (char)c, 'x' };
		struct buf b;

		buf_init(&b, 100);
		CU_ASSERT_EQUAL(buf_puts(&b, "/a?v="), 0);
		CU_ASSERT_EQUAL(target_put_query_value(&b, slice_make(value, 2)), 0);
		UNIT_CHECK(target_parse(&t, buf_slice(&b)) == TARGET_OK, "byte 0x%02x", c);
		UNIT_CHECK(slice_eq(target_param(&t, "v"), slice_make(value, 2)), "byte 0x%02x", c);
		buf_release(&b);
	}
}

static void utf8(void)
{
	static const struct {
		const char *text;
		bool valid;
	} cases[] = {
		{ "", true },
		{ "a\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", true },
		{ "\x80", false },
		{ "\xc1\xbf", false },
		{ "\xe0\x9f\xbf", false },
		{ "\xed\xa0\x80", false },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf5\x80\x80\x80", false },
		{ "\xe2\x82", false },
		{ "\xe2\x82z", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		UNIT_CHECK(utf8_valid(slice_str(cases[i].text)) == cases[i].valid, "case %zu", i);
}

static const struct unit_test tests[] = {
	{ "outcomes", outcomes },
	{ "suspect", suspect },
	{ "size", size },
	{ "parts", parts },
	{ "decoding", decoding },
	{ "encoding", encoding },
	{ "round-trip", round_trip },
	{ "utf8", utf8 },
};

UNIT_MAIN("target", tests)
