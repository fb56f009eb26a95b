/* Judges the spelling of names. */
#include "controller/name.h"

#include <arpa/inet.h>
#include <errno.h>

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool all_of(struct slice s, const char *extra)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] == '\0' || (!is_alnum(s.p[i]) && strchr(extra, s.p[i]) == NULL))
			return false;
	return true;
}

static bool non_ascii(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if ((unsigned char)s.p[i] >= 0x80)
			return true;
	return false;
}

static bool ends_with(struct slice s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.len >= n && memcmp(s.p + s.len - n, suffix, n) == 0;
}

int name_check_sandbox(struct slice s, struct err *err)
{
	if (s.len > NAME_MAX_LENGTH)
		return err_set(err, EINVAL, "a sandbox name has at most %d characters", NAME_MAX_LENGTH);
	if (s.len < 5 || !slice_starts(s, "cap-") || !all_of(s, "_.-"))
		return err_set(err, EINVAL, "a sandbox name is cap- followed by letters, digits, _ . or -");
	if (ends_with(s, "-egress"))
		return err_set(err, EINVAL, "a sandbox name must not end in -egress: that is the egress proxy of another one");
	return 0;
}

int name_check_network(struct slice s, struct err *err)
{
	if (s.len > 128 || !slice_starts(s, "cap") || !all_of(s, "_.-"))
		return err_set(err, EINVAL, "a network name matches ^cap[a-zA-Z0-9_.-]*$ and has at most 128 characters");
	return 0;
}

int name_check_tag(struct slice s, struct err *err)
{
	if (s.len < 1 || s.len > 64 || !all_of(s, "_-"))
		return err_set(err, EINVAL, "a tag matches ^[A-Za-z0-9_-]{1,64}$");
	return 0;
}

static bool is_address(struct slice s)
{
	char text[64];
	unsigned char out[16];

	if (s.len == 0 || s.len >= sizeof(text))
		return false;
	memcpy(text, s.p, s.len);
	text[s.len] = '\0';
	return inet_pton(AF_INET, text, out) == 1 || inet_pton(AF_INET6, text, out) == 1;
}

/* Labels of 1..63 letters, digits and inner hyphens; the last one not all digits, which is how addresses are spelled. */
static bool host_syntax(struct slice s)
{
	size_t start = 0;
	bool digits = true;

	if (s.len == 0 || s.len > 253)
		return false;
	for (size_t i = 0; i <= s.len; i++) {
		if (i < s.len && s.p[i] != '.') {
			if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_')
				return false;
			continue;
		}
		if (i == start || i - start > 63 || s.p[start] == '-' || s.p[i - 1] == '-')
			return false;
		digits = true;
		for (size_t k = start; k < i; k++)
			if (s.p[k] < '0' || s.p[k] > '9')
				digits = false;
		start = i + 1;
	}
	return !digits;
}

int name_check_host(struct slice s, struct err *err)
{
	if (non_ascii(s))
		return err_set(err, EINVAL, "a host name with characters outside ASCII: write it in punycode (xn--...)");
	if (is_address(s) || (s.len > 0 && s.p[0] == '['))
		return err_set(err, EINVAL, "an IP address is not accepted where a host name is asked for");
	if (!host_syntax(s))
		return err_set(err, EINVAL, "not a host name: letters, digits, hyphens and dots, no scheme and no path");
	return 0;
}

int name_check_allow_host(struct slice s, struct err *err)
{
	const char *colon = s.len > 0 ? memchr(s.p, ':', s.len) : NULL;
	struct slice host = s;

	if (is_address(s))
		return name_check_host(s, err);
	if (colon != NULL) {
		struct slice port = slice_skip(s, (size_t)(colon - s.p) + 1);
		unsigned value = 0;

		host.len = (size_t)(colon - s.p);
		for (size_t i = 0; i < port.len; i++) {
			if (port.p[i] < '0' || port.p[i] > '9' || (value = value * 10 + (unsigned)(port.p[i] - '0')) > 65535)
				return err_set(err, EINVAL, "the port of an allowlist entry is a number from 1 to 65535");
		}
		if (port.len == 0 || port.len > 5 || value == 0)
			return err_set(err, EINVAL, "the port of an allowlist entry is a number from 1 to 65535");
	}
	if (slice_starts(host, "*."))
		host = slice_skip(host, 2);
	return name_check_host(host, err);
}

