/*
 * Recorded traffic of real clients (tests/cases/traffic/NAME.txt) judged by policies: NAME.verdicts says what must come out.
 *
 * A recording has a request a line, "### METHOD TARGET HTTP/1.1 || Field: value || ...", its body on the next; what begins with
 * one "#" is a comment. Of the verdicts the first line names the policies, one a column ("sandbox" is the built-in one, the
 * others are files of conf/policies); then a line a request: a word a column, "allow" or the reason of the refusal, and the
 * request's method and target, so that both files can be read side by side. After a difference the lines that would have
 * fitted are printed.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "dockerproxy/explain.h"

#define MAX_FIELDS 16
#define MAX_COLUMNS 6
#define FIELD_END " || "

static char *read_whole(const char *name)
{
	const char *srcdir = getenv("srcdir");
	char path[512];
	char *text = NULL;
	size_t n = 0;
	FILE *in;

	snprintf(path, sizeof(path), "%s/%s", srcdir == NULL ? "." : srcdir, name);
	in = fopen(path, "rb");
	if (in == NULL)
		return NULL;
	text = calloc(1, 1 << 20);
	if (text != NULL)
		n = fread(text, 1, (1 << 20) - 1, in);
	fclose(in);
	CU_ASSERT(n > 0);
	return text;
}

/* Cuts the next line off *rest; NULL at the end. */
static char *next_line(char **rest)
{
	char *line = *rest;
	char *end;

	if (line == NULL || *line == '\0')
		return NULL;
	end = strchr(line, '\n');
	*rest = end == NULL ? NULL : end + 1;
	if (end != NULL)
		*end = '\0';
	return line;
}

struct recorded {
	struct explain_request req;
	const char *fields[MAX_FIELDS];
	char *target;
};

/* "METHOD TARGET HTTP/1.1 || A: b || ..." in pieces; what HTTP frames the body with is what explain() writes by itself. */
static bool take_apart(char *line, const char *body, struct recorded *r)
{
	char *at = strstr(line, FIELD_END);
	char *target = strchr(line, ' ');
	char *version;

	memset(r, 0, sizeof(*r));
	if (target == NULL)
		return false;
	*target++ = '\0';
	version = strchr(target, ' ');
	if (version == NULL)
		return false;
	*version = '\0';
	r->req.method = slice_str(line);
	r->req.target = slice_str(target);
	r->target = target;
	while (at != NULL && r->req.n_headers < MAX_FIELDS) {
		char *field = at + strlen(FIELD_END);

		at = strstr(field, FIELD_END);
		if (at != NULL)
			*at = '\0';
		if (strncmp(field, "Content-Length:", 15) != 0 && strncmp(field, "Host:", 5) != 0 &&
			strncmp(field, "Transfer-Encoding:", 18) != 0)
			r->fields[r->req.n_headers++] = field;
	}
	r->req.headers = r->fields;
	r->req.has_body = body != NULL && *body != '\0';
	r->req.body = slice_str(r->req.has_body ? body : "");
	return true;
}

/* "allow", or the reason of the refusal. */
static void verdict_word(const struct policy *p, const struct recorded *r, char *out, size_t size)
{
	struct json_doc *doc = json_doc_new();
	struct err err = ERR_INIT;
	struct slice reason = slice_str("allow");
	enum json_fault fault;
	struct buf b;
	size_t offset;
	int rc;

	buf_init(&b, 4 << 20);
	rc = explain(p, &r->req, &b, &err);
	CU_ASSERT(rc == 0 || rc == 1);
	if (rc != 0)
		CU_ASSERT(json_get_string(json_parse(doc, buf_slice(&b), JSON_STRICT, &fault, &offset), "reason", &reason));
	snprintf(out, size, "%.*s", SLICE_ARG(reason));
	buf_release(&b);
	json_doc_free(doc);
}

static unsigned load_columns(char *names, struct policy **policies)
{
	unsigned n = 0;

	for (char *save = NULL, *name = strtok_r(names, " ", &save); name != NULL && n < MAX_COLUMNS;
		 name = strtok_r(NULL, " ", &save), n++) {
		const char *srcdir = getenv("srcdir");
		struct err err = ERR_INIT;
		char path[512];

		snprintf(path, sizeof(path), "%s/conf/policies/%s.json", srcdir == NULL ? "." : srcdir, name);
		policies[n] = strcmp(name, "sandbox") == 0 ? policy_builtin(&err) : policy_load_file(path, &err);
		CU_ASSERT_FATAL(policies[n] != NULL);
	}
	return n;
}

static void judged_line(struct policy **policies, unsigned n, const struct recorded *r, char *out, size_t size)
{
	size_t at = 0;

	for (unsigned i = 0; i < n && at < size; i++) {
		char word[64];

		verdict_word(policies[i], r, word, sizeof(word));
		at += (size_t)snprintf(out + at, size - at, "%s ", word);
	}
	if (at < size)
		snprintf(out + at, size - at, "%.*s %s", SLICE_ARG(r->req.method), r->target);
}

static void replay(const char *name)
{
	struct policy *policies[MAX_COLUMNS];
	char path[128];
	char *traffic, *verdicts, *traffic_rest, *rest, *line, *head;
	unsigned n, requests = 0, differ = 0;

	snprintf(path, sizeof(path), "tests/cases/traffic/%s.txt", name);
	traffic = traffic_rest = read_whole(path);
	snprintf(path, sizeof(path), "tests/cases/traffic/%s.verdicts", name);
	verdicts = rest = read_whole(path);
	CU_ASSERT_FATAL(traffic != NULL && verdicts != NULL);
	head = next_line(&rest);
	n = load_columns(head, policies);
	CU_ASSERT_FATAL(n > 0);
	line = next_line(&traffic_rest);
	while (line != NULL) {
		char *next = next_line(&traffic_rest);
		const char *want;
		struct recorded r;
		char have[2048];

		if (strncmp(line, "### ", 4) != 0) {
			line = next;
			continue;
		}
		requests++;
		CU_ASSERT_FATAL(take_apart(line + 4, next != NULL && next[0] != '#' ? next : NULL, &r));
		judged_line(policies, n, &r, have, sizeof(have));
		want = next_line(&rest);
		if (want == NULL || strcmp(want, have) != 0) {
			differ++;
			printf("  now: %s\n", have);
		}
		line = next;
	}
	CU_ASSERT(requests > 0);
	CU_ASSERT_EQUAL(differ, 0);
	CU_ASSERT(next_line(&rest) == NULL);
	for (unsigned i = 0; i < n; i++)
		policy_free(policies[i]);
	free(traffic);
	free(verdicts);
}

#define REPLAY(function, name) \
	static void function(void) \
	{ \
		replay(name); \
	}
REPLAY(docker_cli_20, "docker-cli-20.10.24")
REPLAY(docker_cli_28, "docker-cli-28.2.2")
REPLAY(dockerode, "dockerode-5.0.1")

static const struct unit_test tests[] = {
	{ "docker-cli-20", docker_cli_20 },
	{ "docker-cli-28", docker_cli_28 },
	{ "dockerode", dockerode },
};

UNIT_MAIN("traffic", tests)
