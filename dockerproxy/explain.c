/* What `explain` says of a request. */
#include "dockerproxy/explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX (1024 * 1024) /* bytes of a head as written; what is above the reader's own limit is its to refuse */

struct answer {
	bool allow;
	const char *endpoint;
	const char *reason;
	const char *at;
	const char *message;
	bool has_offset;
	size_t offset;
	const struct verdict *verdict; /* allowed: where the canonical request is */
	const char *owner; /* what remains to be asked of the engine */
};

/* --- printing ------------------------------------------------------------------------------------------------- */

static int put_key(struct buf *b, const char *key)
{
	return buf_putf(b, "\"%s\": ", key);
}

static int put_text(struct buf *b, const char *key, const char *text)
{
	if (put_key(b, key) < 0)
		return -1;
	return text == NULL ? buf_puts(b, "null") : json_put_string(b, slice_str(text));
}

static int put_slice(struct buf *b, const char *key, struct slice s)
{
	return put_key(b, key) < 0 ? -1 : json_put_string(b, s);
}

/* The fields that the engine is sent beside Host. */
static int put_headers(struct buf *b, const struct verdict *v)
{
	bool body = v->endpoint != NULL && endpoint_info(v->endpoint)->has_body;

	if (put_key(b, "headers") < 0 || buf_putc(b, '{') < 0)
		return -1;
	if (body &&
		buf_putf(b, "\"Content-Type\": \"application/json\", \"Content-Length\": \"%zu\"", buf_len(&v->body)) < 0)
		return -1;
	if (v->upgrade && buf_putf(b, "%s\"Connection\": \"Upgrade\", \"Upgrade\": \"tcp\"", body ? ", " : "") < 0)
		return -1;
	return buf_putc(b, '}');
}

static int put_canonical(struct buf *b, const struct verdict *v)
{
	if (put_key(b, "canonical") < 0)
		return -1;
	if (v == NULL)
		return buf_puts(b, "null");
	if (buf_putc(b, '{') < 0 || put_slice(b, "method", v->method) < 0 || buf_puts(b, ", ") < 0 ||
		put_slice(b, "target", buf_slice(&v->target)) < 0 || buf_puts(b, ", ") < 0 || put_headers(b, v) < 0 ||
		buf_puts(b, ", ") < 0)
		return -1;
	if (buf_len(&v->body) == 0 ? put_text(b, "body", NULL) < 0 : put_slice(b, "body", buf_slice(&v->body)) < 0)
		return -1;
	return buf_putc(b, '}');
}

