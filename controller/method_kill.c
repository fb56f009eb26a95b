/* killAll and killTagged. */
#include "controller/method.h"

#include <errno.h>

#include "controller/ensure.h"
#include "controller/lifecycle.h"
#include "controller/name.h"
#include "libgate/log.h"

#define TAGS_MAX 256
#define KILL_RESULT \
	"{\"type\":\"object\",\"required\":[\"killed\"],\"properties\":{\"killed\":{\"type\":\"integer\"}," \
	"\"survivors\":{\"type\":\"integer\"},\"sandboxRestarted\":{\"type\":\"boolean\"}}}"

struct killing {
	struct call *call;
	struct sandbox *sandbox;
	struct slice tags[TAGS_MAX];
	unsigned ntags;
	struct refusals refusals;
	bool repeated; /* the answer to the first try was lost */
	bool root; /* the second half: commands that run as root */
	unsigned killed, survivors; /* of the first half */
};

static void over(struct killing *k, const struct err *err, struct json_object *result)
{
	struct call *call = k->call;

	sandbox_put(k->sandbox);
	free(k);
	if (err != NULL)
		call_error(call, err, NULL);
	else
		call_result(call, result);
}

static void on_restarted(const struct err *err, void *arg)
{
	struct killing *k = arg;
	struct json_object *o = NULL;
	struct err unknown = ERR_INIT;

	if (err != NULL && err->code == EBUSY) {
		/* It was stopped meanwhile, and all its commands with it. */
		o = jnew();
		jset_int(o, "killed", k->killed);
		err = NULL;
	} else if (err != NULL && err->code == ECANCELED) {
		/* The controller ends; whether the kill before this has had an effect nobody has told. */
		err_set(&unknown, EINPROGRESS, "%s", err->text);
		err = &unknown;
	} else if (err == NULL) {
		o = jnew();
		jset_int(o, "killed", 0);
		jset_bool(o, "sandboxRestarted", true);
	}
	over(k, err, o);
}

static void on_running(const struct err *err, void *arg);
static void kill_half(struct killing *k);

static void on_killed(const struct kill_result *r, void *arg)
{
	static const struct lifecycle_events events = { NULL, on_restarted };
	struct killing *k = arg;
	struct err err = ERR_INIT;

	if (r->code == 0) {
		k->killed += r->killed;
		k->survivors += r->survivors;
		if (!k->root) {
			k->root = true;
			kill_half(k);
			return;
		}
		struct json_object *o = jnew();
		jset_int(o, "killed", k->killed);
		if (k->survivors > 0)
			jset_int(o, "survivors", k->survivors);
		over(k, NULL, o);
		return;
	}
	/* A sandbox that does not run is started for it, unless it was stopped after a kill had begun. */
	if (r->code == EBUSY && ensure_worthwhile(&k->refusals) && !k->repeated && !k->root) {
		ensure_running(k->sandbox, &k->refusals, on_running, k);
		return;
	}
	/* The stream was lost and not the kill that failed: it is sent once more, and harms nobody who was not meant. */
	if ((r->code == ECONNRESET || r->code == ECANCELED || r->code == EINPROGRESS) && !k->repeated) {
		k->repeated = true;
		kill_half(k);
		return;
	}
	if (r->code == ENXIO || r->code == EACCES) {
		err_set(&err, r->code, "%s: %s", k->call->method->name, r->text);
		over(k, &err, NULL);
		return;
	}
	/* As far as anybody can tell no process can be started in the sandbox to kill the others. */
	log_warn("%s: %s; restarting the sandbox if it runs", k->sandbox->name, r->text);
	lifecycle_restart(k->call->controller, slice_str(k->sandbox->name), &events, k);
}

/*
 * Nobody in the sandbox may signal both users: first the sandbox user's commands, which may have taken all processes
 * that there are, then root's.
 */
static void kill_half(struct killing *k)
{
	struct exec_backend *b = sandbox_backend(k->sandbox, k->root);
	struct err fault = ERR_INIT;

	if (b->ops->kill_tagged(b, k->tags, k->ntags, on_killed, k, &fault) != 0)
		over(k, &fault, NULL);
}

static void on_running(const struct err *err, void *arg)
{
	struct killing *k = arg;

	if (err != NULL) {
		over(k, err, NULL);
		return;
	}
	method_exec_mark(k->sandbox, k->tags, k->ntags);
	kill_half(k);
}

static void start_kill(struct call *call)
{
	const struct json_node *tags = json_get(call->params, "tags");
	struct slice name;
	struct err err = ERR_INIT;

	if (call_sandbox_name(call, "id", &name) != 0)
		return;
	struct killing *k = mem_zalloc(sizeof(*k));
	k->call = call;
	k->sandbox = sandbox_get(call->controller, name);
	for (const struct json_node *t = tags != NULL ? tags->child : NULL; t != NULL; t = t->next) {
		if (k->ntags == TAGS_MAX || name_check_tag(t->text, &err) != 0) {
			err_set(&err, EINVAL, "killTagged: at most %d tags, each ^[A-Za-z0-9_-]{1,64}$", TAGS_MAX);
			over(k, &err, NULL);
			return;
		}
		k->tags[k->ntags++] = t->text;
	}
	if (tags != NULL && k->ntags == 0) {
		err_set(&err, EINVAL, "killTagged: tags is empty; killAll ends all commands");
		over(k, &err, NULL);
		return;
	}
	ensure_known(k->sandbox, on_running, k);
}

const struct method method_kill_all = {
	.name = "killAll",
	.start = start_kill,
	.help = "Kills every command of the sandbox with what it started, also those of other controllers.",
	.result = KILL_RESULT,
	.params = { { "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" } },
};

const struct method method_kill_tagged = {
	.name = "killTagged",
	.start = start_kill,
	.help = "Kills the commands that were started with one of the tags.",
	.result = KILL_RESULT,
	.params = {
		{ "id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" },
		{ "tags", PARAM_TAGS, PARAM_REQUIRED, "of exec" },
	},
};
