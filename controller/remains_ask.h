/*
 * Asks the engine what it holds of all sandboxes. [libevent]
 */
#ifndef CONTROLLER_REMAINS_ASK_H
#define CONTROLLER_REMAINS_ASK_H

#include "controller/engine.h"
#include "controller/remains.h"

/* Once, from the loop. What the callee does not take out of the list is released after that; empty with err. */
typedef void (*remains_cb)(struct remains_list *list, const struct err *err, void *arg);

/* timeout_ms: of each of the three listings. */
void remains_ask(struct engine *e, int64_t timeout_ms, remains_cb cb, void *arg);

#endif
