/* Connection and request limits per peer, in memory that the workers share. */
#include "dockerproxy/peers.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define SLOTS 1024
#define PROBES 16
#define TRIES 4 /* an entry that is taken away again and again: refused rather than waited for */
#define KEY_SIZE 17

/* An entry's state word: what it is, which worker is writing it, and a number that changes with each owner. */
enum kind { FREE, CLAIMED, USED };
#define KIND_BITS 2
#define CLAIMER_BITS 14

struct peer_entry {
	_Atomic uint64_t state;
	uint8_t key[KEY_SIZE]; /* kind, then uid or address; written while CLAIMED alone */
	_Atomic int64_t full_at_us; /* when the bucket is full again; a request moves it away by its cost */
};

struct peers {
	size_t size; /* of the mapping */
	unsigned nslots;
	int64_t connections;
	int64_t rate;
	int64_t cost_us; /* of a request */
	int64_t full_us; /* of a burst */
	uint32_t seed; /* of the hash: nobody chooses addresses that crowd another's out */
	struct peer_entry entries[SLOTS];
	_Atomic uint32_t counts[]; /* connections: nslots for each entry */
};

static enum kind kind_of(uint64_t state)
{
	return (enum kind)(state & ((1U << KIND_BITS) - 1));
}

static unsigned claimer_of(uint64_t state)
{
	return (unsigned)(state >> KIND_BITS) & ((1U << CLAIMER_BITS) - 1);
}

/* The next owner's number, with a kind. */
static uint64_t successor(uint64_t state, enum kind kind, unsigned claimer)
{
	uint64_t number = (state >> (KIND_BITS + CLAIMER_BITS)) + 1;

	return number << (KIND_BITS + CLAIMER_BITS) | (uint64_t)claimer << KIND_BITS | (uint64_t)kind;
}

struct peers *peers_new(int64_t connections, int64_t rate, int64_t burst, unsigned nslots)
{
	size_t size = sizeof(struct peers) + (size_t)SLOTS * nslots * sizeof(uint32_t);
	struct peers *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (getrandom(&p->seed, sizeof(p->seed), GRND_NONBLOCK) != sizeof(p->seed))
		p->seed = 2166136261u;
	p->size = size;
	p->nslots = nslots;
	p->connections = connections;
	p->rate = rate;
	p->cost_us = rate > 0 ? 1000000 / rate : 0;
	p->full_us = p->cost_us * burst;
	return p;
}

void peers_free(struct peers *p)
{
	if (p != NULL)
		munmap(p, p->size);
}

static void make_key(const struct peer *who, uint8_t key[KEY_SIZE])
{
	memset(key, 0, KEY_SIZE);
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

static unsigned hash_key(const struct peers *p, const uint8_t key[KEY_SIZE])
{
	uint32_t h = p->seed;

	for (unsigned i = 0; i < KEY_SIZE; i++)
		h = (h ^ key[i]) * 16777619u;
	return h ^ h >> 16;
}

static _Atomic uint32_t *count_of(struct peers *p, const struct peer_entry *e, unsigned slot)
{
	return &p->counts[(size_t)(e - p->entries) * p->nslots + slot];
}

static uint64_t connected(struct peers *p, const struct peer_entry *e)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < p->nslots; i++)
		n += atomic_load(count_of(p, e, i));
	return n;
}

/* Nobody is connected, and its bucket is full again: forgetting it changes nothing. */
static bool is_stale(struct peers *p, struct peer_entry *e, int64_t now_us)
{
	return connected(p, e) == 0 && atomic_load(&e->full_at_us) <= now_us;
}

/* The peer's entry and its state, or else *free_one, one that may become it. */
static struct peer_entry *find(struct peers *p, const uint8_t *key, int64_t now_us, uint64_t *state,
	struct peer_entry **free_one)
{
	unsigned at = hash_key(p, key) % SLOTS;

	for (unsigned i = 0; i < PROBES; i++) {
		struct peer_entry *e = &p->entries[(at + i) % SLOTS];
		uint64_t seen = atomic_load(&e->state);

		if (kind_of(seen) == USED && memcmp(e->key, key, KEY_SIZE) == 0) {
			*state = seen;
			return e;
		}
		if (*free_one == NULL && (kind_of(seen) == FREE || (kind_of(seen) == USED && is_stale(p, e, now_us))))
			*free_one = e;
	}
	return NULL;
}

/* Makes e the peer's. Who counts a connection in it meanwhile finds the state changed, and goes away again. */
static bool claim(struct peers *p, struct peer_entry *e, unsigned slot, const uint8_t *key, int64_t now_us)
{
	uint64_t seen = atomic_load(&e->state);
	uint64_t mine = successor(seen, CLAIMED, slot);

	if (kind_of(seen) == CLAIMED || !atomic_compare_exchange_strong(&e->state, &seen, mine))
		return false;
	if (kind_of(seen) == USED && !is_stale(p, e, now_us)) {
		atomic_store(&e->state, seen);
		return false;
	}
	memcpy(e->key, key, KEY_SIZE);
	atomic_store(&e->full_at_us, 0);
	atomic_store(&e->state, successor(mine, USED, slot));
	return true;
}

struct peer_entry *peers_enter(struct peers *p, unsigned slot, const struct peer *who, int64_t now_us)
{
	uint8_t key[KEY_SIZE];

	/* Without a limit all are one peer: a table that is full must refuse nobody then. */
	if (p->connections == 0 && p->rate == 0) {
		atomic_fetch_add(count_of(p, &p->entries[0], slot), 1);
		return &p->entries[0];
	}
	make_key(who, key);
	for (unsigned i = 0; i < TRIES; i++) {
		struct peer_entry *free_one = NULL;
		uint64_t state = 0;
		struct peer_entry *e = find(p, key, now_us, &state, &free_one);

		if (e == NULL && free_one == NULL)
			return NULL;
		if (e == NULL) {
			/* Found at the next try, and with it an earlier one that another worker made at the same time. */
			(void)!claim(p, free_one, slot, key, now_us);
			continue;
		}
		atomic_fetch_add(count_of(p, e, slot), 1);
		if (atomic_load(&e->state) == state && (p->connections == 0 || connected(p, e) <= (uint64_t)p->connections))
			return e;
		atomic_fetch_sub(count_of(p, e, slot), 1);
		if (atomic_load(&e->state) == state)
			return NULL;
	}
	return NULL;
}

void peers_leave(struct peers *p, unsigned slot, struct peer_entry *e)
{
	atomic_fetch_sub(count_of(p, e, slot), 1);
}

void peers_lost(struct peers *p, unsigned slot)
{
	for (struct peer_entry *e = p->entries; e < p->entries + SLOTS; e++) {
		uint64_t seen = atomic_load(&e->state);

		atomic_store(count_of(p, e, slot), 0);
		if (kind_of(seen) == CLAIMED && claimer_of(seen) == slot)
			atomic_compare_exchange_strong(&e->state, &seen, successor(seen, FREE, 0));
	}
}

bool peers_take(struct peers *p, struct peer_entry *e, int64_t now_us)
{
	int64_t seen = atomic_load(&e->full_at_us);
	int64_t next;

	if (p->rate == 0)
		return true;
	do {
		next = (seen > now_us ? seen : now_us) + p->cost_us;
		if (next - now_us > p->full_us)
			return false;
	} while (!atomic_compare_exchange_weak(&e->full_at_us, &seen, next));
	return true;
}
