/* Ownership of container and exec ids, by asking the engine. */
#include "dockerproxy/owner.h"

#include <assert.h>
#include <string.h>

#include "dockerproxy/clock.h"
#include "libgate/json.h"

#define ID_BYTES 32
#define ID_DIGITS 64
#define SLOTS 2048 /* a power of two: the low bits of an id choose the slot */
#define ANSWER_MAX (1024 * 1024)

/* What an id leads to: a container's name, or an exec's container. An id has one slot; a newer one takes it over. */
struct entry {
	int64_t expires_us; /* 0: free */
	uint8_t id[ID_BYTES];
	enum owner_rule kind;
	union {
		char name[OWNER_NAME_MAX];
		uint8_t container[ID_BYTES];
	};
};

struct owner {
	struct upstream *up;
	struct json_doc *doc;
	int64_t name_ms;
	uint64_t epoch; /* of what is remembered: another one whenever something was forgotten */
	uint64_t losses; /* of the engine's connections, as far as they were heeded */
	struct entry slots[SLOTS];
};

struct owner_query {
	struct owner *owner;
	struct upstream_exchange *exchange;
	enum owner_rule rule; /* of what is being asked now: an exec leads on to its container */
	unsigned minor;
	uint64_t epoch; /* when it was asked */
	char id[ID_DIGITS];
	struct buf head;
	struct buf answer;
	int status;
	owner_cb cb;
	void *arg;
};

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool owner_is_full_id(struct slice s)
{
	if (s.len != ID_DIGITS)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (hex_value(s.p[i]) < 0)
			return false;
	return true;
}

static void id_from_hex(uint8_t *id, const char *digits)
{
	for (size_t i = 0; i < ID_BYTES; i++)
		id[i] = (uint8_t)(hex_value(digits[2 * i]) << 4 | hex_value(digits[2 * i + 1]));
}

