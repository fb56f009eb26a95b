/*
 * Judgement by the built-in policy, from the head reader to the canonical request. Input: a request.
 * Properties: a refusal has a reason, a status and a printable message; what is allowed is judged again, in the form that
 * the engine gets, as allowed, and comes to rest (a struct whose every member was zero is itself zero, the next time); an
 * allowed create holds what the policy promises, looked up in the canonical body by name and without the policy's help.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "dockerproxy/policy.h"
#include "dockerproxy/verdict.h"
#include "libgate/http1.h"
#include "libgate/json.h"

#define BODY_MAX 32768
#define ROUNDS 8

static const struct policy *policy(void)
{
	static struct policy *p;
	struct err err = ERR_INIT;

	if (p == NULL)
		p = policy_builtin(&err);
	if (p == NULL)
		fprintf(stderr, "%s\n", err.text);
	FUZZ_CHECK(p != NULL);
	return p;
}

/* The whole body; false when it is incomplete or refused. */
static bool read_body(const struct http_head *h, const char *p, size_t len, struct buf *body)
{
	struct http_body b;
	enum http_result r;
	size_t at = h->length;

	http_body_init(&b, h->framing, h->content_length, BODY_MAX);
	do {
		struct slice run;
		size_t used;

		r = http_body_read(&b, p + at, len - at, &used, &run);
		at += used;
		if (r == HTTP_DATA)
			FUZZ_CHECK(buf_put_slice(body, run) == 0);
	} while (r == HTTP_DATA);
	return r == HTTP_DONE;
}

static enum decision judge(struct verdict *v, const char *p, size_t len, bool *whole)
{
	struct verdict_request req;
	struct http_head h;
	struct buf body;

	*whole = false;
	http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
	if (http_head_read(&h, p, len) != HTTP_DONE)
		return DECISION_DENY;
	*whole = true;
	verdict_request_from_head(&req, &h, p);
	enum decision d = verdict_head(v, policy(), &req, 0);
	if (d != DECISION_NEED_BODY)
		return d;
	buf_init(&body, BODY_MAX);
	*whole = read_body(&h, p, len, &body);
	d = *whole ? verdict_body(v, policy(), buf_slice(&body)) : DECISION_DENY;
	buf_release(&body);
	return d;
}

static void check_denied(const struct verdict *v)
{
	FUZZ_CHECK(v->reason != NULL && v->reason[0] != '\0' && v->status >= 400 && v->status < 600);
	for (const char *c = v->message; *c != '\0'; c++)
		FUZZ_CHECK(*c >= 0x20 && *c < 0x7f);
}

static bool label_set(const struct json_node *node)
{
	struct slice value;

	return json_get_string(json_get(node, "Labels"), "dev.capybara.sandbox", &value) && slice_is(value, "1");
}

