/*
 * Asks the engine for all parts of one sandbox at once. [libevent]
 */
#ifndef CONTROLLER_SURVEY_H
#define CONTROLLER_SURVEY_H

#include "controller/engine.h"
#include "controller/inventory.h"
#include "controller/spec.h"

struct survey_result {
	struct inventory inventory;
	struct spec spec; /* by the container's labels; valid when the sandbox container is there */
	bool have_spec;
	bool has_runner; /* its image says that it holds the runner of this protocol */
	struct json_object *details; /* of the sandbox container, for inspect: image, createdAt, ...; or NULL */
};

/* err is NULL on success; the result is released after the callback. */
typedef void (*survey_cb)(struct survey_result *result, const struct err *err, void *arg);

struct survey *survey_start(struct engine *e, const char *name, int64_t timeout_ms, survey_cb cb, void *arg);
void survey_cancel(struct survey *s); /* cb is not called any more */

#endif
