/* The verbs: what their arguments mean and how their results look. */
#include "controller/verb.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/base64.h"
#include "controller/commands.h"
#include "controller/text.h"
#include "libgate/log.h"

/* --- parameters -------------------------------------------------------------------------------------------------- */

static int want_words(const struct arguments *a, unsigned min, unsigned max, bool rest, struct err *err)
{
	if (a->nwords < min || a->nwords > max || (a->nrest > 0 && !rest))
		return err_set(err, EINVAL, "wrong number of arguments");
	return 0;
}

static int put_number(struct json_object *o, const char *key, const struct arguments *a, const char *option,
	struct err *err)
{
	const char *text = arguments_text(a, option);
	long long n;

	if (text == NULL)
		return 0;
	if (arguments_number(option, text, 1LL << 52, &n, err) != 0)
		return -1;
	jset_int(o, key, n);
	return 0;
}

static void put_text(struct json_object *o, const char *key, const struct arguments *a, const char *option)
{
	if (arguments_text(a, option) != NULL)
		jset_cstr(o, key, arguments_text(a, option));
}

static void put_switch(struct json_object *o, const char *key, const struct arguments *a, const char *option)
{
	if (arguments_has(a, option))
		jset_bool(o, key, true);
}

/* "NAME=VALUE" of each list item. */
static int put_map(struct json_object *o, const char *key, const struct arguments *a, const char *option,
	struct err *err)
{
	struct json_object *map = NULL;

	for (unsigned i = 0; arguments_item(a, option, i) != NULL; i++) {
		const char *item = arguments_item(a, option, i);
		const char *equals = strchr(item, '=');

		if (equals == NULL || equals == item)
			return err_set(err, EINVAL, "--%s takes NAME=VALUE", option);
		auto_free char *name = mem_dup(slice_make(item, (size_t)(equals - item)));
		if (map == NULL)
			map = jobj(o, key);
		jset_cstr(map, name, equals + 1);
	}
	return 0;
}

static int put_cpu(struct json_object *limits, const struct arguments *a, struct err *err)
{
	const char *text = arguments_text(a, "cpu");
	char *end;

	if (text == NULL)
		return 0;
	double cpus = strtod(text, &end);
	if (*text == '\0' || *end != '\0' || !isfinite(cpus))
		return err_set(err, EINVAL, "--cpu must be a number");
	jset(limits, "cpu", json_object_new_double(cpus));
	return 0;
}

static int put_test_hosts(struct json_object *o, const struct arguments *a, struct err *err)
{
	struct json_object *hosts = NULL;

	for (unsigned i = 0; arguments_item(a, "test-host", i) != NULL; i++) {
		auto_free char *item = mem_strdup(arguments_item(a, "test-host", i));
		char *equals = strchr(item, '='), *save = NULL;

		if (equals == NULL)
			return err_set(err, EINVAL, "--test-host takes HOST=ADDRESS[,ADDRESS...]");
		*equals = '\0';
		if (hosts == NULL)
			hosts = jobj(jobj(o, "testOptions"), "egressTestHosts");
		struct json_object *list = jarr(hosts, item);
		for (char *p = strtok_r(equals + 1, ",", &save); p != NULL; p = strtok_r(NULL, ",", &save))
			jadd_cstr(list, p);
	}
	return 0;
}

static int create_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	if (want_words(a, 1, 1, false, err) != 0)
		return -1;
	jset_cstr(o, "name", a->words[0]);
	struct json_object *limits = jobj(o, "limits");
	if (put_cpu(limits, a, err) != 0 || put_number(limits, "memoryMb", a, "memory", err) != 0 ||
		put_number(limits, "diskMb", a, "disk", err) != 0 ||
		put_number(limits, "maxCommandSeconds", a, "max-command-seconds", err) != 0)
		return -1;
	put_text(limits, "egress", a, "egress");
	struct json_object *hosts = NULL;
	for (unsigned i = 0; arguments_item(a, "allow-host", i) != NULL; i++) {
		auto_free char *list = mem_strdup(arguments_item(a, "allow-host", i));
		char *save = NULL;

		if (hosts == NULL)
			hosts = jarr(limits, "allowHosts");
		for (char *p = strtok_r(list, ", ", &save); p != NULL; p = strtok_r(NULL, ", ", &save))
			jadd_cstr(hosts, p);
	}
	struct json_object *targets = NULL;
	for (unsigned i = 0; arguments_item(a, "tcp-target", i) != NULL; i++) {
		if (targets == NULL)
			targets = jarr(limits, "tcpTargets");
		jadd_cstr(targets, arguments_item(a, "tcp-target", i));
	}
	return put_map(o, "labels", a, "label", err) != 0 || put_test_hosts(o, a, err) != 0 ? -1 : 0;
}

