/* readFile, writeFile, stat, listFiles and removeFile. */
#include "controller/method.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/base64.h"
#include "controller/ensure.h"
#include "controller/json_out.h"
#include "controller/kind.h"
#include "controller/name.h"
#include "controller/text.h"
#include "libgate/buf.h"

#define READ_DEFAULT ((int64_t)1 << 20)
#define READ_MAX ((int64_t)16 << 20) /* of one call; more by offset */
#define LIST_DEFAULT 1000
#define LIST_MAX 100000
#define LIST_BYTES_MAX ((size_t)16 << 20) /* of names and targets: whoever forges them has no limit of his own */
#define FILE_MS 300000
#define SKILLS "/skills/"
#define SKILLS_WRITABLE "/opt/capybara/skills/"

struct file {
	struct call *call;
	struct sandbox *sandbox;
	struct ensure *ensure;
	struct exec_backend *backend;
	struct exec_op *op;
	struct file_request request;
	char *path; /* as it is used */
	size_t path_len;
	bool as_root;
	struct refusals refusals;
	bool inside; /* its failure is the sandbox's word */
	bool want_encoding; /* readFile: the caller chose */
	bool encoded;
	char *data; /* writeFile */
	size_t ndata, sent;
	struct buf read;
	bool overflow;
	bool nothing, more; /* no byte was asked for; and there is one */
	struct json_object *entries;
	size_t listed; /* bytes */
	size_t unconsumed;
};

static void start_op(struct file *f);

static const char *type_name(enum file_type t)
{
	switch (t) {
	case FILE_TYPE_REGULAR:
		return "file";
	case FILE_TYPE_DIRECTORY:
		return "directory";
	case FILE_TYPE_SYMLINK:
		return "symlink";
	case FILE_TYPE_OTHER:
	case FILE_TYPE_NONE:
		break;
	}
	return "other";
}

static void file_free(struct file *f)
{
	if (f->ensure != NULL)
		ensure_cancel(f->ensure);
	buf_release(&f->read);
	json_object_put(f->entries);
	free(f->data);
	free(f->path);
	sandbox_put(f->sandbox);
	free(f);
}

static void fail(struct file *f, int code, const char *text, bool at_path)
{
	struct call *call = f->call;
	struct err err = ERR_INIT;
	struct json_object *data = jnew();

	if (strerrorname_np(code) != NULL && (f->inside || kind_of(code) != KIND_UNKNOWN_OUTCOME))
		jset_cstr(data, "errno", strerrorname_np(code));
	if (f->inside)
		code = kind_from_inside(code);
	if (at_path && text_is_utf8(slice_make(f->path, f->path_len)))
		err_set(&err, code, "%s: %s: %.200s", call->method->name, text, f->path);
	else
		err_set(&err, code, "%s: %s", call->method->name, text);
	file_free(f);
	call->cancel = NULL;
	call_error(call, &err, data);
}

/* Names and targets need not be UTF-8: then they go as base64 under another member. */
static void set_bytes(struct json_object *o, const char *key, const char *key_base64, struct slice s)
{
	bool text = text_is_utf8(s);

	text_set(o, text ? key : key_base64, s, !text);
}

static void set_info(struct json_object *o, const struct file_info *info)
{
	jset_cstr(o, "type", type_name(info->type));
	jset_int(o, "size", (int64_t)info->size);
	jset_int(o, "mode", info->mode);
	jset_int(o, "mtimeMs", info->mtime_ms);
	jset_int(o, "uid", info->uid);
	jset_int(o, "gid", info->gid);
	if (info->target.p != NULL)
		set_bytes(o, "target", "targetBase64", info->target);
}

