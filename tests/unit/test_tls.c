/* TLS as an adaptor: who is let in, and that bytes and half-closes pass both ways. Certificates are made here. */
#include "libgate/tls.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>

#include "libgate/tls_impl.h"
#include "tests/unit/unit.h"

/* --- certificates ----------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/test_tls.XXXXXX";
static const char *const files[] = { "ca", "ca.key", "server", "server.key", "client", "client.key", "other",
	"other.key", "stranger", "stranger.key" };

struct identity {
	EVP_PKEY *key;
	X509 *cert;
};

static const char *path(const char *name)
{
	static char buf[4][80];
	static unsigned n;
	char *p = buf[n++ % 4];

	snprintf(p, sizeof(buf[0]), "%s/%s", dir, name);
	return p;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
}

static struct identity make(const char *name, const struct identity *issuer, const char *alt)
{
	static long serial = 1;
	struct identity id = { EVP_EC_gen("P-256"), X509_new() };
	X509_NAME *subject;
	char key_name[32];
	FILE *f;

	X509_set_version(id.cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(id.cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(id.cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(id.cert), 3600);
	X509_set_pubkey(id.cert, id.key);
	subject = X509_get_subject_name(id.cert);
	X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(id.cert, X509_get_subject_name(issuer != NULL ? issuer->cert : id.cert));
	if (issuer == NULL)
		add_extension(id.cert, id.cert, NID_basic_constraints, "critical,CA:TRUE");
	if (alt != NULL)
		add_extension(id.cert, issuer->cert, NID_subject_alt_name, alt);
	X509_sign(id.cert, issuer != NULL ? issuer->key : id.key, EVP_sha256());
	f = fopen(path(name), "we");
	PEM_write_X509(f, id.cert);
	fclose(f);
	snprintf(key_name, sizeof(key_name), "%s.key", name);
	f = fopen(path(key_name), "we");
	PEM_write_PrivateKey(f, id.key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
	return id;
}

static void drop(struct identity id)
{
	EVP_PKEY_free(id.key);
	X509_free(id.cert);
}

static void make_all(void)
{
	struct identity ca, other;

	signal(SIGPIPE, SIG_IGN);
	if (mkdtemp(dir) == NULL)
		abort();
	ca = make("ca", NULL, NULL);
	other = make("other", NULL, NULL);
	drop(make("server", &ca, "DNS:engine.test,IP:127.0.0.1"));
	drop(make("client", &ca, NULL));
	drop(make("stranger", &other, NULL));
	drop(ca);
	drop(other);
}

static void remove_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlink(path(files[i]));
	rmdir(dir);
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
}

/* --- a connection ------------------------------------------------------------------------------------------------ */

struct side {
	struct tls_context *ctx;
	bool called;
	int fd;
	char name[TLS_NAME_MAX];
	char why[256];
};

struct fixture {
	struct event_base *base;
	struct side server, client;
};

static void on_tls(int fd, const char *name, const char *why, void *arg)
{
	struct side *s = arg;

	s->called = true;
	s->fd = fd;
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->why, sizeof(s->why), "%s", why != NULL ? why : "");
}

/* Both ends in one loop. client_id NULL: shows no certificate. */
static struct fixture open_both(const char *client_ca, const char *client_id, const char *expected)
{
	struct fixture f = { .base = event_base_new(), .server = { .fd = -1 }, .client = { .fd = -1 } };
	struct err err = ERR_INIT;
	char key[32];
	int pair[2];

	f.server.ctx = tls_server_new(path("server"), path("server.key"), client_ca != NULL ? path(client_ca) : NULL, &err);
	snprintf(key, sizeof(key), "%s.key", client_id != NULL ? client_id : "");
	f.client.ctx = tls_client_new(path("ca"), expected, client_id != NULL ? path(client_id) : NULL,
		client_id != NULL ? path(key) : NULL, &err);
	if (f.server.ctx == NULL || f.client.ctx == NULL) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	CU_ASSERT_TRUE(tls_start(f.server.ctx, f.base, pair[0], 10000, on_tls, &f.server));
	CU_ASSERT_TRUE(tls_start(f.client.ctx, f.base, pair[1], 10000, on_tls, &f.client));
	while (!f.server.called || !f.client.called)
		event_base_loop(f.base, EVLOOP_ONCE);
	return f;
}

static void close_both(struct fixture *f)
{
	if (f->server.fd >= 0)
		close(f->server.fd);
	if (f->client.fd >= 0)
		close(f->client.fd);
	tls_context_free(f->server.ctx);
	tls_context_free(f->client.ctx);
	event_base_free(f->base);
}

/* Reads until size bytes came or the direction ended, running the loop meanwhile. */
static size_t take(struct fixture *f, int fd, char *out, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = recv(fd, out + have, size - have, 0);

		if (n > 0)
			have += (size_t)n;
		else if (n == 0 || errno != EAGAIN)
			break;
		else
			event_base_loop(f->base, EVLOOP_ONCE);
	}
	return have;
}

