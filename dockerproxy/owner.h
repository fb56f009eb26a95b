/*
 * Whose is this id? Asks the engine for the container behind a full container id or an exec id, and remembers the answer. [libevent]
 *
 * Remembered by full id only (ids are 256-bit and never reused), in a table of fixed size, for OWNER_TTL_MS, since a container can
 * be renamed. Whether a name is allowed is the caller's policy's business: listeners differ in it.
 */
#ifndef DOCKERPROXY_OWNER_H
#define DOCKERPROXY_OWNER_H

#include <stdbool.h>

#include "dockerproxy/policy.h"
#include "dockerproxy/upstream.h"
#include "libgate/slice.h"

#define OWNER_TTL_MS 60000
#define OWNER_NAME_MAX 128 /* a longer container name is not believed */

struct owner;
struct owner_query;

enum owner_result {
	OWNER_FOUND, /* name is the container's, without the leading slash */
	OWNER_ABSENT, /* the engine has no such container or exec */
	OWNER_UNREACHABLE, /* no answer */
	OWNER_UNCLEAR, /* an answer that does not say */
};

/* Called once, also from within owner_ask(). name is valid during the call. */
typedef void (*owner_cb)(enum owner_result result, struct slice name, void *arg);

struct owner *owner_new(struct upstream *up) MUSTCHECK;
void owner_free(struct owner *o);

/* Is s a full object id (64 lower-case hex digits)? */
bool owner_is_full_id(struct slice s);

/*
 * rule: OWNER_CONTAINER or OWNER_EXEC; id: a full id; minor: the API version to ask with. NULL when the callback was called
 * already, else a query that may be cancelled until then.
 */
struct owner_query *owner_ask(struct owner *o, enum owner_rule rule, struct slice id, unsigned minor, owner_cb cb,
	void *arg);
void owner_cancel(struct owner_query *q);

/* The engine answered 404 for this id. */
void owner_forget(struct owner *o, struct slice id);

#endif
