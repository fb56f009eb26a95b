/*
 * TLS as an adaptor: carries bytes between a TLS connection and one half of a socket pair.
 *
 *      peer  <== TLS ==>  net | tls_end | plain  <-- socket pair -->  the program
 *
 * Each direction owns a buffer only while its receiver is slow, and reads no more until that is empty.
 */
#include "libgate/tls.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "libgate/buf.h"
#include "libgate/tls_impl.h"

#define TLS_PIECE 16384 /* a TLS record */
#define TLS_LINGER_MS 1000 /* how often an end that waits for its peer looks whether the program is still there */

/* What an operation of OpenSSL waits for. */
enum wait { WAIT_NONE, WAIT_READ, WAIT_WRITE };

struct tls_end {
	TAILQ_ENTRY(tls_end) entry;
	struct tls_context *ctx;
	struct event_base *base;
	SSL *ssl;
	int net;
	int plain;
	struct event *net_readable, *net_writable, *plain_readable, *plain_writable;
	struct event *timer; /* handshake, then TLS_LINGER_MS */
	struct buf in; /* from net, for plain */
	struct buf out; /* from plain, for net */
	enum wait in_waits, out_waits;
	unsigned left_looks; /* that found the program gone */
	bool open; /* the handshake is done */
	bool in_ended; /* the peer sends no more */
	bool in_passed; /* and the program was told */
	bool out_ended;
	bool out_passed;
	tls_cb cb;
	void *arg;
};

void tls_end_free(struct tls_end *e)
{
	struct event *const events[] = { e->net_readable, e->net_writable, e->plain_readable, e->plain_writable, e->timer };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i] != NULL)
			event_free(events[i]);
	ossl.SSL_free(e->ssl);
	if (e->net >= 0)
		close(e->net);
	if (e->plain >= 0)
		close(e->plain);
	buf_release(&e->in);
	buf_release(&e->out);
	TAILQ_REMOVE(&e->ctx->ends, e, entry);
	e->ctx->nends--;
	free(e);
}

static void watch(struct event *ev, bool on)
{
	if (on)
		event_add(ev, NULL);
	else
		event_del(ev);
}

