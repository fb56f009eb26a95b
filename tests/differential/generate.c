/*
 * Bodies made to fool a judge, and what the policy lets through of them.
 *
 *     generate COUNT SEED     writes to standard output, for each body that was allowed:
 *                             "ENDPOINT LENGTH LENGTH\n", the body as sent, the canonical body
 *
 * A body is one of the good requests below, written anew with its members reordered, dropped, doubled, misspelt in the
 * ways that the engine's decoder forgives, with values of other types, and with fields that the policy must refuse. The
 * last line on standard error counts. A canonical body that is not its own canonical form is reported there, and the exit
 * code is 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dockerproxy/verdict.h"

struct good {
	const char *target;
	const char *body;
};

static const struct good goods[] = {
	{ "/v1.44/containers/create?name=cap-c1",
		"{\"Image\":\"capybara-sandbox:latest\",\"User\":\"0:0\",\"Cmd\":[\"sleep\",\"infinity\"],\"WorkingDir\":\"/workspace\","
		"\"Env\":[\"HTTP_PROXY=http://cap-c1-egress:3128\",\"A=b\"],"
		"\"Labels\":{\"dev.capybara.sandbox\":\"1\",\"dev.capybara.sandbox.name\":\"cap-c1\"},"
		"\"HostConfig\":{\"Init\":true,\"CapDrop\":[\"ALL\"],\"SecurityOpt\":[\"no-new-privileges\"],\"ReadonlyRootfs\":true,"
		"\"PidsLimit\":1024,\"IpcMode\":\"private\",\"NanoCpus\":1000000000,\"Memory\":2147483648,"
		"\"MemorySwap\":2147483648,\"Runtime\":\"runc\",\"NetworkMode\":\"cap-c1-net\","
		"\"Tmpfs\":{\"/tmp\":\"rw,nosuid,nodev,size=1073741824\"},"
		"\"Mounts\":[{\"Type\":\"volume\",\"Source\":\"cap-c1-workspace\",\"Target\":\"/workspace\"},"
		"{\"Type\":\"tmpfs\",\"Target\":\"/t\",\"TmpfsOptions\":{\"SizeBytes\":1048576,\"Mode\":1023}}]},"
		"\"NetworkingConfig\":{\"EndpointsConfig\":{\"cap-c1-net\":{\"Aliases\":[\"a\"]},\"capybara-sandbox\":{}}}}" },
	{ "/v1.44/containers/create?name=cap-c1",
		"{\"Image\":\"a\",\"Cmd\":[\"id\"],\"Hostname\":\"\",\"Volumes\":{},\"OnBuild\":null,\"Healthcheck\":{\"Test\":[\"CMD\",\"true\"]},"
		"\"Labels\":{\"dev.capybara.sandbox\":\"1\"},"
		"\"HostConfig\":{\"CapDrop\":[\"ALL\"],\"SecurityOpt\":[\"no-new-privileges:true\"],\"ReadonlyRootfs\":true,"
		"\"PidsLimit\":1,\"Memory\":67108864,\"NetworkMode\":\"none\",\"Binds\":null,\"LogConfig\":{\"Type\":\"\",\"Config\":{}},"
		"\"RestartPolicy\":{\"Name\":\"no\",\"MaximumRetryCount\":0},\"MemorySwappiness\":-1,\"Privileged\":false,"
		"\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":64,\"Hard\":64},"
		"{\"Name\":\"stack\",\"Soft\":67108864,\"Hard\":67108864}],\"MaskedPaths\":null,\"Devices\":[],\"OomScoreAdj\":0}}" },
	{ "/v1.44/containers/cap-c1/exec",
		"{\"User\":\"1000\",\"Privileged\":false,\"Tty\":false,\"AttachStdin\":true,\"Detach\":false,\"DetachKeys\":\"\","
		"\"Env\":[\"A=b\"],\"WorkingDir\":\"/workspace\",\"Cmd\":[\"id\"]}" },
	{ "/v1.44/exec/0000000000000000000000000000000000000000000000000000000000000000/start",
		"{\"Detach\":false,\"Tty\":true,\"ConsoleSize\":[24,80]}" },
	{ "/v1.44/volumes/create",
		"{\"Name\":\"cap-v\",\"Driver\":\"local\",\"DriverOpts\":{\"size\":\"100M\"},\"Labels\":{\"dev.capybara.sandbox\":\"1\"}}" },
	{ "/v1.44/networks/create",
		"{\"Name\":\"cap-n\",\"Driver\":\"bridge\",\"Internal\":true,\"CheckDuplicate\":true,\"EnableIPv6\":false,"
		"\"IPAM\":{\"Driver\":\"default\",\"Options\":{},\"Config\":[]},"
		"\"Options\":{\"com.docker.network.bridge.inhibit_ipv4\":\"true\"},\"Labels\":{\"dev.capybara.sandbox\":\"1\"}}" },
	{ "/v1.44/networks/cap-n/connect",
		"{\"Container\":\"cap-x\",\"EndpointConfig\":{\"IPAMConfig\":{},\"Links\":null,\"Aliases\":[\"q\"],\"NetworkID\":\"\"}}" },
	{ "/v1.44/networks/cap-n/disconnect", "{\"Container\":\"cap-x\",\"Force\":true}" },
};

/* Members to slip in. The value is text: it need not be JSON. */
static const char *const evil[][2] = {
	{ "Privileged", "true" },
	{ "Binds", "[\"/:/h\"]" },
	{ "CapAdd", "[\"ALL\"]" },
	{ "CapDrop", "[]" },
	{ "Devices", "[{\"PathOnHost\":\"/dev/sda\"}]" },
	{ "PidMode", "\"host\"" },
	{ "IpcMode", "\"host\"" },
	{ "NetworkMode", "\"host\"" },
	{ "UsernsMode", "\"host\"" },
	{ "CgroupnsMode", "\"host\"" },
	{ "UTSMode", "\"host\"" },
	{ "SecurityOpt", "[\"seccomp=unconfined\"]" },
	{ "Runtime", "\"evil\"" },
	{ "Sysctls", "{\"net.ipv4.ip_forward\":\"1\"}" },
	{ "Annotations", "{\"a\":\"b\"}" },
	{ "MaskedPaths", "[]" },
	{ "ReadonlyPaths", "[]" },
	{ "VolumesFrom", "[\"kernel\"]" },
	{ "CgroupParent", "\"/x\"" },
	{ "PortBindings", "{\"80/tcp\":[{\"HostPort\":\"80\"}]}" },
	{ "Memory", "0" },
	{ "PidsLimit", "-1" },
	{ "OomScoreAdj", "-1000" },
	{ "Links", "[\"kernel:k\"]" },
	{ "Mounts", "[{\"Type\":\"bind\",\"Source\":\"/\",\"Target\":\"/h\"}]" },
	{ "HostConfig", "{\"Privileged\":true}" },
	{ "HostConfig", "null" },
	{ "LogConfig", "{\"Type\":\"syslog\"}" },
	{ "RestartPolicy", "{\"Name\":\"always\"}" },
	{ "Source", "\"/etc\"" },
	{ "Source", "\"\"" },
	{ "Type", "\"bind\"" },
	{ "Target", "\"/proc\"" },
	{ "DriverConfig", "{\"Options\":{\"o\":\"bind\",\"device\":\"/\"}}" },
	{ "VolumeOptions", "{\"DriverConfig\":{\"Options\":{\"o\":\"bind\"}}}" },
	{ "BindOptions", "{}" },
	{ "NetworkID", "\"ffff\"" },
	{ "MacAddress", "\"02:42:ac:11:00:02\"" },
	{ "IPAMConfig", "{\"IPv4Address\":\"10.0.0.9\"}" },
	{ "DriverOpts", "{\"device\":\"/\",\"o\":\"bind\"}" },
	{ "Driver", "\"macvlan\"" },
	{ "Name", "\"kernel\"" },
	{ "Container", "\"kernel\"" },
	{ "ConfigFrom", "{\"Network\":\"host\"}" },
	{ "ConfigOnly", "true" },
	{ "Attachable", "true" },
	{ "Options", "{\"parent\":\"eth0\"}" },
	{ "EnableIPv6", "true" },
	{ "Internal", "false" },
	{ "Volumes", "{\"/x\":{}}" },
	{ "WorkingDir", "\"/proc/self/fd/8\"" },
	{ "User", "\"00\"" },
	{ "User", "\"4294967296\"" },
	{ "Labels", "{\"traefik.enable\":\"true\"}" },
	{ "Labels", "{}" },
	{ "Image", "\"\"" },
	{ "Cpuset", "\"0\"" },
	{ "StorageOpt", "{\"size\":\"1G\"}" },
	{ "ReadonlyRootfs", "false" },
	{ "Env", "[\"NVIDIA_VISIBLE_DEVICES=all\"]" },
	{ "Tmpfs", "{\"/tmp\":\"exec,suid,dev\"}" },
	{ "Ulimits", "[{\"Name\":\"core\",\"Soft\":67108864,\"Hard\":67108864}]" },
	{ "EndpointsConfig", "{\"bridge\":{}}" },
	{ "ClusterVolumeSpec", "{\"Group\":\"x\"}" },
	{ "dev.capybara.sandbox", "\"0\"" },
	{ "Detach", "1" },
};

