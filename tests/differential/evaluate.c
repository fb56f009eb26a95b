/*
 * The policy's evaluator as a filter, for comparison with other implementations of JSON Schema.
 *
 *     evaluate    reads {"schema": ..., "value": ...} a line; prints 1 valid, 0 invalid, or E and a load error
 */
#include <stdio.h>
#include <stdlib.h>

#include "dockerproxy/policy_impl.h"

static void answer(struct json_doc *doc, struct slice line)
{
	struct schema_run *run = schema_run_new();
	struct schema_failure failure;
	struct err err = ERR_INIT;
	struct json_node *root, *value = NULL;
	struct policy *p = NULL;
	enum json_fault fault;
	struct buf text;
	size_t offset;

	buf_init(&text, 1 << 20);
	root = json_parse(doc, line, JSON_STRICT, &fault, &offset);
	for (struct json_node *m = root == NULL ? NULL : root->child; m != NULL; m = m->next)
		if (slice_is(m->key, "value"))
			value = m;
	if (run == NULL || value == NULL || json_get(root, "schema") == NULL ||
		buf_puts(&text,
			"{\"apiVersions\":{\"min\":\"1.41\",\"max\":\"1.41\",\"default\":\"1.41\"},\"endpoints\":"
			"[{\"id\":\"a\",\"method\":\"POST\",\"path\":\"/a\",\"body\":") < 0 ||
		json_put(&text, json_get(root, "schema")) < 0 || buf_puts(&text, "}]}") < 0)
		exit(2);
	p = policy_load(buf_slice(&text), "schema", &err);
	if (p == NULL)
		printf("E %s\n", err.text);
	else
		printf("%d\n", schema_eval(run, p->endpoints[0].body, value, &failure));
	policy_free(p);
	buf_release(&text);
	schema_run_free(run);
}

int main(void)
{
	struct json_doc *doc = json_doc_new();
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	if (doc == NULL)
		return 2;
	while ((n = getline(&line, &size, stdin)) > 0)
		answer(doc, slice_make(line, (size_t)n));
	free(line);
	json_doc_free(doc);
	return 0;
}
