/* The nonce in a stream, split at every byte, with false starts. */
#include "controller/mark.h"

#include "tests/unit/unit.h"

static const uint8_t seed[16] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8 };

struct sink {
	char data[512];
	size_t len;
	unsigned hits;
	size_t hit_at; /* data bytes before the first hit */
};

static void feed(struct mark *m, const char *p, size_t n, struct sink *s)
{
	size_t used;
	struct slice run;

	for (;;) {
		enum mark_result r = mark_next(m, p, n, &used, &run);

		if (r == MARK_DATA) {
			memcpy(s->data + s->len, run.p, run.len);
			s->len += run.len;
		} else if (r == MARK_HIT && s->hits++ == 0) {
			s->hit_at = s->len;
		}
		p += used;
		n -= used;
		if (r == MARK_MORE)
			return;
	}
}

static void test_nonce(void)
{
	struct mark m;

	mark_init(&m, seed);
	CU_ASSERT(strlen(m.nonce) == MARK_LENGTH);
	CU_ASSERT(strchr(m.nonce + 1, m.nonce[0]) == NULL);
}

/* Texts with %s for the nonce and %.Ns for the beginning of one. */
static void test_split(void)
{
	struct mark m;
	char text[512], plain[512];

	mark_init(&m, seed);
	size_t n = (size_t)snprintf(text, sizeof(text), "aZ%.9sbZ%sc%.20s%.33sZZtail%.5s", m.nonce, m.nonce, m.nonce, m.nonce,
		m.nonce);
	size_t np = (size_t)snprintf(plain, sizeof(plain), "aZ%.9sbZc%.20sZZtail%.5s", m.nonce, m.nonce, m.nonce);
	for (size_t cut = 0; cut <= n; cut++) {
		struct sink s = { .len = 0 };

		mark_init(&m, seed);
		feed(&m, text, cut, &s);
		feed(&m, text + cut, n - cut, &s);
		struct slice rest = mark_rest(&m);
		memcpy(s.data + s.len, rest.p, rest.len);
		s.len += rest.len;
		UNIT_CHECK(s.hits == 2 && s.hit_at == 13, "cut %zu: hits %u at %zu", cut, s.hits, s.hit_at);
		UNIT_CHECK(s.len == np && memcmp(s.data, plain, np) == 0, "cut %zu: %.*s", cut, (int)s.len, s.data);
	}
}

static const struct unit_test tests[] = {
	{ "nonce", test_nonce },
	{ "split", test_split },
};

UNIT_MAIN("mark", tests)
