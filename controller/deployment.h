/*
 * The deployment's configuration: a closed set of keys, from CAPYBARA_EXTENSION_CONFIG's member "sandbox-docker", from a
 * file or from options of the command line, which win.
 */
#ifndef CONTROLLER_DEPLOYMENT_H
#define CONTROLLER_DEPLOYMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/err.h"
#include "libgate/slice.h"

enum runtime { RUNTIME_RUNC, RUNTIME_RUNSC };
enum exec_mode { EXEC_MODE_AUTO, EXEC_MODE_RUNNER, EXEC_MODE_ENGINE };

struct config {
	char *endpoint;
	char *network;
	char *image;
	char *egress_image;
	char *volume_driver; /* NULL: local */
	enum runtime runtime;
	enum exec_mode exec_mode;
	bool allow_open_egress;
	/* taken from endpoint by config_finish() */
	char *unix_path; /* or NULL */
	char *host; /* without brackets; or NULL */
	uint16_t port;
};

void config_init(struct config *c); /* the defaults */
void config_release(struct config *c);

/* The whole value of CAPYBARA_EXTENSION_CONFIG; a missing member "sandbox-docker" changes nothing. */
int config_load_environment(struct config *c, struct slice text, struct err *err) MUSTCHECK;
/* A file that holds the object itself; comments are taken. */
int config_load_file(struct config *c, const char *path, struct err *err) MUSTCHECK;
/* One key by its option's name ("egress-proxy-image"); -1 with code ENOENT when there is no such option. */
int config_set_option(struct config *c, const char *option, const char *value, struct err *err) MUSTCHECK;
bool config_option_takes_value(const char *option); /* false: a switch, or no option of ours */
/* Checks what no single key can: that endpoint is there, and takes it apart. Images get the tag that they lack. */
int config_finish(struct config *c, struct err *err) MUSTCHECK;
/* The endpoint is a unix socket or on loopback. */
bool config_is_local(const struct config *c);
/* Prints the options, one a line, for --help. */
void config_print_options(void);

const char *runtime_name(enum runtime r);

#endif
