/* Looks at a sandbox's containers and networks. */
#include "controller/survey.h"

#include <errno.h>

#include "controller/mem.h"
#include "controller/runner.h"

enum part { PART_SANDBOX, PART_EGRESS, PART_NETWORK, PART_SHARED, PARTS };

/* Of one part; the callback's argument. */
struct question {
	struct survey *survey;
	struct engine_call *call; /* NULL: answered */
};

struct survey {
	struct engine *engine;
	char *name;
	char *internal; /* <name>-net */
	struct question questions[PARTS];
	unsigned left;
	struct survey_result result;
	struct err err;
	survey_cb cb;
	void *arg;
};

static void survey_free(struct survey *s)
{
	if (s->result.have_spec)
		spec_release(&s->result.spec);
	json_object_put(s->result.details);
	free(s->name);
	free(s->internal);
	free(s);
}

void survey_cancel(struct survey *s)
{
	for (unsigned i = 0; i < PARTS; i++)
		if (s->questions[i].call != NULL)
			engine_cancel(s->questions[i].call);
	survey_free(s);
}

static void read_details(struct survey *s, const struct json_node *doc)
{
	struct slice text;
	struct json_object *o = jnew();

	if (json_get_string(doc, "Created", &text))
		jset_str(o, "createdAt", text);
	if (json_get_string(json_get(doc, "State"), "StartedAt", &text))
		jset_str(o, "startedAt", text);
	if (json_get_string(json_get(doc, "Config"), "Image", &text))
		jset_str(o, "image", text);
	if (json_get_string(json_get(doc, "HostConfig"), "Runtime", &text))
		jset_str(o, "runtime", text);
	int64_t n;
	if (json_get_int(json_get(doc, "HostConfig"), "Memory", &n))
		jset_int(o, "memoryMb", n / 1024 / 1024);
	if (json_get_int(json_get(doc, "HostConfig"), "NanoCpus", &n))
		jset(o, "cpu", json_object_new_double((double)n / 1e9));
	s->result.details = o;
}

static int read_sandbox(struct survey *s, const struct json_node *doc, struct err *err)
{
	const struct config *c = engine_config(s->engine);
	struct slice version;

	if (inventory_read_container(&s->result.inventory.sandbox, doc, slice_str(s->internal), slice_str(c->network),
			err) != 0)
		return -1;
	if (spec_from_labels(&s->result.spec, slice_str(s->name), json_get(json_get(doc, "Config"), "Labels"), c, err) != 0)
		return -1;
	s->result.have_spec = true;
	s->result.has_runner = json_get_string(json_get(json_get(doc, "Config"), "Labels"), RUNNER_LABEL, &version) &&
		slice_is(version, RUNNER_LABEL_VERSION);
	read_details(s, doc);
	return 0;
}

static int read_part(struct survey *s, enum part part, const struct json_node *doc, struct err *err)
{
	const struct config *c = engine_config(s->engine);
	struct inventory *i = &s->result.inventory;

	switch (part) {
	case PART_SANDBOX:
		return read_sandbox(s, doc, err);
	case PART_EGRESS:
		return inventory_read_container(&i->egress, doc, slice_str(s->internal), slice_str(c->network), err);
	case PART_NETWORK:
		return inventory_read_network(i->network, doc, err);
	case PART_SHARED:
		return inventory_read_network(i->shared_network, doc, err);
	case PARTS:
		break;
	}
	return 0;
}

static void on_answer(const struct engine_reply *reply, void *arg)
{
	struct question *q = arg;
	struct survey *s = q->survey;
	enum part part = (enum part)(q - s->questions);
	struct err err = ERR_INIT;
	bool failed = false;

	q->call = NULL;
	if (reply->status == 200) {
		failed = read_part(s, part, reply->json, &err) != 0;
	} else if (part == PART_SHARED && engine_says_ambiguous(reply)) {
		/* As good as none: what is planned then begins with leaving one of them. Who runs needs none. */
	} else if (reply->status != 404) {
		failed = true;
		err = reply->err;
	}
	if (failed && s->err.text[0] == '\0')
		s->err = err;
	if (--s->left > 0)
		return;
	s->cb(&s->result, s->err.text[0] != '\0' ? &s->err : NULL, s->arg);
	survey_free(s);
}

static void ask(struct survey *s, enum part part, char *path, int64_t timeout_ms)
{
	struct question *q = &s->questions[part];

	q->survey = s;
	s->left++;
	q->call = engine_call(s->engine, "GET", path, NULL, timeout_ms, on_answer, q);
	free(path);
}

struct survey *survey_start(struct engine *e, const char *name, int64_t timeout_ms, survey_cb cb, void *arg)
{
	struct survey *s = mem_zalloc(sizeof(*s));

	s->engine = e;
	s->name = mem_strdup(name);
	s->internal = mem_printf("%s-net", name);
	s->cb = cb;
	s->arg = arg;
	ask(s, PART_SANDBOX, mem_printf("/containers/%s/json", name), timeout_ms);
	ask(s, PART_EGRESS, mem_printf("/containers/%s-egress/json", name), timeout_ms);
	ask(s, PART_NETWORK, mem_printf("/networks/%s", s->internal), timeout_ms);
	ask(s, PART_SHARED, mem_printf("/networks/%s", engine_config(e)->network), timeout_ms);
	return s;
}
