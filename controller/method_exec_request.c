/* What exec is asked for: reads the parameters that are more than a type. */
#include "controller/method_exec_impl.h"

#include <errno.h>
#include <string.h>

#include "controller/name.h"
#include "controller/text.h"

#define OUTPUT_DEFAULT ((int64_t)1 << 20) /* per stream */
#define OUTPUT_MAX ((int64_t)64 << 20)
#define TERMINAL_ROWS 24 /* without a size, or with none, as a terminal tells that is none */
#define TERMINAL_COLS 80

static int read_command(struct command *c, const struct json_node *p, struct err *err)
{
	const struct json_node *argv = json_get(p, "argv");
	bool line = json_get_string(p, "command", &c->request.line);

	if (line == (argv != NULL))
		return err_set(err, EINVAL, "exec: exactly one of command and argv is needed");
	if (argv == NULL)
		return 0;
	if (argv->count == 0 || argv->count > ARGV_MAX)
		return err_set(err, EINVAL, "exec: argv has 1 to %d strings", ARGV_MAX);
	for (const struct json_node *a = argv->child; a != NULL; a = a->next)
		c->argv[c->request.nargv++] = a->text;
	c->request.argv = c->argv;
	return 0;
}

static int read_env(struct command *c, const struct json_node *p, struct err *err)
{
	const struct json_node *env = json_get(p, "env");

	for (const struct json_node *m = env != NULL ? env->child : NULL; m != NULL; m = m->next) {
		if (c->request.nenv == ENV_MAX)
			return err_set(err, E2BIG, "exec: env has at most %d variables", ENV_MAX);
		if (m->key.len == 0 || memchr(m->key.p, '=', m->key.len) != NULL)
			return err_set(err, EINVAL, "exec: a variable's name is not empty and holds no =");
		unsigned i = c->request.nenv++;
		c->env_text[i] = mem_printf("%.*s=%.*s", SLICE_ARG(m->key), SLICE_ARG(m->text));
		c->env[i] = slice_make(c->env_text[i], m->key.len + 1 + m->text.len);
		if (strlen(c->env_text[i]) != c->env[i].len)
			return err_set(err, EINVAL, "exec: a variable holds no NUL");
	}
	c->request.env = c->env;
	return 0;
}

static int read_input(struct command *c, const struct json_node *p, struct err *err)
{
	const struct json_node *input = json_get(p, "stdin");
	struct slice encoding = { NULL, 0 };
	bool open;

	json_get_string(p, "stdinEncoding", &encoding);
	c->keep_input = input == NULL && (c->stream || c->request.tty);
	if (json_get_bool(p, "openStdin", &open))
		c->keep_input = open;
	if (input != NULL && input->type == JSON_STRING) {
		c->input = text_bytes(input->text, encoding, &c->ninput);
		if (c->input == NULL)
			return err_set(err, EINVAL, "exec: stdin is not base64");
	}
	c->request.want_stdin = c->keep_input || c->ninput > 0;
	return 0;
}

static int read_user(struct command *c, const struct json_node *p, struct err *err)
{
	struct slice user;

	if (!json_get_string(p, "user", &user) || slice_is(user, "sandbox") || slice_is(user, "1000") ||
		slice_is(user, "1000:1000"))
		return 0;
	if (!slice_is(user, "root") && !slice_is(user, "0") && !slice_is(user, "0:0"))
		return err_set(err, EINVAL, "exec: user is sandbox or root (which has no capability)");
	c->as_root = true;
	return 0;
}

int method_exec_read(struct command *c, const struct json_node *p, struct err *err)
{
	struct slice tag, cwd;
	int64_t n;

	if (read_command(c, p, err) != 0 || read_env(c, p, err) != 0)
		return -1;
	json_get_bool(p, "stream", &c->stream);
	json_get_bool(p, "tty", &c->request.tty);
	if (read_input(c, p, err) != 0 || read_user(c, p, err) != 0)
		return -1;
	if (json_get_string(p, "tag", &tag)) {
		if (name_check_tag(tag, err) != 0)
			return err_wrap(err, "exec");
		c->request.tag = tag;
	}
	if (json_get_string(p, "cwd", &cwd)) {
		if (name_check_path(cwd, err) != 0)
			return err_wrap(err, "exec: cwd");
		c->request.cwd = cwd;
	}
	c->request.max_output = c->stream ? UINT64_MAX : (uint64_t)OUTPUT_DEFAULT;
	if (json_get_int(p, "maxOutputBytes", &n)) {
		if (n > OUTPUT_MAX && !c->stream)
			return err_set(err, EINVAL, "exec: maxOutputBytes is at most %lld; stream takes more",
				(long long)OUTPUT_MAX);
		c->request.max_output = (uint64_t)n;
	}
	if (json_get_int(p, "timeoutMs", &n)) {
		if (n < 1)
			return err_set(err, EINVAL, "exec: timeoutMs is at least 1");
		c->request.timeout_ms = n;
	}
	c->request.rows = TERMINAL_ROWS;
	c->request.cols = TERMINAL_COLS;
	if (json_get_int(p, "rows", &n) && n > 0)
		c->request.rows = n <= 10000 ? (uint16_t)n : 10000;
	if (json_get_int(p, "cols", &n) && n > 0)
		c->request.cols = n <= 10000 ? (uint16_t)n : 10000;
	return 0;
}