/* What an operation needs before it can be tried again; false when it never will. */
static bool blocked(struct tls_end *e, int rc, enum wait *waits)
{
	switch (ossl.SSL_get_error(e->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		*waits = WAIT_READ;
		return true;
	case SSL_ERROR_WANT_WRITE:
		*waits = WAIT_WRITE;
		return true;
	default:
		return false;
	}
}

static void send_plain(struct tls_end *e)
{
	while (buf_len(&e->in) > 0) {
		ssize_t n = send(e->plain, buf_head(&e->in), buf_len(&e->in), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) {
			/* The program takes no more. What it sent before may still be on its way to the peer. */
			buf_clear(&e->in);
			e->in_ended = e->in_passed = true;
			break;
		}
		buf_consume(&e->in, (size_t)n);
	}
	buf_trim(&e->in);
	if (e->in_ended && !e->in_passed) {
		shutdown(e->plain, SHUT_WR);
		e->in_passed = true;
	}
}

/* From the peer to the program. False: the connection is over at once. */
static bool pump_in(struct tls_end *e)
{
	e->in_waits = WAIT_NONE;
	for (;;) {
		char *room;
		int n;

		send_plain(e);
		if (buf_len(&e->in) > 0 || e->in_ended)
			return true;
		room = buf_reserve(&e->in, TLS_PIECE);
		if (room == NULL)
			return false;
		ossl.ERR_clear_error();
		n = ossl.SSL_read(e->ssl, room, TLS_PIECE);
		if (n > 0) {
			buf_commit(&e->in, (size_t)n);
		} else if (ossl.SSL_get_error(e->ssl, n) == SSL_ERROR_ZERO_RETURN) {
			e->in_ended = true;
		} else {
			buf_trim(&e->in);
			return blocked(e, n, &e->in_waits);
		}
	}
}

/* 1: nothing is left; 0: later; -1: the connection is over at once. */
static int send_net(struct tls_end *e)
{
	while (buf_len(&e->out) > 0) {
		int n;

		ossl.ERR_clear_error();
		n = ossl.SSL_write(e->ssl, buf_head(&e->out), (int)buf_len(&e->out));
		if (n <= 0)
			return blocked(e, n, &e->out_waits) ? 0 : -1;
		buf_consume(&e->out, (size_t)n);
	}
	buf_trim(&e->out);
	if (e->out_ended && !e->out_passed) {
		int rc = ossl.SSL_shutdown(e->ssl);

		if (rc < 0)
			return blocked(e, rc, &e->out_waits) ? 0 : -1;
		e->out_passed = true;
	}
	return 1;
}

/* From the program to the peer. */
static bool pump_out(struct tls_end *e)
{
	e->out_waits = WAIT_NONE;
	for (;;) {
		int sent = send_net(e);
		char *room;
		ssize_t n;

		if (sent <= 0)
			return sent == 0;
		if (e->out_ended)
			return true;
		room = buf_reserve(&e->out, TLS_PIECE);
		if (room == NULL)
			return false;
		n = recv(e->plain, room, TLS_PIECE, MSG_DONTWAIT);
		if (n > 0) {
			buf_commit(&e->out, (size_t)n);
		} else if (n == 0) {
			e->out_ended = true;
		} else {
			buf_trim(&e->out);
			return errno == EAGAIN || errno == EINTR;
		}
	}
}

/* Did the program close its end, and not only finish sending? */
static bool program_left(const struct tls_end *e)
{
	struct pollfd p = { .fd = e->plain };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

static void update(struct tls_end *e)
{
	const struct timeval linger = { TLS_LINGER_MS / 1000, TLS_LINGER_MS % 1000 * 1000 };

	watch(e->net_readable, e->in_waits == WAIT_READ || e->out_waits == WAIT_READ);
	watch(e->net_writable, e->in_waits == WAIT_WRITE || e->out_waits == WAIT_WRITE);
	watch(e->plain_readable, !e->out_ended && buf_len(&e->out) == 0);
	watch(e->plain_writable, buf_len(&e->in) > 0);
	if ((e->out_ended || buf_len(&e->out) > 0) && !event_pending(e->timer, EV_TIMEOUT, NULL))
		event_add(e->timer, &linger);
}

static void pump(struct tls_end *e)
{
	if (!pump_in(e) || !pump_out(e) || (e->in_passed && e->out_passed) || (e->out_passed && program_left(e)))
		tls_end_free(e);
	else
		update(e);
}

/* --- handshake -------------------------------------------------------------------------------------------------- */

static void peer_name(const struct tls_end *e, char *out, size_t size)
{
	X509 *cert = ossl.SSL_get1_peer_certificate(e->ssl);
	BIO *bio = cert != NULL ? ossl.BIO_new(ossl.BIO_s_mem()) : NULL;
	int n = 0;

	if (bio != NULL && ossl.X509_NAME_print_ex(bio, ossl.X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) > 0)
		n = ossl.BIO_read(bio, out, (int)size - 1);
	out[n > 0 ? n : 0] = '\0';
	ossl.BIO_free(bio);
	ossl.X509_free(cert);
}

static void failed(struct tls_end *e, const char *why)
{
	tls_cb cb = e->cb;
	void *arg = e->arg;
	char text[256];

	snprintf(text, sizeof(text), "%s", why);
	tls_end_free(e);
	cb(-1, "", text, arg);
}

/* The program's half of the pair leaves with the callback, which must be the last that this function does to e. */
static void opened(struct tls_end *e)
{
	char name[TLS_NAME_MAX];
	tls_cb cb = e->cb;
	void *arg = e->arg;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
		failed(e, strerror(errno));
		return;
	}
	e->open = true;
	e->plain = pair[0];
	event_del(e->timer);
	e->plain_readable = event_new(e->base, e->plain, EV_READ | EV_PERSIST, event_get_callback(e->net_readable), e);
	e->plain_writable = event_new(e->base, e->plain, EV_WRITE | EV_PERSIST, event_get_callback(e->net_readable), e);
	if (e->plain_readable == NULL || e->plain_writable == NULL) {
		close(pair[1]);
		failed(e, "out of memory");
		return;
	}
	peer_name(e, name, sizeof(name));
	pump(e);
	cb(pair[1], name, NULL, arg);
}

static const char *handshake_error(const struct tls_end *e)
{
	long verify = ossl.SSL_get_verify_result(e->ssl);
	unsigned long code = ossl.ERR_get_error();
	const char *why = ossl.ERR_reason_error_string(code);

	if (verify != X509_V_OK)
		return ossl.X509_verify_cert_error_string(verify);
	return why != NULL ? why : "the connection ended in the handshake";
}

static void shake_hands(struct tls_end *e)
{
	enum wait waits;
	int rc;

	ossl.ERR_clear_error();
	rc = ossl.SSL_do_handshake(e->ssl);
	if (rc == 1) {
		opened(e);
	} else if (blocked(e, rc, &waits)) {
		watch(e->net_readable, waits == WAIT_READ);
		watch(e->net_writable, waits == WAIT_WRITE);
	} else {
		failed(e, handshake_error(e));
	}
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct tls_end *e = arg;

	if (e->open)
		pump(e);
	else
		shake_hands(e);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct tls_end *e = arg;

	if (!e->open)
		failed(e, "the handshake took too long");
	else if (program_left(e) && ++e->left_looks > e->ctx->left_looks)
		tls_end_free(e); /* nobody counts its connection any more: it must not stay for as long as the peer likes */
	else
		pump(e);
}

bool tls_start(struct tls_context *ctx, struct event_base *base, int fd, int64_t handshake_ms, tls_cb cb, void *arg)
{
	const struct timeval limit = { handshake_ms / 1000, handshake_ms % 1000 * 1000 };
	struct tls_end *e = calloc(1, sizeof(*e));

	if (e == NULL) {
		close(fd);
		return false;
	}
	TAILQ_INSERT_TAIL(&ctx->ends, e, entry);
	ctx->nends++;
	e->ctx = ctx;
	e->base = base;
	e->net = fd;
	e->plain = -1;
	e->cb = cb;
	e->arg = arg;
	buf_init(&e->in, TLS_PIECE);
	buf_init(&e->out, TLS_PIECE);
	e->ssl = ossl.SSL_new(ctx->ssl);
	e->net_readable = event_new(base, fd, EV_READ | EV_PERSIST, on_ready, e);
	e->net_writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_ready, e);
	e->timer = evtimer_new(base, on_timer, e);
	if (e->ssl == NULL || e->net_readable == NULL || e->net_writable == NULL || e->timer == NULL ||
		ossl.SSL_set_fd(e->ssl, fd) != 1 || (!ctx->server && !tls_expect_name(e->ssl, ctx->name)) ||
		event_add(e->timer, &limit) < 0) {
		tls_end_free(e);
		return false;
	}
	if (ctx->server)
		ossl.SSL_set_accept_state(e->ssl);
	else
		ossl.SSL_set_connect_state(e->ssl);
	/* The first step is taken by the loop, so that cb is never called from here. */
	event_active(e->net_writable, EV_WRITE, 1);
	return true;
}
