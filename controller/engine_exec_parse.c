/* Reads the words of the scripts. */
#include "controller/engine_exec_parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ERRNO_MAX 134

/* One field of a line: decimal (or another base), ended by a space or the end. */
static bool take_number(const char **at, unsigned base, uint64_t max, uint64_t *out)
{
	const char *p = *at;
	uint64_t value = 0;
	unsigned n = 0;

	while (*p == ' ')
		p++;
	for (; *p >= '0' && *p < (char)('0' + base); p++, n++) {
		if (value > (max - (uint64_t)(*p - '0')) / base)
			return false;
		value = value * base + (uint64_t)(*p - '0');
	}
	if (n == 0 || (*p != ' ' && *p != '\0' && *p != '\n' && *p != '.'))
		return false;
	*at = p;
	*out = value;
	return true;
}

int start_failure_code(const char *text)
{
	static const struct {
		const char *part;
		int code;
	} known[] = {
		{ "resource temporarily unavailable", E2BIG }, /* the pids limit */
		{ "read init-p", E2BIG }, /* the same, as runc says it */
		{ "cannot allocate memory", ENOMEM },
		{ "no space left", ENOSPC },
		{ "not running", EBUSY },
		{ "stopped", EBUSY },
		{ "unable to find user", EINVAL },
		{ "no such file or directory", EINVAL },
		{ "not found", EINVAL },
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcasestr(text, known[i].part) != NULL)
			return known[i].code;
	return EAGAIN;
}

bool exec_line_parse(const char *line, struct exec_outcome *out)
{
	uint64_t code, signal, oom = 0, killed, survivors;

	if (strncmp(line, "E ", 2) != 0)
		return false;
	line += 2;
	if (!take_number(&line, 10, 255, &code) || !take_number(&line, 10, 64, &signal))
		return false;
	while (*line == ' ')
		line++;
	if (*line == '-')
		line++;
	else if (!take_number(&line, 10, UINT32_MAX, &oom))
		return false;
	out->oom = line[-1] == '-' ? EXEC_UNKNOWN : oom > 0 && code != 0 ? EXEC_YES : EXEC_NO;
	if (!take_number(&line, 10, UINT32_MAX, &killed) || !take_number(&line, 10, UINT32_MAX, &survivors))
		return false;
	out->end = signal > 0 ? EXEC_SIGNALED : EXEC_EXITED;
	out->signal = (int)signal;
	out->exit_code = (int)code;
	out->survivors = (unsigned)survivors;
	return true;
}

bool kill_line_parse(const char *line, unsigned *processes, unsigned *survivors, unsigned *commands)
{
	uint64_t p, s, c;

	if (strncmp(line, "E 0 ", 4) != 0)
		return false;
	line += 4;
	if (!take_number(&line, 10, UINT32_MAX, &p) || !take_number(&line, 10, UINT32_MAX, &s) ||
		!take_number(&line, 10, UINT32_MAX, &c))
		return false;
	*processes = (unsigned)p;
	*survivors = (unsigned)s;
	*commands = (unsigned)c;
	return true;
}

struct slice after_last_mark(struct slice text, const char *nonce)
{
	size_t n = strlen(nonce);
	struct slice rest = { NULL, 0 };

	for (;;) {
		const char *at = text.len >= n ? memmem(text.p, text.len, nonce, n) : NULL;

		if (at == NULL)
			return rest;
		rest = slice_skip(text, (size_t)(at - text.p) + n);
		text = rest;
	}
}

bool started_before(struct slice stamp, time_t when)
{
	char text[20];
	struct tm tm = { .tm_isdst = 0 };

	if (stamp.len < 20)
		return false;
	memcpy(text, stamp.p, 19);
	text[19] = '\0';
	return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) != NULL && timegm(&tm) <= when;
}

bool started_since(struct slice stamp, time_t made, time_t now)
{
	return made > 0 && !started_before(stamp, made) && started_before(stamp, now);
}

int errno_of_text(struct slice s)
{
	while (s.len > 0 && (s.p[s.len - 1] == '\n' || s.p[s.len - 1] == ' '))
		s.len--;
	for (int e = 1; e < ERRNO_MAX; e++) {
		const char *text = strerrordesc_np(e);
		if (text != NULL && slice_is(s, text))
			return e;
	}
	return EIO;
}

