/* Sends finite requests to the engine, in the API version that both speak, and ends each once. */
#include "controller/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "controller/engine_impl.h"
#include "controller/mem.h"
#include "libgate/log.h"

#define CONNECTIONS_MAX 128 /* above what the engine can make wait over several sandboxes that it hangs over */
#define CONNECT_TIMEOUT_MS 10000

static void start_call(struct engine_call *call);
static void release_request(struct engine_call *call);
static void call_free(struct engine_call *call);
static void finish(struct engine_call *call, struct engine_reply *reply);

/* --- libcurl on libevent ----------------------------------------------------------------------------------------- */

static void collect_done(struct engine *e);

static void on_socket_event(evutil_socket_t fd, short what, void *arg)
{
	struct engine *e = arg;
	int running;
	int flags = (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

	curl_multi_socket_action(e->multi, fd, flags, &running);
	collect_done(e);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct engine *e = arg;
	int running;

	curl_multi_socket_action(e->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect_done(e);
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct engine *e = arg;
	struct timeval tv = { timeout_ms / 1000, (timeout_ms % 1000) * 1000 };

	if (timeout_ms < 0)
		event_del(e->timer);
	else
		event_add(e->timer, &tv);
	return 0;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct engine *e = arg;
	struct engine_socket *s = socket_arg;

	if (what == CURL_POLL_REMOVE) {
		if (s != NULL) {
			TAILQ_REMOVE(&e->sockets, s, link);
			event_free(s->event);
			free(s);
			curl_multi_assign(e->multi, fd, NULL);
		}
		return 0;
	}
	if (s == NULL) {
		s = mem_zalloc(sizeof(*s));
		TAILQ_INSERT_TAIL(&e->sockets, s, link);
		curl_multi_assign(e->multi, fd, s);
	} else {
		event_free(s->event);
	}
	short flags = EV_PERSIST | (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0);
	s->event = event_new(e->base, fd, flags, on_socket_event, e);
	if (s->event == NULL || event_add(s->event, NULL) != 0)
		return -1;
	return 0;
}

/* Sends the call once more, under what the engine speaks now; false when that is no other version or was tried before. */
static bool repeat(struct engine_call *call)
{
	struct engine *e = call->engine;
	unsigned minor = call->version < ENGINE_API_MAX ? call->version : ENGINE_API_MAX;

	if (minor == call->asked || call->repeated)
		return false;
	if (e->api_minor == call->asked)
		log_info("the engine was replaced: it speaks API 1.%u; requests go on under 1.%u", call->version, minor);
	e->api_minor = minor;
	release_request(call);
	call->repeated = true;
	call->has_version = false;
	start_call(call);
	return true;
}

/* What libcurl connected outlives its handle under a descriptor of its own. */
static void take_connection(struct engine_call *call, struct engine_reply *reply)
{
	curl_socket_t fd = CURL_SOCKET_BAD;

	curl_easy_getinfo(call->easy, CURLINFO_ACTIVESOCKET, &fd);
	reply->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (reply->fd < 0)
		err_errno(&reply->err, "%s %s", call->method, call->path);
}

static void free_dropped(struct engine *e)
{
	struct engine_call *call, *next;

	if (!e->has_dropped)
		return;
	e->has_dropped = false;
	TAILQ_FOREACH_SAFE (call, &e->calls, link, next)
		if (call->dropped)
			call_free(call);
}

static void collect_done(struct engine *e)
{
	CURLMsg *msg;
	int left;

	free_dropped(e);
	while ((msg = curl_multi_info_read(e->multi, &left)) != NULL) {
		struct engine_call *call = NULL;
		struct engine_reply reply = { .err = ERR_INIT };

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&call);
		reply.date = call->date;
		memcpy(reply.policy, call->policy, sizeof(reply.policy));
		if (msg->data.result == CURLE_OK && call->connects)
			take_connection(call, &reply);
		else if (msg->data.result == CURLE_OK)
			engine_judge_answer(call, &reply);
		else
			engine_judge_failure(call, &reply, msg->data.result);
		if (!engine_refused_for_version(call, &reply) || !repeat(call))
			finish(call, &reply);
	}
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

/* What one sending of a call holds, its answer included. */
static void release_request(struct engine_call *call)
{
	if (call->easy != NULL) {
		curl_multi_remove_handle(call->engine->multi, call->easy);
		curl_easy_cleanup(call->easy);
		call->easy = NULL;
	}
	curl_slist_free_all(call->headers);
	call->headers = NULL;
	buf_release(&call->answer);
}

static void call_free(struct engine_call *call)
{
	struct engine *e = call->engine;

	TAILQ_REMOVE(&e->calls, call, link);
	if (e->ping == call)
		e->ping = NULL;
	release_request(call);
	free(call->method);
	free(call->path);
	free(call->body);
	free(call);
}

static void finish(struct engine_call *call, struct engine_reply *reply)
{
	engine_cb cb = call->cb;
	void *arg = call->arg;
	/* The answer's bytes carry the parsed tree: they go after the callback. */
	struct buf answer = call->answer;

	buf_init(&call->answer, ENGINE_ANSWER_MAX);
	if (cb != NULL && reply->err.text[0] != '\0')
		log_debug("%s %s: %s", call->method, call->path, reply->err.text);
	if (call == call->engine->ping) {
		cb(reply, call); /* on_ping wants the call itself */
		buf_release(&answer);
		return;
	}
	call_free(call);
	cb(reply, arg);
	buf_release(&answer);
}

static void add_header(struct engine_call *call, const char *line)
{
	struct curl_slist *longer = curl_slist_append(call->headers, line);

	if (longer == NULL)
		abort();
	call->headers = longer;
}

static void start_call(struct engine_call *call)
{
	struct engine *e = call->engine;
	const struct config *c = e->config;
	bool v6 = c->host != NULL && strchr(c->host, ':') != NULL;
	auto_free char *prefix = call == e->ping ? mem_strdup("") : mem_printf("/v1.%u", e->api_minor);
	auto_free char *target = call->connects ? mem_strdup("/") : mem_printf("%s%s", prefix, call->path);
	auto_free char *url = c->unix_path != NULL
		? mem_printf("http://docker%s", target)
		: mem_printf("http://%s%s%s:%u%s", v6 ? "[" : "", c->host, v6 ? "]" : "", c->port, target);

	call->state = CALL_SENT;
	call->asked = call == e->ping ? 0 : e->api_minor;
	call->easy = curl_easy_init();
	if (call->easy == NULL)
		abort();
	CURL *easy = call->easy;
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	if (c->unix_path != NULL)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, c->unix_path);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, engine_take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, engine_take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandbox-controller");
	if (call->connects) {
		curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
		curl_multi_add_handle(e->multi, easy);
		return;
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
	if (strcmp(call->method, "HEAD") == 0)
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	if (strcmp(call->method, "POST") == 0) {
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		/* libcurl sends again what dies on a kept-alive connection; a request that makes something goes out once. */
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body != NULL ? call->body : "");
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)(call->body != NULL ? strlen(call->body) : 0));
		add_header(call, call->body != NULL ? "Content-Type: application/json" : "Content-Type:");
		add_header(call, "Expect:");
		curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
	}
	curl_multi_add_handle(e->multi, easy);
}

