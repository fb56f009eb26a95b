/* Looks for the id in the text of a request that cannot be parsed. */
#include "controller/request_id.h"

bool request_id_survives(enum json_fault fault)
{
	return fault == JSON_FAULT_SURROGATE || fault == JSON_FAULT_NUL || fault == JSON_FAULT_UTF8 ||
		fault == JSON_FAULT_DUPLICATE || fault == JSON_FAULT_DEPTH;
}

/* Behind the string whose opening quote is at `at`. */
static size_t string_end(struct slice s, size_t at)
{
	for (at++; at < s.len && s.p[at] != '"'; at++)
		if (s.p[at] == '\\')
			at++;
	return at < s.len ? at + 1 : s.len;
}

static size_t spaces_end(struct slice s, size_t at)
{
	while (at < s.len && (s.p[at] == ' ' || s.p[at] == '\t' || s.p[at] == '\r' || s.p[at] == '\n'))
		at++;
	return at;
}

/* Behind the value at `at`, as far as it can be an id: a string, or what a number is made of. */
static size_t value_end(struct slice s, size_t at)
{
	if (at < s.len && s.p[at] == '"')
		return string_end(s, at);
	while (at < s.len && ((s.p[at] >= '0' && s.p[at] <= '9') || memchr("+-.eE", s.p[at], 5) != NULL))
		at++;
	return at;
}

bool request_id_find(struct slice s, struct slice *value)
{
	unsigned depth = 0, found = 0;
	bool at_key = false;

	for (size_t i = spaces_end(s, 0); i < s.len; i++) {
		if (depth == 0 && s.p[i] != '{')
			break;
		if (s.p[i] == '"') {
			size_t end = string_end(s, i), colon = spaces_end(s, end);

			if (at_key && slice_is(slice_make(s.p + i, end - i), "\"id\"") && colon < s.len && s.p[colon] == ':') {
				size_t start = spaces_end(s, colon + 1);

				*value = slice_make(s.p + start, value_end(s, start) - start);
				found++;
			}
			at_key = false;
			i = end - 1;
		} else if (s.p[i] == '{' || s.p[i] == '[') {
			depth++;
			at_key = depth == 1;
		} else if (s.p[i] == '}' || s.p[i] == ']') {
			if (--depth == 0)
				break;
		} else if (s.p[i] == ',') {
			at_key = depth == 1;
		}
	}
	return found == 1;
}
