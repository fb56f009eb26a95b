/* A count by host name; a host without connections has no entry. */
#include "egressd/tally.h"

#include <stdlib.h>

struct tally_entry {
	struct tally_entry *next;
	uint32_t count;
	struct host host;
};

/* FNV-1a. The names were let in by the allowlist, and one process serves one sandbox: collisions hurt only itself. */
static struct tally_entry **find(struct tally *t, const struct host *host)
{
	uint32_t h = 2166136261u;
	struct tally_entry **at;

	for (unsigned i = 0; i < host->len; i++)
		h = (h ^ (uint8_t)host->name[i]) * 16777619u;
	at = &t->bucket[h % TALLY_BUCKETS];
	while (*at != NULL && !slice_eq(host_slice(&(*at)->host), host_slice(host)))
		at = &(*at)->next;
	return at;
}

uint32_t tally_add(struct tally *t, const struct host *host)
{
	struct tally_entry **at = find(t, host);

	if (*at == NULL) {
		*at = calloc(1, sizeof(**at));
		if (*at == NULL)
			return 0;
		(*at)->host = *host;
	}
	return ++(*at)->count;
}

void tally_drop(struct tally *t, const struct host *host)
{
	struct tally_entry **at = find(t, host), *gone = *at;

	if (gone == NULL || --gone->count > 0)
		return;
	*at = gone->next;
	free(gone);
}

uint32_t tally_count(struct tally *t, const struct host *host)
{
	struct tally_entry *entry = *find(t, host);

	return entry == NULL ? 0 : entry->count;
}

void tally_release(struct tally *t)
{
	for (size_t i = 0; i < TALLY_BUCKETS; i++) {
		while (t->bucket[i] != NULL) {
			struct tally_entry *gone = t->bucket[i];
			t->bucket[i] = gone->next;
			free(gone);
		}
	}
}
