/* The audit log: builds one line of JSON in a bounded buffer and hands it to a sink that never blocks. */
#include "libgate/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "libgate/buf.h"

#define AUDIT_LINE_FILE 32768 /* a regular file takes any length in one write */
#define AUDIT_LINE_SYSLOG 8192 /* what rsyslog and journald take without a change of their settings */
#define AUDIT_LINE_PIPE PIPE_BUF /* longer writes to a pipe may be mixed with another process's */
#define AUDIT_OUT_MAX 262144 /* waiting lines; above it lines are dropped and counted */
#define AUDIT_OUT_FLUSH 65536
#define AUDIT_TAIL_ROOM 64 /* kept free for "missing", "cut" and the closing brace */
#define AUDIT_PROGRAM_MAX 32
#define AUDIT_TIME_SIZE 27 /* 2026-01-02T03:04:05.000006Z, no NUL */
#define AUDIT_SYSLOG_PATH "/dev/log"
#define AUDIT_SYSLOG_PRIORITY "<86>" /* authpriv.info */

enum sink {
	SINK_OFF,
	SINK_FILE,
	SINK_STDERR,
	SINK_SYSLOG,
};

struct audit {
	enum sink sink;
	int fd;
	bool is_socket;
	bool regular;
	bool may_block; /* the description is shared: asked before each write */
	char *path; /* SINK_FILE */
	char program[AUDIT_PROGRAM_MAX];
	size_t line_max;
	struct buf line;
	struct buf value; /* escaped value, before it is known to fit */
	struct buf out; /* whole lines that wait for the sink; the first may be the rest of one */
	bool buffered;
	bool lost; /* the other end of a socket is gone */
	bool torn; /* a file took no more: it may end within a line, ours or another process's */
	bool open; /* between begin and end */
	bool cut;
	uint64_t dropped;
	uint64_t unreported;
};

static int open_file(const char *path, struct err *err)
{
	/* O_NONBLOCK: a named pipe without a reader must not stop the program. */
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);

	if (fd < 0)
		return err_errno(err, "audit log %s cannot be opened for appending", path);
	return fd;
}

static int open_syslog(struct err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX, .sun_path = AUDIT_SYSLOG_PATH };
	auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_errno(err, "no socket for syslog");
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		return err_errno(err, "syslog at %s does not answer; choose a file or \"stderr\"", AUDIT_SYSLOG_PATH);
	return STEAL_FD(fd);
}

/*
 * Standard error may be shared with processes that expect it to block, so a pipe or terminal is opened a second time, as
 * a file description of our own. Sockets are written with MSG_DONTWAIT instead; a regular file never blocks, and must
 * keep the write position that it shares with the log.
 */
static int open_stderr(struct err *err)
{
	struct stat st;
	int fd = -1;

	if (fstat(STDERR_FILENO, &st) < 0)
		return err_errno(err, "standard error is not open; choose a file for the audit log");
	if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
		fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return err_errno(err, "standard error cannot be duplicated");
	return fd;
}

static int open_sink(const struct audit *a, struct err *err)
{
	switch (a->sink) {
	case SINK_OFF:
		return -1;
	case SINK_FILE:
		return open_file(a->path, err);
	case SINK_STDERR:
		return open_stderr(err);
	case SINK_SYSLOG:
		return open_syslog(err);
	}
	return -1;
}

static void set_fd(struct audit *a, int fd)
{
	struct stat st;
	mode_t type = 0;

	if (a->fd >= 0)
		close(a->fd);
	a->fd = fd;
	if (fd >= 0 && fstat(fd, &st) == 0)
		type = st.st_mode & S_IFMT;
	a->is_socket = type == S_IFSOCK;
	if (a->sink == SINK_SYSLOG)
		a->line_max = AUDIT_LINE_SYSLOG;
	else
		a->line_max = type == S_IFREG ? AUDIT_LINE_FILE : AUDIT_LINE_PIPE;
	a->regular = type == S_IFREG;
	a->lost = false;
	a->torn = false;
	a->may_block = fd >= 0 && !a->is_socket && !a->regular && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
}

struct audit *audit_open(const char *where, const char *program, struct err *err)
{
	struct audit *a = calloc(1, sizeof(*a));
	int fd;

	if (a == NULL) {
		err_errno(err, "audit log");
		return NULL;
	}
	a->fd = -1;
	buf_init(&a->line, AUDIT_LINE_FILE);
	buf_init(&a->value, AUDIT_LINE_FILE);
	buf_init(&a->out, AUDIT_OUT_MAX);
	snprintf(a->program, sizeof(a->program), "%s", program);
	if (strcmp(where, "off") == 0) {
		a->sink = SINK_OFF;
		return a;
	}
	if (strcmp(where, "stderr") == 0) {
		a->sink = SINK_STDERR;
	} else if (strcmp(where, "syslog") == 0) {
		a->sink = SINK_SYSLOG;
	} else {
		a->sink = SINK_FILE;
		a->path = strdup(where);
		if (a->path == NULL) {
			err_errno(err, "audit log %s", where);
			audit_free(a);
			return NULL;
		}
	}
	fd = open_sink(a, err);
	if (fd < 0) {
		audit_free(a);
		return NULL;
	}
	set_fd(a, fd);
	return a;
}

