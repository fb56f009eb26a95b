/* Memory and JSON documents that are not allowed to fail: running out ends the program, engine and labels keep the state. */
#ifndef CONTROLLER_MEM_H
#define CONTROLLER_MEM_H

/* json-c builds documents; what is read goes through libgate/json.h, whose enum has the same tag. */
#define json_type jsonc_type
#include <json-c/json.h>
#undef json_type
#include <stdbool.h>
#include <stdint.h>

#include "libgate/slice.h"
#include "libgate/util.h"

void *mem_zalloc(size_t n) MUSTCHECK;
char *mem_strdup(const char *s) MUSTCHECK;
char *mem_dup(struct slice s) MUSTCHECK; /* terminated copy */
char *mem_printf(const char *fmt, ...) PRINTF(1, 2) MUSTCHECK;
void *mem_grow(void *p, size_t n) MUSTCHECK;

/* Members of a json-c object; jset takes over the value. jobj and jarr return the new child. */
void jset(struct json_object *o, const char *key, struct json_object *value);
void jset_str(struct json_object *o, const char *key, struct slice value);
void jset_cstr(struct json_object *o, const char *key, const char *value); /* NULL: null */
void jset_int(struct json_object *o, const char *key, int64_t value);
void jset_bool(struct json_object *o, const char *key, bool value);
struct json_object *jnew(void);
struct json_object *jobj(struct json_object *o, const char *key);
struct json_object *jarr(struct json_object *o, const char *key);
void jadd(struct json_object *array, struct json_object *value);
void jadd_cstr(struct json_object *array, const char *value);
/* The document's text, owned by the caller; the object is put. */
char *jtext(struct json_object *o) MUSTCHECK;

static inline void mem_jputp(struct json_object **o)
{
	json_object_put(*o);
	*o = NULL;
}
#define auto_json __attribute__((cleanup(mem_jputp)))

#endif
