/* Configuration: defaults, then a JSON file, then the environment, each value checked by its row of the key table. */
#include "libgate/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "libgate/buf.h"

#define CONF_FILE_MAX (1024 * 1024)
#define CONF_PATH_MAX 128
#define CONF_NAME_MAX 64 /* longer names are not compared for likeness */
#define CONF_QUOTE_MAX 80 /* bytes of a wrong value that a message repeats */

/* Where a value comes from, for messages. */
struct source {
	const char *name; /* of the file, or of the variable */
	struct slice text; /* of the file; p == NULL: no positions */
};

/* Set by a parse() of the table for the length of one call: which node its message is about. */
static const struct json_node *blamed;

int conf_blame(const struct json_node *node)
{
	if (blamed == NULL)
		blamed = node;
	return -1;
}

/* Puts the place of node in front of err's text. */
static int at_node(const struct source *src, const struct json_node *node, bool key, struct err *err)
{
	unsigned line, column;

	json_position(src->text, key ? node->key_offset : node->offset, &line, &column);
	return err_wrap(err, "%s:%u:%u", src->name, line, column);
}

/* --- values ----------------------------------------------------------------------------------------------------- */

struct unit {
	const char *name;
	int64_t factor;
};

/* The largest first: a limit is printed in the largest unit that divides it. */
static const struct unit duration_units[] = {
	{ "d", 86400000 },
	{ "h", 3600000 },
	{ "m", 60000 },
	{ "s", 1000 },
	{ "ms", 1 },
	{ NULL, 0 },
};

static const struct unit size_units[] = {
	{ "GiB", 1 << 30 },
	{ "MiB", 1 << 20 },
	{ "KiB", 1 << 10 },
	{ "B", 1 },
	{ NULL, 0 },
};

static const struct unit no_units[] = {
	{ "", 1 },
	{ NULL, 0 },
};

static const struct unit *units_of(enum conf_type type)
{
	if (type == CONF_DURATION)
		return duration_units;
	return type == CONF_SIZE ? size_units : no_units;
}

/* A number without a unit: seconds of a duration, bytes of a size. */
static int64_t bare_factor(enum conf_type type)
{
	return type == CONF_DURATION ? 1000 : 1;
}

static const char *type_wants(enum conf_type type)
{
	switch (type) {
	case CONF_STRING:
		return "a string";
	case CONF_BOOL:
		return "true or false";
	case CONF_INT:
		return "an integer";
	case CONF_DURATION:
		return "a number of seconds, or a string as \"250ms\", \"10s\", \"5m\", \"1h\"";
	case CONF_SIZE:
		return "a number of bytes, or a string as \"16KiB\", \"64MiB\"";
	case CONF_ENUM:
	case CONF_CUSTOM:
		break;
	}
	return "another value";
}

/* Repeats a wrong value in a message: cut, in JSON's escapes. */
static void quote(char *out, size_t size, struct slice s)
{
	struct buf b;

	buf_init(&b, size - 1);
	if (s.len > CONF_QUOTE_MAX / 6)
		s.len = CONF_QUOTE_MAX / 6;
	out[0] = '\0';
	if (buf_put_json(&b, s) == 0)
		snprintf(out, size, "%.*s", SLICE_ARG(buf_slice(&b)));
	buf_release(&b);
}

static void put_limit(char *out, size_t size, enum conf_type type, int64_t value)
{
	const struct unit *u = units_of(type);

	while (u[1].name != NULL && (value % u->factor != 0 || value == 0))
		u++;
	snprintf(out, size, "%lld%s", (long long)(value / u->factor), u->name);
}

static int store_number(void *conf, const struct conf_key *key, int64_t value, struct err *err)
{
	char min[32], max[32];

	if (value < key->min || value > key->max) {
		put_limit(min, sizeof(min), key->type, key->min);
		put_limit(max, sizeof(max), key->type, key->max);
		return err_set(err, ERANGE, "must be within %s and %s", min, max);
	}
	*(int64_t *)(void *)((char *)conf + key->offset) = value;
	return 0;
}

