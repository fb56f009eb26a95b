/* Writes the OpenRPC document. */
#include "controller/discover.h"

#include "config.h"
#include "controller/kind.h"
#include "controller/mem.h"
#include "controller/method.h"

/* What the connection itself answers, beside the table. */
static const struct method own[] = {
	{
		.name = "initialize",
		.help = "Says what is spoken: protocol, capabilities and limits.",
		.result = "{\"type\":\"object\",\"required\":[\"protocol\",\"capabilities\"],\"properties\":{"
				  "\"protocol\":{\"const\":\"sandbox@1\"},\"server\":{\"type\":\"object\"},"
				  "\"capabilities\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"}},"
				  "\"limits\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}}}",
	},
	{
		.name = "rpc.discover",
		.help = "This document.",
		.result = "{\"type\":\"object\"}",
	},
	{
		.name = "shutdown",
		.help = "Ends running commands, answers, and closes the connection. Sandboxes stay.",
		.result = "{\"type\":\"object\"}",
	},
	{
		.name = "$/cancelRequest",
		.help = "A notification: ends the running request of that id, a command with all that it started.",
		.result = "{\"type\":\"object\"}",
		.params = { { "id", PARAM_REQUEST_ID, PARAM_REQUIRED, "of the request" } },
	},
};

const struct method *discover_own(struct slice name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(own); i++)
		if (slice_is(name, own[i].name))
			return &own[i];
	return NULL;
}

static struct json_object *schema(const char *text)
{
	struct json_object *o = json_tokener_parse(text);

	if (o == NULL)
		abort(); /* a table row of ours is no JSON: the tests find it */
	return o;
}

static struct json_object *describe_param(const struct param *p)
{
	struct json_object *o = jnew();

	jset_cstr(o, "name", p->name);
	jset_cstr(o, "description", p->help);
	jset_bool(o, "required", (p->flags & PARAM_REQUIRED) != 0);
	jset(o, "schema", schema(param_schema(p->type)));
	return o;
}

static struct json_object *describe_errors(void)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < KIND_COUNT; i++) {
		struct json_object *e = jnew();

		jset_int(e, "code", kind_rpc_code((enum kind)i));
		jset_cstr(e, "message", kind_id((enum kind)i));
		jset_cstr(jobj(e, "data"), "kind", kind_id((enum kind)i));
		jadd(list, e);
	}
	return list;
}

static struct json_object *describe(const struct method *m)
{
	struct json_object *o = jnew();

	jset_cstr(o, "name", m->name);
	jset_cstr(o, "summary", m->help);
	jset_cstr(o, "paramStructure", "by-name");
	struct json_object *params = jarr(o, "params");
	for (const struct param *p = m->params; p->name != NULL; p++)
		jadd(params, describe_param(p));
	struct json_object *result = jobj(o, "result");
	jset_cstr(result, "name", "result");
	jset(result, "schema", schema(m->result));
	jset(o, "errors", describe_errors());
	return o;
}

struct json_object *discover_document(void)
{
	struct json_object *o = jnew();

	jset_cstr(o, "openrpc", "1.3.2");
	struct json_object *info = jobj(o, "info");
	jset_cstr(info, "title", "sandbox@1");
	jset_cstr(info, "version", PACKAGE_VERSION);
	struct json_object *list = jarr(o, "methods");
	for (unsigned i = 0; i < ARRAY_SIZE(own); i++)
		jadd(list, describe(&own[i]));
	for (unsigned i = 0; methods[i] != NULL; i++)
		jadd(list, describe(methods[i]));
	return o;
}
