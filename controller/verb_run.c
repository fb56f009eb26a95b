/* Runs one method for the command line: bytes in and out, signals, the exit status. */
#include "controller/text.h"
#include "controller/verb.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#include "controller/commands.h"
#include "controller/kind.h"
#include "controller/loop.h"
#include "controller/outlet.h"
#include "controller/spec.h"
#include "libgate/log.h"

#define INPUT_SIZE 65536

struct verb_call {
	const struct verb *verb;
	const struct arguments *arguments;
	struct controller controller;
	struct call *call;
	struct event *input;
	struct event *cancel_int, *cancel_term, *resize;
	size_t room;
	struct outlet out, err; /* what a command writes; the rest goes by stdio, when nothing of these waits */
	unsigned signals;
	bool ended; /* the call; it is not touched any more */
	bool raw_terminal;
	struct termios terminal;
	int status;
};

/* --- output ------------------------------------------------------------------------------------------------------ */

static void on_output(struct call *call, enum exec_stream stream, struct slice data)
{
	struct verb_call *v = call->owner_arg;

	outlet_put(stream == EXEC_STDOUT ? &v->out : &v->err, data);
}

static bool congested(const struct call *call)
{
	const struct verb_call *v = call->owner_arg;

	return outlet_waiting(&v->out) >= OUTLET_FULL || outlet_waiting(&v->err) >= OUTLET_FULL;
}

/* Once the call has ended, what waits has to go out; after a signal that has a bound. */
static void leave_when_written(struct verb_call *v)
{
	static const struct timeval grace = { 1, 0 };

	if (outlet_waiting(&v->out) == 0 && outlet_waiting(&v->err) == 0)
		event_base_loopbreak(v->controller.base);
	else if (v->signals > 0)
		event_base_loopexit(v->controller.base, &grace);
}

static void on_written(void *arg)
{
	struct verb_call *v = arg;

	if (v->ended)
		leave_when_written(v);
	else if (v->call->drained != NULL && !congested(v->call))
		v->call->drained(v->call);
}

/* From here on there is nothing to cancel: a signal ends the program, whatever it still writes. */
static void ended(struct verb_call *v)
{
	v->ended = true;
	event_del(v->input);
	event_del(v->cancel_int);
	event_del(v->cancel_term);
	if (v->raw_terminal)
		tcsetattr(STDIN_FILENO, TCSANOW, &v->terminal);
	v->raw_terminal = false;
}

/* Behind what the command wrote there. */
static void note(struct verb_call *v, const char *text)
{
	outlet_put(&v->err, slice_str(text));
}

/* 128 and the signal's number, as a shell says it. */
static int exec_status(struct json_object *r)
{
	struct json_object *code = json_object_object_get(r, "exitCode");
	const char *name = json_object_get_string(json_object_object_get(r, "signal"));

	if (code != NULL)
		return json_object_get_int(code) & 255;
	for (int s = 1; s < NSIG && name != NULL; s++)
		if (sigabbrev_np(s) != NULL && strcmp(sigabbrev_np(s), name + 3) == 0)
			return 128 + s;
	return EXIT_EXEC_FAULT;
}

