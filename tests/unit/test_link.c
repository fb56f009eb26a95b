/* The worker's end of the line to the master, against a master played by the test. */
#include "dockerproxy/link.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "dockerproxy/link_wire.h"
#include "tests/unit/unit.h"

#define MANY 2000 /* more than a line holds */

struct fixture {
	struct event_base *base;
	struct link *link;
	int master;
	unsigned retired, stopped;
	int audit;
};

struct answer {
	unsigned calls;
	int fd, error;
};

static void on_drain(bool bounded, void *arg)
{
	struct fixture *f = arg;

	if (bounded)
		f->stopped++;
	else
		f->retired++;
}

static void on_audit(int fd, void *arg)
{
	struct fixture *f = arg;

	f->audit = fd;
}

static void on_dialed(int fd, int error, void *arg)
{
	struct answer *a = arg;

	a->calls++;
	a->fd = fd;
	a->error = error;
}

static void start(struct fixture *f)
{
	static const struct link_handlers handlers = { on_drain, on_audit };
	int line[2];

	*f = (struct fixture){ .base = event_base_new(), .audit = -1 };
	if (link_pair(line) < 0)
		abort();
	f->master = line[0];
	f->link = link_new(f->base, line[1], &handlers, f);
}

static void stop(struct fixture *f)
{
	link_free(f->link);
	if (f->master >= 0)
		close(f->master);
	event_base_free(f->base);
}

static void turn(struct fixture *f)
{
	event_base_loop(f->base, EVLOOP_NONBLOCK);
}

/* What the master reads next; type 0: nothing. */
static struct link_msg heard(const struct fixture *f)
{
	struct link_msg msg;
	int fd;

	if (link_receive(f->master, &msg, &fd) != LINK_GOT)
		return (struct link_msg){ .type = 0 };
	return msg;
}

static void say(const struct fixture *f, enum link_type type, uint32_t id, int error, int fd)
{
	const struct link_msg msg = { .type = type, .id = id, .error = error };

	CU_ASSERT_EQUAL(link_send(f->master, &msg, fd), 1);
}

static void test_dial(void)
{
	struct fixture f;
	struct answer a = { .fd = -2 }, b = { .fd = -2 };
	struct link_msg first, second;
	int engine[2];

	start(&f);
	CU_ASSERT_PTR_NOT_NULL(link_connect(f.link, on_dialed, &a));
	CU_ASSERT_PTR_NOT_NULL(link_connect(f.link, on_dialed, &b));
	first = heard(&f);
	second = heard(&f);
	CU_ASSERT_TRUE(first.type == LINK_DIAL && second.type == LINK_DIAL && first.id != second.id);
	/* Answers come in any order, and each finds its own caller. */
	CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, engine), 0);
	say(&f, LINK_DIALED, second.id, 0, engine[0]);
	say(&f, LINK_DIALED, first.id, ECONNREFUSED, -1);
	turn(&f);
	turn(&f);
	CU_ASSERT_TRUE(b.calls == 1 && b.error == 0 && b.fd >= 0);
	CU_ASSERT_TRUE((fcntl(b.fd, F_GETFD) & FD_CLOEXEC) != 0);
	CU_ASSERT_TRUE(a.calls == 1 && a.error == ECONNREFUSED && a.fd == -1);
	/* An answer to nobody: its descriptor is closed. */
	say(&f, LINK_DIALED, 4711, 0, engine[0]);
	turn(&f);
	close(engine[0]);
	close(b.fd);
	CU_ASSERT_EQUAL(read(engine[1], &a, 1), 0);
	close(engine[1]);
	stop(&f);
}

static void test_cancelled_dial(void)
{
	struct fixture f;
	struct answer a = { .fd = -2 };
	int engine[2];

	start(&f);
	link_cancel(link_connect(f.link, on_dialed, &a));
	link_cancel(NULL);
	CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, engine), 0);
	say(&f, LINK_DIALED, heard(&f).id, 0, engine[0]);
	close(engine[0]);
	turn(&f);
	CU_ASSERT_EQUAL(a.calls, 0);
	CU_ASSERT_EQUAL(read(engine[1], &a, 1), 0);
	close(engine[1]);
	stop(&f);
}

