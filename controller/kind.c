/* Maps errno values to the kinds of failure that clients know. */
#include "controller/kind.h"

static const struct {
	const char *id;
	int rpc_code;
	int code;
} kinds[KIND_COUNT] = {
#define ROW(sym, id, code, err) [KIND_##sym] = { id, code, err },
#include "controller/kind.def"
#undef ROW
};

/* What the kernel and libraries say, beyond the one errno of each kind. */
static const struct {
	int code;
	enum kind kind;
} others[] = {
	{ EPERM, KIND_DENIED },
	{ EROFS, KIND_DENIED },
	{ ENOSPC, KIND_LIMIT },
	{ EDQUOT, KIND_LIMIT },
	{ EFBIG, KIND_LIMIT },
	{ EMFILE, KIND_LIMIT },
	{ ENFILE, KIND_LIMIT },
	{ ENOMEM, KIND_LIMIT },
	{ ENOBUFS, KIND_LIMIT },
	{ EMSGSIZE, KIND_LIMIT },
	{ ECONNREFUSED, KIND_UNAVAILABLE },
	{ ECONNRESET, KIND_UNAVAILABLE },
	{ ECONNABORTED, KIND_UNAVAILABLE },
	{ EHOSTUNREACH, KIND_UNAVAILABLE },
	{ ENETUNREACH, KIND_UNAVAILABLE },
	{ EPIPE, KIND_UNAVAILABLE },
	{ EPROTO, KIND_UNAVAILABLE },
	{ EBUSY, KIND_CONFLICT },
	{ ENOTEMPTY, KIND_CONFLICT },
	{ EIO, KIND_UNAVAILABLE },
};

enum kind kind_of(int code)
{
	for (unsigned i = 0; i < KIND_COUNT; i++)
		if (kinds[i].code == code)
			return (enum kind)i;
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++)
		if (others[i].code == code)
			return others[i].kind;
	return KIND_INVALID;
}

int kind_from_inside(int code)
{
	enum kind k = kind_of(code);

	return k == KIND_GONE || k == KIND_FENCED || k == KIND_UNKNOWN_OUTCOME ? EINVAL : code;
}

const char *kind_id(enum kind k)
{
	return kinds[k].id;
}

int kind_rpc_code(enum kind k)
{
	return kinds[k].rpc_code;
}
