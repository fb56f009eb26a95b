/*
 * Sessions against a scripted engine: both ends are socket pairs in this process, and tests/cases/session.txt says what goes
 * in and what must come out. Each case runs with every write as it stands, byte by byte, and with an engine that
 * is reached directly.
 *
 * A script's lines (escapes: \r \n \t \\ \xHH, \{N*c} for N times c; {id} stands for a request id):
 *     == name: what it shows          begins a case
 *     mode warn | limit NAME VALUE    settings of the case
 *     C> bytes     the client sends          C< bytes     the client has received exactly these next
 *     C+ bytes     the same, and nobody looks before the next line's event
 *     E0> bytes    engine connection 0 sends E0< bytes    it has received exactly these next
 *     C. / E0.     stops sending             C! / E0!     closes
 *     C$ / E0$     sees the end              dials N      so many engine connections were made
 *     unreachable                            engine connections fail from now on
 *     wait                                   until the next deadline has passed
 *     log TEXT                               the last audit line holds this
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "dockerproxy/owner.h"
#include "dockerproxy/peers.h"
#include "dockerproxy/session.h"
#include "dockerproxy/upstream.h"
#include "libgate/audit.h"
#include "libgate/log.h"
#include "tests/unit/unit.h"

#define MAX_DIALS 16
#define NAMES_MS 3600000 /* longer than a case takes on the busiest machine */
#define TRIES 3000 /* turns of the loop, of at most 2 ms, before a wait is given up */
#define DATA_MAX (4 * 1024 * 1024)

struct stage {
	struct event_base *base;
	struct proxy_conf conf;
	struct session_env env;
	int client; /* the test's end */
	int engines[MAX_DIALS];
	unsigned dials;
	bool began;
	bool unreachable;
	bool bytewise;
	bool direct; /* the dialer says so: nothing looks at a connection before it is used again */
	char audit_path[64];
};

/* --- the stage ---------------------------------------------------------------------------------------------------- */

static int make_pair(int *theirs)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return -1;
	*theirs = fds[1];
	return fds[0];
}

static void dial(void *self, upstream_dialled_cb done, void *arg)
{
	struct stage *st = self;
	int fd = -1;

	if (st->unreachable || st->dials == MAX_DIALS) {
		done(-1, ECONNREFUSED, arg);
		return;
	}
	st->engines[st->dials] = make_pair(&fd);
	st->dials++;
	done(fd, 0, arg);
}

static void on_close(void *arg)
{
}

static void quiet(enum log_level level, const char *line, void *arg)
{
}

static void stage_set(struct stage *st)
{
	struct upstream_dialer dialer = { .dial = dial, .self = st, .direct = st->direct };
	struct err err = ERR_INIT;
	int fd;

	log_set_sink(quiet, NULL);
	st->client = -1;
	CU_ASSERT_EQUAL_FATAL(proxy_conf_load(&st->conf, NULL, &err), 0);
	st->base = event_base_new();
	snprintf(st->audit_path, sizeof(st->audit_path), "/tmp/test_session.%ld.XXXXXX", (long)getpid());
	fd = mkstemp(st->audit_path);
	close(fd);
	st->env = (struct session_env){
		.base = st->base,
		.conf = &st->conf,
		.upstream = upstream_new(st->base, &dialer, 8),
		.peers = NULL,
		.audit = audit_open(st->audit_path, "dockerproxy", &err),
		.metrics = metrics_new(1),
		.on_close = on_close,
	};
	CU_ASSERT_PTR_NOT_NULL_FATAL(st->env.audit);
	st->env.owners = owner_new(st->env.upstream, NAMES_MS);
	CU_ASSERT_EQUAL_FATAL(session_env_init(&st->env), 0);
}

