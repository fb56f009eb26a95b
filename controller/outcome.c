/* Reads the lines of a sandbox about its commands. */
#include "controller/outcome.h"

#include <string.h>

#include "libgate/util.h"

static const char *const words[] = {
#define ROW(symbol, word) [OUTCOME_##symbol] = word,
#include "controller/outcome.def"
#undef ROW
};

const char *outcome_state_word(enum outcome_state s)
{
	return words[s];
}

static bool is_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];

		if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-'))
			return false;
	}
	return s.len >= 1 && s.len <= 64;
}

/* The next word of the line; empty when there is none. */
static struct slice take_word(struct slice *line)
{
	const char *end = line->len > 0 ? memchr(line->p, ' ', line->len) : NULL;
	struct slice word = slice_make(line->p, end != NULL ? (size_t)(end - line->p) : line->len);

	*line = slice_skip(*line, end != NULL ? word.len + 1 : word.len);
	return word;
}

static bool take_number(struct slice *line, int64_t max, int64_t *out)
{
	struct slice word = take_word(line);
	int64_t n = 0;

	if (word.len == 0 || word.len > 18)
		return false;
	for (size_t i = 0; i < word.len; i++) {
		if (word.p[i] < '0' || word.p[i] > '9')
			return false;
		n = n * 10 + (word.p[i] - '0');
	}
	*out = n;
	return n <= max;
}

static bool take_state(struct slice *line, enum outcome_state *state)
{
	struct slice word = take_word(line);

	for (unsigned i = 0; i < OUTCOME_RUNNING; i++) {
		if (!slice_is(word, words[i]))
			continue;
		*state = (enum outcome_state)i;
		return true;
	}
	return false;
}

static void set_tag(struct outcome *out, struct slice tag)
{
	out->tag = slice_is(tag, "_") ? slice_make(NULL, 0) : tag;
}

static bool parse_running(struct slice mark, struct outcome *out)
{
	const char *slash = mark.len > 0 ? memchr(mark.p, '/', mark.len) : NULL;
	struct slice tag = SLICE_LIT("_");

	if (slash != NULL) {
		tag = slice_make(mark.p, (size_t)(slash - mark.p));
		mark = slice_skip(mark, tag.len + 1);
	}
	if (!is_name(mark) || !is_name(tag))
		return false;
	*out = (struct outcome){ .state = OUTCOME_RUNNING, .id = mark };
	set_tag(out, tag);
	return true;
}

bool outcome_parse(struct slice line, struct outcome *out)
{
	struct outcome o = { 0 };
	struct slice kind = take_word(&line), tag, oom;
	int64_t number;

	if (slice_is(kind, "R"))
		return parse_running(line, out);
	if (!slice_is(kind, "1"))
		return false;
	o.id = take_word(&line);
	tag = take_word(&line);
	if (!is_name(o.id) || !is_name(tag) || !take_state(&line, &o.state) || !take_number(&line, 4095, &number))
		return false;
	oom = take_word(&line);
	if (!take_number(&line, INT64_C(1) << 40, &o.time_s) || line.len > 0)
		return false;
	o.number = (int)number;
	o.oom = slice_is(oom, "yes");
	set_tag(&o, tag);
	*out = o;
	return true;
}
