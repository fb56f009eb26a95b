/*
 * The Docker Engine API client: finite requests, through libcurl's multi interface on the program's loop.
 *
 * The API version is negotiated once by HEAD /_ping; requests made before that wait for it. When an engine of another
 * release has taken its place and refuses that version, the request goes out once more under the new one's. An answer counts as the
 * engine's only when it carries Api-Version and, where it has a body, JSON: what a proxy in between says (its 404 too)
 * is never taken for the engine's word. Every request has a deadline.
 */
#ifndef CONTROLLER_ENGINE_H
#define CONTROLLER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "controller/deployment.h"
#include "libgate/err.h"
#include "libgate/json.h"

struct event_base;
struct engine;
struct engine_call;

#define ENGINE_API_MIN 41
#define ENGINE_API_MAX 51

struct engine_reply {
	int status; /* of an answer that is the engine's; 0 when there was none */
	bool maybe_done; /* with status 0: the request may have reached the engine, whatever became of the answer */
	const struct json_node *json; /* the parsed body, or NULL */
	struct err err; /* set unless status is 2xx or 304 */
	time_t date; /* by the answer's own clock; 0 when it has none */
	int fd; /* of engine_connect(), without err: connected, non-blocking and the callback's */
	char policy[80]; /* digest of the policy that refused, by dockerproxy's word; "" when it is not told */
};

/* Called once, from the loop, unless the call is cancelled. The reply lives until it returns. */
typedef void (*engine_cb)(const struct engine_reply *reply, void *arg);
/* A run of the body of a 200 answer as it arrives; the reply then has no json. */
typedef void (*engine_data_cb)(struct slice data, void *arg);

/* A refusal because several networks have the name that was given: only an engine before API 1.44 comes to that. */
bool engine_says_ambiguous(const struct engine_reply *reply);

struct engine *engine_new(struct event_base *base, const struct config *c, struct err *err) MUSTCHECK;
void engine_free(struct engine *e); /* open calls are dropped without their callback */

/* path begins with a slash and has no version; body is JSON or NULL. Both are copied. */
struct engine_call *engine_call(struct engine *e, const char *method, const char *path, const char *body,
	int64_t timeout_ms, engine_cb cb, void *arg);
struct engine_call *engine_stream(struct engine *e, const char *method, const char *path, int64_t timeout_ms,
	engine_data_cb data, engine_cb cb, void *arg);
/* A connection of its own, found as those of requests are: names are resolved in the background, each address is tried. */
struct engine_call *engine_connect(struct engine *e, int64_t timeout_ms, engine_cb cb, void *arg);
void engine_cancel(struct engine_call *call);
/*
 * Nothing is sent any more: open calls end from the loop, what may have taken effect as unknown (EINPROGRESS) and the rest as
 * given up (ECANCELED), and so does every later call.
 */
void engine_close(struct engine *e);

/* Negotiates if that has not happened yet, then calls cb with a reply that only says whether it worked. */
struct engine_call *engine_ready(struct engine *e, int64_t timeout_ms, engine_cb cb, void *arg);
unsigned engine_api_minor(const struct engine *e); /* 0 before negotiation */

/* For whoever speaks to the engine by other means than calls. */
const struct config *engine_config(const struct engine *e);
struct event_base *engine_base(const struct engine *e);

/* Percent-encodes what is not unreserved; the caller's. */
char *engine_escape(struct slice s);

#endif