static void on_result(struct call *call, struct json_object *result)
{
	struct verb_call *v = call->owner_arg;
	bool passes = (v->verb->flags & VERB_EXIT_CODE) != 0;

	ended(v);
	if (arguments_has(v->arguments, "json")) {
		puts(json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	} else {
		/* What engine and sandbox say of themselves may hold terminal escapes. */
		text_make_printable(result);
		v->verb->print(result);
	}
	v->status = passes ? exec_status(result) : EXIT_DONE;
	if ((v->verb->flags & VERB_RESULT_FAILS) != 0 &&
		!json_object_get_boolean(json_object_object_get(result, "healthy")))
		v->status = EXIT_FAILED;
	if (passes && json_object_get_boolean(json_object_object_get(result, "timedOut")))
		note(v, "controller exec: the command was killed at its time limit\n");
	if (passes && json_object_get_boolean(json_object_object_get(result, "oomKilled")))
		note(v, "controller exec: the sandbox ran out of memory\n");
	json_object_put(result);
	leave_when_written(v);
}

static void on_error(struct call *call, const struct err *err, struct json_object *data)
{
	struct verb_call *v = call->owner_arg;
	enum kind kind = kind_of(err->code);

	ended(v);
	if (arguments_has(v->arguments, "json")) {
		auto_json struct json_object *o = jnew();
		struct json_object *e = jobj(o, "error");
		jset_int(e, "code", kind_rpc_code(kind));
		jset_cstr(e, "message", err->text);
		jset(e, "data", data != NULL ? json_object_get(data) : jnew());
		jset_cstr(json_object_object_get(e, "data"), "kind", kind_id(kind));
		puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	}
	auto_free char *text = text_printable(slice_str(err->text));
	auto_free char *line = mem_printf("controller %s: %s (%s)\n", v->verb->name, text, kind_id(kind));
	note(v, line);
	json_object_put(data);
	if ((v->verb->flags & VERB_EXIT_CODE) != 0)
		v->status = EXIT_EXEC_FAULT;
	else
		v->status = kind == KIND_GONE ? EXIT_GONE : EXIT_FAILED;
	leave_when_written(v);
}

static void on_notify(struct call *call, const char *method, struct json_object *params)
{
	text_make_printable(params);
	if (strcmp(method, "pull/progress") == 0 && isatty(STDERR_FILENO))
		fprintf(stderr, "\rpulling %s: %-40.40s", json_object_get_string(json_object_object_get(params, "image")),
			json_object_get_string(json_object_object_get(params, "status")));
	json_object_put(params);
}

/* --- input ------------------------------------------------------------------------------------------------------- */

static void on_input(evutil_socket_t fd, short what, void *arg)
{
	struct verb_call *v = arg;
	static char block[INPUT_SIZE];
	struct err err = ERR_INIT;
	ssize_t n;

	n = read(STDIN_FILENO, block, v->room < sizeof(block) ? v->room : sizeof(block));
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		event_add(v->input, NULL);
		return;
	}
	size_t got = n > 0 ? (size_t)n : 0;
	v->room -= got;
	if (v->call->input == NULL || v->call->input(v->call, slice_make(block, got), got == 0, &err) != 0)
		return;
	if (got > 0 && v->room > 0)
		event_add(v->input, NULL);
}

static void on_room(struct call *call, size_t bytes)
{
	struct verb_call *v = call->owner_arg;

	v->room = bytes;
	if (!event_pending(v->input, EV_READ, NULL))
		event_add(v->input, NULL);
}

/* /dev/null and a closed stdin have nothing to say. */
static bool stdin_speaks(void)
{
	struct stat st, null;

	if (fstat(STDIN_FILENO, &st) != 0)
		return false;
	return stat("/dev/null", &null) != 0 || !S_ISCHR(st.st_mode) || st.st_rdev != null.st_rdev;
}

/* --- terminal and signals ---------------------------------------------------------------------------------------- */

/* The first ends a command and lets a lifecycle operation finish; another gives up whatever there is. */
static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct verb_call *v = arg;

	if (++v->signals > 1)
		controller_close(&v->controller);
	else if (v->call->cancel != NULL)
		v->call->cancel(v->call);
	else
		fprintf(stderr, "controller %s: being finished; once more to give up and leave it as it is\n", v->verb->name);
}

static void on_window(evutil_socket_t number, short what, void *arg)
{
	struct verb_call *v = arg;
	struct winsize size;
	struct err err = ERR_INIT;

	if (!v->ended && v->call->resize != NULL && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 &&
		v->call->resize(v->call, size.ws_row, size.ws_col, &err) != 0)
		log_debug("%s", err.text);
}

static void enter_terminal(struct verb_call *v, struct json_object *params)
{
	struct winsize size;
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &v->terminal) != 0)
		return;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
		jset_int(params, "rows", size.ws_row);
		jset_int(params, "cols", size.ws_col);
	}
	raw = v->terminal;
	cfmakeraw(&raw);
	v->raw_terminal = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

/* --- the run ----------------------------------------------------------------------------------------------------- */

