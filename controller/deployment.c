/* Reads the deployment's configuration by one table of keys. */
#include "controller/deployment.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "controller/mem.h"
#include "controller/name.h"
#include "libgate/json.h"

#define CONFIG_MAX (256 * 1024)

static const char *const runtime_names[] = { "runc", "runsc", NULL };
static const char *const exec_mode_names[] = { "auto", "runner", "engine", NULL };

enum value_type { VALUE_TEXT, VALUE_SWITCH, VALUE_WORD };

static int check_endpoint(struct slice s, struct err *err);
static int check_image(struct slice s, struct err *err);
static int check_driver(struct slice s, struct err *err);

static const struct key {
	const char *key;
	const char *option;
	enum value_type type;
	size_t offset;
	const char *const *words;
	int (*check)(struct slice s, struct err *err);
	const char *help;
} keys[] = {
	{ "endpoint", "endpoint", VALUE_TEXT, offsetof(struct config, endpoint), NULL, check_endpoint,
		"tcp://HOST:PORT or unix:///PATH of dockerproxy" },
	{ "runtime", "runtime", VALUE_WORD, offsetof(struct config, runtime), runtime_names, NULL, "runc or runsc" },
	{ "network", "network", VALUE_TEXT, offsetof(struct config, network), NULL, name_check_network,
		"the shared network, made when missing" },
	{ "image", "image", VALUE_TEXT, offsetof(struct config, image), NULL, check_image, "the sandbox image" },
	{ "egressProxyImage", "egress-proxy-image", VALUE_TEXT, offsetof(struct config, egress_image), NULL, check_image,
		"the image of the egress proxy" },
	{ "volumeDriver", "volume-driver", VALUE_TEXT, offsetof(struct config, volume_driver), NULL, check_driver,
		"a volume driver that takes the option size" },
	{ "allowOpenEgress", "allow-open-egress", VALUE_SWITCH, offsetof(struct config, allow_open_egress), NULL, NULL,
		"let create ask for egress: open" },
	{ "execMode", "exec-mode", VALUE_WORD, offsetof(struct config, exec_mode), exec_mode_names, NULL,
		"auto, runner or engine" },
};

/* --- values ------------------------------------------------------------------------------------------------------ */

static int bad_endpoint(struct err *err)
{
	return err_set(err, EINVAL, "must be tcp://HOST:PORT, tcp://[V6]:PORT or unix:///PATH");
}

/* Splits an endpoint; *path is set for unix, *host and *port for tcp. */
static int split_endpoint(struct slice s, struct slice *path, struct slice *host, uint16_t *port, struct err *err)
{
	unsigned value = 0;
	size_t end;

	if (memchr(s.p, '\0', s.len) != NULL)
		return bad_endpoint(err);
	if (slice_starts(s, "unix://")) {
		*path = slice_skip(s, 7);
		return path->len > 1 && path->p[0] == '/' ? 0 : bad_endpoint(err);
	}
	if (!slice_starts(s, "tcp://"))
		return bad_endpoint(err);
	s = slice_skip(s, 6);
	if (s.len > 0 && s.p[s.len - 1] == '/')
		s.len--;
	if (s.len > 0 && s.p[0] == '[') {
		const char *close = memchr(s.p, ']', s.len);
		if (close == NULL || close == s.p + 1)
			return bad_endpoint(err);
		*host = slice_make(s.p + 1, (size_t)(close - s.p) - 1);
		end = (size_t)(close - s.p) + 1;
	} else {
		for (end = 0; end < s.len && s.p[end] != ':' && s.p[end] != '/'; end++)
			;
		*host = slice_make(s.p, end);
	}
	if (host->len == 0 || end >= s.len || s.p[end] != ':')
		return bad_endpoint(err);
	s = slice_skip(s, end + 1);
	if (s.len == 0 || s.len > 5)
		return bad_endpoint(err);
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return bad_endpoint(err);
		value = value * 10 + (unsigned)(s.p[i] - '0');
	}
	if (value == 0 || value > 65535)
		return bad_endpoint(err);
	*port = (uint16_t)value;
	return 0;
}

