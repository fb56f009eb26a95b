/*
 * What malloc() keeps: the memory of large answers is used again by the next ones, and goes back to the system seconds
 * after them. Fresh pages cost more than the bytes that are written to them, most of all in a virtual machine.
 */
#ifndef CONTROLLER_HEAP_H
#define CONTROLLER_HEAP_H

struct event;
struct event_base;

struct heap {
	struct event *timer;
};

/* Sets what the whole program's malloc() does: one of them in a program. Ends the program on lack of memory. */
void heap_init(struct heap *h, struct event_base *base);
void heap_release(struct heap *h);
/* Something has come to its end: its memory is given back within five seconds, whatever else goes on. */
void heap_freed(struct heap *h);

#endif
