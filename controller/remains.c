/* Judges what is left of sandboxes. */
#include "controller/remains.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "controller/mem.h"
#include "controller/name.h"

static const char *const verdict_names[] = {
	[REMAINS_WHOLE] = "none",
	[REMAINS_REPAIR] = "repair",
	[REMAINS_REMOVE] = "remove",
	[REMAINS_YOUNG] = "wait",
};

const char *remains_verdict_name(enum remains_verdict v)
{
	return verdict_names[v];
}

static struct remains *find(struct remains_list *list, struct slice name)
{
	struct remains *r;

	TAILQ_FOREACH (r, list, link)
		if (slice_is(name, r->name))
			return r;
	r = mem_zalloc(sizeof(*r));
	r->name = mem_dup(name);
	r->mode = EGRESS_NONE;
	TAILQ_INSERT_TAIL(list, r, link);
	return r;
}

/* RFC 3339 as the engine writes it; 0 when it is not that. */
static int64_t parse_time(struct slice s)
{
	char text[20];
	struct tm tm = { .tm_isdst = 0 };

	if (s.len < 19)
		return 0;
	memcpy(text, s.p, 19);
	text[19] = '\0';
	return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) != NULL ? (int64_t)timegm(&tm) : 0;
}

static void note_age(struct remains *r, const struct json_node *o)
{
	struct slice text;
	int64_t when = 0;

	if (!json_get_int(o, "Created", &when) &&
		(json_get_string(o, "CreatedAt", &text) || json_get_string(o, "Created", &text)))
		when = parse_time(text);
	if (when > r->youngest)
		r->youngest = when;
}

static bool named(const struct json_node *container, struct slice name, const char *suffix)
{
	const struct json_node *names = json_get(container, "Names");
	auto_free char *wanted = mem_printf("/%.*s%s", SLICE_ARG(name), suffix);

	for (const struct json_node *n = names != NULL ? names->child : NULL; n != NULL; n = n->next)
		if (n->type == JSON_STRING && slice_is(n->text, wanted))
			return true;
	return false;
}

static void add_container(struct remains *r, const struct json_node *o, const struct json_node *labels)
{
	struct slice name = slice_str(r->name), text;
	enum container_state state = CONTAINER_DEAD;

	if (json_get_string(o, "State", &text))
		container_state_from_name(text, &state);
	if (named(o, name, "")) {
		r->sandbox = true;
		r->sandbox_state = state;
		if (json_get_string(labels, LABEL_EGRESS, &text))
			egress_from_name(text, &r->mode);
	} else if (named(o, name, "-egress")) {
		r->egress = true;
		r->egress_state = state;
	}
}

static void add_named(struct remains *r, const struct json_node *o)
{
	static const struct {
		const char *suffix;
		size_t offset;
	} parts[] = {
		{ "-net", offsetof(struct remains, network) },
		{ "-workspace", offsetof(struct remains, workspace) },
		{ "-skills", offsetof(struct remains, skills) },
	};
	struct slice name;

	if (!json_get_string(o, "Name", &name))
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++) {
		auto_free char *wanted = mem_printf("%s%s", r->name, parts[i].suffix);
		if (slice_is(name, wanted))
			*(bool *)((char *)r + parts[i].offset) = true;
	}
}

int remains_add(struct remains_list *list, const char *kind, const struct json_node *listing, struct err *err)
{
	bool volumes = strcmp(kind, "volumes") == 0;
	const struct json_node *items = volumes ? json_get(listing, "Volumes") : listing;

	if (volumes && items != NULL && items->type == JSON_NULL)
		return 0; /* there are none */
	if (items == NULL || items->type != JSON_ARRAY)
		return err_set(err, EPROTO, "the engine's list of %s is none", kind);
	for (const struct json_node *o = items->child; o != NULL; o = o->next) {
		const struct json_node *labels = json_get(o, "Labels");
		struct slice name, one;
		struct err fault = ERR_INIT;

		if (!json_get_string(labels, LABEL_SANDBOX, &one) || !slice_is(one, "1") ||
			!json_get_string(labels, LABEL_NAME, &name) || name_check_sandbox(name, &fault) != 0)
			continue;
		struct remains *r = find(list, name);
		note_age(r, o);
		if (strcmp(kind, "containers") == 0)
			add_container(r, o, labels);
		else
			add_named(r, o);
	}
	return 0;
}

void remains_release(struct remains_list *list)
{
	struct remains *r;

	while ((r = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, r, link);
		free(r->name);
		free(r);
	}
}

enum remains_verdict remains_judge(const struct remains *r, int64_t now, int64_t min_age)
{
	bool lives = r->sandbox && r->sandbox_state != CONTAINER_CREATED && r->sandbox_state != CONTAINER_DEAD &&
		r->sandbox_state != CONTAINER_REMOVING;

	if (!lives)
		return now - r->youngest < min_age ? REMAINS_YOUNG : REMAINS_REMOVE;
	if (r->mode == EGRESS_ALLOWLIST && r->sandbox_state == CONTAINER_RUNNING &&
		(!r->egress || r->egress_state != CONTAINER_RUNNING || !r->network))
		return REMAINS_REPAIR;
	return REMAINS_WHOLE;
}
