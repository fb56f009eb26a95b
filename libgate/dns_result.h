/* What became of a name that was asked for. [pure] */
#ifndef GATE_DNS_RESULT_H
#define GATE_DNS_RESULT_H

enum dns_result {
#define ROW(symbol, text) DNS_##symbol,
#include "libgate/dns_result.def"
#undef ROW
	DNS_RESULT_COUNT
};

const char *dns_result_text(enum dns_result r);

#endif