static void set_read(struct file *f, struct json_object *o, const struct file_result *r)
{
	struct slice data = buf_slice(&f->read);
	bool encoded = f->encoded;

	if (!f->want_encoding) {
		/* A cut inside a character is the limit's doing: it does not make text binary. */
		struct slice whole = r->truncated ? slice_make(data.p, data.len - text_partial(data)) : data;

		encoded = !text_is_utf8(whole);
		if (!encoded)
			data = whole;
	}
	if (encoded)
		json_out_set_base64(o, "data", STEAL(f->read.data), data);
	else
		jset_str(o, "data", data);
	jset_cstr(o, "encoding", encoded ? "base64" : "utf8");
	jset_int(o, "size", (int64_t)r->info.size);
	jset_bool(o, "truncated", r->truncated || f->more);
}

static void on_running(const struct err *err, void *arg);

static void on_done(const struct file_result *r, void *arg)
{
	struct file *f = arg;
	struct call *call = f->call;

	f->op = NULL;
	f->inside = r->inside;
	if (r->code == EBUSY && !r->lost && !r->inside && ensure_worthwhile(&f->refusals)) {
		f->sent = 0;
		f->ensure = ensure_running(f->sandbox, &f->refusals, on_running, f);
		return;
	}
	if (r->code != 0) {
		bool changes = f->request.kind == FILE_WRITE || f->request.kind == FILE_REMOVE;

		fail(f, r->lost && changes ? EINPROGRESS : r->code, r->text, !r->lost && (r->inside || r->code != ENXIO));
		return;
	}
	if (f->overflow) {
		fail(f, EMSGSIZE, "more than one answer holds; read it in parts by offset and limit", true);
		return;
	}
	if (f->want_encoding && !f->encoded && f->request.kind == FILE_READ && !text_is_utf8(buf_slice(&f->read))) {
		fail(f, EILSEQ, "not UTF-8 text; read it with encoding base64", true);
		return;
	}
	struct json_object *o = jnew();
	switch (f->request.kind) {
	case FILE_STAT:
		jset_bool(o, "exists", r->info.type != FILE_TYPE_NONE);
		if (r->info.type != FILE_TYPE_NONE)
			set_info(o, &r->info);
		break;
	case FILE_READ:
		set_read(f, o, r);
		break;
	case FILE_WRITE:
		jset_int(o, "size", (int64_t)r->info.size);
		break;
	case FILE_LIST:
		jset(o, "entries", STEAL(f->entries));
		jset_bool(o, "truncated", r->truncated || f->more);
		break;
	case FILE_REMOVE:
		jset_bool(o, "removed", true);
		break;
	}
	file_free(f);
	call->cancel = NULL;
	call_result(call, o);
}

/* Of what comes in more than one piece there is room for all at once: no copy at each doubling. */
static int keep(struct file *f, struct slice data)
{
	size_t len = buf_len(&f->read);

	if (len > 0 && f->request.limit > len && buf_reserve(&f->read, (size_t)f->request.limit - len) == NULL)
		return -1;
	return buf_put_slice(&f->read, data);
}

static void on_data(struct slice data, void *arg)
{
	struct file *f = arg;

	if (f->nothing)
		f->more = true;
	else if (f->call->owner->output != NULL)
		f->call->owner->output(f->call, EXEC_STDOUT, data);
	else if (keep(f, data) != 0)
		f->overflow = true;
	f->unconsumed += data.len;
	if (!call_congested(f->call)) {
		f->backend->ops->consumed(f->op, f->unconsumed);
		f->unconsumed = 0;
	}
}

static void on_drained(struct call *call)
{
	struct file *f = call->state;

	if (f->op != NULL && f->unconsumed > 0) {
		size_t n = f->unconsumed;
		f->unconsumed = 0;
		f->backend->ops->consumed(f->op, n);
	}
}

static void on_entry(struct slice name, const struct file_info *info, void *arg)
{
	struct file *f = arg;

	/* The limit is kept in the sandbox, and not taken on its word. */
	if (json_object_array_length(f->entries) >= f->request.limit || f->more)
		return;
	f->listed += name.len + info->target.len;
	f->more = f->listed > LIST_BYTES_MAX;
	if (f->more)
		return;
	struct json_object *o = jnew();

	set_bytes(o, "name", "nameBase64", name);
	set_info(o, info);
	jadd(f->entries, o);
}

