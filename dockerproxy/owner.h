/*
 * Whose is this id? Asks the engine for the container behind a full container id or an exec id, and remembers the answer; and for
 * the name of a network, which it does not remember. [libevent]
 *
 * Remembered by full id only: ids are 256-bit and never reused, so that a new container of an old one's name is another entry.
 * Which container an exec belongs to never changes; it is remembered for OWNER_EXEC_MS. A container's name can change (rename), and
 * a name that was allowed must not vouch for one that is not: it is believed for OWNER_NAME_MS alone, so that a burst of calls asks
 * once. Everything is forgotten when the engine ends a connection (it may have been restarted); a container when a removal or a
 * renaming of it passes through the proxy, or when the engine answers 404 or 409 for it; and an answer that was under way at
 * such a moment is used once and not remembered. The table is of fixed size. Whether a name is allowed is the caller's
 * policy's business: listeners differ in it.
 */
#ifndef DOCKERPROXY_OWNER_H
#define DOCKERPROXY_OWNER_H

#include <stdbool.h>

#include "dockerproxy/policy.h"
#include "dockerproxy/upstream.h"
#include "libgate/slice.h"

#define OWNER_EXEC_MS 60000
#define OWNER_NAME_MS 1000
#define OWNER_NAME_MAX 128 /* a longer container name is not believed */

struct owner;
struct owner_query;

enum owner_result {
	OWNER_FOUND, /* name is the container's, without the leading slash, or the network's */
	OWNER_ABSENT, /* the engine has no such container, exec or network */
	OWNER_UNREACHABLE, /* no answer */
	OWNER_UNCLEAR, /* an answer that does not say */
};

/* Called once, also from within owner_ask(). name is valid during the call. */
typedef void (*owner_cb)(enum owner_result result, struct slice name, void *arg);

/* name_ms: how long a container's name is believed; OWNER_NAME_MS but for tests. */
struct owner *owner_new(struct upstream *up, int64_t name_ms) MUSTCHECK;
void owner_free(struct owner *o);

/* Is s a full object id (64 lower-case hex digits)? */
bool owner_is_full_id(struct slice s);

/*
 * rule: not OWNER_NONE; id: a full id; minor: the API version to ask with. NULL when the callback was called
 * already, else a query that may be cancelled until then.
 */
struct owner_query *owner_ask(struct owner *o, enum owner_rule rule, struct slice id, unsigned minor, owner_cb cb,
	void *arg);
void owner_cancel(struct owner_query *q);

/* What is known of this container or exec may be wrong now. object: a full id or a name. */
void owner_forget(struct owner *o, struct slice object);

#endif
