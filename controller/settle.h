/*
 * Asks a sandbox what became of commands whose answer was lost. [libevent]
 *
 * The sandbox is started when it does not run. A command of `ids` (an array of strings, or NULL) that it knows nothing of
 * and that does not run any more is told as lost: whatever it did, it does no longer.
 */
#ifndef CONTROLLER_SETTLE_H
#define CONTROLLER_SETTLE_H

#include "controller/controller.h"
#include "controller/mem.h"
#include "libgate/json.h"

#define SETTLE_MAX 512 /* commands that can be asked for; of all that are remembered the newest are told */

/* commands: an array that is the callee's, NULL with err. From the loop. */
typedef void (*settle_cb)(struct json_object *commands, const struct err *err, void *arg);

/* ids is borrowed until cb. */
void settle_commands(struct controller *c, struct slice name, const struct json_node *ids, settle_cb cb, void *arg);

#endif