static int id_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	if (want_words(a, 1, 1, false, err) != 0)
		return -1;
	jset_cstr(o, "id", a->words[0]);
	return 0;
}

/* "30", "30s", "1500ms", "5m", "1h". */
static int put_timeout(struct json_object *o, const struct arguments *a, struct err *err)
{
	const char *text = arguments_text(a, "timeout");
	static const struct {
		const char *suffix;
		long long ms;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "", 1000 } };
	long long n;

	if (text == NULL)
		return 0;
	size_t digits = strspn(text, "0123456789");
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(text + digits, units[i].suffix) != 0)
			continue;
		auto_free char *number = mem_dup(slice_make(text, digits));
		if (arguments_number("timeout", number, 1000000000, &n, err) != 0)
			return -1;
		jset_int(o, "timeoutMs", n * units[i].ms);
		return 0;
	}
	return err_set(err, EINVAL, "--timeout takes a number of seconds, or one with ms, s, m or h");
}

static int exec_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	const char *line = arguments_text(a, "command");

	if (want_words(a, 1, 1, true, err) != 0)
		return -1;
	if ((line != NULL) == (a->nrest > 0))
		return err_set(err, EINVAL, "give a program and its arguments after --, or a bash line by --command");
	jset_cstr(o, "id", a->words[0]);
	put_text(o, "command", a, "command");
	if (line == NULL) {
		struct json_object *argv = jarr(o, "argv");
		for (int i = 0; i < a->nrest; i++)
			jadd_cstr(argv, a->rest[i]);
	}
	put_text(o, "cwd", a, "cwd");
	put_text(o, "tag", a, "tag");
	put_text(o, "user", a, "user");
	put_switch(o, "tty", a, "tty");
	if (put_number(o, "maxOutputBytes", a, "max-output", err) != 0)
		return -1;
	return put_map(o, "env", a, "env", err) != 0 || put_timeout(o, a, err) != 0 ? -1 : 0;
}

/* Paths on the command line are bytes. */
static void put_path(struct json_object *o, const char *path)
{
	struct slice s = slice_str(path);
	bool text = text_is_utf8(s);

	text_set(o, text ? "path" : "pathBase64", s, !text);
}

static int path_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	if (want_words(a, 2, 2, false, err) != 0)
		return -1;
	jset_cstr(o, "id", a->words[0]);
	put_path(o, a->words[1]);
	put_switch(o, "follow", a, "follow");
	put_switch(o, "recursive", a, "recursive");
	return 0;
}

static int read_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	if (path_params(o, a, err) != 0 || put_number(o, "offset", a, "offset", err) != 0)
		return -1;
	return put_number(o, "limit", a, "limit", err);
}

static int write_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	const char *mode = arguments_text(a, "mode");

	if (path_params(o, a, err) != 0)
		return -1;
	put_switch(o, "append", a, "append");
	put_switch(o, "exclusive", a, "exclusive");
	put_switch(o, "makeParents", a, "parents");
	if (mode != NULL) {
		if (strspn(mode, "01234567") != strlen(mode) || mode[0] == '\0' || strlen(mode) > 5)
			return err_set(err, EINVAL, "--mode is octal, as for chmod");
		jset_int(o, "mode", strtol(mode, NULL, 8));
	}
	return 0;
}

static int ls_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	if (a->nwords == 0)
		return a->nrest == 0 ? 0 : err_set(err, EINVAL, "wrong number of arguments");
	return path_params(o, a, err);
}

