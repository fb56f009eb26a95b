/* The allowlist: entries sorted by name, looked up by the host and by each of its parents. */
#include "egressd/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rules {
	struct rule *rule;
	size_t n;
	size_t cap;
};

static int compare(const void *a, const void *b)
{
	const struct rule *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	if (c == 0)
		c = (int)x->wildcard - (int)y->wildcard;
	return c != 0 ? c : (int)x->port - (int)y->port;
}

struct rules *rules_new(void)
{
	return calloc(1, sizeof(struct rules));
}

void rules_free(struct rules *rules)
{
	if (rules == NULL)
		return;
	for (size_t i = 0; i < rules->n; i++) {
		free(rules->rule[i].name);
		free(rules->rule[i].text);
	}
	free(rules->rule);
	free(rules);
}

size_t rules_count(const struct rules *rules)
{
	return rules->n;
}

const struct rule *rules_at(const struct rules *rules, size_t i)
{
	return i < rules->n ? &rules->rule[i] : NULL;
}

size_t rules_index(const struct rules *rules, const struct rule *rule)
{
	return (size_t)(rule - rules->rule);
}

void rules_seal(struct rules *rules)
{
	if (rules->n > 0)
		qsort(rules->rule, rules->n, sizeof(*rules->rule), compare);
}

static int entry_error(struct err *err, struct slice entry, enum reason why)
{
	char shown[80];
	size_t n = 0;

	for (size_t i = 0; i < entry.len && n + 1 < sizeof(shown); i++)
		shown[n++] = entry.p[i] > 0x20 && entry.p[i] < 0x7f ? entry.p[i] : '?';
	shown[n] = '\0';
	return err_set(err, 0, "allowlist entry \"%s\": %s", shown, reason_text(why));
}

static int append(struct rules *rules, const struct host *host, bool wildcard, uint16_t port, struct err *err)
{
	struct rule *r;
	char port_text[8] = "";
	size_t size;

	if (rules->n == rules->cap) {
		size_t cap = rules->cap == 0 ? 16 : rules->cap * 2;
		void *p = realloc(rules->rule, cap * sizeof(*rules->rule));
		if (p == NULL)
			return err_errno(err, "allowlist");
		rules->rule = p;
		rules->cap = cap;
	}
	if (port != 0)
		snprintf(port_text, sizeof(port_text), ":%u", (unsigned)port);
	size = (size_t)host->len + sizeof("*.:65535");
	r = &rules->rule[rules->n];
	r->wildcard = wildcard;
	r->port = port;
	r->name = strdup(host->name);
	r->text = malloc(size);
	if (r->name == NULL || r->text == NULL) {
		free(r->name);
		free(r->text);
		return err_errno(err, "allowlist");
	}
	snprintf(r->text, size, "%s%s%s", wildcard ? "*." : "", host->name, port_text);
	rules->n++;
	return 0;
}

int rules_add(struct rules *rules, struct slice entry, struct err *err)
{
	struct slice name = entry;
	struct host host;
	uint16_t port = 0;
	bool wildcard, has_port;
	enum reason r;

	if (rules->n >= RULES_MAX)
		return err_set(err, 0, "the allowlist has more than %d entries", RULES_MAX);
	wildcard = slice_starts(entry, "*.");
	if (wildcard)
		name = slice_skip(entry, 2);
	else if (name.len > 0 && memchr(name.p, '*', name.len) != NULL)
		return err_set(err, 0, "allowlist entry \"%.*s\": a star stands only in front, as in *.example.com",
			(int)(name.len < 80 ? name.len : 80), name.p);
	has_port = name.len > 0 && name.p[0] != '[' && memchr(name.p, ':', name.len) != NULL;
	r = has_port ? authority_parse(name, 0, &host, &port) : host_parse(name, &host);
	if (r != REASON_OK)
		return entry_error(err, entry, r);
	if (wildcard && strchr(host.name, '.') == NULL)
		return err_set(err, 0, "allowlist entry \"*.%s\": a wildcard needs at least two labels below it", host.name);
	return append(rules, &host, wildcard, port, err);
}

bool list_next(struct slice *rest, struct slice *entry)
{
	size_t i = 0, start;

	while (i < rest->len && strchr(", \t\r\n", rest->p[i]) != NULL && rest->p[i] != '\0')
		i++;
	start = i;
	while (i < rest->len && (rest->p[i] == '\0' || strchr(", \t\r\n", rest->p[i]) == NULL))
		i++;
	*entry = slice_make(rest->p + start, i - start);
	*rest = slice_skip(*rest, i);
	return entry->len > 0;
}