/* Values of other kinds to put in a member's place. */
static const char *const values[] = {
	"null",
	"true",
	"false",
	"0",
	"-1",
	"1",
	"1.0",
	"1e3",
	"-0",
	"99999999999999999999",
	"9223372036854775807",
	"\"\"",
	"\"0\"",
	"\"true\"",
	"\"host\"",
	"[]",
	"[null]",
	"[\"\"]",
	"{}",
	"{\"\":null}",
	"\"\\u0000\"",
	"\"cap-\\n\"",
	"\"\xc5\xbf\"",
	"[[]]",
	"\"cap-y\"",
	"\"private\"",
	"4194304",
	"4096",
};

static uint64_t state;

static uint32_t draw(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 33) % n);
}

static bool chance(uint32_t in_thousand)
{
	return draw(1000) < in_thousand;
}

static void put(struct buf *b, const char *text)
{
	if (buf_puts(b, text) < 0)
		exit(2);
}

static void put_bytes(struct buf *b, const char *p, size_t n)
{
	if (buf_put(b, p, n) < 0)
		exit(2);
}

static void put_unicode(struct buf *b, unsigned cp)
{
	char text[8];

	snprintf(text, sizeof(text), chance(500) ? "\\u%04x" : "\\u%04X", cp);
	put(b, text);
}

