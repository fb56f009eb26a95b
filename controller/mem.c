/* Allocation that ends the program when there is no memory: a half-built engine document must never be sent. */
#include "controller/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *checked(void *p)
{
	if (p == NULL) {
		static const char text[] = "controller: out of memory\n";
		if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
			abort();
		abort();
	}
	return p;
}

void *mem_zalloc(size_t n)
{
	return checked(calloc(1, n));
}

char *mem_strdup(const char *s)
{
	return checked(strdup(s));
}

char *mem_dup(struct slice s)
{
	char *p = checked(malloc(s.len + 1));

	if (s.len > 0)
		memcpy(p, s.p, s.len);
	p[s.len] = '\0';
	return p;
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	char *p = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&p, fmt, ap);
	va_end(ap);
	return checked(n < 0 ? NULL : p);
}

void *mem_grow(void *p, size_t n)
{
	return checked(realloc(p, n));
}

void jset(struct json_object *o, const char *key, struct json_object *value)
{
	if (json_object_object_add(o, key, value) != 0)
		checked(NULL);
}

void jset_str(struct json_object *o, const char *key, struct slice value)
{
	jset(o, key, checked(json_object_new_string_len(value.len > 0 ? value.p : "", (int)value.len)));
}

void jset_cstr(struct json_object *o, const char *key, const char *value)
{
	jset(o, key, value != NULL ? checked(json_object_new_string(value)) : NULL);
}

void jset_int(struct json_object *o, const char *key, int64_t value)
{
	jset(o, key, checked(json_object_new_int64(value)));
}

void jset_bool(struct json_object *o, const char *key, bool value)
{
	jset(o, key, checked(json_object_new_boolean(value)));
}

struct json_object *jnew(void)
{
	return checked(json_object_new_object());
}

struct json_object *jobj(struct json_object *o, const char *key)
{
	struct json_object *child = jnew();

	jset(o, key, child);
	return child;
}

struct json_object *jarr(struct json_object *o, const char *key)
{
	struct json_object *child = checked(json_object_new_array());

	jset(o, key, child);
	return child;
}

void jadd(struct json_object *array, struct json_object *value)
{
	if (json_object_array_add(array, value) != 0)
		checked(NULL);
}

void jadd_cstr(struct json_object *array, const char *value)
{
	jadd(array, checked(json_object_new_string(value)));
}

char *jtext(struct json_object *o)
{
	char *text = mem_strdup(
		checked((void *)json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)));

	json_object_put(o);
	return text;
}
