/* The OpenRPC document of sandbox@1, made from the table of methods. */
#ifndef CONTROLLER_DISCOVER_H
#define CONTROLLER_DISCOVER_H

struct json_object;

struct json_object *discover_document(void);

#endif