static void put_space(struct buf *b)
{
	if (chance(20))
		put_bytes(b, &" \t\n\r"[draw(4)], 1);
}

static char other_case(char c)
{
	if (c >= 'a' && c <= 'z')
		return (char)(c - 'a' + 'A');
	return slice_lower(c);
}

/* One byte of a string, perhaps otherwise spelt: as an escape, in the other case, or as a letter that folds to it. */
static void put_char(struct buf *b, char c, uint32_t harm)
{
	if (chance(harm)) {
		char swapped = other_case(c);

		if ((c == 's' || c == 'S') && chance(600))
			chance(500) ? put(b, "\xc5\xbf") : put_unicode(b, 0x17f);
		else if ((c == 'k' || c == 'K') && chance(600))
			chance(500) ? put(b, "\xe2\x84\xaa") : put_unicode(b, 0x212a);
		else if (chance(850))
			put_bytes(b, &swapped, 1);
		else
			put(b, draw(2) == 0 ? "\\u0000" : "\xc3\xa9");
		return;
	}
	if (chance(harm))
		put_unicode(b, (unsigned char)c);
	else if (c == '"' || c == '\\')
		put_unicode(b, (unsigned char)c);
	else
		put_bytes(b, &c, 1);
}

static void put_key(struct buf *b, struct slice key, uint32_t harm)
{
	bool bend = chance(harm);

	put(b, "\"");
	for (size_t i = 0; i < key.len; i++)
		put_char(b, key.p[i], bend ? 150 : 0);
	put(b, "\":");
}

static void put_string(struct buf *b, struct slice text, uint32_t harm)
{
	put(b, "\"");
	for (size_t i = 0; i < text.len; i++) {
		if (chance(10))
			put_unicode(b, (unsigned char)text.p[i]);
		else
			put_char(b, text.p[i], chance(harm) ? 100 : 0);
	}
	put(b, "\"");
}

static void put_node(struct buf *b, const struct json_node *n, uint32_t harm);

static void put_evil(struct buf *b, uint32_t harm)
{
	const char *const *e = evil[draw(ARRAY_SIZE(evil))];

	put_key(b, slice_str(e[0]), harm * 20);
	put(b, e[1]);
}

static void put_member(struct buf *b, const struct json_node *m, uint32_t harm)
{
	put_space(b);
	put_key(b, m->key, harm);
	put_space(b);
	if (chance(harm))
		put(b, values[draw(ARRAY_SIZE(values))]);
	else
		put_node(b, m, harm);
	put_space(b);
}

static void put_object(struct buf *b, const struct json_node *n, uint32_t harm)
{
	const struct json_node *members[128];
	unsigned count = 0;
	bool first = true;

	for (const struct json_node *m = n->child; m != NULL && count < ARRAY_SIZE(members); m = m->next)
		members[count++] = m;
	if (chance(300))
		for (unsigned i = count; i > 1; i--) {
			unsigned j = draw(i);
			const struct json_node *t = members[i - 1];

			members[i - 1] = members[j];
			members[j] = t;
		}
	put(b, "{");
	for (unsigned i = 0; i < count; i++) {
		unsigned times = chance(harm) ? draw(3) : 1;

		while (times-- > 0) {
			put(b, first ? "" : ",");
			put_member(b, members[i], harm);
			first = false;
		}
		if (chance(harm)) {
			put(b, first ? "" : ",");
			put_evil(b, harm);
			first = false;
		}
	}
	put(b, "}");
}

