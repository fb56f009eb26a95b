/* dockerproxy: which sub-command was asked for. Each is a row; without one the proxy runs. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "dockerproxy/commands.h"
#include "libgate/util.h"

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

/* argv[0] of a command is its own name. The first row is what runs when no command is named. */
static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *help;
} commands[] = {
	{ "run", dockerproxy_run, "[--config FILE] [--check]",
		"stand in front of the engine; --check only validates and exits" },
	{ "explain", dockerproxy_explain, "[--policy FILE] [--header 'N: V']... [--body FILE|-] METHOD TARGET",
		"what the policy says of a request, and what the engine would be sent" },
	{ "print-policy", dockerproxy_print_policy, "[--policy FILE]", "the policy as plain JSON" },
	{ "learn", dockerproxy_learn, "[--policy FILE] --log FILE...",
		"a proposed policy from what a warn-mode audit log recorded" },
	{ "import-env", dockerproxy_import_env, "[FILE]",
		"a policy that opens what an HAProxy-based socket proxy's environment did (CONTAINERS=1, POST=0, ...)" },
	{ "help", cmd_help, "", "show this text" },
	{ "version", cmd_version, "", "show the version" },
};

static int cmd_help(int argc, char **argv)
{
	printf("usage:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  dockerproxy %s %s\n      %s\n", commands[i].name, commands[i].usage, commands[i].help);
	return 0;
}

static int cmd_version(int argc, char **argv)
{
	printf("%s\n", PACKAGE_STRING);
	return 0;
}

static const struct command *find_command(const char *word)
{
	if (word == NULL || word[0] == '-') {
		if (word != NULL && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
			return find_command("help");
		if (word != NULL && strcmp(word, "--version") == 0)
			return find_command("version");
		return &commands[0];
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, word) == 0)
			return &commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct command *c = find_command(word);

	if (c == NULL) {
		fprintf(stderr, "dockerproxy: no command \"%s\"; see dockerproxy help\n", word);
		return 2;
	}
	if (word == NULL || word[0] == '-')
		return c->run(argc, argv);
	return c->run(argc - 1, argv + 1);
}
