/*
 * Makes requests of doubtful form and reads them as dockerproxy does: heads COUNT SEED SEEDS...
 * What the strict reader accepts goes to standard output for heads.go, which reads it as the engine's HTTP server would; each
 * record is seven strings with 32-bit lengths before them: the bytes, method, target, path, query as name NUL value NUL..., body, and what is left for the next request. Standard error: how many of how many.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libgate/http1.h"
#include "libgate/target.h"

#define SEEDS_MAX 1024
#define MESSAGE_MAX 8192

struct message {
	char bytes[MESSAGE_MAX];
	size_t len;
};

/* What makes heads doubtful: pieces to slip in. */
static const char *const pieces[] = { "\r\n", "\n", "\r", " ", "\t", ":", ";", ",", "0", "1", "+", "-", "%", "%2f", "%00", "/", "//",
	"?", "&", "=", "#", "..", "\x7f", "\x80", "\xc3\xa9", "HTTP/1.0", "HTTP/1.1", "HTTP/1.2", "GET", "HEAD", "POST", "DELETE", "PRI",
	"Content-Length: 0\r\n", "Content-Length: 5\r\n", "Content-Length:5\r\n", "Content-Length: 05\r\n", "Content-Length: +5\r\n",
	"Content-Length: 5,5\r\n", "Content-Length:\t5 \r\n", "content-length: 5\r\n", "Content-Length\t: 5\r\n",
	"Transfer-Encoding: chunked\r\n", "transfer-encoding:chunked\r\n", "Transfer-Encoding: Chunked\r\n",
	"Transfer-Encoding: identity\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding:\tchunked\t\r\n",
	"Transfer-Encoding: chunked,\r\n", "Host: d\r\n", "Host: a b\r\n", "Host:\r\n", "Connection: close\r\n",
	"Connection: Content-Length\r\n", "Connection: upgrade\r\nUpgrade: tcp\r\n", "Expect: 100-continue\r\n", "Trailer: X\r\n",
	" folded\r\n", "X: y\r\n", "X:\r\n", "5\r\nhello\r\n", "0\r\n\r\n", "00\r\n\r\n", "5;x=y\r\n", "0x5\r\n", "A\r\n0123456789\r\n",
	"\r\n\r\n", "GET /_ping HTTP/1.1\r\nHost: d\r\n\r\n" };

static const char *const own_seeds[] = {
	"GET /v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D HTTP/1.1\r\nHost: d\r\n\r\n",
	"POST /v1.41/containers/cap-w/exec HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{\"a\":",
	"POST /v1.41/containers/cap-w/exec HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"POST /v1.41/images/create?fromImage=docker.io%2Flibrary%2Fa&tag=1 HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
	"DELETE /v1.41/containers/cap-w?force=1&v=1 HTTP/1.1\r\nHost: api.moby.localhost\r\nUser-Agent: x\r\n\r\n",
};

static struct message seeds[SEEDS_MAX];
static size_t nseeds;
static uint64_t state;

static size_t random_below(size_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return n == 0 ? 0 : (size_t)(state % n);
}

static void add_seed(const char *p, size_t len)
{
	if (nseeds == SEEDS_MAX || len > MESSAGE_MAX)
		return;
	memcpy(seeds[nseeds].bytes, p, len);
	seeds[nseeds++].len = len;
}

/* A file of strings with 32-bit lengths before them. */
static int load_seeds(const char *path)
{
	static char text[65536];
	unsigned char size[4];
	FILE *in = fopen(path, "rb");

	if (in == NULL)
		return -1;
	while (fread(size, 1, 4, in) == 4) {
		size_t len = (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];

		if (len > sizeof(text) || fread(text, 1, len, in) != len)
			break;
		add_seed(text, len);
	}
	fclose(in);
	return 0;
}

static void replace(struct message *m, size_t at, size_t gone, const char *with, size_t len)
{
	if (m->len - gone + len > MESSAGE_MAX)
		return;
	memmove(m->bytes + at + len, m->bytes + at + gone, m->len - at - gone);
	memcpy(m->bytes + at, with, len);
	m->len = m->len - gone + len;
}

/* The offset of a line's beginning, or any. */
static size_t some_place(const struct message *m)
{
	size_t at = random_below(m->len + 1);

	while (random_below(4) != 0 && at > 0 && at < m->len && m->bytes[at - 1] != '\n')
		at++;
	return at;
}

