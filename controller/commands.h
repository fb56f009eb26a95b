/* Entry points of the sub-commands that are no method; argv[0] is the command's name. They return the exit status. */
#ifndef CONTROLLER_COMMANDS_H
#define CONTROLLER_COMMANDS_H

#include <stddef.h>

int command_serve(int argc, char **argv);

/* Verbs of the command line that are methods: see verb.h. -1: there is none of that name. */
int command_verb(int argc, char **argv);
void command_verb_help(void);

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_GONE = 3, EXIT_EXEC_FAULT = 255 };

#endif