static int put_answer(struct buf *b, const struct answer *a)
{
	const struct {
		const char *key, *text;
	} texts[] = {
		{ "decision", a->allow ? "allow" : "deny" },
		{ "endpoint", a->endpoint },
		{ "reason", a->reason },
		{ "at", a->at },
		{ "message", a->message },
	};

	if (buf_putc(b, '{') < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (put_text(b, texts[i].key, texts[i].text) < 0 || buf_puts(b, ", ") < 0)
			return -1;
	if (a->has_offset && buf_putf(b, "\"offset\": %zu, ", a->offset) < 0)
		return -1;
	if (put_canonical(b, a->verdict) < 0 || buf_puts(b, ", ") < 0 || put_text(b, "owner", a->owner) < 0)
		return -1;
	return buf_puts(b, "}\n");
}

/* --- judging -------------------------------------------------------------------------------------------------- */

static int deny_head(struct buf *out, enum http_reason r, const char *at)
{
	struct answer a = {
		.reason = http_reason_id(r),
		.at = at,
		.message = http_reason_text(r),
	};

	return put_answer(out, &a) < 0 ? 2 : 1;
}

static bool has_byte_outside(struct slice s, unsigned char lo, unsigned char hi)
{
	for (size_t i = 0; i < s.len; i++)
		if ((unsigned char)s.p[i] < lo || (unsigned char)s.p[i] > hi)
			return true;
	return s.len == 0;
}

static bool is_header(const char *line, const char *name)
{
	size_t n = strlen(name);

	return slice_case_is(slice_make(line, strlen(line) < n ? strlen(line) : n), name) && line[n] == ':';
}

static bool names(const struct explain_request *req, const char *name)
{
	for (unsigned i = 0; i < req->n_headers; i++)
		if (is_header(req->headers[i], name))
			return true;
	return false;
}

/* The head as a client would send it. What is not given is added as any client does: Host, and a length for a body. */
static int write_head(struct buf *b, const struct explain_request *req)
{
	if (buf_put_slice(b, req->method) < 0 || buf_putc(b, ' ') < 0 || buf_put_slice(b, req->target) < 0 ||
		buf_puts(b, " HTTP/1.1\r\n") < 0)
		return -1;
	if (!names(req, "Host") && buf_puts(b, "Host: docker\r\n") < 0)
		return -1;
	for (unsigned i = 0; i < req->n_headers; i++)
		if (buf_puts(b, req->headers[i]) < 0 || buf_puts(b, "\r\n") < 0)
			return -1;
	if (req->has_body && !names(req, "Content-Length") && !names(req, "Transfer-Encoding") &&
		buf_putf(b, "Content-Length: %zu\r\n", req->body.len) < 0)
		return -1;
	return buf_puts(b, "\r\n");
}

/* "path" unless the fault is one of a field. */
static const char *fault_at(enum http_reason r)
{
	switch (r) {
	case HTTP_REASON_METHOD:
		return "method";
	case HTTP_REASON_TARGET:
	case HTTP_REASON_REQUEST_LINE:
	case HTTP_REASON_VERSION:
		return "path";
	case HTTP_REASON_HOST:
		return "header.Host";
	case HTTP_REASON_LENGTH:
	case HTTP_REASON_LENGTH_TWICE:
	case HTTP_REASON_LENGTH_AND_CODING:
		return "header.Content-Length";
	case HTTP_REASON_CODING:
	case HTTP_REASON_CODING_10:
		return "header.Transfer-Encoding";
	case HTTP_REASON_EXPECT:
		return "header.Expect";
	case HTTP_REASON_UPGRADE:
		return "header.Upgrade";
	case HTTP_REASON_CONNECTION:
		return "header.Connection";
	case HTTP_REASON_TRAILER:
		return "header.Trailer";
	case HTTP_REASON_EMPTY_LINE:
	case HTTP_REASON_STATUS_LINE:
	case HTTP_REASON_BARE_LF:
	case HTTP_REASON_BARE_CR:
	case HTTP_REASON_CONTROL:
	case HTTP_REASON_OBS_FOLD:
	case HTTP_REASON_FIELD_NAME:
	case HTTP_REASON_HEAD_SIZE:
	case HTTP_REASON_FIELD_COUNT:
	case HTTP_REASON_CHUNK_SIZE:
	case HTTP_REASON_CHUNK_EXTENSION:
	case HTTP_REASON_CHUNK_END:
	case HTTP_REASON_BODY_SIZE:
	case HTTP_OK:
	case HTTP_REASON_COUNT:
		break;
	}
	return "header";
}

static int say(const struct policy *p, struct verdict *v, struct buf *out)
{
	struct answer a = {
		.allow = v->decision == DECISION_ALLOW,
		.endpoint = v->endpoint == NULL ? NULL : endpoint_info(v->endpoint)->id,
		.reason = v->reason,
		.has_offset = v->has_offset,
		.offset = v->offset,
	};
	struct buf owner;
	int rc;

	buf_init(&owner, 1024);
	if (a.allow) {
		a.verdict = v;
		if (verdict_open_question(v, p, &owner) && buf_putc(&owner, '\0') == 0)
			a.owner = buf_head(&owner);
	} else {
		a.at = v->at;
		a.message = v->message;
	}
	rc = put_answer(out, &a) < 0 ? 2 : !a.allow;
	buf_release(&owner);
	return rc;
}

/* A body that another length or coding announces than the one given could only be judged with its bytes on the wire. */
static bool framing_differs(const struct http_head *h, const struct explain_request *req)
{
	return h->has_content_length && h->content_length != (req->has_body ? req->body.len : 0);
}

static int judge(const struct policy *p, const struct explain_request *req, const struct http_head *h, const char *head,
	struct buf *out)
{
	struct verdict_request vr;
	struct verdict v;
	int rc;

	verdict_request_from_head(&vr, h, head);
	verdict_init(&v);
	if (verdict_head(&v, p, &vr, 0) == DECISION_NEED_BODY && !framing_differs(h, req) &&
		verdict_body(&v, p, req->has_body ? req->body : slice_make("", 0)) == DECISION_NEED_BODY)
		rc = 2;
	else if (v.decision == DECISION_NEED_BODY)
		rc = deny_head(out, HTTP_REASON_LENGTH, fault_at(HTTP_REASON_LENGTH));
	else
		rc = say(p, &v, out);
	verdict_release(&v);
	return rc;
}

int explain(const struct policy *p, const struct explain_request *req, struct buf *out, struct err *err)
{
	auto_free struct http_head *h = malloc(sizeof(*h));
	struct buf head;
	int rc = 2;

	if (h == NULL) {
		err_errno(err, "explain");
		return 2;
	}
	/* These would not end where they are put: the reader could not refuse what it sees as something else. */
	if (has_byte_outside(req->method, 0x21, 0x7e))
		return deny_head(out, HTTP_REASON_METHOD, "method");
	if (has_byte_outside(req->target, 0x21, 0x7e))
		return deny_head(out, HTTP_REASON_TARGET, "path");
	for (unsigned i = 0; i < req->n_headers; i++)
		if (strpbrk(req->headers[i], "\r\n") != NULL || req->headers[i][0] == '\0')
			return deny_head(out, HTTP_REASON_CONTROL, "header");
	buf_init(&head, HEAD_MAX);
	http_head_init(h, HTTP_REQUEST, HTTP_MAX_HEAD);
	if (write_head(&head, req) < 0)
		rc = deny_head(out, HTTP_REASON_HEAD_SIZE, "header");
	else if (http_head_read(h, buf_head(&head), buf_len(&head)) != HTTP_DONE)
		rc = deny_head(out, h->reason == HTTP_OK ? HTTP_REASON_HEAD_SIZE : h->reason, fault_at(h->reason));
	else
		rc = judge(p, req, h, buf_head(&head), out);
	buf_release(&head);
	if (rc == 2)
		err_set(err, ENOMEM, "explain: the answer is too large");
	return rc;
}
