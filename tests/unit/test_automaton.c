/*
 * Automata against PCRE2: on every pattern of the shipped policy and some that are awkward, both must say the same of texts that
 * match, of texts next to those, and of noise.
 */
#include "dockerproxy/automaton.h"

#include <stdint.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "dockerproxy/policy.h"
#include "libgate/buf.h"
#include "libgate/json.h"
#include "tests/unit/unit.h"

#define SUBJECT_MAX 96

/* Texts that some pattern of the policy takes, to begin from. */
static const char *const seeds[] = {
	"", "cap-a", "cap-w.1_x-y", "none", "cap", "kernel", "0", "1000", "1000:1000", "root", "root:wheel", "SIGTERM", "TERM", "9", "64",
	"rw,nosuid,nodev,size=1073741824", "size=64m,mode=1777,uid=1000", "rw,size=1k,size=2k", "/workspace", "/proc/1", "/a/../b", "/",
	"capybara-sandbox:latest", "docker.io/library/busybox:1", "a.b:5000/x/y__z-w@sha256:"
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "A=b", "HTTP_PROXY=http://x:3128", "NVIDIA_X=1", "10m",
	"64M", "127.0.0.1", "example.com", "^[a]\\", "\xc3\xa4", "a\xe2\x82\xac" "b", "\xf0\x9f\x90\xb3", "a\nb", "aab", "abab", "x.y",
};

static const char *const awkward[] = {
	"(a|ab)(c|bcd)(d*)", "(a*)*b", "(a|b)*abb", "((a{0,3}){0,3}){0,3}", "[^a]+[^b]+", "[^a][^b]", ".{2}", ".", ".?x.?", "a{2,}b{0,1}",
	"[]a-c^-]+", "[^]]*", "\\x41[\\x42-\\x44]?", "(?:a|)(b|c|)", "\\d+\\.\\d{1,3}", "[\\w.]+", "\\s*x\\s*", "a-b", "[a-]", "(|x)*",
	"[^\\x00]*", "(\\.|_|__|-+)+",
};

/* Outside the subset: the other matcher keeps them. */
static const char *const left_out[] = {
	"a*?", "a++", "(?=a)a", "(?!a)b", "(a)\\1", "\\bx", "a{2000}", "\xc3\xa4", "[\xc3\xa4]", "[[:alpha:]]", "a^b", "a$b", "\\D", "{", "a)",
	"(a", "[a", "((((){256}){256}){256}){256}",
};

static uint32_t seed = 12345;

static uint32_t next_random(void)
{
	seed = seed * 1664525u + 1013904223u;
	return seed >> 8;
}

/* Short texts over a small alphabet: most random patterns match some of them. */
static size_t make_short(char *out)
{
	static const char *const pieces[] = { "a", "a", "b", "b", "x", "1", "-", ".", "\n", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\xb3" };
	size_t len = 0;

	for (unsigned n = next_random() % 9; n > 0; n--) {
		const char *piece = pieces[next_random() % ARRAY_SIZE(pieces)];

		memcpy(out + len, piece, strlen(piece));
		len += strlen(piece);
	}
	return len;
}

/* One in eight is damaged: a NUL, a line feed at the end, or bytes that are not UTF-8. */
static size_t damage(char *out, size_t len)
{
	static const char *const broken[] = { "\xff", "\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xc0\xaf" };
	const char *bytes = broken[next_random() % ARRAY_SIZE(broken)];
	size_t at = len > 0 ? next_random() % (len + 1) : 0, n = strlen(bytes);

	switch (next_random() % 24) {
	case 0:
		memmove(out + at + 1, out + at, len - at);
		out[at] = '\0';
		return len + 1;
	case 1:
		out[len] = '\n';
		return len + 1;
	case 2:
		memmove(out + at + n, out + at, len - at);
		memcpy(out + at, bytes, n);
		return len + n;
	default:
		return len;
	}
}

static size_t make_subject(char *out)
{
	static const char noise[] = "abcxyzABZ019-_.:/=,@^[]\\ {}\n\t\x7f$*+";
	const char *from = seeds[next_random() % ARRAY_SIZE(seeds)];
	size_t len = strlen(from);

	memcpy(out, from, len);
	for (unsigned changes = next_random() % 4; changes > 0; changes--) {
		size_t at = len > 0 ? next_random() % (len + 1) : 0;

		switch (next_random() % 4) {
		case 0: /* insert */
			if (len + 1 < SUBJECT_MAX) {
				memmove(out + at + 1, out + at, len - at);
				out[at] = noise[next_random() % (sizeof(noise) - 1)];
				len++;
			}
			break;
		case 1: /* delete */
			if (at < len) {
				memmove(out + at, out + at + 1, len - at - 1);
				len--;
			}
			break;
		case 2: /* replace */
			if (at < len)
				out[at] = noise[next_random() % (sizeof(noise) - 1)];
			break;
		default: /* append another */
			from = seeds[next_random() % ARRAY_SIZE(seeds)];
			if (len + strlen(from) < SUBJECT_MAX) {
				memcpy(out + len, from, strlen(from));
				len += strlen(from);
			}
			break;
		}
	}
	return len;
}

static unsigned long subjects;

/* text: between the anchors. Returns how many subjects matched. */
static unsigned compare(struct slice text, unsigned rounds, size_t (*make)(char *out))
{
	struct automaton *a = automaton_new(text);
	char anchored[2048], subject[SUBJECT_MAX * 2];
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	PCRE2_SIZE at;
	pcre2_match_context *limits = pcre2_match_context_create(NULL);
	pcre2_code *code;
	unsigned matched = 0;
	int error;

	pcre2_set_match_limit(limits, 100000);

	snprintf(anchored, sizeof(anchored), "^(?:%.*s)$", (int)text.len, text.p);
	code = pcre2_compile((PCRE2_SPTR)anchored, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY |
		PCRE2_UTF, &error, &at, NULL);
	if (!UNIT_CHECK(a != NULL && code != NULL, "%s", anchored))
		rounds = 0;
	for (unsigned i = 0; i < rounds; i++) {
		size_t len = damage(subject, make(subject));
		/* PCRE2 checks the subject here: what is not UTF-8 is an error to it, hence no match. */
		int rc = pcre2_match(code, (PCRE2_SPTR)subject, len, 0, 0, data, limits);
		bool ours = automaton_match(a, slice_make(subject, len));

		if (rc == PCRE2_ERROR_MATCHLIMIT)
			continue;
		subjects++;
		matched += ours;
		if (!UNIT_CHECK(ours == (rc >= 0), "%s on \"%.*s\": automaton %d, PCRE2 %d", anchored, (int)len, subject, ours, rc))
			break;
	}
	pcre2_match_context_free(limits);
	pcre2_match_data_free(data);
	pcre2_code_free(code);
	automaton_free(a);
	return matched;
}

static void each_pattern(const struct json_node *n, unsigned *count, unsigned *matched)
{
	if (n->type != JSON_OBJECT && n->type != JSON_ARRAY)
		return;
	for (const struct json_node *m = n->child; m != NULL; m = m->next) {
		bool keyed = slice_is(m->key, "pattern") && m->type == JSON_STRING;

		if (n->type == JSON_OBJECT && keyed) {
			*matched += compare(slice_make(m->text.p + 1, m->text.len - 2), 10000, make_subject);
			(*count)++;
		}
		each_pattern(m, count, matched);
	}
}

static void test_policy(void)
{
	struct err err = ERR_INIT;
	struct policy *p = policy_builtin(&err);
	struct json_doc *doc = json_doc_new();
	const struct json_node *root;
	enum json_fault fault;
	unsigned count = 0, matched = 0;
	struct buf text;
	size_t offset;

	buf_init(&text, 1 << 20);
	CU_ASSERT_EQUAL_FATAL(policy_print(p, &text), 0);
	root = json_parse(doc, buf_slice(&text), JSON_STRICT, &fault, &offset);
	CU_ASSERT_PTR_NOT_NULL_FATAL(root);
	each_pattern(root, &count, &matched);
	CU_ASSERT_TRUE(count > 15);
	CU_ASSERT_TRUE(matched > 1000);
	buf_release(&text);
	json_doc_free(doc);
	policy_free(p);
}

static void test_awkward(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(awkward); i++)
		{
		compare(slice_str(awkward[i]), 2000, make_subject);
		compare(slice_str(awkward[i]), 4000, make_short);
	}
}

