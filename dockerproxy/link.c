/* The worker's end of the line to the master: matches answers to requests and tells the worker what it must do. */
#include "dockerproxy/link.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "dockerproxy/link_wire.h"

struct link_dial {
	TAILQ_ENTRY(link_dial) entry;
	struct link *link;
	uint32_t id;
	bool sent;
	link_connect_cb cb; /* NULL: cancelled, the answer is only thrown away */
	void *arg;
};

TAILQ_HEAD(dial_list, link_dial);

struct link {
	int fd;
	struct event *readable;
	struct event *writable; /* a message found the line full */
	struct event *failed; /* answers every dial once the master is gone */
	struct link_handlers handlers;
	void *arg;
	struct dial_list dials;
	uint32_t next_id;
	bool gone;
	bool ready_unsent;
	bool audit_asked;
	time_t audit_asked_s;
	bool retired, stopped; /* told */
};

static void finish(struct link_dial *dial, int fd, int error)
{
	link_connect_cb cb = dial->cb;
	void *arg = dial->arg;

	TAILQ_REMOVE(&dial->link->dials, dial, entry);
	free(dial);
	if (cb != NULL)
		cb(fd, error, arg);
	else if (fd >= 0)
		close(fd);
}

static void on_dialed(struct link *link, const struct link_msg *msg, int fd)
{
	struct link_dial *dial;

	TAILQ_FOREACH (dial, &link->dials, entry) {
		if (dial->id == msg->id) {
			finish(dial, fd, fd >= 0 ? 0 : msg->error != 0 ? msg->error : ECONNREFUSED);
			return;
		}
	}
	if (fd >= 0)
		close(fd);
}

static void drain(struct link *link, bool bounded)
{
	bool *told = bounded ? &link->stopped : &link->retired;

	if (*told || link->stopped)
		return;
	*told = true;
	link->handlers.drain(bounded, link->arg);
}

static void on_failed(evutil_socket_t fd, short what, void *arg)
{
	struct link *link = arg;
	struct link_dial *dial;

	while ((dial = TAILQ_FIRST(&link->dials)) != NULL)
		finish(dial, -1, EPIPE);
}

static void master_gone(struct link *link)
{
	link->gone = true;
	event_del(link->readable);
	event_del(link->writable);
	event_active(link->failed, EV_TIMEOUT, 1);
	drain(link, true);
}

static void on_message(struct link *link, const struct link_msg *msg, int fd)
{
	switch (msg->type) {
	case LINK_DIALED:
		on_dialed(link, msg, fd);
		return;
	case LINK_RETIRE:
		drain(link, false);
		break;
	case LINK_STOP:
		drain(link, true);
		break;
	case LINK_AUDIT:
		if (fd >= 0)
			link->handlers.audit(fd, link->arg);
		return;
	}
	if (fd >= 0)
		close(fd);
}

/* One message a call: handlers may free the link, and the event is level-triggered. */
static void on_readable(evutil_socket_t sock, short what, void *arg)
{
	struct link *link = arg;
	struct link_msg msg;
	int fd;

	switch (link_receive(sock, &msg, &fd)) {
	case LINK_GOT:
		on_message(link, &msg, fd);
		break;
	case LINK_NOTHING:
		break;
	case LINK_GONE:
	case LINK_BROKEN:
		master_gone(link);
		break;
	}
}

/* Sends what waits, in order, until the line is full again. A line that is gone shows at the next read. */
static void flush(struct link *link)
{
	struct link_msg msg = { .type = LINK_READY };
	struct link_dial *dial;
	int rc = 1;

	if (link->ready_unsent) {
		rc = link_send(link->fd, &msg, -1);
		link->ready_unsent = rc == 0;
	}
	TAILQ_FOREACH (dial, &link->dials, entry) {
		if (rc <= 0)
			break;
		if (dial->sent)
			continue;
		msg = (struct link_msg){ .type = LINK_DIAL, .id = dial->id };
		rc = link_send(link->fd, &msg, -1);
		dial->sent = rc > 0;
	}
	if (rc == 0)
		event_add(link->writable, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	flush(arg);
}

struct link *link_new(struct event_base *base, int fd, const struct link_handlers *handlers, void *arg)
{
	struct link *link = calloc(1, sizeof(*link));

	if (link == NULL)
		return NULL;
	TAILQ_INIT(&link->dials);
	link->fd = -1;
	link->handlers = *handlers;
	link->arg = arg;
	link->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, link);
	link->writable = event_new(base, fd, EV_WRITE, on_writable, link);
	link->failed = event_new(base, -1, 0, on_failed, link);
	if (link->readable == NULL || link->writable == NULL || link->failed == NULL ||
		event_add(link->readable, NULL) < 0) {
		link_free(link);
		return NULL;
	}
	link->fd = fd;
	return link;
}

void link_free(struct link *link)
{
	struct link_dial *dial;

	if (link == NULL)
		return;
	while ((dial = TAILQ_FIRST(&link->dials)) != NULL) {
		TAILQ_REMOVE(&link->dials, dial, entry);
		free(dial);
	}
	if (link->readable != NULL)
		event_free(link->readable);
	if (link->writable != NULL)
		event_free(link->writable);
	if (link->failed != NULL)
		event_free(link->failed);
	if (link->fd >= 0)
		close(link->fd);
	free(link);
}

void link_ready(struct link *link)
{
	link->ready_unsent = true;
	flush(link);
}

void link_audit_lost(struct link *link)
{
	const struct link_msg msg = { .type = LINK_AUDIT };
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (link->gone || (link->audit_asked && now.tv_sec <= link->audit_asked_s))
		return;
	/* A line that is full is asked over again later. */
	link->audit_asked = link_send(link->fd, &msg, -1) > 0;
	link->audit_asked_s = now.tv_sec;
}

struct link_dial *link_connect(struct link *link, link_connect_cb cb, void *arg)
{
	struct link_dial *dial;

	if (link->gone)
		return NULL;
	dial = calloc(1, sizeof(*dial));
	if (dial == NULL)
		return NULL;
	dial->link = link;
	dial->id = ++link->next_id;
	dial->cb = cb;
	dial->arg = arg;
	TAILQ_INSERT_TAIL(&link->dials, dial, entry);
	if (!event_pending(link->writable, EV_WRITE, NULL))
		flush(link);
	return dial;
}

void link_cancel(struct link_dial *dial)
{
	if (dial != NULL)
		dial->cb = NULL;
}
