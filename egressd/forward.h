/* The heads that go on: written from scratch, with what concerns one hop alone left out. [pure] */
#ifndef EGRESSD_FORWARD_H
#define EGRESSD_FORWARD_H

#include <stdbool.h>

#include "egressd/request.h"
#include "libgate/buf.h"
#include "libgate/http1.h"

/* A request whose Upgrade is passed on: GET without a body that asks for exactly `websocket`. */
bool forward_upgrades(const struct http_head *h, const char *p);

/* The request for the origin: target in origin-form, Host from the URL, framing of its own. -1: out is full. */
int forward_request(struct buf *out, const struct http_head *h, const char *p, const struct dest *dest,
	bool upgrade) MUSTCHECK;

struct forward_response {
	bool chunked; /* the body goes out in chunks */
	bool close; /* say Connection: close */
	bool upgrade; /* a 101 that was asked for */
};

/* The answer for the client, of a head whose framing was read (or an interim one). */
int forward_response(struct buf *out, const struct http_head *h, const char *p,
	const struct forward_response *how) MUSTCHECK;

/* One run of body bytes as a chunk, and the end of such a body. */
int forward_chunk(struct buf *out, struct slice data) MUSTCHECK;
int forward_last_chunk(struct buf *out) MUSTCHECK;

#endif
