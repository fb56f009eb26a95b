/* How many processes of this sandbox the kernel has killed for lack of memory, as its cgroup counts them. */
#ifndef RUNNER_OOM_H
#define RUNNER_OOM_H

#include <stdbool.h>
#include <stdint.h>

/* A descriptor of the counter's file, or -1 where the runtime shows none (gVisor). */
int oom_open(void);
bool oom_read(int fd, uint64_t *out);

#endif
