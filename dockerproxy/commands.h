/*
 * The sub-commands of dockerproxy: each takes its own argv (argv[0] is the command's name, or the program's for run)
 * and returns the exit code. Only these functions print or read files on a person's behalf.
 */
#ifndef DOCKERPROXY_COMMANDS_H
#define DOCKERPROXY_COMMANDS_H

int dockerproxy_run(int argc, char **argv);
int dockerproxy_explain(int argc, char **argv); /* 0 allow, 1 deny, 2 cannot say */
int dockerproxy_print_policy(int argc, char **argv);
int dockerproxy_import_env(int argc, char **argv);
int dockerproxy_learn(int argc, char **argv);

#endif