static void stage_clear(struct stage *st)
{
	session_env_release(&st->env);
	owner_free(st->env.owners);
	upstream_free(st->env.upstream);
	peers_free(st->env.peers);
	metrics_free(st->env.metrics);
	audit_free(st->env.audit);
	event_base_free(st->base);
	proxy_conf_release(&st->conf);
	unlink(st->audit_path);
	util_closep(&st->client);
	for (unsigned i = 0; i < st->dials; i++)
		util_closep(&st->engines[i]);
	log_set_sink(NULL, NULL);
}

static void turn(struct stage *st)
{
	event_base_loop(st->base, EVLOOP_NONBLOCK);
}

/* The session begins with the first line that needs it, after the settings. */
static void need_client(struct stage *st)
{
	struct peer peer = { .is_unix = true, .uid = 1000, .gid = 1000, .pid = 1 };
	int fd = -1;

	if (st->began)
		return;
	st->began = true;
	st->env.peers = peers_new(st->conf.per_peer, st->conf.rate, st->conf.burst, 1);
	st->client = make_pair(&fd);
	session_new(&st->env, &st->conf.listen[0], fd, &peer);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static bool put(struct stage *st, int fd, struct slice data)
{
	size_t step = st->bytewise && data.len < 4096 ? 1 : data.len;
	unsigned tries = 0;

	while (data.len > 0) {
		ssize_t n = send(fd, data.p, step < data.len ? step : data.len, MSG_NOSIGNAL);

		if (n > 0)
			data = slice_skip(data, (size_t)n);
		else if (errno == EPIPE || errno == ECONNRESET)
			return true; /* nobody wants the rest: what that means is for the next steps to say */
		else if (errno != EAGAIN || ++tries > TRIES)
			return false;
		turn(st);
	}
	return true;
}

/* {id} in the expectation matches sixteen hexadecimal digits. */
static bool same(struct slice want, const char *got, size_t len, size_t *used)
{
	size_t at = 0;

	for (size_t i = 0; i < want.len; i++) {
		if (slice_starts(slice_skip(want, i), "{id}")) {
			for (int k = 0; k < REQUEST_ID_LEN; k++, at++)
				if (at >= len || strchr("0123456789abcdef", got[at]) == NULL || got[at] == '\0')
					return false;
			i += 3;
			continue;
		}
		if (at >= len || got[at] != want.p[i])
			return false;
		at++;
	}
	*used = at;
	return true;
}

static size_t wanted_length(struct slice want)
{
	size_t len = want.len;
	const char *p = want.p;

	while ((p = memmem(p, (size_t)(want.p + want.len - p), "{id}", 4)) != NULL) {
		len += REQUEST_ID_LEN - 4;
		p += 4;
	}
	return len;
}

static bool expect(struct stage *st, int fd, struct slice want, const char *name, const char *line)
{
	size_t need = wanted_length(want), have = 0, used = 0;
	char *got = malloc(need + 1);
	bool ok;

	for (unsigned i = 0; have < need && i < TRIES; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		turn(st);
		n = recv(fd, got + have, need - have, 0);
		if (n > 0)
			have += (size_t)n;
		else if (n == 0)
			break;
		else
			poll(&p, 1, 2);
	}
	ok = UNIT_CHECK(have == need && same(want, got, have, &used), "%s%s: %s: got %zu of %zu: %.*s", name,
		st->bytewise ? " (bytewise)" : "", line, have, need, (int)(have < 700 ? have : 700), got);
	free(got);
	return ok;
}

static bool expect_end(struct stage *st, int fd, const char *name, const char *line)
{
	ssize_t n = -1;
	char byte;

	for (unsigned i = 0; i < TRIES; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		turn(st);
		n = recv(fd, &byte, 1, 0);
		if (n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
			break;
		poll(&p, 1, 2);
	}
	return UNIT_CHECK(n == 0 || (n < 0 && errno == ECONNRESET), "%s%s: %s: got %zd", name, st->bytewise ? " (bytewise)" : "", line, n);
}

static bool expect_log(struct stage *st, const char *text, const char *name)
{
	static char log[65536];
	FILE *f;
	size_t n;
	char *last;

	audit_flush(st->env.audit);
	f = fopen(st->audit_path, "r");
	n = fread(log, 1, sizeof(log) - 1, f);
	fclose(f);
	log[n] = '\0';
	if (n > 0)
		log[n - 1] = '\0';
	last = strrchr(log, '\n');
	last = last != NULL ? last + 1 : log;
	return UNIT_CHECK(strstr(last, text) != NULL, "%s: log %s: %s", name, text, last);
}

/* --- the script ---------------------------------------------------------------------------------------------------- */

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *p = c != '\0' ? strchr(digits, c) : NULL;

	return p != NULL ? (int)(p - digits) : 0;
}

static struct slice unescape(const char *s, char *out)
{
	size_t n = 0;

	while (*s != '\0') {
		unsigned long count;
		char *end;

		if (*s != '\\') {
			out[n++] = *s++;
			continue;
		}
		switch (s[1]) {
		case 'r':
			out[n++] = '\r';
			s += 2;
			break;
		case 'n':
			out[n++] = '\n';
			s += 2;
			break;
		case 't':
			out[n++] = '\t';
			s += 2;
			break;
		case 'x':
			out[n++] = (char)(hex(s[2]) * 16 + hex(s[3]));
			s += 4;
			break;
		case '{':
			count = strtoul(s + 2, &end, 10);
			memset(out + n, end[1], count);
			n += count;
			s = end + 3;
			break;
		default:
			out[n++] = s[1];
			s += 2;
			break;
		}
	}
	return slice_make(out, n);
}

static const struct {
	const char *name;
	size_t offset;
} settings[] = {
	{ "head", offsetof(struct proxy_conf, head_max) },
	{ "body", offsetof(struct proxy_conf, body_max) },
	{ "answer", offsetof(struct proxy_conf, answer_max) },
	{ "rate", offsetof(struct proxy_conf, rate) },
	{ "burst", offsetof(struct proxy_conf, burst) },
	{ "perPeer", offsetof(struct proxy_conf, per_peer) },
	{ "headMs", offsetof(struct proxy_conf, head_ms) },
	{ "bodyMs", offsetof(struct proxy_conf, body_ms) },
	{ "idleMs", offsetof(struct proxy_conf, idle_ms) },
	{ "responseMs", offsetof(struct proxy_conf, response_ms) },
	{ "writeMs", offsetof(struct proxy_conf, write_ms) },
};

static bool set_limit(struct stage *st, const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		size_t n = strlen(settings[i].name);

		if (strncmp(text, settings[i].name, n) == 0 && text[n] == ' ') {
			*(int64_t *)(void *)((char *)&st->conf + settings[i].offset) = strtoll(text + n, NULL, 10);
			return true;
		}
	}
	return false;
}

