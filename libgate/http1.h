/*
 * HTTP/1.0 and HTTP/1.1 messages (RFC 9110, RFC 9112), read strictly and written from scratch. [pure]
 *
 * The reader refuses what RFC 9112 merely tolerates: bare CR or LF, obs-fold, whitespace before a colon, NUL and other
 * control bytes, an empty first line, a second Content-Length or Host (even an equal one), Content-Length together with
 * Transfer-Encoding, any transfer coding but one exact `chunked`, chunk extensions and trailers, versions other than 1.0
 * and 1.1. It never copies: names and values are offsets into the caller's buffer, so they stay right when that buffer
 * moves. What is sent on is written by http_put_*() from judged values; bytes of a peer's head are never forwarded.
 */
#ifndef GATE_HTTP1_H
#define GATE_HTTP1_H

#include <stdbool.h>
#include <stdint.h>

#include "libgate/buf.h"
#include "libgate/slice.h"

#define HTTP_MAX_FIELDS 100
#define HTTP_MAX_HEAD 16384 /* bytes, request or status line and the empty line included */

enum http_result {
	HTTP_MORE, /* valid so far, incomplete */
	HTTP_DATA, /* body reader only: a run of body bytes was produced */
	HTTP_DONE,
	HTTP_BAD, /* refused; the reason says why. Nothing that follows on this connection may be parsed. */
};

/* Reasons for refusing a message: one row {id, status, text} in http1_reason.def. */
enum http_reason {
	HTTP_OK,
#define ROW(sym, id, status, text) HTTP_REASON_##sym,
#include "libgate/http1_reason.def"
#undef ROW
	HTTP_REASON_COUNT
};

const char *http_reason_id(enum http_reason r); /* "http-bare-lf" */
int http_reason_status(enum http_reason r); /* 400, 413, 431, 501, 505 … */
const char *http_reason_text(enum http_reason r); /* a sentence without a full stop */

/* Registered methods that the programs tell apart (IANA HTTP Method Registry); any other token is HTTP_OTHER. */
enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_DELETE,
	HTTP_PATCH,
	HTTP_OPTIONS,
	HTTP_TRACE,
	HTTP_CONNECT,
	HTTP_OTHER,
};

const char *http_method_name(enum http_method m); /* HTTP_OTHER: "?" */

struct http_span {
	uint16_t off;
	uint16_t len;
};

/* Fields that framing and forwarding depend on, found once; HTTP_F_OTHER for the rest. */
enum http_field_name {
	HTTP_F_OTHER,
	HTTP_F_HOST,
	HTTP_F_CONTENT_LENGTH,
	HTTP_F_TRANSFER_ENCODING,
	HTTP_F_CONTENT_TYPE,
	HTTP_F_CONTENT_ENCODING,
	HTTP_F_CONNECTION,
	HTTP_F_UPGRADE,
	HTTP_F_EXPECT,
	HTTP_F_TRAILER,
	HTTP_F_TE,
	HTTP_F_KEEP_ALIVE,
	HTTP_F_PROXY_CONNECTION,
	HTTP_F_PROXY_AUTHORIZATION,
	HTTP_F_PROXY_AUTHENTICATE,
	HTTP_F_X_REGISTRY_AUTH,
	HTTP_F_COUNT
};

struct http_field {
	struct http_span name;
	struct http_span value; /* without surrounding SP and HTAB */
	enum http_field_name id;
};

enum http_framing {
	HTTP_BODY_NONE,
	HTTP_BODY_LENGTH,
	HTTP_BODY_CHUNKED,
	HTTP_BODY_EOF, /* responses only: until the peer closes */
};

/* Differences between the users of one reader. */
enum http_flags {
	HTTP_REQUEST = 0,
	HTTP_RESPONSE = 1 << 0,
	HTTP_TE_ANY_CASE = 1 << 1, /* take `Chunked` as chunked (a forward proxy's clients) */
	HTTP_HOST_OPTIONAL = 1 << 2, /* HTTP/1.1 without Host, which HTTP/1.0 never needs (clients of a forward proxy) */
	HTTP_LENIENT_RESPONSE = 1 << 3, /* an origin's answer: TE with CL drops CL and forces close */
};

