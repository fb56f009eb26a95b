/* controller serve: JSON-RPC on stdin and stdout, or on a unix socket. */
#include "controller/commands.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "controller/arguments.h"
#include "controller/controller.h"
#include "controller/loop.h"
#include "controller/mem.h"
#include "controller/rpc.h"
#include "controller/spec.h"
#include "libgate/listen.h"
#include "libgate/log.h"

#define GRACE_SECONDS 5
#define CLIENTS_MAX 64

static const struct option_row options[] = {
	{ "stdio", 0, OPTION_SWITCH, NULL, "serve the one client on stdin and stdout (the default)" },
	{ "listen", 0, OPTION_TEXT, "unix:PATH", "serve many clients on a socket, mode 0600" },
	{ "engine-timeout", 0, OPTION_TEXT, "SECONDS", "for one lifecycle operation; 300" },
	{ "eof-grace", 0, OPTION_TEXT, "SECONDS", "for commands that run when their client goes; 5" },
	{ "test-options", 0, OPTION_SWITCH, NULL, "take create's testOptions; for tests only" },
	{ "verbose", 'v', OPTION_SWITCH, NULL, "log every request to the engine" },
	{ 0 },
};

struct client {
	TAILQ_ENTRY(client) link;
	struct server *server;
	struct rpc *rpc;
};

struct server {
	struct controller controller;
	struct listener *listener; /* NULL: stdio */
	TAILQ_HEAD(client_list, client) clients;
	unsigned nclients;
	int64_t grace_ms;
	bool stopping;
};

static void on_client_closed(void *arg)
{
	struct client *client = arg;
	struct server *s = client->server;

	TAILQ_REMOVE(&s->clients, client, link);
	s->nclients--;
	rpc_free(client->rpc);
	free(client);
	if (s->listener == NULL || (s->stopping && s->nclients == 0))
		event_base_loopbreak(s->controller.base);
	else if (!s->stopping)
		listener_resume(s->listener);
}

static void add_client(struct server *s, int in, int out)
{
	struct client *client = mem_zalloc(sizeof(*client));

	client->server = s;
	TAILQ_INSERT_TAIL(&s->clients, client, link);
	s->nclients++;
	client->rpc = rpc_new(&s->controller, in, out, s->grace_ms, on_client_closed, client);
	if (s->nclients == CLIENTS_MAX && s->listener != NULL)
		listener_pause(s->listener);
}

static void on_accept(int fd, const struct peer *peer, void *arg)
{
	add_client(arg, fd, fd);
}

/* Stops taking work and lets what runs come to its end, as when each client had gone. */
static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;
	struct client *client, *next;

	s->stopping = true;
	if (s->listener != NULL)
		listener_pause(s->listener);
	if (s->nclients == 0)
		event_base_loopbreak(s->controller.base);
	TAILQ_FOREACH_SAFE (client, &s->clients, link, next)
		rpc_end(client->rpc);
}

static int listen_on(struct server *s, const char *where, struct err *err)
{
	if (strncmp(where, "unix:", 5) != 0 || where[5] != '/')
		return err_set(err, EINVAL, "--listen takes unix:/PATH");
	int fd = listen_unix(where + 5, 0600, (uid_t)-1, (gid_t)-1, err);
	if (fd < 0)
		return -1;
	s->listener = listener_new(s->controller.base, fd, on_accept, s);
	if (s->listener == NULL)
		return err_set(err, ENOMEM, "cannot listen on %s", where);
	log_info("listening on %s", where);
	return 0;
}

static int read_seconds(const struct arguments *a, const char *name, int64_t *ms, struct err *err)
{
	const char *text = arguments_text(a, name);
	long long seconds;

	if (text == NULL)
		return 0;
	if (arguments_number(name, text, 86400, &seconds, err) != 0)
		return -1;
	*ms = seconds * 1000;
	return 0;
}

static int run(const struct arguments *a, const struct config *config, struct err *err)
{
	struct server s = { .grace_ms = GRACE_SECONDS * 1000 };
	struct event_base *base = loop_new();
	const char *where = arguments_text(a, "listen");
	int rc = -1;

	TAILQ_INIT(&s.clients);
	if (base == NULL)
		return err_set(err, ENOMEM, "cannot make an event loop");
	struct event *term = evsignal_new(base, SIGTERM, on_signal, &s);
	struct event *intr = evsignal_new(base, SIGINT, on_signal, &s);
	event_add(term, NULL);
	event_add(intr, NULL);
	if (controller_init(&s.controller, base, config, err) == 0 &&
		read_seconds(a, "engine-timeout", &s.controller.engine_timeout_ms, err) == 0 &&
		read_seconds(a, "eof-grace", &s.grace_ms, err) == 0 && (where == NULL || listen_on(&s, where, err) == 0)) {
		if (arguments_has(a, "test-options"))
			s.controller.spec_flags |= SPEC_TEST_OPTIONS;
		if (config->allow_open_egress)
			log_warn("allowOpenEgress is on: a sandbox with egress: open reaches whatever this host reaches");
		if (where == NULL)
			add_client(&s, STDIN_FILENO, STDOUT_FILENO);
		event_base_dispatch(base);
		rc = 0;
	}
	controller_release(&s.controller);
	if (s.listener != NULL)
		listener_free(s.listener);
	event_free(term);
	event_free(intr);
	event_base_free(base);
	return rc;
}

int command_serve(int argc, char **argv)
{
	struct arguments a;
	struct config config;
	struct err err = ERR_INIT;
	int status = EXIT_DONE;

	config_init(&config);
	signal(SIGPIPE, SIG_IGN);
	if (arguments_read(&a, options, argc, argv, &err) != 0 || arguments_config(&a, &config, &err) != 0) {
		status = EXIT_USAGE;
	} else if (a.nwords > 0 || a.nrest > 0) {
		err_set(&err, EINVAL, "serve takes options only");
		status = EXIT_USAGE;
	} else {
		if (arguments_has(&a, "verbose"))
			log_set_level(LOG_LEVEL_DEBUG);
		if (run(&a, &config, &err) != 0)
			status = EXIT_FAILED;
	}
	if (status != EXIT_DONE)
		log_error("%s", err.text);
	config_release(&config);
	return status;
}
