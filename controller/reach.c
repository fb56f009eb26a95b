/* Tries to reach the endpoint from inside a sandbox. */
#include "controller/reach.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/clock.h"
#include "controller/ensure.h"
#include "controller/mem.h"
#include "controller/name.h"
#include "libgate/buf.h"

#define RUNNING "?filters=%7B%22label%22%3A%5B%22dev.capybara.sandbox%3D1%22%5D%7D"
#define ASK_MS 60000
#define CONNECT_SECONDS "2"
#define ADDRESSES_MAX 16
#define ANSWER_MAX 4096

struct reach_probe {
	struct controller *controller;
	struct sandbox *sandbox;
	reach_cb cb;
	void *arg;
	struct exec_backend *backend;
	struct exec_op *op;
	char id[48];
	char *addresses[ADDRESSES_MAX];
	unsigned naddresses;
	char port[8];
	struct buf answer;
};

static void over(struct reach_probe *p, enum reach r, const char *where)
{
	p->cb(r, p->sandbox != NULL ? p->sandbox->name : NULL, where, p->arg);
	for (unsigned i = 0; i < p->naddresses; i++)
		free(p->addresses[i]);
	if (p->sandbox != NULL)
		sandbox_put(p->sandbox);
	buf_release(&p->answer);
	free(p);
}

static void on_output(enum exec_stream stream, struct slice data, void *arg)
{
	struct reach_probe *p = arg;

	if (stream == EXEC_STDOUT && buf_put_slice(&p->answer, data) != 0)
		buf_clear(&p->answer);
	if (p->op != NULL)
		p->backend->ops->consumed(p->op, data.len);
}

/* The sandbox's own word: one that can reach the proxy has no reason to say so, but most do not expect the question. */
static void on_done(const struct exec_outcome *o, void *arg)
{
	struct reach_probe *p = arg;
	struct slice said = buf_slice(&p->answer);

	if (o->end == EXEC_EXITED && o->exit_code == 0 && said.len == 0) {
		over(p, REACH_NONE, "");
		return;
	}
	for (unsigned i = 0; o->end == EXEC_EXITED && o->exit_code == 0 && i < p->naddresses; i++) {
		auto_free char *line = mem_printf("%s\n", p->addresses[i]);

		if (slice_starts(said, line)) {
			over(p, REACH_OPEN, p->addresses[i]);
			return;
		}
	}
	over(p, REACH_UNKNOWN, o->text != NULL && o->text[0] != '\0' ? o->text : "the command that tries it failed");
}

static void on_running(const struct err *err, void *arg)
{
	static const struct exec_events events = { NULL, on_output, NULL, on_done };
	static const char line[] =
		"port=$1; shift; for a; do timeout " CONNECT_SECONDS
		" bash -c 'exec 3<>\"/dev/tcp/$1/$2\"' x \"$a\" \"$port\" 2>/dev/null && printf '%s\\n' \"$a\"; done; exit 0";
	struct reach_probe *p = arg;
	struct err fault = ERR_INIT;
	struct slice argv[5 + ADDRESSES_MAX] = { SLICE_LIT("bash"), SLICE_LIT("-c"), slice_str(line), SLICE_LIT("reach"),
		slice_str(p->port) };
	struct exec_request rq = {
		.argv = argv,
		.nargv = 5 + p->naddresses,
		.cwd = SLICE_LIT("/"),
		.id = slice_str(p->id),
		.timeout_ms = ASK_MS,
		.max_output = ANSWER_MAX,
	};

	if (err != NULL) {
		over(p, REACH_UNKNOWN, err->text);
		return;
	}
	for (unsigned i = 0; i < p->naddresses; i++)
		argv[5 + i] = slice_str(p->addresses[i]);
	p->backend = sandbox_backend(p->sandbox, false);
	p->op = p->backend->ops->start(p->backend, &rq, &events, p, &fault);
	if (p->op == NULL)
		over(p, REACH_UNKNOWN, fault.text);
}

static void add_address(struct reach_probe *p, struct slice address)
{
	if (address.len == 0 || address.len > 255 || p->naddresses == ADDRESSES_MAX)
		return;
	for (unsigned i = 0; i < p->naddresses; i++)
		if (slice_is(address, p->addresses[i]))
			return;
	p->addresses[p->naddresses++] = mem_dup(address);
}

/* The bridge has the first address of its network also where the sandbox was given no route to it. */
static void add_first_address(struct reach_probe *p, struct slice own)
{
	const char *dot = own.len > 0 ? memrchr(own.p, '.', own.len) : NULL;

	if (dot == NULL)
		return;
	auto_free char *first = mem_printf("%.*s.1", (int)(dot - own.p), own.p);
	add_address(p, slice_str(first));
}

static void on_container(const struct engine_reply *reply, void *arg)
{
	struct reach_probe *p = arg;
	const struct json_node *networks = json_get(json_get(reply->json, "NetworkSettings"), "Networks");
	const struct config *c = p->controller->config;
	struct slice address;

	if (reply->status != 200) {
		over(p, REACH_UNKNOWN, reply->err.text);
		return;
	}
	/* Loopback is the sandbox's own there, and what listens on it too. */
	if (!config_is_local(c))
		add_address(p, slice_str(c->host));
	for (const struct json_node *n = networks != NULL ? networks->child : NULL; n != NULL; n = n->next) {
		if (json_get_string(n, "Gateway", &address))
			add_address(p, address);
		if (json_get_string(n, "IPAddress", &address))
			add_first_address(p, address);
	}
	ensure_known(p->sandbox, on_running, p);
}

static void on_listing(const struct engine_reply *reply, void *arg)
{
	struct reach_probe *p = arg;
	struct slice name = { NULL, 0 };
	struct err err = ERR_INIT;

	if (reply->status != 200 || reply->json == NULL || reply->json->type != JSON_ARRAY) {
		over(p, REACH_UNKNOWN, reply->status != 200 ? reply->err.text : "the engine's list of containers is none");
		return;
	}
	for (const struct json_node *n = reply->json->child; n != NULL && p->sandbox == NULL; n = n->next) {
		const struct json_node *names = json_get(n, "Names");
		struct slice state;

		if (!json_get_string(json_get(n, "Labels"), "dev.capybara.sandbox.name", &name) ||
			!json_get_string(n, "State", &state) || !slice_is(state, "running") || name_check_sandbox(name, &err) != 0)
			continue;
		/* An egress proxy carries the label, too. */
		auto_free char *own = mem_printf("/%.*s", SLICE_ARG(name));
		if (names == NULL || names->child == NULL || !slice_is(names->child->text, own))
			continue;
		p->sandbox = sandbox_get(p->controller, name);
	}
	if (p->sandbox == NULL) {
		over(p, REACH_NOBODY, "");
		return;
	}
	auto_free char *path = mem_printf("/containers/%s/json", p->sandbox->name);
	engine_call(p->controller->engine, "GET", path, NULL, ASK_MS, on_container, p);
}

void reach_probe(struct controller *c, reach_cb cb, void *arg)
{
	struct reach_probe *p = mem_zalloc(sizeof(*p));

	p->controller = c;
	p->cb = cb;
	p->arg = arg;
	buf_init(&p->answer, ANSWER_MAX);
	snprintf(p->id, sizeof(p->id), "reach-%llx-%x", (unsigned long long)clock_us(), (unsigned)getpid());
	snprintf(p->port, sizeof(p->port), "%u", (unsigned)c->config->port);
	if (c->config->host == NULL)
		over(p, REACH_UNIX, "");
	else
		engine_call(c->engine, "GET", "/containers/json" RUNNING, NULL, ASK_MS, on_listing, p);
}