static void on_room(size_t bytes, void *arg)
{
	struct file *f = arg;

	if (f->call->room != NULL) {
		f->call->room(f->call, bytes);
		return;
	}
	while (f->sent < f->ndata) {
		size_t n = f->backend->ops->write(f->op, slice_make(f->data + f->sent, f->ndata - f->sent));
		if (n == 0)
			return;
		f->sent += n;
	}
	f->backend->ops->close(f->op);
}

/* The command line streams content of any length. */
static int take_input(struct call *call, struct slice data, bool close, struct err *err)
{
	struct file *f = call->state;

	if (f->op == NULL || f->backend->ops->write(f->op, data) != data.len)
		return err_set(err, EAGAIN, "no room");
	if (close)
		f->backend->ops->close(f->op);
	return 0;
}

static const struct file_events op_events = { on_data, on_entry, on_room, on_done };

static void start_op(struct file *f)
{
	struct err err = ERR_INIT;

	f->backend = sandbox_backend(f->sandbox, f->as_root);
	f->op = f->backend->ops->file(f->backend, &f->request, &op_events, f, &err);
	if (f->op == NULL)
		fail(f, err.code, err.text, true);
}

static void on_running(const struct err *err, void *arg)
{
	struct file *f = arg;

	f->ensure = NULL;
	if (err != NULL)
		fail(f, err->code, err->text, false);
	else
		start_op(f);
}

static void cancel(struct call *call)
{
	struct file *f = call->state;

	if (f->op != NULL)
		f->backend->ops->kill(f->op);
	else
		fail(f, ECANCELED, "aborted before it was started", false);
}

static int read_path(struct file *f, const struct json_node *p, struct err *err)
{
	struct slice path, encoded;
	bool plain = json_get_string(p, "path", &path);

	if (plain == json_get_string(p, "pathBase64", &encoded))
		return err_set(err, EINVAL, "exactly one of path and pathBase64 is needed");
	f->path = plain ? mem_dup(path) : base64_decode(encoded, &f->path_len);
	if (f->path == NULL)
		return err_set(err, EINVAL, "pathBase64 is not base64");
	if (plain)
		f->path_len = path.len;
	return name_check_path(slice_make(f->path, f->path_len), err);
}

static bool climbs(struct slice path)
{
	static const char up[] = "/..";
	const char *at;

	while (path.len >= sizeof(up) - 1 && (at = memmem(path.p, path.len, up, sizeof(up) - 1)) != NULL) {
		path = slice_skip(path, (size_t)(at - path.p) + sizeof(up) - 1);
		if (path.len == 0 || path.p[0] == '/')
			return true;
	}
	return false;
}

/*
 * /skills is read-only in the sandbox; what changes it goes to its other mount, as root of the container. A path that
 * climbs out of it is no part of it, and stays the sandbox user's.
 */
static void redirect_skills(struct file *f)
{
	struct slice path = slice_make(f->path, f->path_len);

	if (!slice_starts(path, SKILLS) || climbs(path))
		return;
	struct slice rest = slice_skip(path, strlen(SKILLS));
	char *other = mem_zalloc(strlen(SKILLS_WRITABLE) + rest.len + 1);
	memcpy(other, SKILLS_WRITABLE, strlen(SKILLS_WRITABLE));
	memcpy(other + strlen(SKILLS_WRITABLE), rest.p, rest.len);
	free(f->path);
	f->path = other;
	f->path_len = strlen(SKILLS_WRITABLE) + rest.len;
	f->as_root = true;
}