/* By hand, as a reader of the requirements would: no field that opens the host, every field that closes it. */
static void check_create(struct slice body)
{
	static const char *const never[] = { "Privileged", "Binds", "CapAdd", "Devices", "DeviceRequests",
		"DeviceCgroupRules", "VolumesFrom", "CgroupParent", "Sysctls", "Annotations", "MaskedPaths", "ReadonlyPaths",
		"PortBindings", "PidMode", "UTSMode", "UsernsMode", "Cgroup", "Links", "GroupAdd", "StorageOpt", "ExtraHosts",
		"PublishAllPorts", "VolumeDriver", "OomKillDisable" };
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	const struct json_node *root = json_parse(doc, body, JSON_STRICT, &fault, &offset);
	const struct json_node *host = json_get(root, "HostConfig");
	struct slice text;
	int64_t number;
	bool flag;

	FUZZ_CHECK(root != NULL && host != NULL && host->type == JSON_OBJECT);
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		FUZZ_CHECK(json_get(host, never[i]) == NULL);
	FUZZ_CHECK(json_get_bool(host, "ReadonlyRootfs", &flag) && flag);
	FUZZ_CHECK(json_get_int(host, "Memory", &number) && number > 0);
	FUZZ_CHECK(json_get_int(host, "PidsLimit", &number) && number >= 1 && number <= 4096);
	const struct json_node *drop = json_get(host, "CapDrop");
	FUZZ_CHECK(drop != NULL && drop->type == JSON_ARRAY && drop->count >= 1);
	bool all = false;
	for (const struct json_node *n = drop->child; n != NULL; n = n->next)
		all = all || (n->type == JSON_STRING && (slice_is(n->text, "ALL") || slice_is(n->text, "all")));
	FUZZ_CHECK(all && label_set(root));
	FUZZ_CHECK(json_get_string(host, "NetworkMode", &text) && (slice_is(text, "none") || slice_starts(text, "cap")));
	if (json_get_string(host, "IpcMode", &text))
		FUZZ_CHECK(slice_is(text, "private") || slice_is(text, "none"));
	if (json_get_string(host, "Runtime", &text))
		FUZZ_CHECK(slice_is(text, "runc") || slice_is(text, "runsc"));
	const struct json_node *mounts = json_get(host, "Mounts");
	for (const struct json_node *m = mounts != NULL ? mounts->child : NULL; m != NULL; m = m->next) {
		FUZZ_CHECK(json_get_string(m, "Type", &text));
		bool volume = slice_is(text, "volume");
		FUZZ_CHECK(volume || slice_is(text, "tmpfs"));
		FUZZ_CHECK(!volume || (json_get_string(m, "Source", &text) && slice_starts(text, "cap-")));
	}
	json_doc_free(doc);
}

static void put_canonical(const struct verdict *v, struct buf *b)
{
	struct slice body = buf_slice(&v->body);

	FUZZ_CHECK(http_put_request_line(b, v->method, buf_slice(&v->target)) == 0);
	FUZZ_CHECK(http_put_field(b, "Host", slice_str("docker")) == 0);
	if (body.len > 0)
		FUZZ_CHECK(http_put_field(b, "Content-Type", slice_str("application/json")) == 0);
	FUZZ_CHECK(http_put_field_u64(b, "Content-Length", body.len) == 0);
	if (v->upgrade)
		FUZZ_CHECK(http_put_field(b, "Connection", slice_str("Upgrade")) == 0 &&
			http_put_field(b, "Upgrade", slice_str("tcp")) == 0);
	FUZZ_CHECK(http_put_end(b) == 0 && buf_put_slice(b, body) == 0);
}

/* Judges the canonical form of what was allowed, and the canonical form of that, until nothing changes. */
static void check_again(struct verdict *v, struct verdict *next)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct buf canonical;
		bool whole;

		/* Escapes can make a target or body longer than what may come in. */
		if (buf_len(&v->target) > TARGET_MAX || buf_len(&v->body) > BODY_MAX)
			return;
		buf_init(&canonical, 1 << 20);
		put_canonical(v, &canonical);
		verdict_reset(next);
		FUZZ_CHECK(judge(next, buf_head(&canonical), buf_len(&canonical), &whole) == DECISION_ALLOW);
		FUZZ_CHECK(slice_eq(buf_slice(&v->target), buf_slice(&next->target)));
		FUZZ_CHECK(slice_eq(v->method, next->method) && strcmp(v->object, next->object) == 0);
		buf_release(&canonical);
		if (slice_eq(buf_slice(&v->body), buf_slice(&next->body)))
			return;
		FUZZ_CHECK(buf_len(&next->body) < buf_len(&v->body));
		struct verdict *swap = v;
		v = next;
		next = swap;
	}
	FUZZ_CHECK(!"the canonical form comes to rest");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct verdict first, second;
	static bool ready;
	bool whole;

	if (!ready) {
		verdict_init(&first);
		verdict_init(&second);
		ready = true;
	}
	verdict_reset(&first);
	if (judge(&first, (const char *)data, size, &whole) != DECISION_ALLOW) {
		if (whole)
			check_denied(&first);
		return 0;
	}
	const struct endpoint_info *row = endpoint_info(first.endpoint);
	FUZZ_CHECK(first.reason == NULL);
	FUZZ_CHECK(row->has_body || buf_len(&first.body) == 0);
	if (strcmp(row->id, "container.create") == 0)
		check_create(buf_slice(&first.body));
	check_again(&first, &second);
	return 0;
}
