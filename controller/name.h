/*
 * Syntax of the names that the controller accepts and derives. [pure]
 *
 * Each check returns 0, or -1 with a sentence that says what is accepted. Nothing here knows the engine.
 */
#ifndef CONTROLLER_NAME_H
#define CONTROLLER_NAME_H

#include <stdbool.h>

#include "libgate/err.h"
#include "libgate/slice.h"

#define NAME_MAX_LENGTH 100 /* leaves room for the longest suffix within the engine's and the policy's 128 */

/* A sandbox: cap-ID, ID of [A-Za-z0-9_.-], not ending in -egress (the proxy of another sandbox). */
int name_check_sandbox(struct slice s, struct err *err) MUSTCHECK;
/* A network of the deployment: ^cap[A-Za-z0-9_.-]*$. */
int name_check_network(struct slice s, struct err *err) MUSTCHECK;
/* A command tag or id: ^[A-Za-z0-9_-]{1,64}$. */
int name_check_tag(struct slice s, struct err *err) MUSTCHECK;
/* An allowlist entry: host, *.host, either with :port; no address, no Unicode. */
int name_check_allow_host(struct slice s, struct err *err) MUSTCHECK;
/* A host without wildcard or port. */
int name_check_host(struct slice s, struct err *err) MUSTCHECK;
/* An image reference: [registry[:port]/]path[:tag][@digest]. *tagged says whether a tag or digest is there. */
int name_check_image(struct slice s, bool *tagged, struct err *err) MUSTCHECK;
/* A label of the client's own: ^dev\.capybara\.[a-z0-9._-]+$ and not one that the controller sets. */
int name_check_label(struct slice s, struct err *err) MUSTCHECK;
/* A path inside the sandbox: absolute, no NUL, at most 4095 bytes. */
int name_check_path(struct slice s, struct err *err) MUSTCHECK;

#endif