static void on_ping(const struct engine_reply *reply, void *arg)
{
	struct engine_call *ping = arg, *call, *next;
	struct engine *e = ping->engine;
	struct engine_reply failure = *reply;
	struct call_list waiting = TAILQ_HEAD_INITIALIZER(waiting);

	if (reply->status == 200 && ping->version >= ENGINE_API_MIN) {
		e->api_minor = ping->version < ENGINE_API_MAX ? ping->version : ENGINE_API_MAX;
	} else if (reply->status == 200) {
		err_set(&failure.err, EAGAIN, "the engine speaks API 1.%u; at least 1.%d is needed (Docker 20.10)",
			ping->version, ENGINE_API_MIN);
	} else if (failure.err.text[0] == '\0') {
		err_set(&failure.err, EAGAIN, "HEAD /_ping: no answer of an engine");
	}
	call_free(ping);
	/* Callbacks may make new calls: only those that waited until now are looked at. */
	for (call = TAILQ_FIRST(&e->calls); call != NULL; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->state != CALL_SENT) {
			TAILQ_REMOVE(&e->calls, call, link);
			TAILQ_INSERT_TAIL(&waiting, call, link);
		}
	}
	while ((call = TAILQ_FIRST(&waiting)) != NULL) {
		TAILQ_REMOVE(&waiting, call, link);
		TAILQ_INSERT_TAIL(&e->calls, call, link);
		if (e->api_minor > 0 && call->state == CALL_WAITING) {
			start_call(call);
		} else {
			struct engine_reply answer = e->api_minor > 0 ? (struct engine_reply){ .status = 200 } : failure;
			answer.json = NULL;
			answer.maybe_done = false;
			if (e->api_minor == 0)
				answer.status = 0;
			finish(call, &answer);
		}
	}
}

