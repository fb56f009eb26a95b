/* The worker's end of the line to the master: matches answers to requests and tells the worker what it must do. */
#include "dockerproxy/link.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/queue.h>

#include "dockerproxy/link_wire.h"

struct link_dial {
	TAILQ_ENTRY(link_dial) entry;
	struct link *link;
	uint32_t id;
	link_connect_cb cb; /* NULL: cancelled, the answer is only thrown away */
	void *arg;
};

TAILQ_HEAD(dial_list, link_dial);

struct link {
	int fd;
	struct event *readable;
	struct event *failed; /* answers every dial once the master is gone */
	struct link_handlers handlers;
	void *arg;
	struct dial_list dials;
	uint32_t next_id;
	bool gone;
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

	TAILQ_FOREACH(dial, &link->dials, entry) {
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
	int rc = link_receive(sock, &msg, &fd);

	if (rc > 0)
		on_message(link, &msg, fd);
	else if (rc < 0)
		master_gone(link);
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
	link->failed = event_new(base, -1, 0, on_failed, link);
	if (link->readable == NULL || link->failed == NULL || event_add(link->readable, NULL) < 0) {
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
	if (link->failed != NULL)
		event_free(link->failed);
	if (link->fd >= 0)
		close(link->fd);
	free(link);
}

void link_ready(struct link *link)
{
	const struct link_msg msg = { .type = LINK_READY };

	/* A failure here shows as the end of the line in the next turn of the loop. */
	if (!link_send(link->fd, &msg, -1))
		link->gone = true;
}

struct link_dial *link_connect(struct link *link, link_connect_cb cb, void *arg)
{
	struct link_dial *dial;
	struct link_msg msg = { .type = LINK_DIAL };

	if (link->gone)
		return NULL;
	dial = calloc(1, sizeof(*dial));
	if (dial == NULL)
		return NULL;
	dial->link = link;
	dial->id = msg.id = ++link->next_id;
	dial->cb = cb;
	dial->arg = arg;
	if (!link_send(link->fd, &msg, -1)) {
		free(dial);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&link->dials, dial, entry);
	return dial;
}

void link_cancel(struct link_dial *dial)
{
	if (dial != NULL)
		dial->cb = NULL;
}
