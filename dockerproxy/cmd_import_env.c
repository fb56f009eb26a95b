/* dockerproxy import-env: prints a policy that opens what the variables of an HAProxy-based socket proxy opened. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/commands.h"
#include "dockerproxy/import_env.h"
#include "libgate/slice.h"

#define OUTPUT_MAX (1024 * 1024)
#define LINES_MAX 1000

static const char usage[] = "usage: dockerproxy import-env [FILE]\n";

/* An env-file as docker takes it: NAME=VALUE a line, # begins a comment. */
struct env_file {
	char *lines[LINES_MAX];
	unsigned n;
};

static int read_env_file(struct env_file *f, const char *path, struct err *err)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	int rc = 0;

	if (in == NULL)
		return err_errno(err, "%s", path);
	while (rc == 0 && (n = getline(&line, &size, in)) > 0) {
		char *text = line + strspn(line, " \t");

		text[strcspn(text, "\r\n")] = '\0';
		if (text[0] == '\0' || text[0] == '#')
			continue;
		if (strchr(text, '=') == NULL || f->n == LINES_MAX) {
			rc = err_set(err, EINVAL, "%s: a line is not NAME=VALUE, or there are more than %d", path, LINES_MAX);
			break;
		}
		f->lines[f->n] = strdup(text);
		if (f->lines[f->n] == NULL)
			rc = err_errno(err, "%s", path);
		else
			f->n++;
	}
	if (rc == 0 && ferror(in))
		rc = err_errno(err, "%s", path);
	free(line);
	fclose(in);
	return rc;
}

static void release_env_file(struct env_file *f)
{
	for (unsigned i = 0; i < f->n; i++)
		free(f->lines[i]);
}

/* The last line wins, as for docker. */
static const char *from_file(const char *name, void *arg)
{
	const struct env_file *f = arg;
	size_t len = strlen(name);

	for (unsigned i = f->n; i-- > 0;)
		if (strncmp(f->lines[i], name, len) == 0 && f->lines[i][len] == '=')
			return f->lines[i] + len + 1;
	return NULL;
}

static const char *from_environment(const char *name, void *arg)
{
	return getenv(name);
}

static void warn_unknown(const struct env_file *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		char *equals = strchr(f->lines[i], '=');

		*equals = '\0';
		if (!import_env_knows(f->lines[i]))
			fprintf(stderr, "dockerproxy import-env: %s is not known and has no effect\n", f->lines[i]);
		*equals = '=';
	}
}

static int translate(const char *path, struct buf *out, struct err *err)
{
	struct env_file f = { .n = 0 };
	int rc;

	if (path == NULL)
		return import_env(from_environment, NULL, out, err);
	rc = read_env_file(&f, path, err);
	if (rc == 0) {
		warn_unknown(&f);
		rc = import_env(from_file, &f, out, err);
	}
	release_env_file(&f);
	return rc;
}

int dockerproxy_import_env(int argc, char **argv)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	struct err err = ERR_INIT;
	struct buf out;
	int rc = 0;

	if (getopt_long(argc, argv, "", none, NULL) != -1 || argc - optind > 1) {
		fputs(usage, stderr);
		return 2;
	}
	buf_init(&out, OUTPUT_MAX);
	if (translate(argv[optind], &out, &err) < 0) {
		fprintf(stderr, "dockerproxy import-env: %s\n", err.text);
		rc = 2;
	} else if (fwrite(buf_head(&out), 1, buf_len(&out), stdout) != buf_len(&out) || fflush(stdout) != 0) {
		rc = 2;
	}
	buf_release(&out);
	return rc;
}