void audit_free(struct audit *a)
{
	if (a == NULL)
		return;
	if (a->fd >= 0) {
		audit_flush(a);
		close(a->fd);
	}
	buf_release(&a->line);
	buf_release(&a->value);
	buf_release(&a->out);
	free(a->path);
	free(a);
}

int audit_reopen(struct audit *a, struct err *err)
{
	int fd;

	if (a->sink != SINK_FILE && a->sink != SINK_SYSLOG)
		return 0;
	fd = open_sink(a, err);
	if (fd < 0)
		return -1;
	set_fd(a, fd);
	return 0;
}

int audit_fd(const struct audit *a)
{
	return a->fd;
}

bool audit_lost(const struct audit *a)
{
	return a->lost;
}

void audit_adopt(struct audit *a, int fd)
{
	set_fd(a, fd);
}

uint64_t audit_dropped(const struct audit *a)
{
	return a->dropped;
}

/* The last n digits of v. */
static char *put_digits(char *out, unsigned v, int n)
{
	for (int i = n - 1; i >= 0; i--, v /= 10)
		out[i] = (char)('0' + v % 10);
	return out + n;
}

/*
 * Years to seconds without gmtime_r(): that one reads the time zone files on first use, which a confined process cannot.
 * Days are counted in eras of 400 years from 0000-03-01, so that the leap day is the last of a year.
 */
static void put_time(char out[AUDIT_TIME_SIZE])
{
	struct timespec ts;
	int64_t days, era, doe, yoe, doy, mp, day, month, year;
	unsigned secs;

	clock_gettime(CLOCK_REALTIME, &ts);
	days = ts.tv_sec / 86400 + 719468;
	secs = (unsigned)(ts.tv_sec % 86400);
	era = days / 146097;
	doe = days % 146097;
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	day = doy - (153 * mp + 2) / 5 + 1;
	month = mp < 10 ? mp + 3 : mp - 9;
	year = yoe + era * 400 + (month <= 2);
	const struct {
		unsigned value;
		int digits;
		char after;
	} parts[] = { { (unsigned)year, 4, '-' }, { (unsigned)month, 2, '-' }, { (unsigned)day, 2, 'T' },
		{ secs / 3600, 2, ':' }, { secs / 60 % 60, 2, ':' }, { secs % 60, 2, '.' },
		{ (unsigned)(ts.tv_nsec / 1000), 6, 'Z' } };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		out = put_digits(out, parts[i].value, parts[i].digits);
		*out++ = parts[i].after;
	}
}

/* Appends `"key":` and the text as it is, or marks the line as cut when that does not fit. */
static void put_member(struct audit *a, const char *key, const char *open, struct slice text, const char *close)
{
	size_t need = strlen(key) + text.len + strlen(open) + strlen(close) + 4;
	struct buf *b = &a->line;

	/* All of it or nothing: after the reservation nothing fails. */
	if (buf_len(b) + need + AUDIT_TAIL_ROOM > a->line_max || buf_reserve(b, need) == NULL || buf_put(b, ",\"", 2) < 0 ||
		buf_puts(b, key) < 0 || buf_put(b, "\":", 2) < 0 || buf_puts(b, open) < 0 || buf_put_slice(b, text) < 0 ||
		buf_puts(b, close) < 0)
		a->cut = true;
}

void audit_begin(struct audit *a, const char *event)
{
	char stamp[AUDIT_TIME_SIZE];

	a->cut = false;
	a->open = a->sink != SINK_OFF;
	if (!a->open)
		return;
	buf_clear(&a->line);
	put_time(stamp);
	if (a->sink == SINK_SYSLOG && buf_putf(&a->line, AUDIT_SYSLOG_PRIORITY "%s[%d]: ", a->program, (int)getpid()) < 0)
		a->open = false;
	if (buf_puts(&a->line, "{\"time\":\"") < 0 || buf_put(&a->line, stamp, sizeof(stamp)) < 0 ||
		buf_putc(&a->line, '"') < 0)
		a->open = false;
	audit_cstr(a, "program", a->program);
	audit_cstr(a, "event", event);
}

/* Cuts s so that no UTF-8 sequence is torn; a torn one would only look like stray bytes. */
static struct slice cut_text(struct slice s, size_t max)
{
	if (s.len <= max)
		return s;
	while (max > 0 && ((unsigned char)s.p[max] & 0xc0) == 0x80)
		max--;
	return slice_make(s.p, max);
}

