/* Reasons for refusing a message, and the registered status codes and methods, by name. */
#include "libgate/http1.h"

static const struct {
	const char *id;
	int status;
	const char *text;
} reasons[HTTP_REASON_COUNT] = {
	[HTTP_OK] = { "ok", 200, "" },
#define ROW(sym, id, status, text) [HTTP_REASON_##sym] = { id, status, text },
#include "libgate/http1_reason.def"
#undef ROW
};

const char *http_reason_id(enum http_reason r)
{
	return reasons[r].id;
}

int http_reason_status(enum http_reason r)
{
	return reasons[r].status;
}

const char *http_reason_text(enum http_reason r)
{
	return reasons[r].text;
}

const char *http_method_name(enum http_method m)
{
	switch (m) {
	case HTTP_GET:
		return "GET";
	case HTTP_HEAD:
		return "HEAD";
	case HTTP_POST:
		return "POST";
	case HTTP_PUT:
		return "PUT";
	case HTTP_DELETE:
		return "DELETE";
	case HTTP_PATCH:
		return "PATCH";
	case HTTP_OPTIONS:
		return "OPTIONS";
	case HTTP_TRACE:
		return "TRACE";
	case HTTP_CONNECT:
		return "CONNECT";
	case HTTP_OTHER:
		break;
	}
	return "?";
}

const char *http_status_text(int status)
{
	static const struct {
		int code;
		const char *text;
	} rows[] = {
#define ROW(code, text) { code, text },
#include "libgate/http1_status.def"
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].code == status)
			return rows[i].text;
	return "Unknown";
}
