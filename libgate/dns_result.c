/* The words for what became of a name. */
#include "libgate/dns_result.h"

static const char *const texts[DNS_RESULT_COUNT] = {
#define ROW(symbol, text) [DNS_##symbol] = text,
#include "libgate/dns_result.def"
#undef ROW
};

const char *dns_result_text(enum dns_result r)
{
	return texts[r];
}