static void mutate(struct message *m)
{
	size_t at = some_place(m);
	const char *piece = pieces[random_below(ARRAY_SIZE(pieces))];
	size_t most = m->len - at;
	char byte = (char)random_below(256);

	switch (random_below(5)) {
	case 0:
		replace(m, at, random_below(most < 12 ? most + 1 : 12), "", 0);
		return;
	case 1:
		if (at < m->len)
			m->bytes[at] = byte;
		return;
	case 2:
		replace(m, at, most < strlen(piece) ? most : strlen(piece), piece, strlen(piece));
		return;
	default:
		replace(m, at, 0, piece, strlen(piece));
		return;
	}
}

static void put(const char *p, size_t len)
{
	const unsigned char size[4] = { (unsigned char)(len >> 24), (unsigned char)(len >> 16), (unsigned char)(len >> 8),
		(unsigned char)len };

	fwrite(size, 1, 4, stdout);
	fwrite(p, 1, len, stdout);
}

/* The decoded body; false when it is refused or incomplete. *used: where the next request begins. */
static bool read_body(const struct http_head *h, const struct message *m, struct message *body, size_t *used)
{
	struct http_body b;
	size_t at = h->length;

	body->len = 0;
	http_body_init(&b, h->framing, h->content_length, MESSAGE_MAX);
	for (;;) {
		struct slice run = slice_make(NULL, 0);
		size_t n = 0;
		enum http_result r = http_body_read(&b, m->bytes + at, m->len - at, &n, &run);

		at += n;
		*used = at;
		if (r == HTTP_DONE)
			return true;
		if (r != HTTP_DATA)
			return false;
		memcpy(body->bytes + body->len, run.p, run.len);
		body->len += run.len;
	}
}

static void put_target(const struct target *t)
{
	static char query[2 * TARGET_MAX];
	size_t n = 0;

	put(t->path.p, t->path.len);
	for (unsigned i = 0; i < t->nparams; i++) {
		const struct slice parts[2] = { t->params[i].name, t->params[i].value };

		for (int k = 0; k < 2; k++) {
			memcpy(query + n, parts[k].p, parts[k].len);
			n += parts[k].len;
			query[n++] = '\0';
		}
	}
	put(query, n);
}

static bool judge(const struct message *m)
{
	static struct message body;
	static struct target t;
	struct http_head h;
	struct slice target, decoded;
	size_t used;

	http_head_init(&h, HTTP_REQUEST, HTTP_MAX_HEAD);
	if (http_head_read(&h, m->bytes, m->len) != HTTP_DONE || !read_body(&h, m, &body, &used))
		return false;
	target = http_span(m->bytes, h.target);
	/* Of a path, the image's name alone may be encoded, and in it these bytes. */
	if (target_parse(&t, target) != TARGET_OK || !target_decode(&t, t.path, "/:@", &decoded))
		return false;
	put(m->bytes, m->len);
	put(m->bytes + h.method_text.off, h.method_text.len);
	put(target.p, target.len);
	put_target(&t);
	put(body.bytes, body.len);
	put(m->bytes + used, m->len - used);
	return true;
}

int main(int argc, char **argv)
{
	unsigned long wanted, accepted = 0, tried = 0;

	if (argc < 3)
		return 2;
	wanted = strtoul(argv[1], NULL, 10);
	state = strtoul(argv[2], NULL, 10) * 0x9e3779b97f4a7c15ULL + 1;
	for (size_t i = 0; i < ARRAY_SIZE(own_seeds); i++)
		add_seed(own_seeds[i], strlen(own_seeds[i]));
	for (int i = 3; i < argc; i++) {
		if (load_seeds(argv[i]) < 0) {
			fprintf(stderr, "%s cannot be read\n", argv[i]);
			return 1;
		}
	}
	for (size_t i = 0; i < nseeds; i++, tried++)
		accepted += judge(&seeds[i]);
	for (; accepted < wanted; tried++) {
		static struct message m;

		m = seeds[random_below(nseeds)];
		for (size_t n = 1 + random_below(4); n > 0; n--)
			mutate(&m);
		accepted += judge(&m);
	}
	fprintf(stderr, "heads: %lu of %lu requests accepted, %zu seeds\n", accepted, tried, nseeds);
	return fflush(stdout) != 0;
}