static struct engine_call *new_call(struct engine *e, const char *method, const char *path, const char *body,
	int64_t timeout_ms, engine_data_cb data, engine_cb cb, void *arg)
{
	struct engine_call *call = mem_zalloc(sizeof(*call));

	call->engine = e;
	call->method = mem_strdup(method);
	call->path = mem_strdup(path);
	call->body = body != NULL ? mem_strdup(body) : NULL;
	call->timeout_ms = timeout_ms > 0 ? timeout_ms : 1;
	call->cb = cb;
	call->data = data;
	call->arg = arg;
	buf_init(&call->answer, ENGINE_ANSWER_MAX);
	TAILQ_INSERT_TAIL(&e->calls, call, link);
	return call;
}

static void negotiate(struct engine *e, int64_t timeout_ms)
{
	if (e->ping != NULL)
		return;
	e->ping = new_call(e, "HEAD", "/_ping", NULL, timeout_ms, NULL, on_ping, NULL);
	start_call(e->ping);
}

static void begin_call(struct engine_call *call)
{
	struct engine *e = call->engine;

	if (e->closer != NULL)
		event_active(e->closer, EV_TIMEOUT, 0);
	else if (e->api_minor > 0)
		start_call(call);
	else
		negotiate(e, call->timeout_ms);
}

struct engine_call *engine_stream(struct engine *e, const char *method, const char *path, int64_t timeout_ms,
	engine_data_cb data, engine_cb cb, void *arg)
{
	struct engine_call *call = new_call(e, method, path, NULL, timeout_ms, data, cb, arg);

	begin_call(call);
	return call;
}

struct engine_call *engine_call(struct engine *e, const char *method, const char *path, const char *body,
	int64_t timeout_ms, engine_cb cb, void *arg)
{
	struct engine_call *call = new_call(e, method, path, body, timeout_ms, NULL, cb, arg);

	begin_call(call);
	return call;
}

struct engine_call *engine_connect(struct engine *e, int64_t timeout_ms, engine_cb cb, void *arg)
{
	struct engine_call *call = new_call(e, "connection", "to the engine", NULL, timeout_ms, NULL, cb, arg);

	call->connects = true;
	begin_call(call);
	return call;
}

struct engine_call *engine_ready(struct engine *e, int64_t timeout_ms, engine_cb cb, void *arg)
{
	struct engine_call *call = new_call(e, "GET", "/version", NULL, timeout_ms, NULL, cb, arg);

	if (e->api_minor == 0)
		call->state = CALL_READY_ONLY;
	begin_call(call);
	return call;
}