static void test_passes_bytes(void)
{
	struct fixture f;
	char got[16];

	make_all();
	f = open_both("ca", "client", "engine.test");
	CU_ASSERT_STRING_EQUAL(f.server.why, "");
	CU_ASSERT_STRING_EQUAL(f.client.why, "");
	CU_ASSERT_STRING_EQUAL(f.server.name, "CN=client,O=test");
	CU_ASSERT_STRING_EQUAL(f.client.name, "CN=server,O=test");
	CU_ASSERT_EQUAL(send(f.client.fd, "question", 8, 0), 8);
	CU_ASSERT_EQUAL(take(&f, f.server.fd, got, 8), 8);
	CU_ASSERT_EQUAL(memcmp(got, "question", 8), 0);
	CU_ASSERT_EQUAL(send(f.server.fd, "answer", 6, 0), 6);
	CU_ASSERT_EQUAL(take(&f, f.client.fd, got, 6), 6);
	CU_ASSERT_EQUAL(memcmp(got, "answer", 6), 0);
	close_both(&f);
	remove_all();
}

static void test_half_closes(void)
{
	struct fixture f;
	char got[16];

	make_all();
	f = open_both(NULL, NULL, "127.0.0.1");
	CU_ASSERT_STRING_EQUAL(f.server.name, "");
	CU_ASSERT_EQUAL(send(f.client.fd, "last", 4, 0), 4);
	shutdown(f.client.fd, SHUT_WR);
	CU_ASSERT_EQUAL(take(&f, f.server.fd, got, sizeof(got)), 4);
	/* The other direction still works, and then ends too. */
	CU_ASSERT_EQUAL(send(f.server.fd, "more", 4, 0), 4);
	CU_ASSERT_EQUAL(take(&f, f.client.fd, got, 4), 4);
	shutdown(f.server.fd, SHUT_WR);
	CU_ASSERT_EQUAL(take(&f, f.client.fd, got, sizeof(got)), 0);
	close_both(&f);
	remove_all();
}

/* Much more than any buffer holds, in both directions at once, with readers that begin late. */
static void test_back_pressure(void)
{
	static char pattern[4 << 20], got[4 << 20];
	struct fixture f;
	size_t sent[2] = { 0, 0 }, have[2] = { 0, 0 };
	bool same = true;

	make_all();
	f = open_both(NULL, NULL, "engine.test");
	const int from[2] = { f.client.fd, f.server.fd }, to[2] = { f.server.fd, f.client.fd };
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (char)(i * 31 + i / 251);
	/* Without a reader the senders must come to a stop. */
	for (int turn = 0; turn < 1000; turn++) {
		for (int d = 0; d < 2; d++) {
			ssize_t n = send(from[d], pattern + sent[d], sizeof(pattern) - sent[d], MSG_NOSIGNAL);

			if (n > 0)
				sent[d] += (size_t)n;
		}
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	}
	CU_ASSERT_TRUE(sent[0] > 0 && sent[0] < sizeof(pattern));
	CU_ASSERT_TRUE(sent[1] > 0 && sent[1] < sizeof(pattern));
	while (have[0] < sizeof(pattern) || have[1] < sizeof(pattern)) {
		for (int d = 0; d < 2; d++) {
			ssize_t n = send(from[d], pattern + sent[d], sizeof(pattern) - sent[d], MSG_NOSIGNAL);

			if (n > 0)
				sent[d] += (size_t)n;
			n = recv(to[d], got, sizeof(got), 0);
			if (n > 0) {
				same = same && memcmp(got, pattern + have[d], (size_t)n) == 0;
				have[d] += (size_t)n;
			} else if (n == 0) {
				CU_FAIL_FATAL("ended early");
			}
		}
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	}
	CU_ASSERT_TRUE(same);
	close_both(&f);
	remove_all();
}

static void on_guard(evutil_socket_t fd, short what, void *arg)
{
	*(bool *)arg = true;
}

/* The program closes what its peer does not read: the connection, which nobody counts any more, has an end all the same. */
static void test_peer_that_takes_nothing(void)
{
	const struct timeval limit = { 60, 0 };
	static const char zeros[65536];
	bool late = false;
	struct fixture f;

	make_all();
	f = open_both(NULL, NULL, "engine.test");
	f.server.ctx->left_looks = 1;
	for (int turn = 0; turn < 1000; turn++) {
		(void)!send(f.server.fd, zeros, sizeof(zeros), MSG_NOSIGNAL);
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	}
	CU_ASSERT_EQUAL(send(f.server.fd, zeros, sizeof(zeros), MSG_NOSIGNAL), -1);
	close(f.server.fd);
	f.server.fd = -1;
	event_base_once(f.base, -1, EV_TIMEOUT, on_guard, &late, &limit);
	while (tls_active(f.server.ctx) > 0 && !late)
		event_base_loop(f.base, EVLOOP_ONCE);
	CU_ASSERT_FALSE(late);
	close_both(&f);
	remove_all();
}

