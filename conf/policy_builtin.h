/* The sandbox policy, conf/policy.json, made into a source file by build-aux/embed.sh at build. [pure] */
#ifndef CONF_POLICY_BUILTIN_H
#define CONF_POLICY_BUILTIN_H

#include <stddef.h>

extern const char policy_builtin_text[];
extern const size_t policy_builtin_size;

#endif
