/* The error of one operation: formatting and context. */
#include "libgate/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cuts text at the last whole UTF-8 character when vsnprintf() had to truncate it. */
static void cut_whole_character(char *text, size_t len)
{
	size_t lead = len;

	while (lead > 0 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
		lead--;
	if (lead == 0)
		return;
	unsigned char c = (unsigned char)text[lead - 1];
	size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
	if (len - (lead - 1) < need)
		text[lead - 1] = '\0';
}

static void PRINTF(2, 0) format(char *out, const char *fmt, va_list ap)
{
	int n = vsnprintf(out, ERR_TEXT_MAX, fmt, ap);

	if (n < 0)
		out[0] = '\0';
	else if ((size_t)n >= ERR_TEXT_MAX)
		cut_whole_character(out, ERR_TEXT_MAX - 1);
}

/* Appends to what stands in text already. */
static void append(char *text, const char *tail)
{
	size_t len = strlen(text);
	int n = snprintf(text + len, ERR_TEXT_MAX - len, "%s", tail);

	if (n > 0 && (size_t)n >= ERR_TEXT_MAX - len)
		cut_whole_character(text, ERR_TEXT_MAX - 1);
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	/* Formatted aside: an argument may be err->text itself. */
	va_start(ap, fmt);
	format(text, fmt, ap);
	va_end(ap);
	err->code = code;
	memcpy(err->text, text, sizeof(text));
	return -1;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int code = errno;
	char text[ERR_TEXT_MAX];
	char why[128];
	va_list ap;

	va_start(ap, fmt);
	format(text, fmt, ap);
	va_end(ap);
	append(text, ": ");
	append(text, strerror_r(code, why, sizeof(why)));
	err->code = code;
	memcpy(err->text, text, sizeof(text));
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	format(text, fmt, ap);
	va_end(ap);
	append(text, ": ");
	append(text, err->text);
	memcpy(err->text, text, sizeof(text));
	return -1;
}
