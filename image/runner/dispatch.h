/* What each frame of the controller does. */
#ifndef RUNNER_DISPATCH_H
#define RUNNER_DISPATCH_H

#include "image/runner/op.h"

void dispatch_hello(struct runner *r);
/*
 * Every frame that is whole, as long as its answer has room. A stream that breaks the protocol ends. true: something
 * may have changed, so that the operations are to be looked at before the next wait.
 */
bool dispatch(struct runner *r, int64_t now_us);
bool dispatch_ready(struct runner *r);
void dispatch_kill_step(struct runner *r, struct op *op); /* of a KILL_TAGGED under way */

#endif
