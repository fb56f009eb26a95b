/* conf/policy.json, made into a source file by build-aux/embed.sh at build. */
#ifndef DOCKERPROXY_POLICY_BUILTIN_H
#define DOCKERPROXY_POLICY_BUILTIN_H

#include <stddef.h>

extern const char policy_builtin_text[];
extern const size_t policy_builtin_size;

#endif