static int check_endpoint(struct slice s, struct err *err)
{
	struct slice path = { NULL, 0 }, host = { NULL, 0 };
	uint16_t port = 0;

	return split_endpoint(s, &path, &host, &port, err);
}

static int check_image(struct slice s, struct err *err)
{
	bool tagged;

	return name_check_image(s, &tagged, err);
}

static int check_driver(struct slice s, struct err *err)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] <= ' ' || (unsigned char)s.p[i] >= 0x7f)
			return err_set(err, EINVAL, "must be the name of a volume driver");
	return s.len > 0 && s.len <= 255 ? 0 : err_set(err, EINVAL, "must not be empty");
}

static int set_text(struct config *c, const struct key *k, struct slice value, struct err *err)
{
	char **slot = (char **)(void *)((char *)c + k->offset);

	if (k->check(value, err) != 0)
		return -1;
	free(*slot);
	*slot = mem_dup(value);
	return 0;
}

static int set_word(struct config *c, const struct key *k, struct slice value, struct err *err)
{
	int *slot = (int *)(void *)((char *)c + k->offset);

	for (int i = 0; k->words[i] != NULL; i++) {
		if (slice_is(value, k->words[i])) {
			*slot = i;
			return 0;
		}
	}
	return err_set(err, EINVAL, "must be %s", k->help);
}

static int set_value(struct config *c, const struct key *k, const struct json_node *node, struct err *err)
{
	switch (k->type) {
	case VALUE_SWITCH:
		if (node->type != JSON_BOOL)
			return err_set(err, EINVAL, "must be true or false");
		*(bool *)((char *)c + k->offset) = node->boolean;
		return 0;
	case VALUE_TEXT:
	case VALUE_WORD:
		if (node->type != JSON_STRING)
			return err_set(err, EINVAL, "must be a string");
		return k->type == VALUE_TEXT ? set_text(c, k, node->text, err) : set_word(c, k, node->text, err);
	}
	return -1;
}

/* --- sources ----------------------------------------------------------------------------------------------------- */

void config_init(struct config *c)
{
	*c = (struct config){
		.network = mem_strdup("capybara-sandbox"),
		.image = mem_strdup("capybara-sandbox:latest"),
		.egress_image = mem_strdup("capybara-sandbox-egress:latest"),
		.runtime = RUNTIME_RUNC,
		.exec_mode = EXEC_MODE_AUTO,
	};
}

void config_release(struct config *c)
{
	free(c->endpoint);
	free(c->network);
	free(c->image);
	free(c->egress_image);
	free(c->volume_driver);
	free(c->unix_path);
	free(c->host);
	*c = (struct config){ .port = 0 };
}

/* where and text give a fault its place; keys that are not ours are named. */
static int load_object(struct config *c, const struct json_node *object, struct slice text, const char *where,
	struct err *err)
{
	unsigned line, column;

	if (object->type != JSON_OBJECT)
		return err_set(err, EINVAL, "%s: must be an object", where);
	for (const struct json_node *m = object->child; m != NULL; m = m->next) {
		const struct key *k = NULL;

		for (size_t i = 0; i < ARRAY_SIZE(keys) && k == NULL; i++)
			if (slice_is(m->key, keys[i].key))
				k = &keys[i];
		json_position(text, m->key_offset, &line, &column);
		if (k == NULL) {
			char key[64];
			size_t n = m->key.len < sizeof(key) - 1 ? m->key.len : sizeof(key) - 1;

			for (size_t i = 0; i < n; i++)
				key[i] = m->key.p[i] >= ' ' && m->key.p[i] < 0x7f ? m->key.p[i] : '?';
			key[n] = '\0';
			return err_set(err, EINVAL, "%s:%u:%u: unknown key \"%s\"", where, line, column, key);
		}
		if (set_value(c, k, m, err) != 0)
			return err_wrap(err, "%s:%u:%u: %s", where, line, column, k->key);
	}
	return 0;
}

static int load_text(struct config *c, struct slice text, unsigned flags, const char *member, const char *where,
	struct err *err)
{
	struct json_doc *doc = json_doc_new();
	enum json_fault fault = JSON_OK;
	size_t offset = 0;
	int rc = -1;

