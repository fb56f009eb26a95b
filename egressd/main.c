/* egressd: which command was asked for. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "egressd/commands.h"
#include "egressd/conf.h"
#include "libgate/util.h"

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

/* Without a known first word the first row runs. */
static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *help;
} commands[] = {
	{ "run", command_run, "[--config FILE] [--check]", "serve; --check reads the configuration and exits" },
	{ "check", command_check, "[--config FILE] [--] HOST[:PORT]...", "what would be decided; 0 allow, 1 deny" },
	{ "check --address", command_check, "IP...", "classify addresses; 0 all public, 1 one is refused, 2 no address" },
	{ "--probe", command_probe, "[--config FILE]", "does the running instance answer? 0 yes" },
	{ "--version", command_version, "", "the version" },
	{ "--help", command_help, "", "this text, and every setting with its default" },
};

static int command_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("usage:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  egressd %s%s%s\n        %s\n", i == 0 ? "" : commands[i].name, i == 0 ? "" : " ", commands[i].usage,
			commands[i].help);
	printf("settings (JSON key, environment variable, default):\n");
	for (const struct conf_key *k = egress_conf_keys; k->path != NULL; k++)
		printf("  %-24s %-28s %s\n        %s\n", k->path, k->env, k->dflt != NULL ? k->dflt : "-", k->help);
	return 0;
}

static int command_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("%s\n", PACKAGE_STRING);
	return 0;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, argv[1]) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return commands[0].run(argc, argv);
}
