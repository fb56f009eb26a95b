/* dockerproxy print-policy: the policy as plain JSON, for programs that know no comments. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "dockerproxy/commands.h"
#include "dockerproxy/policy.h"

#define OUTPUT_MAX (64 * 1024 * 1024)

static const char usage[] = "usage: dockerproxy print-policy [--policy FILE]\n";

static int print(const char *file, struct err *err)
{
	struct policy *p = file != NULL ? policy_load_file(file, err) : policy_builtin(err);
	struct buf out;
	int rc = 0;

	if (p == NULL)
		return -1;
	buf_init(&out, OUTPUT_MAX);
	if (policy_print(p, &out) < 0)
		rc = err_set(err, 0, "the policy is too large to print");
	else if (fwrite(buf_head(&out), 1, buf_len(&out), stdout) != buf_len(&out) || fflush(stdout) != 0)
		rc = err_errno(err, "standard output");
	buf_release(&out);
	policy_free(p);
	return rc;
}

int dockerproxy_print_policy(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "policy", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	const char *file = NULL;
	struct err err = ERR_INIT;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c != 'p') {
			fputs(usage, stderr);
			return 2;
		}
		file = optarg;
	}
	if (optind != argc) {
		fputs(usage, stderr);
		return 2;
	}
	if (print(file, &err) < 0) {
		fprintf(stderr, "dockerproxy print-policy: %s\n", err.text);
		return 2;
	}
	return 0;
}
