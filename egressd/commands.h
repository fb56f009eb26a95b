/* The commands of egressd; each takes its arguments after its own name and returns the exit status. */
#ifndef EGRESSD_COMMANDS_H
#define EGRESSD_COMMANDS_H

#define EXIT_DENY 1
#define EXIT_USAGE 2

int command_run(int argc, char **argv);
int command_check(int argc, char **argv);
int command_probe(int argc, char **argv);

#endif