/* Digits, and at most one unit after them. */
static int store_number_text(void *conf, const struct conf_key *key, struct slice text, struct err *err)
{
	const struct unit *u = units_of(key->type);
	bool negative = text.len > 1 && text.p[0] == '-' && key->type == CONF_INT;
	int64_t value = 0, factor = bare_factor(key->type);
	size_t i = negative ? 1 : 0;
	struct slice rest;
	char shown[CONF_QUOTE_MAX + 1];

	for (; i < text.len && text.p[i] >= '0' && text.p[i] <= '9'; i++)
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text.p[i] - '0', &value))
			return store_number(conf, key, INT64_MAX, err);
	rest = slice_skip(text, i);
	if (rest.len > 0) {
		while (u->name != NULL && !slice_is(rest, u->name))
			u++;
		factor = u->factor;
	}
	if (rest.len == text.len || u->name == NULL) {
		quote(shown, sizeof(shown), text);
		return err_set(err, EINVAL, "\"%s\" is not %s", shown, type_wants(key->type));
	}
	if (__builtin_mul_overflow(value, factor, &value))
		value = INT64_MAX;
	return store_number(conf, key, negative ? -value : value, err);
}

static int store_string(void *conf, const struct conf_key *key, struct slice text, struct err *err)
{
	char **where = (char **)(void *)((char *)conf + key->offset);
	char *copy;

	if (text.len == 0)
		return err_set(err, EINVAL, "must not be empty");
	copy = strndup(text.p, text.len);
	if (copy == NULL)
		return err_set(err, ENOMEM, "out of memory");
	free(*where);
	*where = copy;
	return 0;
}

static int store_enum(void *conf, const struct conf_key *key, struct slice text, struct err *err)
{
	char words[160] = "";
	size_t n = 0;

	for (int i = 0; key->names[i] != NULL; i++) {
		if (slice_is(text, key->names[i])) {
			*(int *)(void *)((char *)conf + key->offset) = i;
			return 0;
		}
		n += (size_t)snprintf(words + n, sizeof(words) - n, "%s%s", i > 0 ? ", " : "", key->names[i]);
		if (n >= sizeof(words))
			break;
	}
	return err_set(err, EINVAL, "must be one of: %s", words);
}

static int store_bool_text(void *conf, const struct conf_key *key, struct slice text, struct err *err)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "true", true },
		{ "1", true },
		{ "on", true },
		{ "yes", true },
		{ "false", false },
		{ "0", false },
		{ "off", false },
		{ "no", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (slice_case_is(text, words[i].word)) {
			*(bool *)((char *)conf + key->offset) = words[i].value;
			return 0;
		}
	}
	return err_set(err, EINVAL, "must be true or false (on, off, yes, no, 1, 0)");
}

static int store_text(void *conf, const struct conf_key *key, struct slice text, struct err *err)
{
	switch (key->type) {
	case CONF_STRING:
		return store_string(conf, key, text, err);
	case CONF_BOOL:
		return store_bool_text(conf, key, text, err);
	case CONF_INT:
	case CONF_DURATION:
	case CONF_SIZE:
		return store_number_text(conf, key, text, err);
	case CONF_ENUM:
		return store_enum(conf, key, text, err);
	case CONF_CUSTOM:
		return key->parse(conf, NULL, text, err);
	}
	return err_set(err, EINVAL, "unknown type in the key table");
}

static int wrong_type(const struct conf_key *key, struct err *err)
{
	return err_set(err, EINVAL, "must be %s", type_wants(key->type));
}

