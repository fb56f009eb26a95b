/*
 * The verdict by the sandbox policy. Input: "METHOD TARGET", a line feed, the body.
 * Properties: a refusal has a reason and words of printable ASCII; what is allowed is allowed again in its canonical form,
 * with the same target, object and body.
 */
#include "tests/fuzz/fuzz.h"

#include "dockerproxy/verdict.h"
#include "libgate/utf8.h"

static const struct policy *sandbox(void)
{
	static struct policy *p; /* loaded once: a run has millions of inputs */
	struct err err = ERR_INIT;

	if (p == NULL)
		p = policy_builtin(&err);
	FUZZ_CHECK(p != NULL);
	return p;
}

static enum decision judge(struct verdict *v, struct slice method, struct slice target, struct slice body)
{
	struct verdict_request req = {
		.method = method,
		.target = target,
		.content_type = SLICE_LIT("application/json"),
		.has_length = true,
		.length = body.len,
	};

	if (verdict_head(v, sandbox(), &req, 0) == DECISION_NEED_BODY)
		return verdict_body(v, sandbox(), body);
	return v->decision;
}

static void check_refusal(const struct verdict *v)
{
	FUZZ_CHECK(v->reason != NULL && v->status >= 400 && v->message[0] != '\0');
	for (const char *m = v->message; *m != '\0'; m++)
		FUZZ_CHECK(*m >= 0x20 && *m < 0x7f);
	FUZZ_CHECK(utf8_valid(slice_str(v->at)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice in = slice_make((const char *)data, size);
	const char *space = memchr(in.p, ' ', in.len);
	const char *line = memchr(in.p, '\n', in.len);
	static struct verdict v, again; /* used again and again, as a connection does */
	static bool ready;

	if (!ready) {
		verdict_init(&v);
		verdict_init(&again);
		ready = true;
	}
	if (space == NULL || line == NULL || space > line)
		return 0;
	if (judge(&v, slice_make(in.p, (size_t)(space - in.p)), slice_make(space + 1, (size_t)(line - space - 1)),
			slice_skip(in, (size_t)(line - in.p) + 1)) != DECISION_ALLOW) {
		check_refusal(&v);
	} else {
		FUZZ_CHECK(judge(&again, v.method, buf_slice(&v.target), buf_slice(&v.body)) == DECISION_ALLOW);
		FUZZ_CHECK(slice_eq(buf_slice(&v.target), buf_slice(&again.target)));
		FUZZ_CHECK(slice_eq(buf_slice(&v.body), buf_slice(&again.body)));
		FUZZ_CHECK(strcmp(v.object, again.object) == 0);
	}
	return 0;
}
