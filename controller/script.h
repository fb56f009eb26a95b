/*
 * The scripts that stand in for the runner: bash text, sent with each engine exec. Their sources, with what they expect
 * and print, are in controller/scripts/.
 */
#ifndef CONTROLLER_SCRIPT_H
#define CONTROLLER_SCRIPT_H

enum script {
	SCRIPT_EXEC,
	SCRIPT_TTY,
	SCRIPT_KILL,
	SCRIPT_READ,
	SCRIPT_WRITE,
	SCRIPT_STAT,
	SCRIPT_LIST,
	SCRIPT_REMOVE,
	SCRIPT_SETTLE,
};

const char *script_text(enum script s);

#endif
