/*
 * Strict JSON (RFC 8259) into a read-only tree. [pure]
 *
 * Refused: anything but the RFC's grammar, invalid UTF-8 (overlong forms, surrogates), NUL (raw or \u0000), lone
 * surrogate escapes, duplicate members at any depth (compared after unescaping), more than `depth` levels, bytes after the
 * document. Numbers keep their digits: an integer is JSON_INT when it fits int64, anything else is JSON_REAL.
 * There is one reader for requests, policies, configuration and the engine's answers, so what is judged is what was
 * parsed. Comments are taken only where a person writes the file (JSON_COMMENTS).
 */
#ifndef GATE_JSON_H
#define GATE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/buf.h"
#include "libgate/err.h"
#include "libgate/slice.h"

#define JSON_MAX_DEPTH 32

enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_INT, /* no fraction, no exponent, not -0, fits int64_t */
	JSON_REAL, /* every other number, out-of-range integers included: judged by its text only */
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

/* How a member's key was spelled. */
enum json_key_flags {
	JSON_KEY_ESCAPED = 1 << 0, /* at least one backslash escape */
	JSON_KEY_NON_ASCII = 1 << 1, /* a code point above U+007F, raw or escaped */
};

struct json_node {
	enum json_type type;
	uint8_t key_flags;
	uint8_t mark; /* 0 after parsing; free for the tree's user */
	bool plain_key; /* read without a byte that needs an escape: json_put() copies it; false: not known */
	bool plain_text; /* the same of a JSON_STRING's text; who puts another text in its place clears it */
	uint32_t offset; /* of the value's first byte in the document */
	uint32_t key_offset; /* of the key's opening quote; members only */
	uint32_t count; /* array items or object members */
	uint32_t key_hash; /* json_key_hash() of the key; members only */
	struct slice key; /* unescaped UTF-8; members only */
	struct json_node *next; /* next item or member, in document order */
	union {
		bool boolean;
		int64_t integer;
		struct slice text; /* JSON_STRING: unescaped; */
		struct json_node *child; /* JSON_ARRAY, JSON_OBJECT: the first */
	};
	struct slice digits; /* JSON_INT and JSON_REAL: as written */
};

enum json_fault {
	JSON_OK,
#define ROW(sym, id, text) JSON_FAULT_##sym,
#include "libgate/json_fault.def"
#undef ROW
	JSON_FAULT_COUNT
};

const char *json_fault_id(enum json_fault f); /* "json-duplicate-key" */
const char *json_fault_text(enum json_fault f);

enum json_flags {
	JSON_STRICT = 0,
	JSON_COMMENTS = 1 << 0, /* take comments of C and C++ form wherever whitespace may stand */
	JSON_NULS = 1 << 1, /* take \u0000: an engine repeats what an image says. Texts and keys may then hold NUL */
};

/* Owns every node and every unescaped string of one document. The input must outlive it (plain strings borrow). */
struct json_doc;

struct json_doc *json_doc_new(void);
void json_doc_free(struct json_doc *doc);

/*
 * Parses input, forgetting what doc held before (its memory is reused). Returns the root, or NULL with *fault and the
 * byte offset where it shows; the tree is then gone. At most 4 GiB - 1.
 */
struct json_node *json_parse(struct json_doc *doc, struct slice input, unsigned flags, enum json_fault *fault,
	size_t *offset) MUSTCHECK;

/*
 * After a fault, until the next document: appends the JSON Pointer of the innermost value that was being read (of the
 * repeated member, for JSON_FAULT_DUPLICATE).
 */
int json_put_fault_pointer(struct buf *b, const struct json_doc *doc) MUSTCHECK;

/* Line and column (both from 1, in bytes) of an offset. */
void json_position(struct slice input, size_t offset, unsigned *line, unsigned *column);

/* The hash that members carry, for tables of known names. It is no defence: users compare the bytes too. */
uint32_t json_key_hash(struct slice key);

/* Member by exact key, or NULL. node may be NULL or no object (NULL). */
const struct json_node *json_get(const struct json_node *node, const char *key);

/* Reads; false (and *out untouched) when the node is NULL or of another type. */
bool json_get_string(const struct json_node *node, const char *key, struct slice *out);
bool json_get_int(const struct json_node *node, const char *key, int64_t *out);
bool json_get_bool(const struct json_node *node, const char *key, bool *out);

/* Appends the node as compact JSON: numbers by their own digits, strings by buf_put_json() with UTF-8 kept. */
int json_put(struct buf *b, const struct json_node *node) MUSTCHECK;

/* Appends s as a JSON string, quotes included. */
int json_put_string(struct buf *b, struct slice s) MUSTCHECK;
int json_put_key(struct buf *b, const struct json_node *member) MUSTCHECK; /* and its colon */

/* Appends `s` to a JSON Pointer (RFC 6901): '/' and the token with ~ and / escaped. */
int json_pointer_push(struct buf *b, struct slice token) MUSTCHECK;

#endif