/* More requests than the line holds wait in order, and none is lost or asked twice. */
static void test_full_line(void)
{
	static struct answer answers[MANY];
	struct fixture f;
	unsigned asked = 0;

	memset(answers, 0, sizeof(answers));
	start(&f);
	link_ready(f.link);
	for (int i = 0; i < MANY; i++)
		CU_ASSERT_PTR_NOT_NULL(link_connect(f.link, on_dialed, &answers[i]));
	CU_ASSERT_EQUAL(heard(&f).type, LINK_READY);
	for (uint32_t last = 0; asked < MANY;) {
		struct link_msg msg = heard(&f);

		if (msg.type == 0) {
			turn(&f);
			continue;
		}
		if (!UNIT_CHECK(msg.type == LINK_DIAL && msg.id == last + 1, "%u after %u", msg.id, last))
			break;
		last = msg.id;
		asked++;
		say(&f, LINK_DIALED, msg.id, EAGAIN, -1);
		turn(&f);
	}
	for (int i = 0; i < MANY; i++)
		turn(&f);
	for (int i = 0; i < MANY; i++)
		if (!UNIT_CHECK(answers[i].calls == 1 && answers[i].error == EAGAIN, "dial %d", i))
			break;
	CU_ASSERT_EQUAL(heard(&f).type, 0);
	stop(&f);
}

static void test_orders(void)
{
	struct fixture f;
	int file = open("/dev/null", O_WRONLY | O_CLOEXEC);

	start(&f);
	say(&f, LINK_AUDIT, 0, 0, file);
	close(file);
	turn(&f);
	CU_ASSERT_TRUE(f.audit >= 0);
	CU_ASSERT_EQUAL(write(f.audit, "x", 1), 1);
	close(f.audit);
	/* Each kind of drain once, the bounded one also after the other, and nothing after that. */
	say(&f, LINK_RETIRE, 0, 0, -1);
	say(&f, LINK_RETIRE, 0, 0, -1);
	say(&f, LINK_STOP, 0, 0, -1);
	say(&f, LINK_STOP, 0, 0, -1);
	say(&f, LINK_RETIRE, 0, 0, -1);
	for (int i = 0; i < 6; i++)
		turn(&f);
	CU_ASSERT_EQUAL(f.retired, 1);
	CU_ASSERT_EQUAL(f.stopped, 1);
	stop(&f);
}

static void test_master_gone(void)
{
	struct fixture f;
	struct answer a = { .fd = -2 };

	start(&f);
	CU_ASSERT_PTR_NOT_NULL(link_connect(f.link, on_dialed, &a));
	close(f.master);
	f.master = -1;
	turn(&f);
	turn(&f);
	CU_ASSERT_EQUAL(f.stopped, 1);
	CU_ASSERT_TRUE(a.calls == 1 && a.fd == -1 && a.error == EPIPE);
	CU_ASSERT_PTR_NULL(link_connect(f.link, on_dialed, &a));
	stop(&f);
}

/* What is no message: another size, or more than one descriptor. */
static void test_broken_messages(void)
{
	struct link_msg msg = { .type = LINK_DIAL };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(3 * sizeof(int))];
	} control = { .space = { 0 } };
	struct iovec iov = { &msg, sizeof(msg) };
	struct msghdr head = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space) };
	int line[2], fd, probe[2];

	CU_ASSERT_EQUAL_FATAL(link_pair(line), 0);
	CU_ASSERT_EQUAL(send(line[0], "x", 1, 0), 1);
	CU_ASSERT_EQUAL(link_receive(line[1], &msg, &fd), LINK_BROKEN);
	CU_ASSERT_EQUAL(send(line[0], "more than a message is long", 27, 0), 27);
	CU_ASSERT_EQUAL(link_receive(line[1], &msg, &fd), LINK_BROKEN);
	/* Three descriptors: none stays open on this side. */
	CU_ASSERT_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, probe), 0);
	control.head =
		(struct cmsghdr){ .cmsg_len = CMSG_LEN(3 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	for (int i = 0; i < 3; i++)
		memcpy(CMSG_DATA(&control.head) + i * sizeof(int), &probe[0], sizeof(int));
	CU_ASSERT_EQUAL(sendmsg(line[0], &head, 0), (ssize_t)sizeof(msg));
	close(probe[0]);
	CU_ASSERT_EQUAL(link_receive(line[1], &msg, &fd), LINK_BROKEN);
	CU_ASSERT_EQUAL(fd, -1);
	CU_ASSERT_EQUAL(recv(probe[1], &msg, 1, MSG_DONTWAIT), 0);
	close(probe[1]);
	close(line[0]);
	CU_ASSERT_EQUAL(link_receive(line[1], &msg, &fd), LINK_GONE);
	close(line[1]);
}

static const struct unit_test tests[] = {
	{ "dial", test_dial },
	{ "cancelled dial", test_cancelled_dial },
	{ "full line", test_full_line },
	{ "orders", test_orders },
	{ "master gone", test_master_gone },
	{ "broken messages", test_broken_messages },
};

UNIT_MAIN("link", tests)
