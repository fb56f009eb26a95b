/* Environment variables of the HAProxy-based socket proxy, made into the rows of a policy. */
#include "dockerproxy/import_env.h"

#include <errno.h>
#include <string.h>

#include "libgate/slice.h"

static const struct row {
	const char *variable;
	const char *id;
	const char *method;
	const char *path;
	const char *response;
	bool body;
} rows[] = {
#define ROW(variable, id, method, path, response, body) { variable, id, method, path, response, body },
#include "dockerproxy/import_row.def"
#undef ROW
};

/* Single requests that stay open with POST=0, by the rows' ids. */
static const struct {
	const char *variable;
	const char *ids[4];
} allows[] = {
	{ "ALLOW_START", { "container.start" } },
	{ "ALLOW_STOP", { "container.stop" } },
	{ "ALLOW_RESTARTS", { "container.stop", "container.restart", "container.kill" } },
	{ "ALLOW_PAUSE", { "container.pause" } },
	{ "ALLOW_UNPAUSE", { "container.unpause" } },
};

/*
 * Newer releases ask for a variable more: one for each method, and one for each of these requests beside their section's.
 * Older ones do not know them. A value that is given counts, whatever else would open the row; without one POST speaks for
 * every method, and the section for the request.
 */
static const struct {
	const char *variable;
	const char *method;
	const char *id;
} further[] = {
	{ "DELETE", "DELETE", NULL },
	{ "ALLOW_ATTACH", NULL, "container.attach" },
	{ "ALLOW_EXEC", NULL, "exec.create" },
	{ "ALLOW_KILL", NULL, "container.kill" },
	{ "ALLOW_LOGS", NULL, "container.logs" },
};

static const char *const on_by_default[] = { "PING", "VERSION", "EVENTS" };

/* Endpoints that have no rows: their bodies or protocols are not JSON over HTTP/1.1. */
static const struct {
	const char *variable;
	const char *why;
} untranslated[] = {
	{ "BUILD", "its body is an archive, which is not read here" },
	{ "SESSION", "it is HTTP/2, which is not served" },
	{ "GRPC", "it is HTTP/2, which is not served" },
	{ "ALLOW_ARCHIVE", "archives of containers let files in and out" },
	{ "ALLOW_EXPORT", "archives of containers let files in and out" },
};

/* Read by that proxy's start-up: they belong into the configuration file. */
static const char *const start_up[] = {
	"BIND_CONFIG",
	"DISABLE_IPV6",
	"LOG_LEVEL",
	"PATCH", /* no endpoint has such a method, nor PUT but for archives */
	"PROXY_CONTAINER",
	"PUT",
	"SOCKET_PATH",
	"TIMEOUT_CLIENT",
	"TIMEOUT_SERVER",
};

bool import_env_knows(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].variable, name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(allows); i++)
		if (strcmp(allows[i].variable, name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(further); i++)
		if (strcmp(further[i].variable, name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(untranslated); i++)
		if (strcmp(untranslated[i].variable, name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(start_up); i++)
		if (strcmp(start_up[i], name) == 0)
			return true;
	return strcmp(name, "POST") == 0;
}

static bool is_default_on(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(on_by_default); i++)
		if (strcmp(on_by_default[i], variable) == 0)
			return true;
	return false;
}

/* 1 on, 0 off, -1 with err set. */
static int is_on(import_lookup lookup, void *arg, const char *variable, struct err *err)
{
	static const char *const on[] = { "1", "true", "yes", "on" };
	static const char *const off[] = { "0", "false", "no", "off", "" };
	const char *value = lookup(variable, arg);

	if (value == NULL)
		return is_default_on(variable);
	for (size_t i = 0; i < ARRAY_SIZE(on); i++)
		if (slice_case_is(slice_str(value), on[i]))
			return 1;
	for (size_t i = 0; i < ARRAY_SIZE(off); i++)
		if (slice_case_is(slice_str(value), off[i]))
			return 0;
	return err_set(err, EINVAL, "%s is neither 0 nor 1", variable);
}

static bool only_looks(const struct row *r)
{
	return strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
}

/* May the row's method be used? The same answers as is_on(). */
static int method_is_open(import_lookup lookup, void *arg, const struct row *r, struct err *err)
{
	int post = is_on(lookup, arg, "POST", err);

	if (post < 0 || only_looks(r))
		return post < 0 ? -1 : 1;
	for (size_t i = 0; i < ARRAY_SIZE(further); i++)
		if (further[i].method != NULL && strcmp(further[i].method, r->method) == 0 &&
			lookup(further[i].variable, arg) != NULL)
			return is_on(lookup, arg, further[i].variable, err);
	return post;
}

/* Does a variable of the request's own not close it? The same answers. */
static int request_is_open(import_lookup lookup, void *arg, const struct row *r, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(further); i++)
		if (further[i].id != NULL && strcmp(further[i].id, r->id) == 0 && lookup(further[i].variable, arg) != NULL)
			return is_on(lookup, arg, further[i].variable, err);
	return 1;
}

