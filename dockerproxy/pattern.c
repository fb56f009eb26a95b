/* Patterns: the checks at load, an automaton where one can be made, else PCRE2 and its limits at match. */
#include "dockerproxy/pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "dockerproxy/automaton.h"

#define PATTERN_MAX 1024 /* bytes of a pattern's text */
#define MATCH_LIMIT 100000 /* steps of the matcher: far above what an honest pattern needs for 32 KiB */
#define DEPTH_LIMIT 20000 /* nested backtracking points */
#define HEAP_LIMIT 8192 /* KiB */

struct pattern {
	struct automaton *automaton; /* NULL: code has to do it */
	pcre2_code *code;
	char text[];
};

struct pattern_scratch {
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

/* Moves behind the character class that begins at i ('['). */
static size_t skip_class(struct slice s, size_t i)
{
	i++;
	if (i < s.len && s.p[i] == '^')
		i++;
	if (i < s.len && s.p[i] == ']') /* stands for itself here */
		i++;
	for (; i < s.len && s.p[i] != ']'; i++)
		if (s.p[i] == '\\')
			i++;
	return i;
}

/*
 * This reads a pattern as PCRE2 does, so everything that would change how it reads is refused: \Q..\E, options such as
 * (?x), which make comments, and verbs.
 */
static int check_anchors(struct slice s, struct err *err)
{
	static const char group_marks[] = ":=!<"; /* non-capturing, and the four looks around */
	bool ends = false;
	int depth = 0;

	if (s.len < 2 || s.p[0] != '^')
		return err_set(err, EINVAL, "the pattern must begin with ^");
	for (size_t i = 1; i < s.len; i++) {
		ends = false;
		switch (s.p[i]) {
		case '\\':
			if (i + 1 < s.len && (s.p[i + 1] == 'Q' || s.p[i + 1] == 'E'))
				return err_set(err, EINVAL, "\\Q and \\E are not accepted in a pattern");
			i++;
			break;
		case '[':
			i = skip_class(s, i);
			break;
		case '(':
			if (i + 2 < s.len && s.p[i + 1] == '?' && strchr(group_marks, s.p[i + 2]) == NULL)
				return err_set(err, EINVAL, "inline options and other groups than (?: (?= (?! (?< are not accepted");
			if (i + 1 < s.len && s.p[i + 1] == '*')
				return err_set(err, EINVAL, "verbs are not accepted in a pattern");
			depth++;
			break;
		case ')':
			depth--;
			break;
		case '|':
			if (depth == 0)
				return err_set(err, EINVAL, "the pattern has an alternative outside its anchors; put ( ) around it");
			break;
		case '$':
			ends = depth == 0 && i == s.len - 1;
			break;
		default:
			break;
		}
	}
	if (!ends)
		return err_set(err, EINVAL, "the pattern must end with $");
	return 0;
}

/* What '.' leaves out is a matter of how the library was built; the automaton leaves out the line feed alone. */
static bool dot_is_known(void)
{
	uint32_t newline = 0;

	return pcre2_config(PCRE2_CONFIG_NEWLINE, &newline) == 0 && newline == PCRE2_NEWLINE_LF;
}

struct pattern *pattern_new(struct slice text, struct err *err)
{
	uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C |
		PCRE2_NO_AUTO_CAPTURE;
	struct pattern *p;
	PCRE2_SIZE at;
	int code;

	if (text.len > PATTERN_MAX) {
		err_set(err, EINVAL, "the pattern is longer than %d bytes", PATTERN_MAX);
		return NULL;
	}
	if (check_anchors(text, err) < 0)
		return NULL;
	p = calloc(1, sizeof(*p) + text.len + 1);
	if (p == NULL) {
		err_errno(err, "pattern");
		return NULL;
	}
	memcpy(p->text, text.p, text.len);
	p->code = pcre2_compile((PCRE2_SPTR)text.p, text.len, options, &code, &at, NULL);
	if (p->code == NULL) {
		PCRE2_UCHAR message[128];

		if (pcre2_get_error_message(code, message, sizeof(message)) < 0)
			message[0] = '\0';
		err_set(err, EINVAL, "the pattern does not compile: %s at byte %zu", (const char *)message, (size_t)at);
		free(p);
		return NULL;
	}
	if (dot_is_known())
		p->automaton = automaton_new(slice_make(text.p + 1, text.len - 2));
	if (p->automaton != NULL) {
		pcre2_code_free(p->code);
		p->code = NULL;
	}
	return p;
}

void pattern_free(struct pattern *p)
{
	if (p == NULL)
		return;
	automaton_free(p->automaton);
	pcre2_code_free(p->code);
	free(p);
}

const char *pattern_text(const struct pattern *p)
{
	return p->text;
}

struct pattern_scratch *pattern_scratch_new(void)
{
	struct pattern_scratch *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->data = pcre2_match_data_create(1, NULL);
	s->limits = pcre2_match_context_create(NULL);
	if (s->data == NULL || s->limits == NULL) {
		pattern_scratch_free(s);
		return NULL;
	}
	pcre2_set_match_limit(s->limits, MATCH_LIMIT);
	pcre2_set_depth_limit(s->limits, DEPTH_LIMIT);
	pcre2_set_heap_limit(s->limits, HEAP_LIMIT);
	return s;
}

void pattern_scratch_free(struct pattern_scratch *s)
{
	if (s == NULL)
		return;
	pcre2_match_data_free(s->data);
	pcre2_match_context_free(s->limits);
	free(s);
}

enum pattern_result pattern_match(const struct pattern *p, struct slice subject, struct pattern_scratch *s)
{
	int rc;

	if (p->automaton != NULL)
		return automaton_match(p->automaton, subject) ? PATTERN_YES : PATTERN_NO;
	rc = pcre2_match(p->code, (PCRE2_SPTR)subject.p, subject.len, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->data,
		s->limits);
	if (rc >= 0)
		return PATTERN_YES;
	return rc == PCRE2_ERROR_NOMATCH ? PATTERN_NO : PATTERN_LIMIT;
}