	if (doc == NULL)
		return err_set(err, ENOMEM, "%s: out of memory", where);
	const struct json_node *root = json_parse(doc, text, flags, &fault, &offset);
	if (root == NULL) {
		unsigned line, column;
		json_position(text, offset, &line, &column);
		err_set(err, EINVAL, "%s:%u:%u: %s", where, line, column, json_fault_text(fault));
	} else if (member != NULL && root->type != JSON_OBJECT) {
		err_set(err, EINVAL, "%s: must be an object", where);
	} else {
		const struct json_node *object = member != NULL ? json_get(root, member) : root;
		rc = object == NULL ? 0 : load_object(c, object, text, where, err);
	}
	json_doc_free(doc);
	return rc;
}

int config_load_environment(struct config *c, struct slice text, struct err *err)
{
	return load_text(c, text, JSON_STRICT, "sandbox-docker", "CAPYBARA_EXTENSION_CONFIG", err);
}

int config_load_file(struct config *c, const char *path, struct err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free char *text = mem_zalloc(CONFIG_MAX + 1);
	size_t have = 0;

	if (fd < 0)
		return err_errno(err, "cannot read the configuration %s", path);
	for (;;) {
		ssize_t n = read(fd, text + have, CONFIG_MAX + 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read the configuration %s", path);
		if (n == 0)
			break;
		have += (size_t)n;
		if (have > CONFIG_MAX)
			return err_set(err, EFBIG, "%s: larger than %d bytes", path, CONFIG_MAX);
	}
	return load_text(c, slice_make(text, have), JSON_COMMENTS, NULL, path, err);
}

static const struct key *find_option(const char *option)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i].option, option) == 0)
			return &keys[i];
	return NULL;
}

bool config_option_takes_value(const char *option)
{
	const struct key *k = find_option(option);

	return k != NULL && k->type != VALUE_SWITCH;
}

int config_set_option(struct config *c, const char *option, const char *value, struct err *err)
{
	const struct key *k = find_option(option);

	if (k == NULL)
		return err_set(err, ENOENT, "no option --%s", option);
	if (k->type == VALUE_SWITCH) {
		*(bool *)((char *)c + k->offset) = true;
		return 0;
	}
	int rc = k->type == VALUE_TEXT ? set_text(c, k, slice_str(value), err) : set_word(c, k, slice_str(value), err);
	return rc == 0 ? 0 : err_wrap(err, "--%s", option);
}

/* An engine pulls every tag of an image that is named without one, and dockerproxy lets none of that pass. */
static void complete_image(char **image)
{
	struct err err = ERR_INIT;
	bool tagged = true;

	if (name_check_image(slice_str(*image), &tagged, &err) != 0 || tagged)
		return;
	char *whole = mem_printf("%s:latest", *image);
	free(*image);
	*image = whole;
}

int config_finish(struct config *c, struct err *err)
{
	struct slice path = { NULL, 0 }, host = { NULL, 0 };

	if (c->endpoint == NULL)
		return err_set(err, EINVAL,
			"no endpoint: give --endpoint, --config, or CAPYBARA_EXTENSION_CONFIG with "
			"{\"sandbox-docker\": {\"endpoint\": \"tcp://HOST:PORT\"}}");
	if (split_endpoint(slice_str(c->endpoint), &path, &host, &c->port, err) != 0)
		return err_wrap(err, "endpoint");
	complete_image(&c->image);
	complete_image(&c->egress_image);
	if (path.p != NULL)
		c->unix_path = mem_dup(path);
	else
		c->host = mem_dup(host);
	return 0;
}

bool config_is_local(const struct config *c)
{
	unsigned char address[16];

	return c->host == NULL || strcmp(c->host, "localhost") == 0 || strcmp(c->host, "::1") == 0 ||
		(inet_pton(AF_INET, c->host, address) == 1 && address[0] == 127);
}

void config_print_options(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		printf("  --%s%s\n      %s\n", keys[i].option, keys[i].type == VALUE_SWITCH ? "" : " VALUE", keys[i].help);
}

const char *runtime_name(enum runtime r)
{
	return runtime_names[r];
}
