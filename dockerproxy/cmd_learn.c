/* dockerproxy learn: reads audit logs and prints a proposed policy. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/commands.h"
#include "dockerproxy/learn.h"

#define OUTPUT_MAX (64 * 1024 * 1024)

static const char usage[] = "usage: dockerproxy learn [--policy FILE] --log FILE [--log FILE]... [FILE]...\n";

static int read_log(struct learn *l, const char *path, struct err *err)
{
	FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	int rc = 0;

	if (in == NULL)
		return err_errno(err, "%s", path);
	while (rc == 0 && (n = getline(&line, &size, in)) > 0) {
		if (line[n - 1] == '\n')
			n--;
		rc = learn_line(l, slice_make(line, (size_t)n), err);
	}
	if (rc == 0 && ferror(in))
		rc = err_errno(err, "%s", path);
	free(line);
	if (in != stdin)
		fclose(in);
	return rc;
}

static int propose(const struct policy *base, char *const *logs, unsigned n, struct buf *out, struct err *err)
{
	struct learn *l = learn_new(base, err);
	int rc = l == NULL ? -1 : 0;

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = read_log(l, logs[i], err);
	if (rc == 0)
		rc = learn_print(l, out, err);
	learn_free(l);
	return rc;
}

static int run(const char *policy, char *const *logs, unsigned n, struct err *err)
{
	struct policy *base = policy != NULL ? policy_load_file(policy, err) : policy_builtin(err);
	struct buf out;
	int rc = -1;

	buf_init(&out, OUTPUT_MAX);
	if (base != NULL)
		rc = propose(base, logs, n, &out, err);
	if (rc == 0 && (fwrite(buf_head(&out), 1, buf_len(&out), stdout) != buf_len(&out) || fflush(stdout) != 0))
		rc = err_errno(err, "standard output");
	buf_release(&out);
	policy_free(base);
	return rc;
}

int dockerproxy_learn(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "policy", required_argument, NULL, 'p' },
		{ "log", required_argument, NULL, 'l' },
		{ NULL, 0, NULL, 0 },
	};
	auto_free char **logs = calloc((size_t)argc + 1, sizeof(*logs));
	const char *policy = NULL;
	struct err err = ERR_INIT;
	unsigned n = 0;
	int c;

	while (logs != NULL && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'p') {
			policy = optarg;
		} else if (c == 'l') {
			logs[n++] = optarg;
		} else {
			fputs(usage, stderr);
			return 2;
		}
	}
	/* "--log FILE..." as a shell's glob leaves it: the rest are logs too. */
	while (logs != NULL && optind < argc)
		logs[n++] = argv[optind++];
	if (n == 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (run(policy, logs, n, &err) < 0) {
		fprintf(stderr, "dockerproxy learn: %s\n", err.text);
		return 2;
	}
	return 0;
}
