/* The table of methods, and the check of a call's parameters against its row. */
#include "controller/method.h"

#include <errno.h>

const struct method *const methods[] = {
	&method_create,
	&method_suspend,
	&method_resume,
	&method_destroy,
	&method_destroy_by_name,
	&method_exec,
	&method_exec_input,
	&method_exec_resize,
	&method_read_file,
	&method_write_file,
	&method_stat,
	&method_list_files,
	&method_remove_file,
	&method_kill_all,
	&method_kill_tagged,
	&method_list,
	&method_inspect,
	&method_reconcile,
	&method_doctor,
	NULL,
};

static const char *const schemas[PARAM_TYPES] = {
#define ROW(sym, schema) [PARAM_##sym] = schema,
#include "controller/param.def"
#undef ROW
};

const char *param_schema(enum param_type t)
{
	return schemas[t];
}

const struct method *method_find(struct slice name)
{
	for (unsigned i = 0; methods[i] != NULL; i++)
		if (slice_is(name, methods[i]->name))
			return methods[i];
	return NULL;
}

static bool all_strings(const struct json_node *n)
{
	for (const struct json_node *i = n->child; i != NULL; i = i->next)
		if (i->type != JSON_STRING)
			return false;
	return true;
}

static const char *mismatch(enum param_type t, const struct json_node *n)
{
	switch (t) {
	case PARAM_STRING:
	case PARAM_NAME:
	case PARAM_TAG:
	case PARAM_PATH:
	case PARAM_USER:
		return n->type == JSON_STRING ? NULL : "a string";
	case PARAM_TAGS:
	case PARAM_STRINGS:
	case PARAM_ARGV:
		return n->type == JSON_ARRAY && all_strings(n) ? NULL : "a list of strings";
	case PARAM_STRING_MAP:
	case PARAM_ENV:
		return n->type == JSON_OBJECT && all_strings(n) ? NULL : "an object of strings";
	case PARAM_INTEGER:
	case PARAM_POSITIVE:
	case PARAM_CELLS:
	case PARAM_READ_LIMIT:
		return n->type == JSON_INT && n->integer >= 0 ? NULL : "an integer, not negative";
	case PARAM_BOOLEAN:
		return n->type == JSON_BOOL ? NULL : "true or false";
	case PARAM_ENCODING:
		return n->type == JSON_STRING && (slice_is(n->text, "utf8") || slice_is(n->text, "base64"))
			? NULL
			: "\"utf8\" or \"base64\"";
	case PARAM_OBJECT:
	case PARAM_LIMITS:
		return n->type == JSON_OBJECT ? NULL : "an object";
	case PARAM_STRING_OR_NULL:
		return n->type == JSON_STRING || n->type == JSON_NULL ? NULL : "a string or null";
	case PARAM_REQUEST_ID:
		return n->type == JSON_STRING || n->type == JSON_INT ? NULL : "a request id: a string or an integer";
	case PARAM_MODE:
		return n->type == JSON_INT && n->integer >= 0 && n->integer <= 07777 ? NULL : "an integer from 0 to 4095";
	case PARAM_TYPES:
		break;
	}
	return "something else";
}

static const struct param *find_param(const struct method *m, struct slice name)
{
	for (const struct param *p = m->params; p->name != NULL; p++)
		if (slice_is(name, p->name))
			return p;
	return NULL;
}

int method_check(const struct method *m, const struct json_node *params, struct err *err)
{
	if (params != NULL && params->type != JSON_OBJECT)
		return err_set(err, EINVAL, "%s: params must be an object: parameters go by name", m->name);
	for (const struct json_node *n = params != NULL ? params->child : NULL; n != NULL; n = n->next) {
		const struct param *p = find_param(m, n->key);
		const char *wanted = p != NULL ? mismatch(p->type, n) : NULL;

		if (p == NULL)
			return err_set(err, EINVAL, "%s: there is no parameter \"%.*s\"", m->name,
				n->key.len < 60 ? (int)n->key.len : 60, n->key.p);
		if (wanted != NULL)
			return err_set(err, EINVAL, "%s: %s must be %s", m->name, p->name, wanted);
	}
	for (const struct param *p = m->params; p->name != NULL; p++)
		if ((p->flags & PARAM_REQUIRED) != 0 && json_get(params, p->name) == NULL)
			return err_set(err, EINVAL, "%s: %s is required", m->name, p->name);
	return 0;
}
