/*
 * The regular subset of a policy's patterns as a deterministic automaton: one table step a byte, nothing to run out of. [pure]
 *
 * Taken: literals, escapes of single bytes and \d \w \s, classes, '.', groups, |, and the greedy quantifiers. What is outside
 * (look-around, back references, lazy quantifiers …) or grows too large is left to the backtracking matcher.
 */
#ifndef DOCKERPROXY_AUTOMATON_H
#define DOCKERPROXY_AUTOMATON_H

#include <stdbool.h>

#include "libgate/slice.h"
#include "libgate/util.h"

struct automaton;

/* text: what stands between ^ and $. NULL: not in the subset, too large, or no memory; none of them is an error. */
struct automaton *automaton_new(struct slice text) MUSTCHECK;
void automaton_free(struct automaton *a);

/* Does the whole subject match? What is not valid UTF-8 does not. */
bool automaton_match(const struct automaton *a, struct slice subject);

#endif
