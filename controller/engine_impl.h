/* What the files of the engine's client share (engine.c, engine_answer.c). Private to them. */
#ifndef CONTROLLER_ENGINE_IMPL_H
#define CONTROLLER_ENGINE_IMPL_H

#include "controller/engine.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "libgate/buf.h"

#define ENGINE_ANSWER_MAX ((size_t)8 * 1024 * 1024) /* listings of many sandboxes; everything else is far smaller */

enum call_state { CALL_WAITING /* for the version */, CALL_SENT, CALL_READY_ONLY };

struct engine_call {
	TAILQ_ENTRY(engine_call) link;
	struct engine *engine;
	enum call_state state;
	CURL *easy;
	struct curl_slist *headers;
	char *method;
	char *path;
	char *body;
	int64_t timeout_ms;
	engine_cb cb;
	engine_data_cb data;
	void *arg;
	struct buf answer;
	bool overflow;
	bool has_version; /* Api-Version was there */
	bool refused; /* the proxy's own refusal */
	unsigned asked; /* the minor version that the request named; 0: none */
	bool repeated; /* under another version */
	bool dropped; /* cancelled where libcurl lets go of nothing: within one of its callbacks */
	bool connects; /* it wants the connection alone */
	bool closing; /* it was there when the engine was last looked through for what has to end */
	time_t date;
	char policy[80];
	unsigned version;
	char error[CURL_ERROR_SIZE];
};

TAILQ_HEAD(call_list, engine_call);

/* One descriptor that libcurl watches. */
struct engine_socket {
	TAILQ_ENTRY(engine_socket) link;
	struct event *event;
};

TAILQ_HEAD(socket_list, engine_socket);

struct engine {
	struct event_base *base;
	const struct config *config;
	CURLM *multi;
	struct event *timer;
	struct call_list calls;
	struct socket_list sockets;
	struct engine_call *ping; /* the negotiation under way */
	bool in_callback; /* of libcurl's */
	bool has_dropped; /* one of the calls is */
	struct event *closer; /* ends calls from the loop; NULL: open */
	struct json_doc *doc;
	unsigned api_minor;
};

/* Callbacks of libcurl; arg is the call. */
size_t engine_take_header(char *p, size_t size, size_t n, void *arg);
size_t engine_take_body(char *p, size_t size, size_t n, void *arg);

/* Each fills in the reply of a request that has ended: one that was answered, one that was not. */
void engine_judge_answer(struct engine_call *call, struct engine_reply *reply);
void engine_judge_failure(struct engine_call *call, struct engine_reply *reply, CURLcode rc);
bool engine_refused_for_version(const struct engine_call *call, const struct engine_reply *reply);

#endif
