/*
 * What a sandbox is to be: create's parameters judged and completed. [pure]
 *
 * The same struct is read back from a container's labels (spec_from_labels), so that a controller that never saw the
 * create can rebuild what the sandbox has lost.
 */
#ifndef CONTROLLER_SPEC_H
#define CONTROLLER_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/deployment.h"
#include "libgate/err.h"
#include "libgate/json.h"

enum egress { EGRESS_NONE, EGRESS_OPEN, EGRESS_ALLOWLIST };

#define SPEC_MAX_HOSTS 256
#define SPEC_MAX_LABELS 32
#define SPEC_MAX_TEST_HOSTS 32
#define EGRESS_PORT 3128 /* of the egress proxy, in the sandbox's network */

/* Labels of every object of a sandbox. */
#define LABEL_SANDBOX "dev.capybara.sandbox" /* "1" */
#define LABEL_NAME "dev.capybara.sandbox.name"
#define LABEL_ROLE "dev.capybara.sandbox.role" /* sandbox, egress, workspace, skills, network */
/* Labels of the sandbox container. */
#define LABEL_EGRESS "dev.capybara.sandbox.egress"
#define LABEL_ALLOW_HOSTS "dev.capybara.sandbox.allow-hosts" /* comma-separated */
#define LABEL_TEST_HOSTS "dev.capybara.sandbox.test-hosts"
#define LABEL_TCP_TARGETS "dev.capybara.sandbox.tcp-targets" /* with their addresses: tcp_target.h */
#define LABEL_RUNTIME "dev.capybara.sandbox.runtime"
#define LABEL_MAX_SECONDS "dev.capybara.sandbox.max-command-seconds"

struct spec_label {
	char *key;
	char *value;
};

struct spec {
	char *name;
	char *image; /* with tag or digest */
	enum runtime runtime;
	enum egress egress;
	int64_t nano_cpus;
	int64_t memory; /* bytes */
	int64_t disk_mb; /* 0: not limited */
	int64_t max_command_seconds;
	char *allow_hosts; /* comma-separated, lower-case; "" for none */
	char *tcp_targets; /* a list as tcp_target.h has it; NULL for none */
	char *test_hosts; /* "host=addr,addr host=addr" as egressd takes it; NULL for none */
	unsigned nlabels;
	struct spec_label labels[SPEC_MAX_LABELS]; /* the client's own */
	bool disk_unlimited; /* disk_mb was asked for, but there is no volume driver that could hold it */
};

enum spec_flags { SPEC_TEST_OPTIONS = 1 << 0 /* take testOptions */ };

/* params: create's. -1 with code EINVAL, or EACCES for what the configuration does not allow. */
int spec_from_params(struct spec *s, const struct json_node *params, const struct config *c, unsigned flags,
	struct err *err) MUSTCHECK;
/* labels: Config.Labels of the container `name`. */
int spec_from_labels(struct spec *s, struct slice name, const struct json_node *labels, const struct config *c,
	struct err *err) MUSTCHECK;
void spec_release(struct spec *s);

const char *egress_name(enum egress e);
bool egress_from_name(struct slice s, enum egress *out);

#endif
