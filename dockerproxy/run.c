/* dockerproxy without a command: reads its options, checks the configuration, and runs. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>

#include "dockerproxy/commands.h"
#include "dockerproxy/conf.h"
#include "dockerproxy/master.h"
#include "dockerproxy/metrics.h"
#include "libgate/log.h"

static int usage(void)
{
	fprintf(stderr, "usage: dockerproxy [--config FILE] [--check]\n");
	return 2;
}

static int check(const char *file)
{
	struct proxy_conf conf;
	struct err err = ERR_INIT;

	if (proxy_conf_load(&conf, file, &err) < 0) {
		fprintf(stderr, "dockerproxy: %s\n", err.text);
		return 1;
	}
	printf("configuration: ok, %u listener%s\npolicy: ok, %u endpoints, %s\n", conf.nlisten,
		conf.nlisten == 1 ? "" : "s", policy_endpoint_count(conf.policy), policy_digest(conf.policy));
	proxy_conf_release(&conf);
	return 0;
}

static int run(const char *file)
{
	struct metrics *metrics = metrics_new(MASTER_SLOTS);
	int status;

	log_init("dockerproxy", LOG_LEVEL_INFO);
	if (metrics == NULL) {
		fprintf(stderr, "dockerproxy: not enough memory to start\n");
		return 1;
	}
	status = master_run(file, metrics);
	metrics_free(metrics);
	return status;
}

int dockerproxy_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check", no_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	const char *file = NULL;
	bool only_check = false;
	int c;

	while ((c = getopt_long(argc, argv, "c:n", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			file = optarg;
			break;
		case 'n':
			only_check = true;
			break;
		default:
			return usage();
		}
	}
	if (optind < argc)
		return usage();
	return only_check ? check(file) : run(file);
}
