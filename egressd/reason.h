/* Reasons: one row {id, status, RFC 9209 error type, text} in reason.def for everything that can be refused or fail. [pure] */
#ifndef EGRESSD_REASON_H
#define EGRESSD_REASON_H

#include "libgate/dns_result.h"

enum reason {
	REASON_OK,
#define ROW(sym, id, status, proxy_status, text) REASON_##sym,
#include "egressd/reason.def"
#undef ROW
	REASON_COUNT
};

/* The reason with which a request ends whose host could not be resolved so. */
enum reason reason_of_dns(enum dns_result r);

const char *reason_id(enum reason r); /* "host-not-allowed"; of REASON_OK: "ok" */
int reason_status(enum reason r);
const char *reason_proxy_status(enum reason r);
const char *reason_text(enum reason r);

#endif