static void id_to_hex(char *digits, const uint8_t *id)
{
	for (size_t i = 0; i < ID_BYTES; i++) {
		digits[2 * i] = "0123456789abcdef"[id[i] >> 4];
		digits[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
	}
}

struct owner *owner_new(struct upstream *up, int64_t name_ms)
{
	struct owner *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->up = up;
	o->name_ms = name_ms;
	o->doc = json_doc_new();
	if (o->doc == NULL) {
		free(o);
		return NULL;
	}
	return o;
}

void owner_free(struct owner *o)
{
	if (o == NULL)
		return;
	json_doc_free(o->doc);
	free(o);
}

/* --- the table -------------------------------------------------------------------------------------------------- */

static struct entry *slot_of(struct owner *o, const uint8_t *id)
{
	return &o->slots[((size_t)id[0] << 8 | id[1]) & (SLOTS - 1)];
}

static const struct entry *recall(struct owner *o, enum owner_rule kind, const char *digits)
{
	uint8_t id[ID_BYTES];
	struct entry *e;

	id_from_hex(id, digits);
	e = slot_of(o, id);
	if (e->kind != kind || e->expires_us <= clock_us() || memcmp(e->id, id, ID_BYTES) != 0)
		return NULL;
	return e;
}

/* NULL: something was forgotten since q asked, and the answer may be from before that. */
static struct entry *remember(const struct owner_query *q)
{
	int64_t ms = q->rule == OWNER_EXEC ? OWNER_EXEC_MS : q->owner->name_ms;
	uint8_t id[ID_BYTES];
	struct entry *e;

	if (q->epoch != q->owner->epoch)
		return NULL;
	id_from_hex(id, q->id);
	e = slot_of(q->owner, id);
	memcpy(e->id, id, ID_BYTES);
	e->kind = q->rule;
	e->expires_us = clock_us() + ms * 1000;
	return e;
}

static void forget_id(struct owner *o, struct slice id)
{
	uint8_t bytes[ID_BYTES];
	struct entry *e;

	id_from_hex(bytes, id.p);
	e = slot_of(o, bytes);
	if (memcmp(e->id, bytes, ID_BYTES) == 0)
		e->expires_us = 0;
}

static void forget_name(struct owner *o, struct slice name)
{
	for (struct entry *e = o->slots; e < o->slots + SLOTS; e++)
		if (e->kind == OWNER_CONTAINER && e->expires_us != 0 && slice_is(name, e->name))
			e->expires_us = 0;
}

void owner_forget(struct owner *o, struct slice object)
{
	o->epoch++;
	if (owner_is_full_id(object))
		forget_id(o, object);
	else
		forget_name(o, object);
}

/* An engine that ended a connection may be another one by now, and whatever happened in between was not seen. */
static void heed_losses(struct owner *o)
{
	struct upstream_stats stats;

	upstream_stats(o->up, &stats);
	if (stats.losses == o->losses)
		return;
	o->losses = stats.losses;
	o->epoch++;
	for (struct entry *e = o->slots; e < o->slots + SLOTS; e++)
		e->expires_us = 0;
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

static void query_free(struct owner_query *q)
{
	buf_release(&q->head);
	buf_release(&q->answer);
	free(q);
}

static void query_done(struct owner_query *q, enum owner_result result, struct slice name)
{
	owner_cb cb = q->cb;
	void *arg = q->arg;
	char copy[OWNER_NAME_MAX];

	assert(name.len < sizeof(copy));
	if (name.len > 0)
		memcpy(copy, name.p, name.len);
	query_free(q);
	cb(result, slice_make(copy, name.len), arg);
}

void owner_cancel(struct owner_query *q)
{
	if (q->exchange != NULL)
		upstream_abort(q->exchange);
	query_free(q);
}

static void on_head(void *arg)
{
	struct owner_query *q = arg;

	q->status = upstream_head(q->exchange)->status;
}

static void on_data(void *arg, struct slice run)
{
	struct owner_query *q = arg;

	if (buf_put_slice(&q->answer, run) == 0)
		return;
	upstream_abort(q->exchange);
	query_done(q, OWNER_UNCLEAR, slice_make(NULL, 0));
}

static void on_flush(void *arg)
{
}

static void on_fail(void *arg, enum upstream_fault fault, const char *detail)
{
	struct owner_query *q = arg;

	q->exchange = NULL;
	query_done(q, fault == UPSTREAM_MALFORMED ? OWNER_UNCLEAR : OWNER_UNREACHABLE, slice_make(NULL, 0));
}

static void on_end(void *arg);

static const struct upstream_events query_events = {
	.head = on_head,
	.data = on_data,
	.flush = on_flush,
	.end = on_end,
	.fail = on_fail,
};

static int query_send(struct owner_query *q)
{
	static const char *const paths[][2] = {
		[OWNER_CONTAINER] = { "containers/", "/json" },
		[OWNER_EXEC] = { "exec/", "/json" },
		[OWNER_NETWORK] = { "networks/", "" },
	};
	struct upstream_request request = { .method = HTTP_GET, .flags = UPSTREAM_REPEATABLE };

	buf_clear(&q->head);
	buf_clear(&q->answer);
	if (buf_putf(&q->head, "GET /v1.%u/%s%.*s%s HTTP/1.1\r\nHost: docker\r\nUser-Agent: dockerproxy\r\n\r\n", q->minor,
			paths[q->rule][0], ID_DIGITS, q->id, paths[q->rule][1]) < 0)
		return -1;
	request.head = buf_slice(&q->head);
	q->exchange = upstream_start(q->owner->up, &request, &query_events, q);
	return q->exchange != NULL ? 0 : -1;
}

/* The container's name out of its inspect answer. */
static bool read_container(struct owner_query *q, const struct json_node *root, struct slice *name)
{
	struct slice id, slashed;
	struct entry *e;

	if (!json_get_string(root, "Id", &id) || !slice_eq(id, slice_make(q->id, ID_DIGITS)) ||
		!json_get_string(root, "Name", &slashed) || !slice_starts(slashed, "/"))
		return false;
	*name = slice_skip(slashed, 1);
	if (name->len == 0 || name->len >= OWNER_NAME_MAX || memchr(name->p, 0, name->len) != NULL)
		return false;
	e = remember(q);
	if (e != NULL) {
		memcpy(e->name, name->p, name->len);
		e->name[name->len] = '\0';
	}
	return true;
}

/* The container's id out of an exec's inspect answer; it becomes what is asked next. */
static bool read_exec(struct owner_query *q, const struct json_node *root)
{
	struct slice id, container;
	struct entry *e;

	if (!json_get_string(root, "ID", &id) || !slice_eq(id, slice_make(q->id, ID_DIGITS)) ||
		!json_get_string(root, "ContainerID", &container) || !owner_is_full_id(container))
		return false;
	e = remember(q);
	if (e != NULL)
		id_from_hex(e->container, container.p);
	memcpy(q->id, container.p, ID_DIGITS);
	q->rule = OWNER_CONTAINER;
	return true;
}

/* A network's name never changes, but nobody asks twice. */
static bool read_network(const struct owner_query *q, const struct json_node *root, struct slice *name)
{
	struct slice id;

	return json_get_string(root, "Id", &id) && slice_eq(id, slice_make(q->id, ID_DIGITS)) &&
		json_get_string(root, "Name", name) && name->len > 0 && name->len < OWNER_NAME_MAX &&
		memchr(name->p, 0, name->len) == NULL;
}

/* Goes on from what is remembered. 1 found, 0 to be asked. */
static int query_recall(struct owner_query *q, struct slice *name)
{
	const struct entry *e;

	if (q->rule == OWNER_NETWORK)
		return 0;
	if (q->rule == OWNER_EXEC) {
		e = recall(q->owner, OWNER_EXEC, q->id);
		if (e == NULL)
			return 0;
		id_to_hex(q->id, e->container);
		q->rule = OWNER_CONTAINER;
	}
	e = recall(q->owner, OWNER_CONTAINER, q->id);
	if (e == NULL)
		return 0;
	*name = slice_str(e->name);
	return 1;
}

static void on_end(void *arg)
{
	struct owner_query *q = arg;
	const struct json_node *root;
	enum json_fault fault;
	struct slice name = slice_make(NULL, 0);
	size_t offset;

	q->exchange = NULL;
	heed_losses(q->owner);
	if (q->status == 404) {
		owner_forget(q->owner, slice_make(q->id, ID_DIGITS));
		query_done(q, OWNER_ABSENT, name);
		return;
	}
	root = q->status == 200 ? json_parse(q->owner->doc, buf_slice(&q->answer), JSON_NULS, &fault, &offset) : NULL;
	if (root != NULL && q->rule == OWNER_EXEC && read_exec(q, root)) {
		if (query_recall(q, &name) == 1)
			query_done(q, OWNER_FOUND, name);
		else if (query_send(q) < 0)
			query_done(q, OWNER_UNREACHABLE, name);
		return;
	}
	if (root != NULL && q->rule == OWNER_NETWORK && read_network(q, root, &name))
		query_done(q, OWNER_FOUND, name);
	else if (root != NULL && q->rule == OWNER_CONTAINER && read_container(q, root, &name))
		query_done(q, OWNER_FOUND, name);
	else
		query_done(q, OWNER_UNCLEAR, slice_make(NULL, 0));
}

struct owner_query *owner_ask(struct owner *o, enum owner_rule rule, struct slice id, unsigned minor, owner_cb cb,
	void *arg)
{
	struct owner_query *q = calloc(1, sizeof(*q));
	struct slice name = slice_make(NULL, 0);

	assert(owner_is_full_id(id) && rule != OWNER_NONE);
	if (q == NULL) {
		cb(OWNER_UNREACHABLE, name, arg);
		return NULL;
	}
	q->owner = o;
	q->rule = rule;
	q->minor = minor;
	heed_losses(o);
	q->epoch = o->epoch;
	memcpy(q->id, id.p, ID_DIGITS);
	buf_init(&q->head, 512);
	buf_init(&q->answer, ANSWER_MAX);
	q->cb = cb;
	q->arg = arg;
	if (query_recall(q, &name) == 1) {
		query_done(q, OWNER_FOUND, name);
		return NULL;
	}
	if (query_send(q) < 0) {
		query_done(q, OWNER_UNREACHABLE, name);
		return NULL;
	}
	return q;
}
