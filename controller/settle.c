/* Has a sandbox's outcome records read, and writes them for the client. */
#include "controller/settle.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/clock.h"
#include "controller/ensure.h"
#include "controller/outcome.h"
#include "controller/script.h"
#include "libgate/buf.h"

#define ANSWER_MAX ((size_t)256 * 1024)
#define ASK_MS 30000

struct settle {
	struct sandbox *sandbox;
	const struct json_node *ids;
	settle_cb cb;
	void *arg;
	struct exec_backend *backend;
	struct exec_op *op;
	struct buf answer;
	char id[48];
	struct refusals refusals;
};

static void over(struct settle *s, struct json_object *commands, const struct err *err)
{
	settle_cb cb = s->cb;
	void *arg = s->arg;

	buf_release(&s->answer);
	sandbox_put(s->sandbox);
	free(s);
	cb(commands, err, arg);
}

static struct json_object *command_json(const struct outcome *o)
{
	struct json_object *r = jnew();
	bool signaled = o->state == OUTCOME_SIGNALED || o->state == OUTCOME_TIMEOUT || o->state == OUTCOME_KILLED;
	bool signal = signaled && o->number > 0 && o->number < NSIG && sigabbrev_np(o->number) != NULL;

	jset_str(r, "execId", o->id);
	if (o->tag.p != NULL)
		jset_str(r, "tag", o->tag);
	jset_cstr(r, "state", outcome_state_word(o->state));
	if (o->state == OUTCOME_EXITED)
		jset_int(r, "exitCode", o->number);
	else
		jset_cstr(r, "exitCode", NULL);
	auto_free char *name = signal ? mem_printf("SIG%s", sigabbrev_np(o->number)) : NULL;
	jset_cstr(r, "signal", name);
	jset_bool(r, "oomKilled", o->oom);
	if (o->time_s > 0)
		jset_int(r, "endedAt", o->time_s);
	return r;
}

/* What the sandbox said, line by line, and once more by id: its size is the sandbox's choice, and all others wait meanwhile. */
struct said {
	struct outcome *lines;
	struct outcome **by_id;
	size_t n;
};

