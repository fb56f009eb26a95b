/* The engine's multiplexed stream, split at every byte. */
#include "controller/demux.h"

#include "tests/unit/unit.h"

struct sink {
	char text[4][512];
	size_t len[4];
};

static void feed(struct demux *d, const char *p, size_t n, struct sink *s)
{
	size_t used;
	uint8_t stream;
	struct slice run;

	while (demux_next(d, p, n, &used, &stream, &run)) {
		memcpy(s->text[stream] + s->len[stream], run.p, run.len);
		s->len[stream] += run.len;
		p += used;
		n -= used;
	}
}

static const char frames[] = "\1\0\0\0\0\0\0\5hello" "\2\0\0\0\0\0\0\3err" "\1\0\0\0\0\0\0\0" "\3\0\0\0\0\0\0\1!" "\1\0\0\0\0\0\1\2"
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	"0123456789abcdef0123456789abcdefXY";

static void check_all(const struct sink *s, size_t cut)
{
	UNIT_CHECK(s->len[1] == 5 + 258 && memcmp(s->text[1], "hello0123", 9) == 0, "cut %zu", cut);
	UNIT_CHECK(memcmp(s->text[1] + s->len[1] - 2, "XY", 2) == 0, "cut %zu", cut);
	UNIT_CHECK(s->len[2] == 3 && memcmp(s->text[2], "err", 3) == 0, "cut %zu", cut);
	UNIT_CHECK(s->len[3] == 1 && s->text[3][0] == '!', "cut %zu", cut);
}

static void test_split(void)
{
	size_t n = sizeof(frames) - 1;

	for (size_t cut = 0; cut <= n; cut++) {
		struct sink s = { .len = { 0 } };
		struct demux d;

		demux_init(&d);
		feed(&d, frames, cut, &s);
		feed(&d, frames + cut, n - cut, &s);
		check_all(&s, cut);
		UNIT_CHECK(demux_complete(&d), "cut %zu", cut);
	}
}

static void test_single_bytes(void)
{
	struct sink s = { .len = { 0 } };
	struct demux d;

	demux_init(&d);
	for (size_t i = 0; i < sizeof(frames) - 1; i++)
		feed(&d, frames + i, 1, &s);
	check_all(&s, 0);
}

static void test_broken(void)
{
	static const char *const headers[] = { "\4\0\0\0\0\0\0\1", "\1\1\0\0\0\0\0\1", "HTTP/1.1" };

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		struct sink s = { .len = { 0 } };
		struct demux d;

		demux_init(&d);
		feed(&d, headers[i], 8, &s);
		UNIT_CHECK(d.broken && !demux_complete(&d), "header %zu", i);
		feed(&d, frames, sizeof(frames) - 1, &s);
		UNIT_CHECK(s.len[1] == 0, "header %zu: what follows is not read", i);
	}
}

static void test_truncated(void)
{
	struct sink s = { .len = { 0 } };
	struct demux d;

	demux_init(&d);
	feed(&d, "\1\0\0\0\377\377\377\377ab", 10, &s);
	CU_ASSERT(!d.broken && !demux_complete(&d) && s.len[1] == 2);
	demux_init(&d);
	feed(&d, "\1\0\0", 3, &s);
	CU_ASSERT(!demux_complete(&d));
}

static const struct unit_test tests[] = {
	{ "split", test_split },
	{ "single-bytes", test_single_bytes },
	{ "broken", test_broken },
	{ "truncated", test_truncated },
};

UNIT_MAIN("demux", tests)