static enum file_type type_of(char c)
{
	switch (c) {
	case 'f':
		return FILE_TYPE_REGULAR;
	case 'd':
		return FILE_TYPE_DIRECTORY;
	case 'l':
		return FILE_TYPE_SYMLINK;
	default:
		return FILE_TYPE_OTHER;
	}
}

/* Attributes up to the time; *at is left behind them. s is terminated by a space, NUL or newline. */
static bool parse_attributes(const char **at, struct file_info *info)
{
	const char *p = *at;
	uint64_t size, mode, uid, gid, seconds;
	unsigned ms = 0;

	if (*p == '\0' || p[1] != ' ')
		return false;
	info->type = type_of(*p++);
	if (!take_number(&p, 10, UINT64_MAX / 16, &size) || !take_number(&p, 8, 07777, &mode) ||
		!take_number(&p, 10, UINT32_MAX, &uid) || !take_number(&p, 10, UINT32_MAX, &gid))
		return false;
	while (*p == ' ')
		p++;
	bool before_1970 = *p == '-';
	p += before_1970;
	if (!take_number(&p, 10, UINT32_MAX * 1024ULL, &seconds))
		return false;
	if (*p == '.') {
		p++;
		for (unsigned i = 0; *p >= '0' && *p <= '9'; p++, i++)
			if (i < 3)
				ms = ms * 10 + (unsigned)(*p - '0');
	}
	info->size = size;
	info->mode = (unsigned)mode;
	info->uid = (uid_t)uid;
	info->gid = (gid_t)gid;
	info->mtime_ms = before_1970 ? -(int64_t)seconds * 1000 : (int64_t)seconds * 1000 + ms;
	info->target = slice_make(NULL, 0);
	*at = p;
	return true;
}

int file_notes_parse(struct slice notes, const char *nonce, struct file_info *info, char *text, size_t size)
{
	size_t n = strlen(nonce);
	struct slice end = after_last_mark(notes, nonce);
	struct slice line = { NULL, 0 };
	char attributes[256];

	/* The attributes stand behind a mark before the last one. */
	for (struct slice s = notes; s.len >= n;) {
		const char *at = memmem(s.p, s.len, nonce, n);
		if (at == NULL)
			break;
		s = slice_skip(s, (size_t)(at - s.p) + n);
		if (slice_starts(s, "I "))
			line = slice_skip(s, 2);
	}
	if (line.p != NULL) {
		const char *p = attributes;

		snprintf(attributes, sizeof(attributes), "%.*s", (int)(line.len < 255 ? line.len : 255), line.p);
		parse_attributes(&p, info);
	}
	if (slice_starts(end, "E 0"))
		return 0;
	if (!slice_starts(end, "E F ")) {
		snprintf(text, size, "the script's answer was not understood");
		return EPROTO;
	}
	end = slice_skip(end, 4);
	const char *newline = memchr(end.p, '\n', end.len);
	if (newline != NULL)
		end.len = (size_t)(newline - end.p);
	snprintf(text, size, "%.*s", (int)(end.len < 100 ? end.len : 100), end.p);
	return errno_of_text(end);
}

bool stat_entry_parse(struct slice s, struct file_info *info)
{
	const char *p = s.p;

	if (s.len == 0 || s.p[s.len - 1] != '\0' || !parse_attributes(&p, info))
		return false;
	if (info->type == FILE_TYPE_SYMLINK && *p == ' ')
		info->target = slice_make(p + 1, (size_t)(s.p + s.len - 1 - (p + 1)));
	return true;
}

size_t list_entry_parse(struct slice s, struct slice *name, struct file_info *info)
{
	const char *first = s.len > 0 ? memchr(s.p, '\0', s.len) : NULL;
	const char *second = first != NULL ? memchr(first + 1, '\0', s.len - (size_t)(first + 1 - s.p)) : NULL;
	const char *third = second != NULL ? memchr(second + 1, '\0', s.len - (size_t)(second + 1 - s.p)) : NULL;
	const char *p = s.p;

	if (third == NULL)
		return 0;
	if (!parse_attributes(&p, info))
		*info = (struct file_info){ .type = FILE_TYPE_OTHER };
	*name = slice_make(first + 1, (size_t)(second - (first + 1)));
	if (info->type == FILE_TYPE_SYMLINK)
		info->target = slice_make(second + 1, (size_t)(third - (second + 1)));
	return (size_t)(third + 1 - s.p);
}