static int kill_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	struct json_object *tags = NULL;

	if (id_params(o, a, err) != 0)
		return -1;
	for (unsigned i = 0; arguments_item(a, "tag", i) != NULL; i++) {
		if (tags == NULL)
			tags = jarr(o, "tags");
		jadd_cstr(tags, arguments_item(a, "tag", i));
	}
	return 0;
}

static int reconcile_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	if (want_words(a, 0, 1, false, err) != 0)
		return -1;
	if (a->nwords == 1)
		jset_cstr(o, "id", a->words[0]);
	put_switch(o, "dryRun", a, "dry-run");
	put_switch(o, "outcomes", a, "outcomes");
	return put_number(o, "minAgeSeconds", a, "min-age", err);
}

static int no_params(struct json_object *o, const struct arguments *a, struct err *err)
{
	return want_words(a, 0, 0, false, err);
}

/* --- results ----------------------------------------------------------------------------------------------------- */

static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *v = json_object_object_get(o, key);

	return v != NULL ? json_object_get_string(v) : "-";
}

static void print_state(struct json_object *r)
{
	printf("%s %s\n", text_of(r, "id"), text_of(r, "state"));
	if (json_object_object_get(r, "note") != NULL)
		fprintf(stderr, "controller: note: %s\n", text_of(r, "note"));
}

static void print_nothing(struct json_object *r)
{
}

static void print_killed(struct json_object *r)
{
	printf("%s killed%s\n", text_of(r, "killed"),
		json_object_object_get(r, "sandboxRestarted") != NULL ? "; the sandbox was restarted" : "");
}

static void print_entry(struct json_object *e, const char *name)
{
	printf("%-9s %04o %6s %6s %10s ", text_of(e, "type"),
		(unsigned)json_object_get_int(json_object_object_get(e, "mode")), text_of(e, "uid"), text_of(e, "gid"),
		text_of(e, "size"));
	if (json_object_object_get(e, "target") != NULL)
		printf("%s -> %s\n", name, text_of(e, "target"));
	else
		printf("%s\n", name);
}

static void print_list(struct json_object *r)
{
	struct json_object *sandboxes = json_object_object_get(r, "sandboxes");
	struct json_object *entries = json_object_object_get(r, "entries");

	for (size_t i = 0; sandboxes != NULL && i < json_object_array_length(sandboxes); i++) {
		struct json_object *s = json_object_array_get_idx(sandboxes, i);
		printf("%-32s %-10s %-6s %-10s %s\n", text_of(s, "name"), text_of(s, "state"), text_of(s, "runtime"),
			text_of(s, "egress"), text_of(s, "createdAt"));
	}
	for (size_t i = 0; entries != NULL && i < json_object_array_length(entries); i++) {
		struct json_object *e = json_object_array_get_idx(entries, i);
		print_entry(e, json_object_object_get(e, "name") != NULL ? text_of(e, "name") : text_of(e, "nameBase64"));
	}
	if (json_object_get_boolean(json_object_object_get(r, "truncated")))
		fprintf(stderr, "controller: there are more entries\n");
}

static void print_stat(struct json_object *r)
{
	if (json_object_get_boolean(json_object_object_get(r, "exists")))
		print_entry(r, "");
	else
		printf("nothing there\n");
}

static void print_commands(struct json_object *list)
{
	for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
		struct json_object *c = json_object_array_get_idx(list, i);
		struct json_object *code = json_object_object_get(c, "exitCode");

		printf("    %-40s %-9s %s\n", text_of(c, "execId"), text_of(c, "state"),
			code != NULL ? json_object_get_string(code) : text_of(c, "signal"));
	}
}

static void print_reconcile(struct json_object *r)
{
	struct json_object *list = json_object_object_get(r, "sandboxes");

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *s = json_object_array_get_idx(list, i);
		printf("%-32s %-10s %-7s %s\n", text_of(s, "name"), text_of(s, "state"), text_of(s, "action"),
			json_object_object_get(s, "error") != NULL ? text_of(s, "error") : "");
		print_commands(json_object_object_get(s, "commands"));
	}
}