static int compare_ids(struct slice a, struct slice b)
{
	int order = memcmp(a.p, b.p, a.len < b.len ? a.len : b.len);

	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Of one command, what it runs comes before how it ended, and the last word last. */
static int compare_lines(const void *left, const void *right)
{
	const struct outcome *a = *(struct outcome *const *)left, *b = *(struct outcome *const *)right;
	int order = compare_ids(a->id, b->id);

	if (order == 0)
		order = (a->state != OUTCOME_RUNNING) - (b->state != OUTCOME_RUNNING);
	return order != 0 ? order : (a > b) - (a < b);
}

static void read_lines(struct said *said, struct slice answer)
{
	size_t most = 1;

	for (size_t i = 0; i < answer.len; i++)
		most += answer.p[i] == '\n';
	said->n = 0;
	said->lines = mem_zalloc(most * sizeof(*said->lines));
	said->by_id = mem_zalloc(most * sizeof(struct outcome *));
	while (answer.len > 0) {
		const char *end = memchr(answer.p, '\n', answer.len);
		struct slice line = slice_make(answer.p, end != NULL ? (size_t)(end - answer.p) : answer.len);

		answer = slice_skip(answer, end != NULL ? line.len + 1 : line.len);
		if (!outcome_parse(line, &said->lines[said->n]))
			continue;
		said->by_id[said->n] = &said->lines[said->n];
		said->n++;
	}
	qsort(said->by_id, said->n, sizeof(struct outcome *), compare_lines);
}

/* The last word on one command; NULL: none. A background child of one that ended may run still: its record says more. */
static const struct outcome *find(const struct said *said, struct slice id)
{
	size_t low = 0, high = said->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_ids(said->by_id[middle]->id, id) > 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low > 0 && slice_eq(said->by_id[low - 1]->id, id) ? said->by_id[low - 1] : NULL;
}

static void tell_asked(const struct settle *s, const struct said *said, struct json_object *commands)
{
	unsigned n = 0;

	for (const struct json_node *id = s->ids->child; id != NULL && n < SETTLE_MAX; id = id->next, n++) {
		struct outcome lost = { .state = OUTCOME_LOST, .id = id->text };
		const struct outcome *o = id->text.len > 0 ? find(said, id->text) : NULL;

		jadd(commands, command_json(o != NULL ? o : &lost));
	}
}

static bool is_told(const struct settle *s, const struct said *said, const struct outcome *o)
{
	return !slice_is(o->id, s->id) && (o->state != OUTCOME_RUNNING || find(said, o->id)->state == OUTCOME_RUNNING);
}

/* The newest come last, and what runs still behind them. */
static void tell_all(const struct settle *s, const struct said *said, struct json_object *commands)
{
	size_t first = said->n;

	for (unsigned n = 0; first > 0 && n < SETTLE_MAX; first--)
		n += is_told(s, said, &said->lines[first - 1]);
	for (size_t i = first; i < said->n; i++)
		if (is_told(s, said, &said->lines[i]))
			jadd(commands, command_json(&said->lines[i]));
}

static void tell(struct settle *s)
{
	struct json_object *commands = json_object_new_array();
	struct said said;

	if (commands == NULL)
		abort();
	read_lines(&said, buf_slice(&s->answer));
	if (s->ids != NULL)
		tell_asked(s, &said, commands);
	else
		tell_all(s, &said, commands);
	free(said.by_id);
	free(said.lines);
	over(s, commands, NULL);
}

static void on_output(enum exec_stream stream, struct slice data, void *arg)
{
	struct settle *s = arg;

	if (stream == EXEC_STDOUT && buf_put_slice(&s->answer, data) != 0)
		buf_clear(&s->answer);
	if (s->op != NULL)
		s->backend->ops->consumed(s->op, data.len);
}

static void on_running(const struct err *err, void *arg);

static void on_done(const struct exec_outcome *o, void *arg)
{
	struct settle *s = arg;
	struct err err = ERR_INIT;

	s->op = NULL;
	if (o->end == EXEC_START_FAILED && o->code == EBUSY && ensure_worthwhile(&s->refusals)) {
		ensure_running(s->sandbox, &s->refusals, on_running, s);
		return;
	}
	if (o->end == EXEC_EXITED && o->exit_code == 0) {
		tell(s);
		return;
	}
	err_set(&err, o->end == EXEC_START_FAILED ? o->code : EAGAIN,
		"the sandbox does not tell what became of its commands: %s",
		o->text != NULL && o->text[0] != '\0' ? o->text : "the script that asks it failed");
	over(s, NULL, &err);
}

static void on_running(const struct err *err, void *arg)
{
	static const struct exec_events events = { NULL, on_output, NULL, on_done };
	struct settle *s = arg;
	struct err fault = ERR_INIT;
	struct exec_request rq = {
		.line = slice_str(script_text(SCRIPT_SETTLE)),
		.cwd = SLICE_LIT("/"),
		.id = slice_str(s->id),
		.timeout_ms = ASK_MS,
		.max_output = ANSWER_MAX,
	};

	if (err != NULL) {
		over(s, NULL, err);
		return;
	}
	s->backend = sandbox_backend(s->sandbox, false);
	s->op = s->backend->ops->start(s->backend, &rq, &events, s, &fault);
	if (s->op == NULL)
		over(s, NULL, &fault);
}

void settle_commands(struct controller *c, struct slice name, const struct json_node *ids, settle_cb cb, void *arg)
{
	struct settle *s = mem_zalloc(sizeof(*s));

	s->sandbox = sandbox_get(c, name);
	s->ids = ids;
	s->cb = cb;
	s->arg = arg;
	snprintf(s->id, sizeof(s->id), "settle-%llx-%x", (unsigned long long)clock_us(), (unsigned)getpid());
	buf_init(&s->answer, ANSWER_MAX);
	ensure_known(s->sandbox, on_running, s);
}
