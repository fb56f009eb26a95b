/* dockerproxy explain: the command line around explain(). */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/commands.h"
#include "dockerproxy/explain.h"

#define BODY_MAX \
	(32 * 1024 * 1024) /* twice what a policy can let an endpoint take: more is refused by its length alone */
#define OUTPUT_MAX (512 * 1024 * 1024)

static const char usage[] =
	"usage: dockerproxy explain [--policy FILE] [--header 'Name: value']... [--body FILE|-] [--] METHOD TARGET\n";

struct options {
	const char *policy;
	const char *body;
	const char **headers; /* borrows from argv */
	unsigned n_headers;
};

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "policy", required_argument, NULL, 'p' },
		{ "header", required_argument, NULL, 'H' },
		{ "body", required_argument, NULL, 'b' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			o->policy = optarg;
			break;
		case 'H':
			o->headers[o->n_headers++] = optarg;
			break;
		case 'b':
			o->body = optarg;
			break;
		default:
			return -1;
		}
	}
	return argc - optind == 2 ? 0 : -1;
}

static int read_body(const char *path, struct buf *out, struct err *err)
{
	bool standard = strcmp(path, "-") == 0;
	int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int rc = -1;

	if (fd < 0)
		return err_errno(err, "body %s", path);
	for (;;) {
		char *p = buf_reserve(out, 65536);
		ssize_t n;

		if (p == NULL) {
			rc = 0;
			break;
		}
		n = read(fd, p, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_errno(err, "body %s", path);
			break;
		}
		if (n == 0) {
			rc = 0;
			break;
		}
		buf_commit(out, (size_t)n);
	}
	if (!standard)
		close(fd);
	return rc;
}

static int answer(const struct options *o, const char *method, const char *target, struct buf *out, struct err *err)
{
	struct policy *p = o->policy != NULL ? policy_load_file(o->policy, err) : policy_builtin(err);
	struct explain_request req = {
		.method = slice_str(method),
		.target = slice_str(target),
		.headers = o->headers,
		.n_headers = o->n_headers,
		.has_body = o->body != NULL,
	};
	struct buf body;
	int rc = 2;

	buf_init(&body, BODY_MAX);
	if (p != NULL && (o->body == NULL || read_body(o->body, &body, err) == 0)) {
		req.body = buf_slice(&body);
		rc = explain(p, &req, out, err);
	}
	buf_release(&body);
	policy_free(p);
	return rc;
}

int dockerproxy_explain(int argc, char **argv)
{
	auto_free const char **headers = calloc((size_t)argc + 1, sizeof(*headers));
	struct options o = { .headers = headers };
	struct err err = ERR_INIT;
	struct buf out;
	int rc;

	if (headers == NULL || parse(argc, argv, &o) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	buf_init(&out, OUTPUT_MAX);
	rc = answer(&o, argv[optind], argv[optind + 1], &out, &err);
	if (rc == 2)
		fprintf(stderr, "dockerproxy explain: %s\n", err.text);
	else if (fwrite(buf_head(&out), 1, buf_len(&out), stdout) != buf_len(&out) || fflush(stdout) != 0)
		rc = 2;
	buf_release(&out);
	return rc;
}