void engine_cancel(struct engine_call *call)
{
	struct engine *e = call->engine;

	if (!e->in_callback) {
		call_free(call);
		return;
	}
	call->dropped = true;
	e->has_dropped = true;
}

static bool reads_only(const struct engine_call *call)
{
	return call->connects || strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0;
}

static void end_call(struct engine_call *call)
{
	struct engine_reply reply = { .err = ERR_INIT };

	reply.maybe_done = call->state == CALL_SENT && !reads_only(call);
	if (reply.maybe_done)
		err_set(&reply.err, EINPROGRESS, "%s %s: the controller ended before the engine answered", call->method,
			call->path);
	else
		err_set(&reply.err, ECANCELED, "%s %s: the controller ends", call->method, call->path);
	finish(call, &reply);
}

/* Callbacks may cancel other calls and make new ones, which come to their end in another turn. */
static void on_closer(evutil_socket_t fd, short what, void *arg)
{
	struct engine *e = arg;
	struct engine_call *call;

	TAILQ_FOREACH (call, &e->calls, link)
		call->closing = true;
	do {
		TAILQ_FOREACH (call, &e->calls, link)
			if (call->closing)
				break;
		if (call != NULL)
			end_call(call);
	} while (call != NULL);
}

void engine_close(struct engine *e)
{
	if (e->closer != NULL)
		return;
	e->closer = evtimer_new(e->base, on_closer, e);
	if (e->closer == NULL)
		abort();
	event_active(e->closer, EV_TIMEOUT, 0);
}

unsigned engine_api_minor(const struct engine *e)
{
	return e->api_minor;
}

const struct config *engine_config(const struct engine *e)
{
	return e->config;
}

struct event_base *engine_base(const struct engine *e)
{
	return e->base;
}

char *engine_escape(struct slice s)
{
	static const char digits[] = "0123456789ABCDEF";
	char *out = mem_zalloc(s.len * 3 + 1);
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			(c != '\0' && strchr("-._~", c) != NULL)) {
			out[n++] = (char)c;
			continue;
		}
		out[n++] = '%';
		out[n++] = digits[c >> 4];
		out[n++] = digits[c & 15];
	}
	return out;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

struct engine *engine_new(struct event_base *base, const struct config *c, struct err *err)
{
	struct engine *e = mem_zalloc(sizeof(*e));

	TAILQ_INIT(&e->calls);
	TAILQ_INIT(&e->sockets);
	e->base = base;
	e->config = c;
	e->doc = json_doc_new();
	e->timer = evtimer_new(base, on_timer, e);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == 0)
		e->multi = curl_multi_init();
	if (e->doc == NULL || e->timer == NULL || e->multi == NULL) {
		engine_free(e);
		err_set(err, ENOMEM, "cannot set up the HTTP client");
		return NULL;
	}
	curl_multi_setopt(e->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
	curl_multi_setopt(e->multi, CURLMOPT_SOCKETDATA, e);
	curl_multi_setopt(e->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
	curl_multi_setopt(e->multi, CURLMOPT_TIMERDATA, e);
	curl_multi_setopt(e->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
	curl_multi_setopt(e->multi, CURLMOPT_MAXCONNECTS, 8L);
	return e;
}

void engine_free(struct engine *e)
{
	struct engine_call *call;
	struct engine_socket *s;

	while ((call = TAILQ_FIRST(&e->calls)) != NULL)
		call_free(call);
	if (e->multi != NULL)
		curl_multi_cleanup(e->multi);
	while ((s = TAILQ_FIRST(&e->sockets)) != NULL) {
		TAILQ_REMOVE(&e->sockets, s, link);
		event_free(s->event);
		free(s);
	}
	if (e->timer != NULL)
		event_free(e->timer);
	if (e->closer != NULL)
		event_free(e->closer);
	json_doc_free(e->doc);
	free(e);
}