static int read_write_params(struct file *f, const struct json_node *p, struct err *err)
{
	struct slice data = SLICE_LIT(""), encoding = { NULL, 0 };
	int64_t n;

	if (!json_get_string(p, "data", &data) && f->call->room == NULL)
		return err_set(err, EINVAL, "data is required; an empty string makes an empty file");
	json_get_string(p, "encoding", &encoding);
	f->data = text_bytes(data, encoding, &f->ndata);
	if (f->data == NULL)
		return err_set(err, EINVAL, "data is not base64");
	f->request.mode = json_get_int(p, "mode", &n) ? (int)n : -1;
	json_get_bool(p, "append", &f->request.append);
	json_get_bool(p, "exclusive", &f->request.exclusive);
	json_get_bool(p, "makeParents", &f->request.make_parents);
	return 0;
}

static int read_params(struct file *f, enum file_kind kind, const struct json_node *p, struct err *err)
{
	struct slice encoding;
	int64_t n;

	f->request = (struct file_request){ .kind = kind, .mode = -1, .timeout_ms = FILE_MS };
	if (read_path(f, p, err) != 0)
		return -1;
	switch (kind) {
	case FILE_STAT:
		json_get_bool(p, "follow", &f->request.follow);
		break;
	case FILE_READ:
		if (json_get_int(p, "offset", &n))
			f->request.offset = (uint64_t)n;
		f->request.limit = f->call->owner->output != NULL ? 0 : (uint64_t)READ_DEFAULT;
		if (json_get_int(p, "limit", &n)) {
			if (n > READ_MAX && f->call->owner->output == NULL)
				return err_set(err, EINVAL, "limit is at most %lld; read more by offset", (long long)READ_MAX);
			f->nothing = n == 0; /* to the backends that is no limit */
			f->request.limit = n > 0 ? (uint64_t)n : 1;
		}
		f->want_encoding = json_get_string(p, "encoding", &encoding);
		f->encoded = f->want_encoding && slice_is(encoding, "base64");
		break;
	case FILE_WRITE:
		if (read_write_params(f, p, err) != 0)
			return -1;
		redirect_skills(f);
		break;
	case FILE_LIST:
		f->request.limit = LIST_DEFAULT;
		if (json_get_int(p, "limit", &n))
			f->request.limit = n < 1 ? 1 : n > LIST_MAX ? LIST_MAX : (uint64_t)n;
		f->entries = json_object_new_array();
		break;
	case FILE_REMOVE:
		json_get_bool(p, "recursive", &f->request.recursive);
		redirect_skills(f);
		break;
	}
	f->request.path = slice_make(f->path, f->path_len);
	return 0;
}

static void start_file(struct call *call, enum file_kind kind)
{
	struct slice name;
	struct err err = ERR_INIT;

	if (call_sandbox_name(call, "id", &name) != 0)
		return;
	struct file *f = mem_zalloc(sizeof(*f));
	f->call = call;
	f->sandbox = sandbox_get(call->controller, name);
	buf_init(&f->read, (size_t)READ_MAX);
	if (read_params(f, kind, call->params, &err) != 0) {
		fail(f, err.code, err.text, false);
		return;
	}
	call->state = f;
	call->cancel = cancel;
	call->drained = on_drained;
	if (kind == FILE_WRITE)
		call->input = take_input;
	f->ensure = ensure_known(f->sandbox, on_running, f);
}

static void start_stat(struct call *call)
{
	start_file(call, FILE_STAT);
}

static void start_read(struct call *call)
{
	start_file(call, FILE_READ);
}

static void start_write(struct call *call)
{
	start_file(call, FILE_WRITE);
}

static void start_list(struct call *call)
{
	start_file(call, FILE_LIST);
}

static void start_remove(struct call *call)
{
	start_file(call, FILE_REMOVE);
}

#define ID_PARAM \
	{ \
		"id", PARAM_NAME, PARAM_REQUIRED, "the sandbox" \
	}
#define PATH_PARAMS \
	{ "path", PARAM_PATH, 0, "absolute; or pathBase64" }, \
	{ \
		"pathBase64", PARAM_STRING, 0, "a path that is not UTF-8" \
	}