static void put_node(struct buf *b, const struct json_node *n, uint32_t harm)
{
	switch (n->type) {
	case JSON_OBJECT:
		put_object(b, n, harm);
		break;
	case JSON_ARRAY:
		put(b, "[");
		for (const struct json_node *i = n->child; i != NULL; i = i->next) {
			put(b, i == n->child ? "" : ",");
			if (chance(harm))
				put(b, values[draw(ARRAY_SIZE(values))]);
			else
				put_node(b, i, harm);
		}
		put(b, "]");
		break;
	case JSON_STRING:
		put_string(b, n->text, harm);
		break;
	case JSON_NULL:
	case JSON_BOOL:
	case JSON_INT:
	case JSON_REAL:
		if (json_put(b, n) < 0)
			exit(2);
		break;
	}
}

/* The last resort of an attacker: bytes at random. */
static void spoil(struct buf *b)
{
	for (unsigned n = draw(3) + 1; n > 0 && buf_len(b) > 2; n--) {
		size_t at = draw((uint32_t)buf_len(b));

		buf_head(b)[at] = draw(2) == 0 ? "{}[]:,\"\\0 \n"[draw(11)] : (char)draw(256);
	}
}

static bool judge(struct verdict *v, const struct policy *p, const struct good *g, struct slice body)
{
	struct verdict_request req = {
		.method = SLICE_LIT("POST"),
		.target = slice_str(g->target),
		.content_type = SLICE_LIT("application/json"),
		.has_length = true,
		.length = body.len,
	};

	return verdict_head(v, p, &req, 0) == DECISION_NEED_BODY && verdict_body(v, p, body) == DECISION_ALLOW;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long allowed = 0, unstable = 0;
	struct json_doc *docs[ARRAY_SIZE(goods)];
	const struct json_node *roots[ARRAY_SIZE(goods)];
	struct err err = ERR_INIT;
	struct policy *p = policy_builtin(&err);
	struct verdict v, again;
	struct buf body;

	if (count == 0 || argc != 3 || p == NULL) {
		fprintf(stderr, "usage: generate COUNT SEED %s\n", err.text);
		return 2;
	}
	state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15u | 1;
	for (size_t i = 0; i < ARRAY_SIZE(goods); i++) {
		enum json_fault fault;
		size_t offset;

		docs[i] = json_doc_new();
		roots[i] = docs[i] == NULL ? NULL : json_parse(docs[i], slice_str(goods[i].body), JSON_STRICT, &fault, &offset);
		if (roots[i] == NULL)
			return 2;
	}
	verdict_init(&v);
	verdict_init(&again);
	buf_init(&body, 1 << 20);
	for (unsigned long n = 0; n < count; n++) {
		size_t g = chance(600) ? draw(2) : draw(ARRAY_SIZE(goods));
		static const uint32_t harms[] = { 0, 1, 3, 10, 40 };

		buf_clear(&body);
		put_node(&body, roots[g], harms[draw(ARRAY_SIZE(harms))]);
		if (chance(100))
			spoil(&body);
		if (!judge(&v, p, &goods[g], buf_slice(&body)))
			continue;
		allowed++;
		if (!judge(&again, p, &goods[g], buf_slice(&v.body)) || !slice_eq(buf_slice(&v.body), buf_slice(&again.body))) {
			unstable++;
			fprintf(stderr, "generate: judged once more: %.*s\n", SLICE_ARG(buf_slice(&v.body)));
		}
		printf("%s %zu %zu\n", endpoint_info(v.endpoint)->id, buf_len(&body), buf_len(&v.body));
		fwrite(buf_head(&body), 1, buf_len(&body), stdout);
		fwrite(buf_head(&v.body), 1, buf_len(&v.body), stdout);
	}
	fprintf(stderr, "generate: %lu bodies, %lu allowed\n", count, allowed);
	for (size_t i = 0; i < ARRAY_SIZE(goods); i++)
		json_doc_free(docs[i]);
	verdict_release(&v);
	verdict_release(&again);
	buf_release(&body);
	policy_free(p);
	return fflush(stdout) != 0 ? 2 : unstable > 0;
}
