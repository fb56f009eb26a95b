/*
 * Pulls one image, once. [libevent]
 *
 * The engine answers 200 before it knows whether the pull works and reports errors inside the stream: success is a
 * stream that ended in order, held no error and said what the status of the image is.
 */
#ifndef CONTROLLER_PULL_H
#define CONTROLLER_PULL_H

#include "controller/engine.h"

typedef void (*pull_progress_cb)(const char *image, const struct json_node *progress, void *arg);
typedef void (*pull_done_cb)(const struct err *err /* NULL: done */, void *arg);

void pull_start(struct engine *e, const char *image, int64_t timeout_ms, pull_progress_cb progress, pull_done_cb done,
	void *arg);

#endif