void audit_str(struct audit *a, const char *key, struct slice value)
{
	size_t max = a->line_max / 4;
	struct slice text = cut_text(value, max);

	if (!a->open)
		return;
	if (text.len != value.len)
		a->cut = true;
	/* Escaping makes up to six bytes of one: shorten until the escaped form keeps to its share of the line. */
	for (;;) {
		buf_clear(&a->value);
		if (buf_put_json(&a->value, text) == 0 && buf_len(&a->value) <= max)
			break;
		a->cut = true;
		text = cut_text(text, text.len / 2);
	}
	put_member(a, key, "\"", buf_slice(&a->value), "\"");
}

void audit_cstr(struct audit *a, const char *key, const char *value)
{
	if (value != NULL)
		audit_str(a, key, slice_str(value));
}

void audit_int(struct audit *a, const char *key, int64_t value)
{
	char digits[20]; /* a sign and the 19 digits of 2^63 */
	size_t at = sizeof(digits);
	uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

	if (!a->open)
		return;
	do {
		digits[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (value < 0)
		digits[--at] = '-';
	put_member(a, key, "", slice_make(digits + at, sizeof(digits) - at), "");
}

void audit_bool(struct audit *a, const char *key, int value)
{
	if (a->open)
		put_member(a, key, "", slice_str(value ? "true" : "false"), "");
}

static ssize_t sink_write(const struct audit *a, struct slice s)
{
	struct pollfd p = { .fd = a->fd, .events = POLLOUT };
	ssize_t n;

	/* A writable pipe has room for PIPE_BUF bytes, and longer pieces are not written to one. */
	if (a->may_block && (poll(&p, 1, 0) != 1 || (p.revents & POLLOUT) == 0)) {
		errno = EAGAIN;
		return -1;
	}
	do {
		if (a->is_socket)
			n = send(a->fd, s.p, s.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			n = write(a->fd, s.p, s.len);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* How much of the waiting lines one write may carry: whole lines, so that other writers cannot come in between. */
static size_t next_write(const struct audit *a)
{
	struct slice s = buf_slice(&a->out);
	const char *end;

	if (a->sink == SINK_SYSLOG) {
		end = memchr(s.p, '\n', s.len);
		return end != NULL ? (size_t)(end - s.p) + 1 : s.len;
	}
	if (a->regular || s.len <= a->line_max)
		return s.len;
	end = memrchr(s.p, '\n', a->line_max);
	return end != NULL ? (size_t)(end - s.p) + 1 : a->line_max;
}

/* A full disk took n bytes: what of them is no whole line is written again, behind the end of the line that was torn. */
static void tear(struct audit *a, size_t n)
{
	const char *end = n > 0 ? memrchr(buf_head(&a->out), '\n', n) : NULL;

	a->torn = true;
	if (end != NULL)
		buf_consume(&a->out, (size_t)(end - buf_head(&a->out)) + 1);
}

void audit_flush(struct audit *a)
{
	while (buf_len(&a->out) > 0) {
		if (a->torn && sink_write(a, SLICE_LIT("\n")) != 1)
			return;
		a->torn = false;
		size_t want = next_write(a);
		/* A datagram is a line of its own: it goes without the newline. */
		size_t cut = a->sink == SINK_SYSLOG ? 1 : 0;
		ssize_t n = sink_write(a, slice_make(buf_head(&a->out), want - cut));

		if (a->regular && n < (ssize_t)want) {
			tear(a, n > 0 ? (size_t)n : 0);
			return;
		}
		if (n < 0) {
			a->lost = a->sink == SINK_SYSLOG && errno != EAGAIN && errno != ENOBUFS;
			return;
		}
		a->lost = false;
		buf_consume(&a->out, a->sink == SINK_SYSLOG ? want : (size_t)n);
		if ((size_t)n + cut < want)
			return;
	}
	buf_clear(&a->out);
}

void audit_set_buffered(struct audit *a, bool on)
{
	a->buffered = on;
}

/*
 * A sink that fails for good (a full disk, a syslog that is gone) keeps its lines waiting until there are too many; from
 * then on new lines are dropped and counted, so that the log says where its gap is.
 */
void audit_end(struct audit *a)
{
	struct buf *b = &a->line;
	bool ok = true;

	if (!a->open)
		return;
	a->open = false;
	if (a->cut)
		ok = buf_puts(b, ",\"cut\":true") == 0;
	if (a->unreported > 0)
		ok = ok && buf_putf(b, ",\"missing\":%llu", (unsigned long long)a->unreported) == 0;
	ok = ok && buf_puts(b, "}\n") == 0 && buf_put_slice(&a->out, buf_slice(b)) == 0;
	if (ok) {
		a->unreported = 0;
	} else {
		a->dropped++;
		a->unreported++;
	}
	if (!a->buffered || !ok || buf_len(&a->out) >= AUDIT_OUT_FLUSH)
		audit_flush(a);
}