static const struct {
	const char *label;
	const char *client_ca, *client_id, *expected;
	const char *server_why; /* part of it; NULL: let in */
	const char *client_why;
} cases[] = {
	{ "client of the authority", "ca", "client", "engine.test", NULL, NULL },
	{ "no certificate asked", NULL, NULL, "engine.test", NULL, NULL },
	{ "server by address", "ca", "client", "127.0.0.1", NULL, NULL },
	{ "no certificate shown", "ca", NULL, "engine.test", "peer did not return a certificate", NULL },
	{ "client of a stranger", "ca", "stranger", "engine.test", "unable to get local issuer", NULL },
	{ "self-signed client", "ca", "other", "engine.test", "self", NULL },
	{ "server by another name", "ca", "client", "other.test", "", "hostname mismatch" },
	{ "server by another address", "ca", "client", "127.0.0.2", "", "IP address mismatch" },
};

static void test_who_is_let_in(void)
{
	make_all();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f = open_both(cases[i].client_ca, cases[i].client_id, cases[i].expected);

		if (cases[i].server_why == NULL)
			UNIT_CHECK(f.server.fd >= 0, "%s: %s", cases[i].label, f.server.why);
		else
			UNIT_CHECK(f.server.fd < 0 && strstr(f.server.why, cases[i].server_why) != NULL, "%s: %s", cases[i].label,
				f.server.why);
		if (cases[i].client_why != NULL)
			UNIT_CHECK(f.client.fd < 0 && strstr(f.client.why, cases[i].client_why) != NULL, "%s: %s", cases[i].label,
				f.client.why);
		close_both(&f);
	}
	remove_all();
}

static void test_bad_peers(void)
{
	struct side s = { .fd = -1 };
	struct event_base *base = event_base_new();
	struct err err = ERR_INIT;
	int pair[2];

	make_all();
	s.ctx = tls_server_new(path("server"), path("server.key"), NULL, &err);
	CU_ASSERT_PTR_NOT_NULL_FATAL(s.ctx);
	/* Plain HTTP. */
	CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	CU_ASSERT_EQUAL(send(pair[1], "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
	CU_ASSERT_TRUE(tls_start(s.ctx, base, pair[0], 10000, on_tls, &s));
	while (!s.called)
		event_base_loop(base, EVLOOP_ONCE);
	CU_ASSERT_EQUAL(s.fd, -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(s.why, "http request"));
	close(pair[1]);
	/* Nothing at all, until the deadline. */
	s.called = false;
	CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	CU_ASSERT_TRUE(tls_start(s.ctx, base, pair[0], 20, on_tls, &s));
	while (!s.called)
		event_base_loop(base, EVLOOP_ONCE);
	CU_ASSERT_STRING_EQUAL(s.why, "the handshake took too long");
	close(pair[1]);
	/* Gone in the handshake. */
	s.called = false;
	CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	CU_ASSERT_TRUE(tls_start(s.ctx, base, pair[0], 10000, on_tls, &s));
	close(pair[1]);
	while (!s.called)
		event_base_loop(base, EVLOOP_ONCE);
	CU_ASSERT_EQUAL(s.fd, -1);
	tls_context_free(s.ctx);
	event_base_free(base);
	remove_all();
}

/* The program closes both directions at once after its last bytes: the peer gets them, and then the end. */
static void test_program_leaves(void)
{
	struct fixture f;
	char got[32];

	make_all();
	f = open_both(NULL, NULL, "engine.test");
	CU_ASSERT_EQUAL(send(f.client.fd, "unread", 6, 0), 6);
	CU_ASSERT_EQUAL(take(&f, f.server.fd, got, 1), 1);
	CU_ASSERT_EQUAL(send(f.server.fd, "goodbye", 7, 0), 7);
	close(f.server.fd);
	f.server.fd = -1;
	CU_ASSERT_EQUAL(take(&f, f.client.fd, got, sizeof(got)), 7);
	close_both(&f);
	remove_all();
}

static void test_bad_files(void)
{
	struct err err = ERR_INIT;

	make_all();
	CU_ASSERT_PTR_NULL(tls_server_new(path("none"), path("server.key"), NULL, &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/none: No such file"));
	CU_ASSERT_PTR_NULL(tls_server_new(path("server"), path("client.key"), NULL, &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "key values mismatch"));
	CU_ASSERT_PTR_NULL(tls_server_new(path("server"), path("server.key"), path("server.key"), &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "TLS authority"));
	CU_ASSERT_PTR_NULL(tls_client_new(path("none"), "x", NULL, NULL, &err));
	tls_context_free(NULL);
	remove_all();
}

static const struct unit_test tests[] = {
	{ "passes bytes", test_passes_bytes },
	{ "half-closes", test_half_closes },
	{ "back-pressure", test_back_pressure },
	{ "peer that takes nothing", test_peer_that_takes_nothing },
	{ "who is let in", test_who_is_let_in },
	{ "bad peers", test_bad_peers },
	{ "program leaves", test_program_leaves },
	{ "bad files", test_bad_files },
};

UNIT_MAIN("tls", tests)
