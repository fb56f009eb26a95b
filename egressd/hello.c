/* Reads TLS records until the ClientHello is whole, then looks for its server name. */
#include "egressd/hello.h"

#include <stdlib.h>
#include <string.h>

#define CONTENT_HANDSHAKE 22
#define CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define EXTENSION_ECH 0xfe0d
#define NAME_TYPE_HOST 0
#define RECORDS_MAX 64 /* a real ClientHello has one or two */
#define RECORD_PAYLOAD_MAX 16384

struct cursor {
	const uint8_t *p;
	size_t left;
};

void hello_init(struct hello *h)
{
	memset(h, 0, sizeof(*h));
}

void hello_release(struct hello *h)
{
	free(h->message);
	hello_init(h);
}

static bool take(struct cursor *c, size_t n, struct cursor *out)
{
	if (c->left < n)
		return false;
	*out = (struct cursor){ c->p, n };
	c->p += n;
	c->left -= n;
	return true;
}

static bool take_number(struct cursor *c, size_t n, size_t *out)
{
	struct cursor bytes;
	size_t v = 0;

	if (!take(c, n, &bytes))
		return false;
	for (size_t i = 0; i < n; i++)
		v = v << 8 | bytes.p[i];
	*out = v;
	return true;
}

/* A vector whose length stands in front of it in n bytes. */
static bool take_vector(struct cursor *c, size_t n, struct cursor *out)
{
	size_t len;

	return take_number(c, n, &len) && take(c, len, out);
}

/* RFC 6066: a list that holds one name of type host_name. More than one, or another type, is nobody's practice. */
static enum hello_result read_name(struct hello *h, struct cursor extension)
{
	struct cursor list, name;
	size_t type;

	if (!take_vector(&extension, 2, &list) || extension.left != 0)
		return HELLO_MALFORMED;
	if (!take_number(&list, 1, &type) || type != NAME_TYPE_HOST || !take_vector(&list, 2, &name) || list.left != 0)
		return HELLO_MALFORMED;
	/* "without a trailing dot" and no address, says the RFC; the host parse also folds case. */
	if (name.left == 0 || name.p[name.left - 1] == '.')
		return HELLO_MALFORMED;
	if (host_parse(slice_make((const char *)name.p, name.left), &h->name) != REASON_OK)
		return HELLO_MALFORMED;
	return HELLO_NAME;
}

static enum hello_result read_extensions(struct hello *h, struct cursor all)
{
	enum hello_result result = HELLO_MISSING;
	struct cursor extension;
	size_t type;

	while (all.left > 0) {
		if (!take_number(&all, 2, &type) || !take_vector(&all, 2, &extension))
			return HELLO_MALFORMED;
		if (type == EXTENSION_ECH)
			h->ech = true;
		if (type != EXTENSION_SERVER_NAME)
			continue;
		if (result != HELLO_MISSING) /* twice: the server may read the other one */
			return HELLO_MALFORMED;
		result = read_name(h, extension);
		if (result != HELLO_NAME)
			return result;
	}
	return result;
}

static enum hello_result read_client_hello(struct hello *h, struct cursor body)
{
	struct cursor skipped, extensions;
	size_t version;

	if (!take_number(&body, 2, &version) || version >> 8 != 3 /* 0x0301..0x0304: TLS */
		|| !take(&body, 32, &skipped) /* random */
		|| !take_vector(&body, 1, &skipped) || skipped.left > 32 /* session id */
		|| !take_vector(&body, 2, &skipped) || skipped.left < 2 || skipped.left % 2 != 0 /* cipher suites */
		|| !take_vector(&body, 1, &skipped) || skipped.left < 1) /* compression methods */
		return HELLO_MALFORMED;
	if (body.left == 0)
		return HELLO_MISSING;
	if (!take_vector(&body, 2, &extensions) || body.left != 0)
		return HELLO_MALFORMED;
	return read_extensions(h, extensions);
}

static bool append(struct hello *h, const uint8_t *p, size_t n)
{
	if (n == 0)
		return true;
	if (h->len + n > h->cap) {
		size_t cap = h->cap == 0 ? 2048 : h->cap;
		while (cap < h->len + n)
			cap *= 2;
		void *grown = realloc(h->message, cap);
		if (grown == NULL)
			return false;
		h->message = grown;
		h->cap = cap;
	}
	memcpy(h->message + h->len, p, n);
	h->len += n;
	return true;
}

/* Looks at the message as far as it has come. */
static enum hello_result examine(struct hello *h)
{
	size_t size;

	if (h->len >= 1 && h->message[0] != CLIENT_HELLO)
		return HELLO_MALFORMED;
	if (h->len < 4)
		return HELLO_MORE;
	size = (size_t)h->message[1] << 16 | (size_t)h->message[2] << 8 | h->message[3];
	if (size > HELLO_MAX)
		return HELLO_MALFORMED;
	if (h->len < 4 + size)
		return HELLO_MORE;
	return read_client_hello(h, (struct cursor){ h->message + 4, size });
}

/* Takes bytes of a record header; false when what has come of it cannot begin a TLS handshake record. */
static enum hello_result read_record_header(struct hello *h, struct cursor *in)
{
	while (h->record_len < sizeof(h->record) && in->left > 0) {
		h->record[h->record_len++] = *in->p++;
		in->left--;
	}
	if ((h->record_len >= 1 && h->record[0] != CONTENT_HANDSHAKE) || (h->record_len >= 2 && h->record[1] != 3))
		return h->records == 0 ? HELLO_NOT_TLS : HELLO_MALFORMED;
	if (h->record_len < sizeof(h->record))
		return HELLO_MORE;
	h->left = (uint16_t)(h->record[3] << 8 | h->record[4]);
	if (h->left == 0 || h->left > RECORD_PAYLOAD_MAX || ++h->records > RECORDS_MAX)
		return HELLO_MALFORMED;
	return HELLO_NAME; /* the header is whole */
}

enum hello_result hello_read(struct hello *h, const void *bytes, size_t len)
{
	struct cursor in = { bytes, len };
	enum hello_result result;

	while (in.left > 0) {
		if (h->left == 0) {
			result = read_record_header(h, &in);
			if (result != HELLO_NAME)
				return result;
			h->record_len = 0;
			if (in.left == 0) /* the payload is still to come */
				break;
		}
		size_t n = in.left < h->left ? in.left : h->left;
		/* Bytes of the record beyond the limit are not kept: examine() refuses by the declared size first. */
		if (h->len + n > HELLO_MAX + RECORD_PAYLOAD_MAX || !append(h, in.p, n))
			return HELLO_MALFORMED;
		in.p += n;
		in.left -= n;
		h->left = (uint16_t)(h->left - n);
		result = examine(h);
		if (result != HELLO_MORE)
			return result;
	}
	return HELLO_MORE;
}