/* The same answers. */
static int row_is_open(import_lookup lookup, void *arg, const struct row *r, struct err *err)
{
	int section = is_on(lookup, arg, r->variable, err);
	int method = method_is_open(lookup, arg, r, err);
	int request = request_is_open(lookup, arg, r, err);

	if (section < 0 || method < 0 || request < 0)
		return -1;
	if (request == 0)
		return 0;
	if (section == 1 && method == 1)
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(allows); i++)
		for (size_t j = 0; j < ARRAY_SIZE(allows[i].ids) && allows[i].ids[j] != NULL; j++) {
			int allow = strcmp(allows[i].ids[j], r->id) == 0 ? is_on(lookup, arg, allows[i].variable, err) : 0;

			if (allow != 0)
				return allow;
		}
	return 0;
}

static int put_head(import_lookup lookup, void *arg, struct buf *out)
{
	struct err ignored;

	if (buf_puts(out,
			"// Made by dockerproxy import-env from the environment of an HAProxy-based socket proxy. It opens the same\n"
			"// endpoints. Narrow every row that says so: what its body asks for is not looked at. Left out on purpose:\n"
			"// archive, export and attach/ws of containers, and the archives of images, which let files in and out.\n") <
		0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(untranslated); i++)
		if (is_on(lookup, arg, untranslated[i].variable, &ignored) == 1 &&
			buf_putf(out, "// %s=1 is not translated: %s.\n", untranslated[i].variable, untranslated[i].why) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(further); i++)
		if (lookup(further[i].variable, arg) == NULL &&
			buf_putf(out,
				"// %s is not given: as in releases without it, %s says. Newer ones refuse then: give %s=0.\n",
				further[i].variable, further[i].method != NULL ? "POST" : "the section", further[i].variable) < 0)
			return -1;
	return buf_puts(out,
		"{\n\t\"apiVersions\": { \"min\": \"1.41\", \"max\": \"1.51\", \"default\": \"1.41\" },\n"
		"\t\"$defs\": {\n"
		"\t\t\"id\": { \"type\": \"string\", \"maxLength\": 255, \"pattern\": \"^[A-Za-z0-9][A-Za-z0-9_.-]*$\" },\n"
		"\t\t\"name\": { \"type\": \"string\", \"maxLength\": 255, \"pattern\": \"^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$\" },\n"
		"\t\t\"query\": { \"type\": \"object\", \"additionalProperties\": { \"type\": \"string\" } }\n"
		"\t},\n\t\"endpoints\": [");
}

static int put_row(struct buf *out, const struct row *r, bool first)
{
	const char *param = strstr(r->path, "{id}") != NULL ? "id" : strstr(r->path, "{name...}") != NULL ? "name" : NULL;

	if (buf_puts(out, first ? "\n" : ",\n") < 0)
		return -1;
	if (r->body && buf_puts(out, "\t\t// takes any body: narrow it\n") < 0)
		return -1;
	if (buf_putf(out, "\t\t{ \"id\": \"%s\", \"method\": \"%s\", \"path\": \"%s\"", r->id, r->method, r->path) < 0)
		return -1;
	if (param != NULL && buf_putf(out, ", \"params\": { \"%s\": { \"$ref\": \"#/$defs/%s\" } }", param, param) < 0)
		return -1;
	if (buf_puts(out, ", \"query\": { \"$ref\": \"#/$defs/query\" }") < 0)
		return -1;
	if (r->body && buf_puts(out, ", \"body\": true, \"maxBody\": 1048576") < 0)
		return -1;
	if (strcmp(r->path, "/_ping") == 0 || strcmp(r->path, "/version") == 0) {
		if (buf_puts(out, ", \"keepUnversioned\": true") < 0)
			return -1;
	} else if (strcmp(r->response, "plain") != 0 && buf_putf(out, ", \"response\": \"%s\"", r->response) < 0) {
		return -1;
	}
	return buf_puts(out, " }");
}

int import_env(import_lookup lookup, void *arg, struct buf *out, struct err *err)
{
	bool first = true;

	if (put_head(lookup, arg, out) < 0)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int open = row_is_open(lookup, arg, &rows[i], err);

		if (open < 0)
			return -1;
		if (open == 0)
			continue;
		if (put_row(out, &rows[i], first) < 0)
			return err_set(err, ENOMEM, "out of memory");
		first = false;
	}
	if (first)
		return err_set(err, EINVAL, "these variables open no endpoint at all");
	if (buf_puts(out, "\n\t]\n}\n") < 0)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}