static void wait_for_deadline(struct stage *st)
{
	event_base_loop(st->base, EVLOOP_ONCE);
}

/* "C> …" and "E0> …": one party's verb. */
static bool party_step(struct stage *st, const char *line, const char *name)
{
	static char data[DATA_MAX];
	bool client = line[0] == 'C';
	unsigned index = client ? 0 : (unsigned)(line[1] - '0');
	const char *verb = line + (client ? 1 : 2);
	int *fd = client ? &st->client : &st->engines[index];
	struct slice bytes = unescape(verb[0] != '\0' && verb[1] == ' ' ? verb + 2 : "", data);

	need_client(st);
	for (unsigned i = 0; !client && index >= st->dials && i < TRIES; i++)
		turn(st);
	if (!client && !UNIT_CHECK(index < st->dials, "%s: %s: no such connection", name, line))
		return false;
	switch (*verb) {
	case '>':
		return UNIT_CHECK(put(st, *fd, bytes), "%s: %s: cannot send", name, line);
	case '+':
		return UNIT_CHECK(send(*fd, bytes.p, bytes.len, MSG_NOSIGNAL) == (ssize_t)bytes.len, "%s: %s: cannot send", name, line);
	case '<':
		return expect(st, *fd, bytes, name, line);
	case '.':
		shutdown(*fd, SHUT_WR);
		turn(st);
		return true;
	case '!':
		util_closep(fd);
		turn(st);
		return true;
	case '$':
		return expect_end(st, *fd, name, line);
	default:
		return UNIT_CHECK(false, "%s: %s: no such step", name, line);
	}
}

