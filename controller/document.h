/*
 * The engine documents of a sandbox: names of its parts and bodies of create requests. [pure]
 *
 * Every returned string is the caller's. Isolation is decided here and nowhere else: what a body says is what the policy
 * of dockerproxy requires, and what the tests compare.
 */
#ifndef CONTROLLER_DOCUMENT_H
#define CONTROLLER_DOCUMENT_H

#include "controller/spec.h"

/* API minors from which the engine can do something. */
#define API_MULTI_ENDPOINT 44 /* several networks at create */
#define API_ISOLATED_GATEWAY 48 /* bridge gateway mode isolated */

char *document_sandbox(const struct spec *s, const struct config *c);
char *document_egress(const struct spec *s, const struct config *c, unsigned api_minor);
char *document_volume(const struct spec *s, const struct config *c, const char *part);
char *document_network(const struct spec *s, unsigned api_minor);
char *document_shared_network(const struct config *c);
char *document_attach(const char *container);
char *document_detach(const char *container);

#endif
