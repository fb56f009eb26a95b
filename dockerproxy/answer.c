/* Writes what clients get to see. */
#include "dockerproxy/answer.h"

#include <string.h>

/* Fields of an engine's answer that clients may see; framing and persistence are ours. */
static const struct slice passed_fields[] = {
#define NAME(text) \
	{ \
		text, sizeof(text) - 1 \
	}
	NAME("Api-Version"),
	NAME("Builder-Version"),
	NAME("Cache-Control"),
	NAME("Content-Type"),
	NAME("Date"),
	NAME("Docker-Experimental"),
	NAME("Ostype"),
	NAME("Pragma"),
	NAME("Server"),
	NAME("Swarm"),
	NAME("X-Docker-Container-Path-Stat"),
#undef NAME
};

static int put_persistence(struct buf *out, enum answer_persistence p)
{
	switch (p) {
	case ANSWER_CLOSE:
		return buf_puts(out, "Connection: close\r\n");
	case ANSWER_KEEP:
		return 0;
	case ANSWER_KEEP_10:
		return buf_puts(out, "Connection: keep-alive\r\n");
	case ANSWER_UPGRADE:
		return buf_puts(out, "Connection: Upgrade\r\nUpgrade: tcp\r\n");
	}
	return -1;
}

/* The head of a refusal whose body is at hand, and the body. */
static int put_refusal(struct buf *out, const struct refusal *r, struct slice body, struct slice api_version)
{
	if (http_put_status_line(out, r->status, NULL) < 0 || buf_puts(out, "Content-Type: application/json\r\n") < 0 ||
		buf_puts(out, "Content-Length: ") < 0 || buf_put_u64(out, body.len) < 0 || buf_puts(out, "\r\n") < 0 ||
		http_put_field(out, "X-Request-Id", r->request_id) < 0 ||
		http_put_field(out, "X-Dockerproxy-Reason", slice_str(r->reason)) < 0)
		return -1;
	if (r->policy.len > 0 && http_put_field(out, "X-Dockerproxy-Policy", r->policy) < 0)
		return -1;
	if (api_version.len > 0 && http_put_field(out, "Api-Version", api_version) < 0)
		return -1;
	if (r->status == 405 && buf_puts(out, "Allow: GET, HEAD, POST, DELETE\r\n") < 0)
		return -1;
	if ((r->status == 429 || r->status == 503) && buf_puts(out, "Retry-After: 1\r\n") < 0)
		return -1;
	if (put_persistence(out, r->persistence) < 0 || http_put_end(out) < 0)
		return -1;
	return r->head_only ? 0 : buf_put_slice(out, body);
}

static int put_words(struct buf *body, const struct refusal *r)
{
	if (buf_reserve(body, r->message.len + 256) == NULL || buf_puts(body, "{\"message\":\"dockerproxy: ") < 0 ||
		buf_put_json(body, r->message) < 0 || buf_puts(body, " (") < 0 || buf_put_json(body, slice_str(r->reason)) < 0)
		return -1;
	if (r->at.len > 0 && (buf_puts(body, " at ") < 0 || buf_put_json(body, r->at) < 0))
		return -1;
	if (buf_puts(body, ", request ") < 0 || buf_put_slice(body, r->request_id) < 0)
		return -1;
	return buf_puts(body, ")\"}\n");
}

int answer_refusal(struct buf *out, const struct refusal *r)
{
	struct buf body;
	int rc;

	buf_init(&body, 4096);
	rc = put_words(&body, r);
	if (rc == 0)
		rc = put_refusal(out, r, buf_slice(&body), slice_make(NULL, 0));
	buf_release(&body);
	return rc;
}

int answer_engine_error(struct buf *out, const struct refusal *r, struct slice api_version)
{
	struct buf body;
	int rc;

	buf_init(&body, 4096);
	rc = buf_puts(&body, "{\"message\":\"");
	if (rc == 0)
		rc = buf_put_json(&body, r->message);
	if (rc == 0)
		rc = buf_puts(&body, "\"}\n");
	if (rc == 0)
		rc = put_refusal(out, r, buf_slice(&body), api_version);
	buf_release(&body);
	return rc;
}

static bool same_name(struct slice a, struct slice b)
{
	for (size_t i = 0; i < a.len; i++)
		if (slice_lower(a.p[i]) != slice_lower(b.p[i]))
			return false;
	return true;
}

static bool may_pass(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(passed_fields); i++)
		/* Engines write them as they stand here. */
		if (name.len == passed_fields[i].len &&
			(memcmp(name.p, passed_fields[i].p, name.len) == 0 || same_name(name, passed_fields[i])))
			return true;
	return false;
}

static int put_framing(struct buf *out, const struct answer_head *a)
{
	switch (a->framing) {
	case ANSWER_NO_BODY:
	case ANSWER_LENGTH:
		if (!a->show_length)
			return 0;
		if (buf_puts(out, "Content-Length: ") < 0 || buf_put_u64(out, a->length) < 0)
			return -1;
		return buf_puts(out, "\r\n");
	case ANSWER_CHUNKED:
		return buf_puts(out, "Transfer-Encoding: chunked\r\n");
	case ANSWER_EOF:
		return 0;
	}
	return -1;
}

int answer_passed_head(struct buf *out, const struct http_head *engine, const char *bytes, const struct answer_head *a)
{
	if (http_put_status_line(out, engine->status, NULL) < 0)
		return -1;
	for (unsigned i = 0; i < engine->nfields; i++) {
		struct slice name = http_span(bytes, engine->fields[i].name);

		/* Name and value were read strictly: no byte in them can end the line. */
		if (may_pass(name) &&
			(buf_put_slice(out, name) < 0 || buf_puts(out, ": ") < 0 ||
				buf_put_slice(out, http_span(bytes, engine->fields[i].value)) < 0 || buf_puts(out, "\r\n") < 0))
			return -1;
	}
	if (buf_puts(out, "X-Request-Id: ") < 0 || buf_put_slice(out, a->request_id) < 0 || buf_puts(out, "\r\n") < 0)
		return -1;
	if (put_framing(out, a) < 0 || put_persistence(out, a->persistence) < 0)
		return -1;
	return http_put_end(out);
}
