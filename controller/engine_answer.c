/* What an answer is worth: whether it is the engine's at all, what it says, and whether the request may have been done. */
#include "controller/engine_impl.h"

#include <errno.h>
#include <string.h>

#define MESSAGE_MAX 300 /* bytes of an engine's message that are passed on */

static void put_printable(char *out, size_t size, struct slice s)
{
	size_t n = 0;

	for (; n < s.len && n < size - 1; n++)
		out[n] = s.p[n] >= ' ' && s.p[n] <= '~' ? s.p[n] : '?';
	out[n] = '\0';
}

size_t engine_take_header(char *p, size_t size, size_t n, void *arg)
{
	struct engine_call *call = arg;
	struct slice line = slice_make(p, size * n);
	const char *colon = memchr(line.p, ':', line.len);

	if (colon == NULL)
		return size * n;
	struct slice name = slice_make(line.p, (size_t)(colon - line.p));
	struct slice value = slice_skip(line, name.len + 1);
	while (value.len > 0 && value.p[0] == ' ')
		value = slice_skip(value, 1);
	while (value.len > 0 && (value.p[value.len - 1] == '\r' || value.p[value.len - 1] == '\n'))
		value.len--;
	if (slice_case_is(name, "Api-Version") && value.len >= 3 && value.len <= 5 && slice_starts(value, "1.")) {
		unsigned minor = 0;
		for (size_t i = 2; i < value.len; i++)
			minor = value.p[i] >= '0' && value.p[i] <= '9' ? minor * 10 + (unsigned)(value.p[i] - '0') : 10000;
		call->has_version = minor < 10000;
		call->version = minor;
	} else if (slice_case_is(name, "X-Dockerproxy-Reason")) {
		call->refused = true;
	} else if (slice_case_is(name, "X-Dockerproxy-Policy")) {
		put_printable(call->policy, sizeof(call->policy), value);
	} else if (slice_case_is(name, "Date")) {
		char text[64];

		put_printable(text, sizeof(text), value);
		time_t date = curl_getdate(text, NULL);
		call->date = date > 0 ? date : 0;
	}
	return size * n;
}

size_t engine_take_body(char *p, size_t size, size_t n, void *arg)
{
	struct engine_call *call = arg;
	long status = 0;

	if (call->dropped)
		return 0;
	if (call->data != NULL) {
		curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
		if (status == 200) {
			call->engine->in_callback = true;
			call->data(slice_make(p, size * n), call->arg);
			call->engine->in_callback = false;
			return call->dropped ? 0 : size * n;
		}
	}
	if (buf_put(&call->answer, p, size * n) != 0) {
		call->overflow = true;
		return 0;
	}
	return size * n;
}

static int code_of_status(long status)
{
	switch (status) {
	case 400:
		return EINVAL;
	case 403:
		return EACCES;
	case 404:
		return ENOENT;
	case 409:
		return EEXIST;
	case 504:
		return ETIMEDOUT;
	default:
		return EAGAIN;
	}
}

static void say_refusal(struct engine_call *call, struct engine_reply *reply, long status)
{
	struct slice message = SLICE_LIT("(no message)");
	char text[MESSAGE_MAX];
	size_t n = 0;

	json_get_string(reply->json, "message", &message);
	for (; n < message.len && n < sizeof(text) - 1; n++)
		text[n] = (unsigned char)message.p[n] < ' ' ? ' ' : message.p[n];
	text[n] = '\0';
	if (call->refused)
		err_set(&reply->err, status == 403 || status == 405 ? EACCES : code_of_status(status), "%s", text);
	else if (reply->status == 0)
		err_set(&reply->err, EAGAIN, "%s %s: status %ld, and not as the engine answers: %s", call->method, call->path,
			status, text);
	else
		err_set(&reply->err, code_of_status(status), "%s %s: %s", call->method, call->path, text);
}

void engine_judge_answer(struct engine_call *call, struct engine_reply *reply)
{
	long status = 0;
	enum json_fault fault;
	size_t offset;

	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	if (buf_len(&call->answer) > 0)
		reply->json = json_parse(call->engine->doc, buf_slice(&call->answer), JSON_STRICT, &fault, &offset);
	bool ok = (status >= 200 && status < 300) || status == 304;
	if (call->has_version && !call->refused && (ok || reply->json != NULL || buf_len(&call->answer) == 0))
		reply->status = (int)status;
	if (reply->status == 0 || !ok)
		say_refusal(call, reply, status);
	/* A proxy that answers 502 or 504 may have passed the request on before. */
	reply->maybe_done = reply->status == 0 && !(call->refused && (status == 403 || status == 405 || status == 400));
}

void engine_judge_failure(struct engine_call *call, struct engine_reply *reply, CURLcode rc)
{
	const char *why = call->error[0] != '\0' ? call->error : curl_easy_strerror(rc);
	bool connected = rc != CURLE_COULDNT_CONNECT && rc != CURLE_COULDNT_RESOLVE_HOST;
	long sent = 0;

	curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &sent);
	reply->maybe_done = connected && sent > 0;
	if (call->overflow)
		err_set(&reply->err, EMSGSIZE, "%s %s: the answer is larger than %zu bytes", call->method, call->path,
			ENGINE_ANSWER_MAX);
	else if (rc == CURLE_OPERATION_TIMEDOUT)
		err_set(&reply->err, ETIMEDOUT, "%s %s: no answer within %lld ms", call->method, call->path,
			(long long)call->timeout_ms);
	else
		err_set(&reply->err, EAGAIN, "%s %s: %s: is %s right and dockerproxy running?", call->method, call->path, why,
			call->engine->config->endpoint);
}

/*
 * An engine in whose place another release runs now refuses what was agreed with the one before, and looks at nothing else
 * of the request. The sentence must be the engine's from its first word.
 */
bool engine_refused_for_version(const struct engine_call *call, const struct engine_reply *reply)
{
	struct slice message;

	return reply->status == 400 && call->asked > 0 && call->version >= ENGINE_API_MIN && call->version != call->asked &&
		json_get_string(reply->json, "message", &message) && slice_starts(message, "client version 1.");
}

bool engine_says_ambiguous(const struct engine_reply *reply)
{
	return reply->status == 400 && strstr(reply->err.text, "is ambiguous") != NULL;
}
