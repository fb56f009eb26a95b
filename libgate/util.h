/* Small language helpers: attributes, cleanup, ownership hand-over, safe list traversal. Nothing else belongs here. */
#ifndef GATE_UTIL_H
#define GATE_UTIL_H

#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MUSTCHECK __attribute__((warn_unused_result))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

/* The struct of type T whose member M is at P. */
#define container_of(p, T, m) ((T *)(void *)((char *)(p)-offsetof(T, m)))

/* glibc's <sys/queue.h> has no traversal that survives removal of the current element. */
#define TAILQ_FOREACH_SAFE(var, head, field, next) \
	for ((var) = TAILQ_FIRST(head); (var) != NULL && ((next) = TAILQ_NEXT(var, field), 1); (var) = (next))

static inline void util_freep(void *p)
{
	void **pp = p;
	free(*pp);
	*pp = NULL;
}

static inline void util_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Things owned by a function; hand them on with STEAL. A function uses these or goto, never both. */
#define auto_free __attribute__((cleanup(util_freep)))
#define auto_close __attribute__((cleanup(util_closep)))
#define STEAL(p) \
	__extension__({ \
		__typeof__(p) steal_ = (p); \
		(p) = NULL; \
		steal_; \
	})
#define STEAL_FD(fd) \
	__extension__({ \
		int steal_ = (fd); \
		(fd) = -1; \
		steal_; \
	})

#endif
