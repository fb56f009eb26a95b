/* What a command's end is to its client: the result of exec. */
#include "controller/method_exec_impl.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "controller/clock.h"
#include "controller/text.h"

/* A stream as it is told: whole characters when it was cut. */
static struct slice captured(struct stream *s, bool truncated)
{
	struct slice text = buf_slice(&s->captured);

	if (truncated)
		text.len -= text_partial(text);
	return text;
}

struct json_object *method_exec_result(struct command *c, const struct exec_outcome *o)
{
	struct json_object *r = jnew();
	bool cut[EXEC_STREAMS], encoded = false;
	struct slice text[EXEC_STREAMS];
	bool ours = c->timed_out || c->aborted || c->restarted;
	int number = o->end == EXEC_SIGNALED ? o->signal : o->end == EXEC_LOST && ours ? SIGKILL : 0;

	for (unsigned i = 0; i < EXEC_STREAMS; i++) {
		cut[i] = o->bytes[i] > c->request.max_output;
		text[i] = captured(&c->streams[i], cut[i]);
		encoded = encoded || !text_is_utf8(text[i]);
	}
	if (o->end == EXEC_EXITED && o->exit_code >= 0)
		jset_int(r, "exitCode", o->exit_code);
	else
		jset_cstr(r, "exitCode", NULL);
	if (number > 0 && sigabbrev_np(number) != NULL) {
		auto_free char *name = mem_printf("SIG%s", sigabbrev_np(number));
		jset_cstr(r, "signal", name);
	} else if (number > 0) {
		auto_free char *name = mem_printf("SIG%d", number);
		jset_cstr(r, "signal", name);
	} else {
		jset_cstr(r, "signal", NULL);
	}
	for (unsigned i = 0; i < EXEC_STREAMS; i++)
		text_set(r, method_exec_streams[i], text[i], encoded);
	jset_cstr(r, "encoding", encoded ? "base64" : "utf8");
	jset_bool(r, "stdoutTruncated", cut[EXEC_STDOUT]);
	jset_bool(r, "stderrTruncated", cut[EXEC_STDERR]);
	jset_bool(r, "timedOut", c->timed_out || o->timed_out);
	jset_bool(r, "aborted",
		!c->timed_out && !o->timed_out && (c->aborted || o->killed || (c->marked && number == SIGKILL)));
	jset_bool(r, "oomKilled", o->oom == EXEC_YES);
	jset_int(r, "durationMs", o->duration_us >= 0 ? o->duration_us / 1000 : clock_ms() - c->began_ms);
	if (o->survivors > 0)
		jset_int(r, "survivors", o->survivors);
	if (c->restarted || c->restart != NULL)
		jset_bool(r, "sandboxRestarted", true);
	return r;
}

/* A program that is not there, or is none, is the command's own fault: it ends as it would under a shell or env. */
bool method_exec_shell_status(struct command *c, struct exec_outcome *o)
{
	bool missing = o->code == ENOENT || o->code == ENOTDIR;
	bool none = o->code == EACCES || o->code == ENOEXEC || o->code == EISDIR || o->code == ELIBBAD;

	if (c->request.line.p != NULL || (!missing && !none) || strstr(o->text, "program") == NULL)
		return false;
	auto_free char *text = mem_printf("%.*s: %s\n", SLICE_ARG(c->argv[0]), strerror(o->code));
	method_exec_on_output(EXEC_STDERR, slice_str(text), c);
	o->bytes[EXEC_STDERR] = strlen(text);
	o->end = EXEC_EXITED;
	o->exit_code = missing ? 127 : 126;
	return true;
}