static int make_params(struct verb_call *v, struct json_object *params, struct err *err)
{
	const struct arguments *a = v->arguments;

	if (v->verb->params(params, a, err) != 0) {
		fprintf(stderr, "controller %s: %s\nusage: controller %s [OPTION...] %s\n", v->verb->name, err->text,
			v->verb->name, v->verb->usage);
		return -1;
	}
	if ((v->verb->flags & VERB_EXIT_CODE) != 0) {
		jset_bool(params, "openStdin", !arguments_has(a, "no-stdin") && stdin_speaks());
		if (!arguments_has(a, "json") && !arguments_has(a, "max-output"))
			jset_bool(params, "stream", true);
		if (arguments_has(a, "tty"))
			enter_terminal(v, params);
	}
	return 0;
}

static void start(struct verb_call *v)
{
	static const struct call_owner captured = { .result = on_result, .error = on_error, .notify = on_notify };
	static const struct call_owner streaming = { .result = on_result,
		.error = on_error,
		.notify = on_notify,
		.congested = congested,
		.output = on_output };
	bool streams = (v->verb->flags & VERB_STREAMS_OUT) != 0 && !arguments_has(v->arguments, "json");
	struct json_object *params = jnew();
	struct err err = ERR_INIT;
	enum json_fault fault = JSON_OK;

	if (make_params(v, params, &err) != 0) {
		json_object_put(params);
		v->status = EXIT_USAGE;
		return;
	}
	auto_free char *text = jtext(params);
	v->call = call_new(&v->controller, streams ? &streaming : &captured, v, slice_str(text), &fault);
	if (v->call == NULL) {
		fprintf(stderr, "controller %s: an argument is not UTF-8\n", v->verb->name);
		v->status = EXIT_USAGE;
		return;
	}
	v->call->method = v->verb->method(v->arguments);
	if ((v->verb->flags & VERB_STREAMS_IN) != 0)
		v->call->room = on_room;
	if (method_check(v->call->method, v->call->params, &err) != 0) {
		fprintf(stderr, "controller %s: %s\n", v->verb->name, err.text);
		v->status = EXIT_USAGE;
		return;
	}
	v->call->method->start(v->call);
	if (event_base_got_break(v->controller.base) == 0)
		event_base_dispatch(v->controller.base);
}

static struct event *on(struct verb_call *v, int number, event_callback_fn fn)
{
	struct event *e = evsignal_new(v->controller.base, number, fn, v);

	if (e == NULL || event_add(e, NULL) != 0)
		abort();
	return e;
}

int verb_run(const struct verb *verb, const struct arguments *a, const struct config *config)
{
	struct verb_call v = { .verb = verb, .arguments = a, .status = EXIT_FAILED };
	struct event_base *base = loop_new();
	struct err err = ERR_INIT;

	signal(SIGPIPE, SIG_IGN);
	if (base == NULL)
		abort();
	if (arguments_has(a, "verbose"))
		log_set_level(LOG_LEVEL_DEBUG);
	if (controller_init(&v.controller, base, config, &err) != 0) {
		fprintf(stderr, "controller %s: %s\n", verb->name, err.text);
		controller_release(&v.controller);
		event_base_free(base);
		return EXIT_FAILED;
	}
	v.input = event_new(base, STDIN_FILENO, EV_READ, on_input, &v);
	if (v.input == NULL)
		abort();
	outlet_init(&v.out, base, STDOUT_FILENO, on_written, &v);
	outlet_init(&v.err, base, STDERR_FILENO, on_written, &v);
	v.cancel_int = on(&v, SIGINT, on_signal);
	v.cancel_term = on(&v, SIGTERM, on_signal);
	v.resize = on(&v, SIGWINCH, on_window);
	if (arguments_has(a, "test-host"))
		v.controller.spec_flags |= SPEC_TEST_OPTIONS;
	if (arguments_seconds(a, "engine-timeout", 1, &v.controller.engine_timeout_ms, &err) == 0) {
		start(&v);
	} else {
		fprintf(stderr, "controller %s: %s\n", verb->name, err.text);
		v.status = EXIT_USAGE;
	}
	if (v.raw_terminal)
		tcsetattr(STDIN_FILENO, TCSANOW, &v.terminal);
	event_free(v.input);
	outlet_release(&v.out);
	outlet_release(&v.err);
	event_free(v.cancel_int);
	event_free(v.cancel_term);
	event_free(v.resize);
	controller_release(&v.controller);
	if (v.call != NULL)
		call_free(v.call);
	event_base_free(base);
	if (fflush(stdout) != 0 && v.status == EXIT_DONE)
		v.status = EXIT_FAILED;
	return v.status;
}