struct http_head {
	/* set by http_head_init() */
	unsigned flags;
	size_t max; /* bytes of the whole head */
	/* reader state */
	size_t scanned; /* bytes already examined */
	size_t line; /* offset of the line being read */
	uint8_t connection; /* members of Connection seen so far */
	enum http_reason reason; /* set with HTTP_BAD */
	/* result, valid after HTTP_DONE */
	size_t length; /* bytes of the head; the body starts here */
	enum http_method method;
	struct http_span method_text;
	struct http_span target;
	int status;
	struct http_span reason_phrase;
	uint8_t minor; /* HTTP/1.minor */
	bool keep_alive; /* persistence by version and Connection */
	bool expect_continue; /* Expect: 100-continue, the only expectation accepted */
	bool upgrade; /* Connection names upgrade and there is exactly one Upgrade field */
	bool te_chunked;
	enum http_framing framing; /* of a request; a response's by http_response_framing() */
	uint64_t content_length; /* with HTTP_BODY_LENGTH */
	bool has_content_length;
	unsigned nfields;
	struct http_field fields[HTTP_MAX_FIELDS];
	uint8_t first[HTTP_F_COUNT]; /* 1 + index of the first field with that id, 0 when absent */
	uint8_t count[HTTP_F_COUNT]; /* how many */
};

/* max: at most HTTP_MAX_HEAD. */
void http_head_init(struct http_head *h, unsigned flags, size_t max);

/*
 * Reads p[0..len): the whole of what has arrived since the head's first byte, every call. Work is linear in the bytes
 * that are new. A fault is reported at the first line that shows it, without waiting for the end of the head.
 * HTTP_MORE, HTTP_DONE or HTTP_BAD.
 */
enum http_result http_head_read(struct http_head *h, const char *p, size_t len) MUSTCHECK;

/*
 * Framing of a response to `method` (RFC 9112 section 6.3), after HTTP_DONE. Sets framing, and keep_alive to false where
 * the body ends by closing or where fields promise a body that the status forbids. HTTP_BAD when the framing is in doubt.
 */
enum http_result http_response_framing(struct http_head *h, enum http_method request_method) MUSTCHECK;

static inline struct slice http_span(const char *p, struct http_span s)
{
	return slice_make(p + s.off, s.len);
}

/* The value of the first field `id`; an empty slice with p == NULL when absent. p is the buffer given to the reader. */
struct slice http_field_value(const struct http_head *h, const char *p, enum http_field_name id);

/* True when the comma-separated value has `token` as a member, ASCII case-insensitively. */
bool http_list_has(struct slice value, struct slice token);

/* True when any Connection field names `token`. */
bool http_connection_names(const struct http_head *h, const char *p, struct slice token);

/* Is every byte of s a tchar (RFC 9110 section 5.6.2)? Empty: false. */
bool http_is_token(struct slice s);

/* --- body ----------------------------------------------------------------------------------------------------- */

struct http_body {
	enum http_framing framing;
	uint64_t left; /* of the length, or of the current chunk */
	uint64_t max; /* ceiling of decoded bytes; UINT64_MAX for none */
	uint64_t total; /* decoded so far */
	uint8_t state;
	uint8_t digits;
	bool lenient; /* set after http_body_init(): an origin's chunk extensions and trailers are read past, bounded */
	uint16_t skipped; /* bytes read past so */
	enum http_reason reason;
};

/* A length above max is refused by the first call to http_body_read(). */
void http_body_init(struct http_body *b, enum http_framing framing, uint64_t length, uint64_t max);

/*
 * Decodes p[0..len). *used is set to the bytes consumed, framing included; with HTTP_DATA, *data is a run of body bytes
 * inside p. Call again with what is left. HTTP_DONE: the message ended, p + *used is the next message. With
 * HTTP_BODY_EOF the caller ends the body at the peer's close.
 */
enum http_result http_body_read(struct http_body *b, const char *p, size_t len, size_t *used,
	struct slice *data) MUSTCHECK;

/* --- writer --------------------------------------------------------------------------------------------------- */

/* Each returns -1 at the buffer's ceiling. A name that is no token or a value with CR, LF or NUL is refused (-1). */
int http_put_request_line(struct buf *b, struct slice method, struct slice target) MUSTCHECK; /* HTTP/1.1 */
int http_put_status_line(struct buf *b, int status, const char *reason_phrase) MUSTCHECK; /* NULL: the registered one */
int http_put_field(struct buf *b, const char *name, struct slice value) MUSTCHECK;
int http_put_field_u64(struct buf *b, const char *name, uint64_t value) MUSTCHECK;
int http_put_end(struct buf *b) MUSTCHECK;

const char *http_status_text(int status); /* IANA HTTP Status Code Registry; "Unknown" */

#endif
