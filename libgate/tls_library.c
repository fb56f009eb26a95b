/* OpenSSL, mapped when a configuration asks for TLS and not before; programs that are linked statically carry it. */
#include "libgate/tls_impl.h"

#include <errno.h>

#ifdef STATIC_PROGRAM

const struct tls_library ossl = {
#define ROW(name) .name = name,
#include "libgate/tls_call.def"
#undef ROW
};

int tls_library_load(struct err *err)
{
	(void)err;
	return 0;
}

#else

#include <dlfcn.h>
#include <string.h>

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number
#define LIBRARY "libssl.so." TEXT(OPENSSL_SHLIB_VERSION) /* of the headers that this was compiled with */

struct tls_library ossl;

static const struct {
	const char *name;
	size_t at; /* in ossl */
} calls[] = {
#define ROW(name) { #name, offsetof(struct tls_library, name) },
#include "libgate/tls_call.def"
#undef ROW
};

static int find_calls(void *library, struct err *err)
{
	struct tls_library found;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		void *call = dlsym(library, calls[i].name); /* of libcrypto too: libssl depends on it */

		if (call == NULL)
			return err_set(err, ENOSYS, "TLS: %s has no %s; install OpenSSL %d or later", LIBRARY, calls[i].name,
				OPENSSL_VERSION_MAJOR);
		memcpy((char *)&found + calls[i].at, &call, sizeof(call));
	}
	ossl = found;
	return 0;
}

/* It is never unmapped: OpenSSL has handlers that run when the process ends. */
int tls_library_load(struct err *err)
{
	static bool loaded;
	void *library;

	if (loaded)
		return 0;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return err_set(err, ENOENT, "TLS: %s; install OpenSSL (Debian: libssl3), or configure no TLS", dlerror());
	if (find_calls(library, err) < 0)
		return -1;
	loaded = true;
	return 0;
}

#endif