#define INFO_PROPERTIES \
	"\"type\":{\"enum\":[\"file\",\"directory\",\"symlink\",\"other\"]},\"size\":{\"type\":\"integer\"}," \
	"\"mode\":{\"type\":\"integer\"},\"mtimeMs\":{\"type\":\"integer\"},\"uid\":{\"type\":\"integer\"}," \
	"\"gid\":{\"type\":\"integer\"},\"target\":{\"type\":\"string\"},\"targetBase64\":{\"type\":\"string\"}"

const struct method method_read_file = {
	.name = "readFile",
	.start = start_read,
	.help = "Reads a regular file as the sandbox user.",
	.result =
		"{\"type\":\"object\",\"required\":[\"data\",\"encoding\",\"size\",\"truncated\"],\"properties\":{"
		"\"data\":{\"type\":\"string\"},\"encoding\":{\"enum\":[\"utf8\",\"base64\"]},\"size\":{\"type\":\"integer\"},"
		"\"truncated\":{\"type\":\"boolean\"}}}",
	.params = { ID_PARAM, PATH_PARAMS, { "offset", PARAM_INTEGER, 0, "bytes to skip" },
		{ "limit", PARAM_READ_LIMIT, 0, "bytes at most; 1 MiB without it, 16 MiB at most" },
		{ "encoding", PARAM_ENCODING, 0, "utf8 fails on other content; without it what fits is chosen" } },
};

const struct method method_write_file = {
	.name = "writeFile",
	.start = start_write,
	.help =
		"Writes a file as the sandbox user, atomically; a symlink is followed. Under /skills as root of the container.",
	.result = "{\"type\":\"object\",\"required\":[\"size\"],\"properties\":{\"size\":{\"type\":\"integer\"}}}",
	.params = { ID_PARAM, PATH_PARAMS, { "data", PARAM_STRING, 0, "the content" },
		{ "encoding", PARAM_ENCODING, 0, "of data" },
		{ "mode", PARAM_MODE, 0, "permission bits; the old file's or 0644 without it" },
		{ "append", PARAM_BOOLEAN, 0, "to what is there" },
		{ "exclusive", PARAM_BOOLEAN, 0, "fail when there is something" },
		{ "makeParents", PARAM_BOOLEAN, 0, "make missing directories" } },
};

const struct method method_stat = {
	.name = "stat",
	.start = start_stat,
	.help = "Says what is at a path; that nothing is there is an answer, not an error.",
	.result =
		"{\"type\":\"object\",\"required\":[\"exists\"],\"properties\":{\"exists\":{\"type\":\"boolean\"}," INFO_PROPERTIES
		"}}",
	.params = { ID_PARAM, PATH_PARAMS, { "follow", PARAM_BOOLEAN, 0, "a symlink at the end is followed" } },
};

const struct method method_list_files = {
	.name = "listFiles",
	.start = start_list,
	.help = "Lists a directory, in no particular order.",
	.result =
		"{\"type\":\"object\",\"required\":[\"entries\",\"truncated\"],\"properties\":{\"truncated\":{\"type\":\"boolean\"},"
		"\"entries\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
		"\"nameBase64\":{\"type\":\"string\"}," INFO_PROPERTIES "}}}}}",
	.params = { ID_PARAM, PATH_PARAMS,
		{ "limit", PARAM_INTEGER, 0, "entries at most; 1000 without it, and 100,000 however many are asked for" } },
};

const struct method method_remove_file = {
	.name = "removeFile",
	.start = start_remove,
	.help = "Removes a file, a symlink or an empty directory; with recursive a whole directory.",
	.result = "{\"type\":\"object\",\"properties\":{\"removed\":{\"type\":\"boolean\"}}}",
	.params = { ID_PARAM, PATH_PARAMS, { "recursive", PARAM_BOOLEAN, 0, "directories with all that is in them" } },
};