struct rules *rules_parse(struct slice text, struct err *err)
{
	struct rules *rules = rules_new();
	struct slice entry;

	if (rules == NULL) {
		err_errno(err, "allowlist");
		return NULL;
	}
	while (list_next(&text, &entry)) {
		if (rules_add(rules, entry, err) != 0) {
			rules_free(rules);
			return NULL;
		}
	}
	rules_seal(rules);
	return rules;
}

/* The first entry that is not less than name. */
static size_t lower_bound(const struct rules *rules, const char *name)
{
	size_t lo = 0, hi = rules->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (strcmp(rules->rule[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Looks at the entries of one name; returns true when one allows the port. *seen: an entry with the host. */
static bool look(const struct rules *rules, const char *name, bool wildcard, uint16_t port, const struct ports *listed,
	const struct rule **which, const struct rule **seen)
{
	for (size_t i = lower_bound(rules, name); i < rules->n && strcmp(rules->rule[i].name, name) == 0; i++) {
		const struct rule *r = &rules->rule[i];
		if (r->wildcard != wildcard)
			continue;
		if (*seen == NULL)
			*seen = r;
		if (r->port != 0 ? r->port == port : ports_has(listed, port)) {
			*which = r;
			return true;
		}
	}
	return false;
}

enum reason rules_match(const struct rules *rules, const struct host *host, uint16_t port, const struct ports *listed,
	const struct rule **which)
{
	const struct rule *seen = NULL;

	*which = NULL;
	if (look(rules, host->name, false, port, listed, which, &seen))
		return REASON_OK;
	for (const char *dot = strchr(host->name, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
		if (look(rules, dot + 1, true, port, listed, which, &seen))
			return REASON_OK;
	*which = seen;
	return seen != NULL ? REASON_PORT_DENIED : REASON_HOST_DENIED;
}

bool rules_has_exact(const struct rules *rules, struct slice name)
{
	for (size_t i = 0; i < rules->n; i++)
		if (!rules->rule[i].wildcard && slice_is(name, rules->rule[i].name))
			return true;
	return false;
}

static bool below_or_equal(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n >= m && strcmp(name + n - m, suffix) == 0 && (n == m || name[n - m - 1] == '.');
}

void rules_notes(const struct rules *rules, rules_note_cb cb, void *arg)
{
	static const struct {
		const char *suffix, *note;
		bool shared;
	} rows[] = {
#define SHARED(suffix, note) { suffix, note, true },
#define RESOLVER(host) { host, "it answers DNS over HTTPS: names and data can leave through it", false },
#include "egressd/note.def"
#undef SHARED
#undef RESOLVER
	};

	for (size_t i = 0; i < rules->n; i++) {
		const struct rule *r = &rules->rule[i];
		if (r->wildcard && !rules_has_exact(rules, slice_str(r->name)))
			cb(r, "the name itself is not allowed by it; list it too if it is meant", arg);
		for (size_t j = 0; j < ARRAY_SIZE(rows); j++) {
			if (rows[j].shared
					? r->wildcard &&
						(below_or_equal(rows[j].suffix, r->name) || below_or_equal(r->name, rows[j].suffix))
					: strcmp(r->name, rows[j].suffix) == 0 || (r->wildcard && below_or_equal(rows[j].suffix, r->name)))
				cb(r, rows[j].note, arg);
		}
	}
}

bool ports_has(const struct ports *ports, uint16_t port)
{
	for (unsigned i = 0; i < ports->n; i++)
		if (ports->port[i] == port)
			return true;
	return false;
}

int ports_add(struct ports *ports, struct slice text, struct err *err)
{
	uint16_t port;

	if (text.len > 0 && text.len < 16 && memchr(text.p, '-', text.len) != NULL)
		return err_set(err, 0, "port \"%.*s\": ranges are not accepted, list each port", SLICE_ARG(text));
	if (!port_parse(text, &port))
		return err_set(err, 0, "a port is not a plain number of 1 to 65535");
	if (ports_has(ports, port))
		return 0;
	if (ports->n == PORTS_MAX)
		return err_set(err, 0, "more than %d ports", PORTS_MAX);
	ports->port[ports->n++] = port;
	return 0;
}

int ports_parse(struct slice text, struct ports *out, struct err *err)
{
	struct slice entry;

	out->n = 0;
	while (list_next(&text, &entry))
		if (ports_add(out, entry, err) != 0)
			return -1;
	return 0;
}
