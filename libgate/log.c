/* The operator's log: formats a line, makes it printable, hands it to the sink. */
#include "libgate/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOG_TEXT_MAX 2048 /* bytes of a formatted text before escaping; the rest is cut */
#define LOG_LINE_MAX 4096 /* PIPE_BUF: a line reaches a pipe whole */
#define LOG_PROGRAM_MAX 32

static const char hex_digits[] = "0123456789abcdef";

/* The syslog priority is what journald reads at the start of a line when it owns stderr. */
static const struct {
	const char *word;
	char priority;
} levels[] = {
	[LOG_LEVEL_ERROR] = { "ERROR", '3' },
	[LOG_LEVEL_WARN] = { "WARN", '4' },
	[LOG_LEVEL_INFO] = { "INFO", '6' },
	[LOG_LEVEL_DEBUG] = { "DEBUG", '7' },
};

static struct {
	char program[LOG_PROGRAM_MAX];
	enum log_level max;
	bool journal;
	void (*sink)(enum log_level level, const char *line, void *arg);
	void *sink_arg;
} state = { "gate", LOG_LEVEL_INFO, false, NULL, NULL };

void log_init(const char *program, enum log_level max)
{
	snprintf(state.program, sizeof(state.program), "%s", program);
	state.max = max;
	state.journal = getenv("JOURNAL_STREAM") != NULL;
}

void log_set_level(enum log_level max)
{
	state.max = max;
}

enum log_level log_get_level(void)
{
	return state.max;
}

void log_set_sink(void (*sink)(enum log_level level, const char *line, void *arg), void *arg)
{
	state.sink = sink;
	state.sink_arg = arg;
}

/* Appends one byte of the text, escaped when it is not printable ASCII. Returns the new length. */
static size_t put_byte(char *line, size_t n, size_t size, unsigned char c)
{
	if (c >= 0x20 && c < 0x7f) {
		if (n + 1 < size)
			line[n++] = (char)c;
	} else if (n + 4 < size) {
		line[n++] = '\\';
		line[n++] = 'x';
		line[n++] = hex_digits[c >> 4];
		line[n++] = hex_digits[c & 15];
	}
	return n;
}

static void write_line(enum log_level level, char *line, size_t n)
{
	ssize_t done;

	if (state.sink != NULL) {
		state.sink(level, line, state.sink_arg);
		return;
	}
	line[n++] = '\n';
	do {
		done = write(STDERR_FILENO, line, n);
	} while (done < 0 && errno == EINTR);
}

static void PRINTF(2, 0) emit(enum log_level level, const char *fmt, va_list ap)
{
	char text[LOG_TEXT_MAX];
	char line[LOG_LINE_MAX];
	int saved = errno;
	int prefix;
	size_t n;

	if (level > state.max)
		return;
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		snprintf(text, sizeof(text), "(a log line could not be formatted)");
	if (state.journal)
		prefix = snprintf(line, sizeof(line), "<%c>%s: ", levels[level].priority, state.program);
	else
		prefix = snprintf(line, sizeof(line), "%s %s: ", levels[level].word, state.program);
	n = prefix > 0 ? (size_t)prefix : 0;
	for (const char *p = text; *p != '\0'; p++)
		n = put_byte(line, n, sizeof(line) - 1, (unsigned char)*p);
	line[n] = '\0';
	write_line(level, line, n);
	errno = saved;
}

#define DEFINE_LOGGER(name, level) \
	void name(const char *fmt, ...) \
	{ \
		va_list ap; \
\
		va_start(ap, fmt); \
		emit(level, fmt, ap); \
		va_end(ap); \
	}

DEFINE_LOGGER(log_error, LOG_LEVEL_ERROR)
DEFINE_LOGGER(log_warn, LOG_LEVEL_WARN)
DEFINE_LOGGER(log_info, LOG_LEVEL_INFO)
DEFINE_LOGGER(log_debug, LOG_LEVEL_DEBUG)