static int store_node(void *conf, const struct conf_key *key, const struct json_node *node, struct err *err)
{
	bool is_text = node->type == JSON_STRING;

	switch (key->type) {
	case CONF_STRING:
		return is_text ? store_string(conf, key, node->text, err) : wrong_type(key, err);
	case CONF_BOOL:
		if (node->type != JSON_BOOL)
			return wrong_type(key, err);
		*(bool *)((char *)conf + key->offset) = node->boolean;
		return 0;
	case CONF_INT:
		return node->type == JSON_INT ? store_number(conf, key, node->integer, err) : wrong_type(key, err);
	case CONF_DURATION:
	case CONF_SIZE:
		if (node->type == JSON_INT)
			return store_number_text(conf, key, node->digits, err);
		return is_text ? store_number_text(conf, key, node->text, err) : wrong_type(key, err);
	case CONF_ENUM:
		return store_enum(conf, key, is_text ? node->text : slice_make("", 0), err);
	case CONF_CUSTOM:
		return key->parse(conf, node, slice_make("", 0), err);
	}
	return err_set(err, EINVAL, "unknown type in the key table");
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

/* Edit distance of two short names, case ignored; larger than any limit when one is too long to compare. */
static unsigned distance(struct slice a, struct slice b)
{
	unsigned row[CONF_NAME_MAX + 1];

	if (a.len > CONF_NAME_MAX || b.len > CONF_NAME_MAX)
		return CONF_NAME_MAX;
	for (unsigned j = 0; j <= b.len; j++)
		row[j] = j;
	for (unsigned i = 1; i <= a.len; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= b.len; j++) {
			unsigned above = row[j];
			unsigned best = diagonal + (slice_lower(a.p[i - 1]) != slice_lower(b.p[j - 1]));

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			diagonal = above;
		}
	}
	return row[b.len];
}

/* The path in the table that is most like the unknown one, or NULL when none is like it at all. */
static const char *nearest(const struct conf_key *keys, struct slice path)
{
	unsigned best = (unsigned)path.len / 3 + 2;
	const char *found = NULL;
	const char *dot = memrchr(path.p, '.', path.len);
	struct slice leaf = dot != NULL ? slice_skip(path, (size_t)(dot - path.p) + 1) : path;

	for (const struct conf_key *k = keys; k->path != NULL; k++) {
		unsigned d = distance(path, slice_str(k->path));
		const char *last = strrchr(k->path, '.');

		/* The right name in the wrong object is as good a guess as one wrong letter. */
		if (slice_case_is(leaf, last != NULL ? last + 1 : k->path))
			d = 1;
		if (d < best) {
			best = d;
			found = k->path;
		}
	}
	return found;
}

static const struct conf_key *find_key(const struct conf_key *keys, const char *path)
{
	for (const struct conf_key *k = keys; k->path != NULL; k++)
		if (strcmp(k->path, path) == 0)
			return k;
	return NULL;
}

/* Is path an object that holds keys of the table? */
static bool is_group(const struct conf_key *keys, const char *path)
{
	size_t n = strlen(path);

	for (const struct conf_key *k = keys; k->path != NULL; k++)
		if (strncmp(k->path, path, n) == 0 && k->path[n] == '.')
			return true;
	return false;
}

static int unknown_key(const struct conf_key *keys, struct slice path, struct err *err)
{
	const char *like = nearest(keys, path);
	char shown[CONF_QUOTE_MAX + 1];

	quote(shown, sizeof(shown), path);
	if (like != NULL)
		return err_set(err, EINVAL, "unknown key \"%s\"; did you mean \"%s\"?", shown, like);
	return err_set(err, EINVAL, "unknown key \"%s\"", shown);
}

static int read_key(void *conf, const struct conf_key *key, const struct source *src, const struct json_node *node,
	struct err *err)
{
	int rc;

	blamed = NULL;
	rc = store_node(conf, key, node, err);
	if (rc < 0) {
		err_wrap(err, "%s", key->path);
		at_node(src, blamed != NULL ? blamed : node, false, err);
	}
	blamed = NULL;
	return rc;
}

