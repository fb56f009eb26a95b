/* The program's one event loop. */
#ifndef CONTROLLER_LOOP_H
#define CONTROLLER_LOOP_H

struct event_base;

/* epoll, unless stdin or stdout is a regular file, which it cannot watch. NULL on lack of memory. */
struct event_base *loop_new(void);

#endif