static void print_doctor(struct json_object *r)
{
	struct json_object *list = json_object_object_get(r, "checks");

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *c = json_object_array_get_idx(list, i);
		printf("%-4s  %-13s %s\n", text_of(c, "status"), text_of(c, "check"), text_of(c, "text"));
		if (json_object_object_get(c, "mend") != NULL)
			printf("      %-13s -> %s\n", "", text_of(c, "mend"));
	}
}

static void print_inspect(struct json_object *r)
{
	json_object_object_foreach(r, key, value) printf("%-18s %s\n", key, json_object_get_string(value));
}

/* --- the table --------------------------------------------------------------------------------------------------- */

#define METHOD(m) \
	static const struct method *use_##m(const struct arguments *a) \
	{ \
		return &method_##m; \
	}
METHOD(create)
METHOD(suspend)
METHOD(resume)
METHOD(destroy)
METHOD(exec)
METHOD(read_file)
METHOD(write_file)
METHOD(stat)
METHOD(remove_file)
METHOD(inspect)
METHOD(reconcile)
METHOD(doctor)

static const struct method *use_ls(const struct arguments *a)
{
	return a->nwords == 0 ? &method_list : &method_list_files;
}

static const struct method *use_kill(const struct arguments *a)
{
	return arguments_has(a, "tag") ? &method_kill_tagged : &method_kill_all;
}

#define COMMON_OPTIONS \
	{ "json", 0, OPTION_SWITCH, NULL, "print the result as JSON" }, \
		{ "engine-timeout", 0, OPTION_TEXT, "SECONDS", "for one lifecycle operation; 300" }, \
	{ \
		"verbose", 'v', OPTION_SWITCH, NULL, "log every request to the engine" \
	}

