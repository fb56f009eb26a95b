/* The rows of reason.def. */
#include "egressd/reason.h"

#include <stddef.h>

struct row {
	const char *id;
	int status;
	const char *proxy_status;
	const char *text;
};

static const struct row rows[REASON_COUNT] = {
	[REASON_OK] = { "ok", 200, "", "allowed" },
#define ROW(sym, id, status, proxy_status, text) [REASON_##sym] = { id, status, proxy_status, text },
#include "egressd/reason.def"
#undef ROW
};

static const struct row *row_of(enum reason r)
{
	return &rows[(size_t)r < REASON_COUNT ? r : REASON_INTERNAL];
}

const char *reason_id(enum reason r)
{
	return row_of(r)->id;
}

int reason_status(enum reason r)
{
	return row_of(r)->status;
}

const char *reason_proxy_status(enum reason r)
{
	return row_of(r)->proxy_status;
}

const char *reason_text(enum reason r)
{
	return row_of(r)->text;
}

enum reason reason_of_dns(enum dns_result r)
{
	static const enum reason reasons[DNS_RESULT_COUNT] = {
		[DNS_OK] = REASON_OK,
		[DNS_NXDOMAIN] = REASON_DNS_NXDOMAIN,
		[DNS_EMPTY] = REASON_DNS_EMPTY,
		[DNS_FAILED] = REASON_DNS_FAILED,
		[DNS_MALFORMED] = REASON_DNS_MALFORMED,
		[DNS_TOO_MANY] = REASON_DNS_TOO_MANY,
		[DNS_TIMEOUT] = REASON_DNS_TIMEOUT,
		[DNS_BUSY] = REASON_DNS_BUSY,
		[DNS_NO_MEMORY] = REASON_INTERNAL,
	};

	return reasons[r];
}
