/* controller: which face was asked for. serve speaks to programs, the verbs to a person. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "controller/commands.h"
#include "controller/deployment.h"
#include "libgate/log.h"
#include "libgate/util.h"

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *help;
} commands[] = {
	{ "serve", command_serve, "[--stdio | --listen unix:PATH]", "sandbox@1 as JSON-RPC 2.0" },
	{ "help", command_help, "", "show this text" },
	{ "version", command_version, "", "show the version" },
};

static int command_help(int argc, char **argv)
{
	printf("usage:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  controller %s %s\n      %s\n", commands[i].name, commands[i].usage, commands[i].help);
	command_verb_help();
	printf("\nevery command takes the deployment's options, a file (--config FILE) or CAPYBARA_EXTENSION_CONFIG:\n");
	config_print_options();
	printf("\nexit status: exec passes the command's own (255: a fault of ours or the engine's); others 0 done,\n"
		   "1 failed, 2 usage, 3 gone\n");
	return EXIT_DONE;
}

static int command_version(int argc, char **argv)
{
	printf("%s\n", PACKAGE_STRING);
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "help";

	log_init("controller", LOG_LEVEL_INFO);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		word = "help";
	else if (strcmp(word, "--version") == 0)
		word = "version";
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, word) == 0)
			return commands[i].run(argc - 1, argv + 1);
	int status = command_verb(argc - 1, argv + 1);
	if (status >= 0)
		return status;
	fprintf(stderr, "controller: there is no command \"%s\"; see controller help\n", word);
	return EXIT_USAGE;
}
