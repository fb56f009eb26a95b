/*
 * Kinds of failure as clients see them (data.kind). [pure]
 *
 * Inside the program a failure is a struct err whose code is an errno value; each kind has one errno of its own, and
 * every other errno (a file's EISDIR, a socket's ECONNREFUSED) belongs to the kind that kind_of() says.
 */
#ifndef CONTROLLER_KIND_H
#define CONTROLLER_KIND_H

#include <errno.h>

#include "libgate/err.h"

enum kind {
#define ROW(sym, id, code, err) KIND_##sym,
#include "controller/kind.def"
#undef ROW
	KIND_COUNT
};

/* The errno that stands for a kind: err_set(err, E_KIND(GONE), ...). */
enum kind_errno {
#define ROW(sym, id, code, err) KIND_ERRNO_##sym = err,
#include "controller/kind.def"
#undef ROW
};
#define E_KIND(sym) ((int)KIND_ERRNO_##sym)

enum kind kind_of(int code);
/*
 * The errno value to tell for one that came out of a sandbox, whoever spoke there: it may say what a path or a command is, and
 * never that the sandbox is gone, is another's, or that nobody knows what was done.
 */
int kind_from_inside(int code);
const char *kind_id(enum kind k);
int kind_rpc_code(enum kind k);

#endif