/* One component of a path in an image reference: [a-z0-9] with single inner . _ - (or __). */
static bool image_component(struct slice s)
{
	if (s.len == 0 || !is_alnum(s.p[0]) || !is_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if ((s.p[i] >= 'A' && s.p[i] <= 'Z') || (!is_alnum(s.p[i]) && strchr("._-", s.p[i]) == NULL))
			return false;
	return true;
}

static bool image_digest(struct slice s)
{
	if (!slice_starts(s, "sha256:") || s.len != 7 + 64)
		return false;
	for (size_t i = 7; i < s.len; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

/* Host with optional port in front of the first slash: it holds a dot or colon, or is localhost. */
static bool image_registry(struct slice s)
{
	const char *colon = s.len > 0 ? memchr(s.p, ':', s.len) : NULL;
	struct slice host = s;

	if (colon != NULL) {
		struct slice port = slice_skip(s, (size_t)(colon - s.p) + 1);

		host.len = (size_t)(colon - s.p);
		if (port.len == 0 || port.len > 5 || strspn(port.p, "0123456789") < port.len)
			return false;
	}
	return host.len > 0 && all_of(host, ".-") &&
		(colon != NULL || memchr(s.p, '.', s.len) != NULL || slice_is(s, "localhost"));
}

static bool image_syntax(struct slice s, bool *tagged)
{
	const char *at = s.len > 0 ? memchr(s.p, '@', s.len) : NULL;

	*tagged = at != NULL;
	if (at != NULL) {
		if (!image_digest(slice_skip(s, (size_t)(at - s.p) + 1)))
			return false;
		s.len = (size_t)(at - s.p);
	}
	/* A colon after the last slash is the tag's. */
	for (size_t i = s.len; i > 0 && s.p[i - 1] != '/'; i--) {
		if (s.p[i - 1] != ':')
			continue;
		struct slice tag = slice_skip(s, i);
		if (tag.len == 0 || tag.len > 128 || !all_of(tag, "_.-") || tag.p[0] == '.' || tag.p[0] == '-')
			return false;
		*tagged = true;
		s.len = i - 1;
		break;
	}
	for (bool first = true;; first = false) {
		const char *slash = s.len > 0 ? memchr(s.p, '/', s.len) : NULL;
		struct slice part = slash != NULL ? slice_make(s.p, (size_t)(slash - s.p)) : s;

		if (!image_component(part) && !(first && slash != NULL && image_registry(part)))
			return false;
		if (slash == NULL)
			return true;
		s = slice_skip(s, part.len + 1);
	}
}

int name_check_image(struct slice s, bool *tagged, struct err *err)
{
	if (non_ascii(s))
		return err_set(err, EINVAL, "an image name or tag has ASCII characters only");
	if (s.len == 0 || s.len > 255 || !image_syntax(s, tagged))
		return err_set(err, EINVAL, "not an image reference: [registry[:port]/]path[:tag][@sha256:...]");
	return 0;
}

int name_check_label(struct slice s, struct err *err)
{
	bool ok = slice_starts(s, "dev.capybara.") && s.len > 13 && s.len <= 128;

	for (size_t i = 0; ok && i < s.len; i++)
		if ((s.p[i] >= 'A' && s.p[i] <= 'Z') || (!is_alnum(s.p[i]) && strchr("._-", s.p[i]) == NULL) || s.p[i] == '\0')
			ok = false;
	if (!ok)
		return err_set(err, EINVAL, "a label matches ^dev\\.capybara\\.[a-z0-9._-]+$");
	if (slice_starts(s, "dev.capybara.sandbox"))
		return err_set(err, EINVAL, "labels that start with dev.capybara.sandbox are set by the controller");
	return 0;
}

int name_check_path(struct slice s, struct err *err)
{
	if (s.len == 0 || s.p[0] != '/')
		return err_set(err, EINVAL, "a path is absolute");
	if (s.len > 4095)
		return err_set(err, ENAMETOOLONG, "a path has at most 4095 bytes");
	if (memchr(s.p, '\0', s.len) != NULL)
		return err_set(err, EINVAL, "a path holds no NUL");
	return 0;
}