static int read_object(void *conf, const struct conf_key *keys, const struct source *src,
	const struct json_node *object, const char *prefix, struct err *err)
{
	for (const struct json_node *m = object->child; m != NULL; m = m->next) {
		char path[CONF_PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s%s%.*s", prefix, *prefix != '\0' ? "." : "", SLICE_ARG(m->key));
		const struct conf_key *key;

		if (n < 0 || (size_t)n >= sizeof(path) || memchr(m->key.p, '.', m->key.len) != NULL) {
			unknown_key(keys, m->key, err);
			return at_node(src, m, true, err);
		}
		key = find_key(keys, path);
		if (key != NULL) {
			if (read_key(conf, key, src, m, err) < 0)
				return -1;
		} else if (!is_group(keys, path)) {
			unknown_key(keys, slice_str(path), err);
			return at_node(src, m, true, err);
		} else if (m->type != JSON_OBJECT) {
			err_set(err, EINVAL, "%s: must be an object", path);
			return at_node(src, m, false, err);
		} else if (read_object(conf, keys, src, m, path, err) < 0) {
			return -1;
		}
	}
	return 0;
}

/* --- sources ---------------------------------------------------------------------------------------------------- */

static int apply_defaults(void *conf, const struct conf_key *keys, struct err *err)
{
	for (const struct conf_key *k = keys; k->path != NULL; k++)
		if (k->dflt != NULL && store_text(conf, k, slice_str(k->dflt), err) < 0)
			return err_wrap(err, "default of %s", k->path);
	return 0;
}

static int apply_environment(void *conf, const struct conf_key *keys, struct err *err)
{
	for (const struct conf_key *k = keys; k->path != NULL; k++) {
		const char *text = k->env != NULL ? getenv(k->env) : NULL;

		if (text != NULL && store_text(conf, k, slice_str(text), err) < 0)
			return err_wrap(err, "environment variable %s", k->env);
	}
	return 0;
}

static int apply_text(void *conf, const struct conf_key *keys, struct slice text, const char *name, struct err *err)
{
	struct source src = { name, text };
	struct json_doc *doc = json_doc_new();
	const struct json_node *root;
	enum json_fault fault;
	size_t offset;
	unsigned line, column;
	int rc;

	if (doc == NULL)
		return err_set(err, ENOMEM, "%s: out of memory", name);
	root = json_parse(doc, text, JSON_COMMENTS, &fault, &offset);
	if (root == NULL) {
		json_position(text, offset, &line, &column);
		rc = err_set(err, EINVAL, "%s:%u:%u: %s", name, line, column, json_fault_text(fault));
	} else if (root->type != JSON_OBJECT) {
		err_set(err, EINVAL, "the configuration must be an object");
		rc = at_node(&src, root, false, err);
	} else {
		rc = read_object(conf, keys, &src, root, "", err);
	}
	json_doc_free(doc);
	return rc;
}

static int read_file(const char *file, struct buf *out, struct err *err)
{
	auto_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_errno(err, "configuration %s cannot be opened", file);
	if (fstat(fd, &st) < 0)
		return err_errno(err, "configuration %s", file);
	if (S_ISDIR(st.st_mode))
		return err_set(err, EISDIR, "configuration %s is a directory", file);
	for (;;) {
		char *room = buf_reserve(out, 4096);
		ssize_t n;

		if (room == NULL)
			return err_set(err, EFBIG, "configuration %s is larger than %d bytes", file, CONF_FILE_MAX);
		n = read(fd, room, 4096);
		if (n < 0 && errno != EINTR)
			return err_errno(err, "configuration %s cannot be read", file);
		if (n == 0)
			return 0;
		if (n > 0)
			buf_commit(out, (size_t)n);
	}
}

int conf_load_text(void *conf, const struct conf_key *keys, struct slice text, const char *name, struct err *err)
{
	if (apply_defaults(conf, keys, err) < 0 || apply_text(conf, keys, text, name, err) < 0)
		return -1;
	return apply_environment(conf, keys, err);
}

int conf_load(void *conf, const struct conf_key *keys, const char *file, struct err *err)
{
	struct buf text;
	int rc;

	if (file == NULL)
		return apply_defaults(conf, keys, err) < 0 ? -1 : apply_environment(conf, keys, err);
	buf_init(&text, CONF_FILE_MAX + 4096);
	rc = read_file(file, &text, err);
	if (rc == 0)
		rc = conf_load_text(conf, keys, buf_slice(&text), file, err);
	buf_release(&text);
	return rc;
}

void conf_release(void *conf, const struct conf_key *keys)
{
	for (const struct conf_key *k = keys; k->path != NULL; k++) {
		char **where = (char **)(void *)((char *)conf + k->offset);

		if (k->type != CONF_STRING)
			continue;
		free(*where);
		*where = NULL;
	}
}
