/* Connection and request limits per peer. */
#include "dockerproxy/peers.h"

#include <netinet/in.h>
#include <string.h>

#define SLOTS 1024
#define PROBES 16

struct peer_entry {
	uint8_t key[17]; /* kind, then uid or address */
	bool used;
	int64_t connections;
	int64_t tokens_us; /* a request costs 1,000,000 / rate of them */
	int64_t updated_us;
};

struct peers {
	int64_t connections;
	int64_t rate;
	int64_t cost_us;
	int64_t full_us;
	struct peer_entry slots[SLOTS];
};

struct peers *peers_new(int64_t connections, int64_t rate, int64_t burst)
{
	struct peers *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->connections = connections;
	p->rate = rate;
	p->cost_us = rate > 0 ? 1000000 / rate : 0;
	p->full_us = p->cost_us * burst;
	return p;
}

void peers_free(struct peers *p)
{
	free(p);
}

static void make_key(const struct peer *who, uint8_t key[17])
{
	memset(key, 0, 17);
	if (who->is_unix) {
		key[0] = 'u';
		memcpy(key + 1, &who->uid, sizeof(who->uid));
	} else if (who->addr.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)&who->addr;

		key[0] = '4';
		memcpy(key + 1, &in->sin_addr, 4);
	} else {
		const struct sockaddr_in6 *in6 = (const void *)&who->addr;

		/* A host holds a /64: one address more is not one peer more. */
		key[0] = '6';
		memcpy(key + 1, &in6->sin6_addr, 8);
	}
}

static unsigned hash_key(const uint8_t key[17])
{
	unsigned h = 2166136261u;

	for (unsigned i = 0; i < 17; i++)
		h = (h ^ key[i]) * 16777619u;
	return h;
}

/* Nobody is connected, and its bucket is full again: forgetting it changes nothing. */
static bool is_stale(const struct peers *p, const struct peer_entry *e, int64_t now_us)
{
	return !e->used || (e->connections == 0 && e->tokens_us + (now_us - e->updated_us) >= p->full_us);
}

struct peer_entry *peers_enter(struct peers *p, const struct peer *who, int64_t now_us)
{
	uint8_t key[17];
	struct peer_entry *e, *free_one = NULL;
	unsigned at;

	make_key(who, key);
	at = hash_key(key) % SLOTS;
	for (unsigned i = 0; i < PROBES; i++) {
		e = &p->slots[(at + i) % SLOTS];
		if (e->used && memcmp(e->key, key, sizeof(key)) == 0)
			goto found;
		if (free_one == NULL && is_stale(p, e, now_us))
			free_one = e;
	}
	e = free_one;
	if (e == NULL)
		return NULL;
	*e = (struct peer_entry){ .used = true, .tokens_us = p->full_us, .updated_us = now_us };
	memcpy(e->key, key, sizeof(key));
found:
	if (p->connections > 0 && e->connections >= p->connections)
		return NULL;
	e->connections++;
	return e;
}

void peers_leave(struct peer_entry *e)
{
	e->connections--;
}

bool peers_take(struct peers *p, struct peer_entry *e, int64_t now_us)
{
	if (p->rate == 0)
		return true;
	e->tokens_us += now_us - e->updated_us;
	e->updated_us = now_us;
	if (e->tokens_us > p->full_us)
		e->tokens_us = p->full_us;
	if (e->tokens_us < p->cost_us)
		return false;
	e->tokens_us -= p->cost_us;
	return true;
}
