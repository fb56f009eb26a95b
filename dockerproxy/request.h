/*
 * One request on its way through the proxy, and the record of what became of it.
 *
 * Idle connections have none: a request object is taken when a head's first byte came, from a store that keeps a few of them
 * with their memory, so that a steady stream of requests allocates nothing.
 */
#ifndef DOCKERPROXY_REQUEST_H
#define DOCKERPROXY_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "dockerproxy/answer.h"
#include "dockerproxy/metrics.h"
#include "dockerproxy/verdict.h"
#include "libgate/audit.h"
#include "libgate/http1.h"

struct upstream_exchange;
struct owner_query;

#define REQUEST_ID_LEN 16

/* How the engine's answer reaches the client. */
enum answer_path {
	PATH_NONE, /* nothing was passed on yet */
	PATH_STREAM, /* as it comes */
	PATH_COLLECT, /* wholly read first: it has to be looked into */
};

struct request {
	struct request *next; /* in the store */
	char id[REQUEST_ID_LEN];
	struct http_head head; /* offsets into the client's unconsumed bytes */
	struct http_body body;
	size_t body_at; /* offset of the next undecoded body byte */
	bool body_timed; /* the body's deadline runs */
	size_t body_len; /* decoded bytes, which stand right after the head */
	struct verdict verdict;
	struct buf canonical; /* head for the engine */

	struct owner_query *query;
	struct upstream_exchange *exchange;
	bool retried; /* with the engine's own minimum version */
	enum answer_path path;
	struct answer_head answer;
	struct buf collected;
	struct http_head *collected_head; /* and its bytes, in collected_bytes; only for PATH_COLLECT */
	struct buf collected_bytes;

	/* the record */
	enum metrics_decision decision;
	const char *reason; /* NULL when allowed */
	char at[VERDICT_AT_MAX];
	int status; /* that the client was given; 0: none */
	int64_t began_us;
	int64_t sent_us; /* to the engine; 0: never */
	int64_t engine_us; /* until the engine's last byte */
	uint64_t received_before; /* the client's counters when it began */
	uint64_t sent_before;
};

struct request_store {
	struct request *first;
	unsigned count;
	uint64_t id_seed;
	uint64_t id_count;
};

void request_store_init(struct request_store *s);
void request_store_release(struct request_store *s);
struct request *request_take(struct request_store *s) MUSTCHECK; /* NULL: no memory */
void request_give_back(struct request_store *s, struct request *r);

static inline struct slice request_id(const struct request *r)
{
	return slice_make(r->id, REQUEST_ID_LEN);
}

/* The request's body, in the client's unconsumed bytes `in`. */
static inline struct slice request_body(const struct request *r, struct slice in)
{
	return slice_make(in.p + r->head.length, r->body_len);
}

/* What goes out: the judged request's canonical form. */
int request_put_canonical(struct request *r) MUSTCHECK;
/* Warn mode, for a request that the policy would refuse: the same request with its body, framed anew. in: the client's
 * bytes. */
int request_put_as_received(struct request *r, struct slice in) MUSTCHECK;

#endif
