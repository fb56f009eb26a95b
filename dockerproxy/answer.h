/* Heads and refusals that clients get. Everything is written from scratch. [pure] */
#ifndef DOCKERPROXY_ANSWER_H
#define DOCKERPROXY_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/buf.h"
#include "libgate/http1.h"
#include "libgate/slice.h"

/* How the connection goes on after an answer, as the client has to be told. */
enum answer_persistence {
	ANSWER_CLOSE, /* Connection: close */
	ANSWER_KEEP, /* nothing to say */
	ANSWER_KEEP_10, /* an HTTP/1.0 client that asked for it: Connection: keep-alive */
	ANSWER_UPGRADE, /* 101 */
};

struct refusal {
	int status;
	const char *reason; /* id */
	struct slice at; /* may be empty */
	struct slice message;
	struct slice request_id;
	struct slice policy; /* digest of the policy that decided; empty where none did */
	bool head_only; /* of a HEAD request: no body */
	enum answer_persistence persistence;
};

/* The whole refusal, in the engine's error shape. */
int answer_refusal(struct buf *out, const struct refusal *r) MUSTCHECK;

/* An error as the engine itself would say it: {"message": ...}. api_version: of the engine, may be empty. */
int answer_engine_error(struct buf *out, const struct refusal *r, struct slice api_version) MUSTCHECK;

/* How the body of a passed answer is framed for the client. */
enum answer_framing {
	ANSWER_NO_BODY,
	ANSWER_LENGTH,
	ANSWER_CHUNKED,
	ANSWER_EOF, /* until the close: HTTP/1.0 clients, tunnels */
};

struct answer_head {
	enum answer_framing framing;
	bool show_length; /* Content-Length is written */
	uint64_t length;
	enum answer_persistence persistence;
	struct slice request_id;
};

/* The head of an engine's answer written anew: its status, the fields that clients may see, our framing. */
int answer_passed_head(struct buf *out, const struct http_head *engine, const char *bytes,
	const struct answer_head *a) MUSTCHECK;

#endif