static bool step(struct stage *st, const char *line, const char *name)
{
	if (line[0] == 'C' || (line[0] == 'E' && line[1] >= '0' && line[1] <= '9'))
		return party_step(st, line, name);
	if (strcmp(line, "mode warn") == 0) {
		st->conf.mode = PROXY_WARN;
		return true;
	}
	if (strncmp(line, "limit ", 6) == 0)
		return UNIT_CHECK(set_limit(st, line + 6), "%s: %s", name, line);
	if (strcmp(line, "unreachable") == 0) {
		st->unreachable = true;
		return true;
	}
	if (strcmp(line, "drain") == 0) {
		session_drain(&st->env);
		return true;
	}
	if (strcmp(line, "wait") == 0) {
		wait_for_deadline(st);
		return true;
	}
	if (strncmp(line, "log ", 4) == 0)
		return expect_log(st, line + 4, name);
	if (strncmp(line, "dials ", 6) == 0)
		return UNIT_CHECK(st->dials == strtoul(line + 6, NULL, 10), "%s: %s: %u", name, line, st->dials);
	return UNIT_CHECK(false, "%s: %s: no such step", name, line);
}

static char *read_script(void)
{
	const char *dir = getenv("srcdir");
	char path[512];
	FILE *f;
	char *text = calloc(1, DATA_MAX);
	size_t n;

	snprintf(path, sizeof(path), "%s/tests/cases/session.txt", dir != NULL ? dir : ".");
	f = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	n = fread(text, 1, DATA_MAX - 1, f);
	fclose(f);
	CU_ASSERT_TRUE_FATAL(n > 0);
	return text;
}

/* One case: from the line behind its name to the next case. Returns that. */
static char *run_case(char *text, const char *name, bool bytewise, bool direct)
{
	struct stage st = { .bytewise = bytewise, .direct = direct };
	bool ok = true;

	stage_set(&st);
	while (*text != '\0' && strncmp(text, "== ", 3) != 0) {
		size_t len = strcspn(text, "\n");
		char *line = strndup(text, len);

		if (ok && len > 0 && line[0] != '#')
			ok = step(&st, line, name);
		free(line);
		text += len + (text[len] == '\n');
	}
	stage_clear(&st);
	return text;
}

static void run_script(bool bytewise, bool direct)
{
	char *text = read_script(), *p = text;
	const char *only = getenv("CASE");
	unsigned ran = 0;

	while (*p != '\0') {
		char name[64];
		bool is_case = strncmp(p, "== ", 3) == 0;

		if (!is_case) {
			p += strcspn(p, "\n");
			p += *p == '\n';
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 3, ":\n"), p + 3);
		p += strcspn(p, "\n");
		p += *p == '\n';
		if (only != NULL && strcmp(only, name) != 0)
			continue;
		p = run_case(p, name, bytewise, direct);
		ran++;
	}
	CU_ASSERT_TRUE(ran > 0);
	free(text);
}

static void test_whole(void)
{
	run_script(false, false);
}

static void test_bytewise(void)
{
	run_script(true, false);
}

static void test_direct(void)
{
	run_script(false, true);
}

static const struct unit_test tests[] = {
	{ "whole", test_whole },
	{ "bytewise", test_bytewise },
	{ "direct", test_direct },
};

UNIT_MAIN("session", tests)
