/* Requests: their store and the heads that the engine gets. */
#include "dockerproxy/request.h"

#include <string.h>
#include <sys/random.h>

#include "dockerproxy/clock.h"

#define KEEP 32 /* request objects in the store */
#define CANONICAL_MAX (2 * 1024 * 1024) /* a head, and in warn mode the body behind it */

/* Only the head's own lines depend on the request. */
#define COMMON_FIELDS "Host: docker\r\nUser-Agent: dockerproxy\r\n"

void request_store_init(struct request_store *s)
{
	*s = (struct request_store){ .first = NULL };
	/* Ids need to be distinct between workers and restarts, not secret. */
	if (getrandom(&s->id_seed, sizeof(s->id_seed), GRND_NONBLOCK) != sizeof(s->id_seed))
		s->id_seed = (uint64_t)clock_us();
}

static void request_free(struct request *r)
{
	verdict_release(&r->verdict);
	buf_release(&r->canonical);
	buf_release(&r->collected);
	buf_release(&r->collected_bytes);
	free(r->collected_head);
	free(r);
}

void request_store_release(struct request_store *s)
{
	while (s->first != NULL) {
		struct request *r = s->first;

		s->first = r->next;
		request_free(r);
	}
	s->count = 0;
}

static void make_id(struct request_store *s, char *id)
{
	/* splitmix64: consecutive numbers become ids that look unlike each other. */
	uint64_t v = s->id_seed + ++s->id_count * 0x9e3779b97f4a7c15u;

	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
	v = (v ^ v >> 27) * 0x94d049bb133111ebu;
	v ^= v >> 31;
	for (int i = 0; i < REQUEST_ID_LEN; i++, v <<= 4)
		id[i] = "0123456789abcdef"[v >> 60];
}

struct request *request_take(struct request_store *s)
{
	struct request *r = s->first;

	if (r != NULL) {
		s->first = r->next;
		s->count--;
		verdict_reset(&r->verdict);
	} else {
		r = calloc(1, sizeof(*r));
		if (r == NULL)
			return NULL;
		verdict_init(&r->verdict);
		buf_init(&r->canonical, CANONICAL_MAX);
		buf_init(&r->collected_bytes, HTTP_MAX_HEAD);
	}
	make_id(s, r->id);
	r->body_at = 0;
	r->body_len = 0;
	r->body_timed = false;
	r->query = NULL;
	r->exchange = NULL;
	r->retried = false;
	r->path = PATH_NONE;
	r->decision = METRICS_ALLOW;
	r->reason = NULL;
	r->at[0] = '\0';
	r->status = 0;
	r->began_us = clock_us();
	r->sent_us = 0;
	r->engine_us = 0;
	buf_clear(&r->canonical);
	return r;
}

void request_give_back(struct request_store *s, struct request *r)
{
	buf_release(&r->collected);
	buf_release(&r->collected_bytes);
	free(r->collected_head);
	r->collected_head = NULL;
	if (s->count >= KEEP) {
		request_free(r);
		return;
	}
	r->next = s->first;
	s->first = r;
	s->count++;
}

/* The length is always said: the engine never waits for a body, and never takes what follows for one. */
static int put_body_fields(struct request *r, struct slice content_type, size_t len)
{
	struct buf *b = &r->canonical;

	if (content_type.len > 0 && http_put_field(b, "Content-Type", content_type) < 0)
		return -1;
	if (len == 0 && r->head.method != HTTP_POST && r->head.method != HTTP_PUT)
		return 0;
	if (buf_puts(b, "Content-Length: ") < 0 || buf_put_u64(b, len) < 0)
		return -1;
	return buf_puts(b, "\r\n");
}

static int put_upgrade(struct request *r, bool upgrade)
{
	return upgrade ? buf_puts(&r->canonical, "Connection: Upgrade\r\nUpgrade: tcp\r\n") : 0;
}

int request_put_canonical(struct request *r)
{
	const struct verdict *v = &r->verdict;
	size_t len = buf_len(&v->body);

	buf_clear(&r->canonical);
	if (http_put_request_line(&r->canonical, v->method, buf_slice(&v->target)) < 0 ||
		buf_puts(&r->canonical, COMMON_FIELDS) < 0 ||
		put_body_fields(r, slice_str(len > 0 ? "application/json" : ""), len) < 0 || put_upgrade(r, v->upgrade) < 0)
		return -1;
	return http_put_end(&r->canonical);
}

int request_put_as_received(struct request *r, struct slice in)
{
	buf_clear(&r->canonical);
	if (http_put_request_line(&r->canonical, http_span(in.p, r->head.method_text), http_span(in.p, r->head.target)) <
			0 ||
		buf_puts(&r->canonical, COMMON_FIELDS) < 0 ||
		put_body_fields(r, http_field_value(&r->head, in.p, HTTP_F_CONTENT_TYPE), r->body_len) < 0 ||
		put_upgrade(r, r->head.upgrade) < 0 || http_put_end(&r->canonical) < 0)
		return -1;
	/* The client's bytes may move while the engine's socket is busy: the body is copied. */
	return buf_put_slice(&r->canonical, request_body(r, in));
}