const struct verb verbs[] = {
	{ "create", use_create, 0, "NAME", "make a sandbox and start it", create_params, print_state,
		{
			{ "cpu", 0, OPTION_TEXT, "N", "CPUs, e.g. 0.5; 1" },
			{ "memory", 0, OPTION_TEXT, "MB", "memory; 2048" },
			{ "disk", 0, OPTION_TEXT, "MB", "workspace, with a volume driver that can" },
			{ "max-command-seconds", 0, OPTION_TEXT, "SECONDS", "bounds every command; 600" },
			{ "egress", 0, OPTION_TEXT, "MODE", "none, open or allowlist" },
			{ "allow-host", 0, OPTION_LIST, "HOST[,HOST]", "on the allowlist" },
			{ "tcp-target", 0, OPTION_LIST, "[PORT=]HOST:PORT", "relayed, and pinned to what it resolves to now" },
			{ "label", 0, OPTION_LIST, "NAME=VALUE", "a further label, dev.capybara.*" },
			{ "test-host", 0, OPTION_LIST, "HOST=ADDRESS", "pin a host of the allowlist; for tests only" },
			COMMON_OPTIONS,
		} },
	{ "suspend", use_suspend, 0, "NAME", "stop a sandbox; its files stay", id_params, print_state, { COMMON_OPTIONS } },
	{ "resume", use_resume, 0, "NAME", "start it again", id_params, print_state, { COMMON_OPTIONS } },
	{ "destroy", use_destroy, 0, "NAME", "remove a sandbox with all that belongs to it", id_params, print_state,
		{ COMMON_OPTIONS } },
	{ "exec", use_exec, VERB_STREAMS_OUT | VERB_STREAMS_IN | VERB_EXIT_CODE, "NAME -- COMMAND [ARGUMENT...]",
		"run a command; output, input and exit code pass through", exec_params, print_nothing,
		{
			{ "command", 'c', OPTION_TEXT, "LINE", "a bash line in place of a program" },
			{ "cwd", 'w', OPTION_TEXT, "DIRECTORY", "where it runs; /workspace" },
			{ "env", 'e', OPTION_LIST, "NAME=VALUE", "added to the environment" },
			{ "timeout", 0, OPTION_TEXT, "TIME", "30, 30s, 1500ms, 5m" },
			{ "tag", 0, OPTION_TEXT, "TAG", "for kill --tag" },
			{ "user", 'u', OPTION_TEXT, "USER", "sandbox or root" },
			{ "no-stdin", 'n', OPTION_SWITCH, NULL, "the command reads from /dev/null" },
			{ "tty", 't', OPTION_SWITCH, NULL, "give it a terminal" },
			{ "max-output", 0, OPTION_TEXT, "BYTES", "per stream" },
			COMMON_OPTIONS,
		} },
	{ "read", use_read_file, VERB_STREAMS_OUT, "NAME PATH", "print a file", read_params, print_nothing,
		{
			{ "offset", 0, OPTION_TEXT, "BYTES", "to skip" },
			{ "limit", 0, OPTION_TEXT, "BYTES", "at most" },
			COMMON_OPTIONS,
		} },
	{ "write", use_write_file, VERB_STREAMS_IN, "NAME PATH", "write stdin to a file", write_params, print_nothing,
		{
			{ "mode", 'm', OPTION_TEXT, "OCTAL", "permission bits" },
			{ "append", 'a', OPTION_SWITCH, NULL, "to what is there" },
			{ "exclusive", 0, OPTION_SWITCH, NULL, "fail when there is something" },
			{ "parents", 'p', OPTION_SWITCH, NULL, "make missing directories" },
			COMMON_OPTIONS,
		} },
	{ "stat", use_stat, 0, "NAME PATH", "say what is at a path", path_params, print_stat,
		{ { "follow", 'L', OPTION_SWITCH, NULL, "follow a symlink" }, COMMON_OPTIONS } },
	{ "remove", use_remove_file, 0, "NAME PATH", "remove a file", path_params, print_nothing,
		{ { "recursive", 'r', OPTION_SWITCH, NULL, "directories too" }, COMMON_OPTIONS } },
	{ "kill", use_kill, 0, "NAME", "kill commands, all or by tag", kill_params, print_killed,
		{ { "tag", 0, OPTION_LIST, "TAG", "only those" }, COMMON_OPTIONS } },
	{ "ls", use_ls, 0, "[NAME PATH]", "list sandboxes, or a directory in one", ls_params, print_list,
		{ COMMON_OPTIONS } },
	{ "inspect", use_inspect, 0, "NAME", "one sandbox: state, limits, parts", id_params, print_inspect,
		{ COMMON_OPTIONS } },
	{ "reconcile", use_reconcile, 0, "[NAME]", "find what crashes left behind; mend or remove it", reconcile_params,
		print_reconcile,
		{
			{ "dry-run", 0, OPTION_SWITCH, NULL, "only say what would be done" },
			{ "outcomes", 0, OPTION_SWITCH, NULL, "with NAME: start it to learn how commands ended" },
			{ "min-age", 0, OPTION_TEXT, "SECONDS", "what is younger may be in the making; 600" },
			COMMON_OPTIONS,
		} },
	{ "doctor", use_doctor, VERB_RESULT_FAILS, "", "check the deployment and say how to mend it", no_params,
		print_doctor, { COMMON_OPTIONS } },
	{ 0 },
};

int command_verb(int argc, char **argv)
{
	const struct verb *v = verbs;
	struct arguments a;
	struct config config;
	struct err err = ERR_INIT;
	int status = EXIT_USAGE;

	while (v->name != NULL && strcmp(v->name, argv[0]) != 0)
		v++;
	if (v->name == NULL)
		return -1;
	config_init(&config);
	if (arguments_read(&a, v->options, argc, argv, &err) == 0 && arguments_config(&a, &config, &err) == 0)
		status = verb_run(v, &a, &config);
	else
		fprintf(stderr, "controller %s: %s\n", v->name, err.text);
	config_release(&config);
	return status == EXIT_USAGE && (v->flags & VERB_EXIT_CODE) != 0 ? EXIT_EXEC_FAULT : status;
}

void command_verb_help(void)
{
	for (const struct verb *v = verbs; v->name != NULL; v++) {
		printf("  controller %s [OPTION...] %s\n      %s\n", v->name, v->usage, v->help);
		for (const struct option_row *o = v->options; o->name != NULL && strcmp(o->name, "json") != 0; o++) {
			char letter[8] = "";
			if (o->letter != 0)
				snprintf(letter, sizeof(letter), "-%c, ", o->letter);
			printf("        %s--%s%s%s  %s\n", letter, o->name, o->argument != NULL ? " " : "",
				o->argument != NULL ? o->argument : "", o->help);
		}
	}
}