static void put_random(struct buf *b, unsigned depth);

static void put_atom(struct buf *b, unsigned depth)
{
	static const char *const atoms[] = { "a", "b", "x", "a", "b", ".", "[ab]", "[^a]", "[^b\\n]", "\\d", "\\w", "\\s", "[a-z-]", "\\.", "[]x]",
		"[^]-]", "\\x61", "[\\x00-\\x1f]", "-", "1" };

	if (depth == 0 || next_random() % 4 != 0) {
		CU_ASSERT_EQUAL_FATAL(buf_puts(b, atoms[next_random() % ARRAY_SIZE(atoms)]), 0);
		return;
	}
	CU_ASSERT_EQUAL_FATAL(buf_puts(b, next_random() % 2 ? "(" : "(?:"), 0);
	put_random(b, depth - 1);
	CU_ASSERT_EQUAL_FATAL(buf_putc(b, ')'), 0);
}

static void put_random(struct buf *b, unsigned depth)
{
	static const char *const quantifiers[] = { "", "", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "{0,3}" };

	for (unsigned n = next_random() % 4; n > 0; n--) {
		put_atom(b, depth);
		CU_ASSERT_EQUAL_FATAL(buf_puts(b, quantifiers[next_random() % ARRAY_SIZE(quantifiers)]), 0);
		if (next_random() % 5 == 0)
			CU_ASSERT_EQUAL_FATAL(buf_putc(b, '|'), 0);
	}
}

static void test_random(void)
{
	unsigned built = 0, matched = 0, patterns = 500;
	struct buf text;

	buf_init(&text, 65536);
	for (unsigned i = 0; i < patterns; i++) {
		struct automaton *a;

		buf_clear(&text);
		put_random(&text, 3);
		a = automaton_new(buf_slice(&text));
		built += a != NULL;
		if (a != NULL)
			matched += compare(buf_slice(&text), 1500, make_short);
		automaton_free(a);
	}
	buf_release(&text);
	UNIT_CHECK(built > patterns * 9 / 10, "%u of %u were built", built, patterns);
	UNIT_CHECK(matched > 5000, "%u", matched);
}

/* Runs last. */
static void test_enough(void)
{
	UNIT_CHECK(subjects > 1000000, "%lu subjects", subjects);
}

static void test_left_out(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) {
		struct automaton *a = automaton_new(slice_str(left_out[i]));

		UNIT_CHECK(a == NULL, "%s", left_out[i]);
		automaton_free(a);
	}
}

static const struct unit_test tests[] = {
	{ "policy", test_policy },
	{ "awkward", test_awkward },
	{ "random", test_random },
	{ "left-out", test_left_out },
	{ "enough", test_enough },
};

UNIT_MAIN("automaton", tests)
