/*
 * The allowlist. [pure]
 *
 *     example.com         that host
 *     *.example.com       one or more labels below it, never example.com itself
 *     example.com:8443    that host, exactly that port, whatever the port lists say
 *
 * An entry without a port allows the ports of the list that goes with the kind of request. An empty list allows nothing.
 */
#ifndef EGRESSD_RULE_H
#define EGRESSD_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egressd/host.h"
#include "egressd/reason.h"
#include "libgate/err.h"
#include "libgate/slice.h"

#define RULES_MAX 20000 /* entries */
#define PORTS_MAX 64

struct rule {
	char *name; /* canonical, without "*." */
	bool wildcard;
	uint16_t port; /* 0: by the lists */
	char *text; /* as it is printed: "*.example.com:8443" */
};

struct rules;

struct ports {
	unsigned n;
	uint16_t port[PORTS_MAX];
};

/* Entries are separated by commas and white space. The error names the entry and says what to write instead. */
struct rules *rules_parse(struct slice text, struct err *err) MUSTCHECK;
struct rules *rules_new(void);
int rules_add(struct rules *rules, struct slice entry, struct err *err) MUSTCHECK;
void rules_seal(struct rules *rules); /* after the last rules_add(), before the first look-up */
void rules_free(struct rules *rules);
size_t rules_count(const struct rules *rules);
const struct rule *rules_at(const struct rules *rules, size_t i);
size_t rules_index(const struct rules *rules, const struct rule *rule); /* of an entry that came from these rules */

/* REASON_OK with *which set; REASON_HOST_DENIED; or REASON_PORT_DENIED with *which set to an entry that has the host. */
enum reason rules_match(const struct rules *rules, const struct host *host, uint16_t port, const struct ports *listed,
	const struct rule **which) MUSTCHECK;

/* Does any entry name this very host (wildcards aside)? */
bool rules_has_exact(const struct rules *rules, struct slice name);

/* What an operator should know about entries that are valid but surprising; called for each. */
typedef void (*rules_note_cb)(const struct rule *rule, const char *note, void *arg);
void rules_notes(const struct rules *rules, rules_note_cb cb, void *arg);

/* "443,80": commas and white space; ranges are refused, with the reason. */
int ports_parse(struct slice text, struct ports *out, struct err *err) MUSTCHECK;
int ports_add(struct ports *ports, struct slice text, struct err *err) MUSTCHECK;
bool ports_has(const struct ports *ports, uint16_t port);

/* Cuts the next entry off a list separated by commas and white space; false at its end. */
bool list_next(struct slice *rest, struct slice *entry);

#endif
