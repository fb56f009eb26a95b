/* The rungs that read: a request's head, its body, and what is read only to be forgotten. */
#include "dockerproxy/session_steps.h"

#include <string.h>

#define LINGER_MAX (1024 * 1024)

bool session_await_request(struct session *s)
{
	struct request *r;

	if (buf_len(&s->client.in) == 0) {
		if (s->client.eof || s->env->draining)
			session_close(s);
		else
			buf_trim(&s->client.in);
		return false;
	}
	r = request_take(&s->env->requests);
	if (r == NULL) {
		session_close(s);
		return false;
	}
	http_head_init(&r->head, HTTP_REQUEST, (size_t)s->env->conf->head_max);
	r->sent_before = s->client.sent;
	s->request = r;
	session_set_state(s, SESSION_HEAD);
	return true;
}

bool session_read_head(struct session *s)
{
	struct request *r = s->request;
	struct slice in = buf_slice(&s->client.in);

	switch (http_head_read(&r->head, in.p, in.len)) {
	case HTTP_MORE:
		if (s->client.eof)
			session_close(s);
		else
			session_set_deadline_at(s, r->began_us + s->env->conf->head_ms * 1000);
		return false;
	case HTTP_DONE:
		r->body_at = r->head.length;
		s->closing = s->closing || !r->head.keep_alive;
		session_set_state(s, SESSION_JUDGE_HEAD);
		return true;
	case HTTP_BAD:
	case HTTP_DATA:
		break;
	}
	session_refuse_malformed(s, r->head.reason);
	return true;
}

/* Decodes what has come of a chunked body, in place: the body grows right behind the head. */
static enum http_result decode_chunks(struct session *s)
{
	struct request *r = s->request;
	struct buf *in = &s->client.in;
	enum http_result result = HTTP_MORE;
	size_t hole;

	while (r->body_at < buf_len(in) || r->body.framing == HTTP_BODY_NONE) {
		char *p = buf_head(in);
		size_t used = 0;
		struct slice run = slice_make(NULL, 0);

		result = http_body_read(&r->body, p + r->body_at, buf_len(in) - r->body_at, &used, &run);
		r->body_at += used;
		if (result != HTTP_DATA)
			break;
		memmove(p + r->head.length + r->body_len, run.p, run.len);
		r->body_len += run.len;
		result = HTTP_MORE;
	}
	/* Closes the hole between the decoded and what follows. */
	hole = r->body_at - (r->head.length + r->body_len);
	if (hole > 0) {
		char *p = buf_head(in);

		memmove(p + r->body_at - hole, p + r->body_at, buf_len(in) - r->body_at);
		in->end -= hole;
		r->body_at -= hole;
		/* Framing alone may have filled the buffer, and then nothing more was read. */
		client_consume(&s->client, 0);
	}
	return result;
}

static enum http_result take_body(struct session *s)
{
	struct request *r = s->request;
	size_t need;

	switch (r->head.framing) {
	case HTTP_BODY_NONE:
		return HTTP_DONE;
	case HTTP_BODY_LENGTH:
		need = r->head.length + (size_t)r->head.content_length;
		if (buf_len(&s->client.in) < need)
			return HTTP_MORE;
		r->body_len = (size_t)r->head.content_length;
		r->body_at = need;
		return HTTP_DONE;
	case HTTP_BODY_CHUNKED:
		return decode_chunks(s);
	case HTTP_BODY_EOF:
		break;
	}
	return HTTP_BAD;
}

bool session_read_body(struct session *s)
{
	struct request *r = s->request;

	switch (take_body(s)) {
	case HTTP_DONE:
		session_set_state(s, SESSION_JUDGE_BODY);
		return true;
	case HTTP_MORE:
		if (s->client.eof) {
			session_cut(s, SESSION_REASON_CLIENT_GONE); /* its head was judged */
			return false;
		}
		if (!r->body_timed)
			session_set_deadline(s, s->env->conf->body_ms);
		r->body_timed = true;
		return false;
	case HTTP_BAD:
	case HTTP_DATA:
		break;
	}
	session_refuse_malformed(s, r->body.reason);
	return true;
}

bool session_skip_body(struct session *s)
{
	size_t here = buf_len(&s->client.in);

	if (here > s->skip)
		here = (size_t)s->skip;
	s->skip -= here;
	client_consume(&s->client, here);
	if (s->skip == 0) {
		session_set_deadline(s, s->env->conf->idle_ms);
		session_set_state(s, SESSION_IDLE);
		return true;
	}
	if (s->client.eof)
		session_close(s);
	return false;
}

bool session_linger(struct session *s)
{
	s->lingered += buf_len(&s->client.in);
	client_consume(&s->client, buf_len(&s->client.in));
	if (s->client.eof || s->lingered > LINGER_MAX)
		session_close(s);
	return false;
}
