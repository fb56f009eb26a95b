/* From a request head to the destination that it asks for: CONNECT authority or absolute http:// URL. [pure] */
#ifndef EGRESSD_REQUEST_H
#define EGRESSD_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "egressd/host.h"
#include "egressd/reason.h"
#include "libgate/buf.h"
#include "libgate/http1.h"
#include "libgate/slice.h"

struct dest {
	bool connect; /* a tunnel; else one plain HTTP request */
	struct host host;
	uint16_t port;
	struct slice path; /* of the URL, from its '/' or '?' on, in the caller's buffer; may be empty */
};

/* Of a head that was read whole; p is its buffer. With REASON_IP_LITERAL dest->port may be unset. */
enum reason request_dest(const struct http_head *h, const char *p, struct dest *dest) MUSTCHECK;

/* The target in origin-form. */
int request_put_target(struct buf *b, const struct dest *dest) MUSTCHECK;

/* The value of the Host field: the port only where it is not 80. */
int request_put_host(struct buf *b, const struct dest *dest) MUSTCHECK;

/* What the client called its destination, for logs; never parsed again. */
struct slice request_named(const struct http_head *h, const char *p);

#endif
