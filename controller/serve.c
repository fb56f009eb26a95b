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
#define TERM_SECONDS 20 /* after SIGTERM; whoever sends it mostly waits 30 */
#define UNDO_SECONDS 60 /* beyond its time a lifecycle operation takes that long at most to take back what it did */
#define LAST_SECONDS 10 /* for what was given up to unwind */
#define CLIENTS_MAX 64

static const struct option_row options[] = {
	{ "stdio", 0, OPTION_SWITCH, NULL, "serve the one client on stdin and stdout (the default)" },
	{ "listen", 0, OPTION_TEXT, "unix:PATH", "serve many clients on a socket, mode 0600" },
	{ "engine-timeout", 0, OPTION_TEXT, "SECONDS", "for one lifecycle operation; 300" },
	{ "eof-grace", 0, OPTION_TEXT, "SECONDS", "for commands that run when their client goes; 5" },
	{ "term-timeout", 0, OPTION_TEXT, "SECONDS", "from SIGTERM on, for all that runs; 20" },
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
	int64_t term_ms;
	unsigned signals;
	struct event *limit; /* what still runs then is given up; later: it has not unwound */
	bool gave_up;
};

static void on_client_closed(void *arg)
{
	struct client *client = arg;
	struct server *s = client->server;

	TAILQ_REMOVE(&s->clients, client, link);
	s->nclients--;
	rpc_free(client->rpc);
	free(client);
	if (s->listener == NULL || (s->signals > 0 && s->nclients == 0))
		event_base_loopbreak(s->controller.base);
	else if (s->signals == 0)
		listener_resume(s->listener);
}

static void set_limit(struct server *s, int64_t ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	event_add(s->limit, &tv);
}

/* With the one client of stdin the program ends, and not later than every operation of it has to. */
static void on_client_ended(void *arg)
{
	struct client *client = arg;
	struct server *s = client->server;

	if (s->listener == NULL && s->signals == 0)
		set_limit(s, s->grace_ms + s->controller.engine_timeout_ms + UNDO_SECONDS * 1000);
}

static void add_client(struct server *s, int in, int out)
{
	static const struct rpc_events events = { on_client_ended, on_client_closed };
	struct client *client = mem_zalloc(sizeof(*client));

	client->server = s;
	TAILQ_INSERT_TAIL(&s->clients, client, link);
	s->nclients++;
	client->rpc = rpc_new(&s->controller, in, out, s->grace_ms, &events, client);
	if (s->nclients == CLIENTS_MAX && s->listener != NULL)
		listener_pause(s->listener);
}

static void on_accept(int fd, const struct peer *peer, void *arg)
{
	add_client(arg, fd, fd);
}

/* Whatever engine and clients do: within seconds everybody who still reads is told, and the program ends. */
static void give_up(struct server *s, const char *why)
{
	struct client *client;

	log_warn("%s: what still runs is reported as unknown; reconcile tells what became of it", why);
	s->gave_up = true;
	controller_close(&s->controller);
	TAILQ_FOREACH (client, &s->clients, link)
		rpc_hurry(client->rpc);
	set_limit(s, LAST_SECONDS * 1000);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;

	if (s->gave_up)
		event_base_loopbreak(s->controller.base);
	else
		give_up(s, s->signals > 0 ? "the time after the signal is over" : "the time after the end of input is over");
}

/* Stops taking work and lets what runs come to its end, as when each client had gone. */
static void stop(struct server *s)
{
	struct client *client, *next;

	if (s->listener != NULL)
		listener_pause(s->listener);
	if (s->nclients == 0)
		event_base_loopbreak(s->controller.base);
	TAILQ_FOREACH_SAFE (client, &s->clients, link, next)
		rpc_end(client->rpc);
	set_limit(s, s->term_ms);
	log_info("stopping: commands have %lld s, all that runs %lld s; a second signal gives up at once",
		(long long)s->grace_ms / 1000, (long long)s->term_ms / 1000);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct server *s = arg;

	if (++s->signals == 1)
		stop(s);
	else if (!s->gave_up)
		give_up(s, "a second signal");
	else
		event_base_loopbreak(s->controller.base);
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

static int run(const struct arguments *a, const struct config *config, struct err *err)
{
	struct server s = { .grace_ms = GRACE_SECONDS * 1000, .term_ms = TERM_SECONDS * 1000 };
	struct event_base *base = loop_new();
	const char *where = arguments_text(a, "listen");
	int rc = -1;

	TAILQ_INIT(&s.clients);
	if (base == NULL)
		return err_set(err, ENOMEM, "cannot make an event loop");
	struct event *term = evsignal_new(base, SIGTERM, on_signal, &s);
	struct event *intr = evsignal_new(base, SIGINT, on_signal, &s);
	s.limit = evtimer_new(base, on_limit, &s);
	if (term == NULL || intr == NULL || s.limit == NULL)
		abort();
	event_add(term, NULL);
	event_add(intr, NULL);
	if (controller_init(&s.controller, base, config, err) == 0 &&
		arguments_seconds(a, "engine-timeout", 1, &s.controller.engine_timeout_ms, err) == 0 &&
		arguments_seconds(a, "eof-grace", 0, &s.grace_ms, err) == 0 &&
		arguments_seconds(a, "term-timeout", 0, &s.term_ms, err) == 0 &&
		(where == NULL || listen_on(&s, where, err) == 0)) {
		if (arguments_has(a, "test-options"))
			s.controller.spec_flags |= SPEC_TEST_OPTIONS;
		if (config->allow_open_egress)
			log_warn("allowOpenEgress is on: a sandbox with egress: open reaches whatever this host reaches");
		if (where == NULL)
			add_client(&s, STDIN_FILENO, STDOUT_FILENO);
		event_base_dispatch(base);
		rc = s.gave_up ? err_set(err, EINPROGRESS, "ended before all that ran had come to its end") : 0;
	}
	controller_release(&s.controller);
	if (s.listener != NULL)
		listener_free(s.listener);
	event_free(term);
	event_free(intr);
	event_free(s.limit);
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
