/* What a running command is sent: its input, at the pace at which it reads, and the size of its terminal. */
#include "controller/method_exec_impl.h"

#include <errno.h>

static void feed(struct command *c)
{
	if (c->op == NULL || !c->request.want_stdin)
		return;
	while (c->input_sent < c->ninput) {
		size_t n = c->backend->ops->write(c->op, slice_make(c->input + c->input_sent, c->ninput - c->input_sent));
		if (n == 0)
			return;
		c->input_sent += n;
	}
	while (buf_len(&c->later) > 0) {
		size_t n = c->backend->ops->write(c->op, buf_slice(&c->later));
		if (n == 0)
			return;
		buf_consume(&c->later, n);
	}
	buf_trim(&c->later);
	if (!c->keep_input && !c->input_closed) {
		c->input_closed = true;
		c->backend->ops->close(c->op);
	}
}

void method_exec_on_room(size_t bytes, void *arg)
{
	struct command *c = arg;

	feed(c);
	if (c->call->room != NULL && c->op != NULL)
		c->call->room(c->call, bytes);
}

int method_exec_take_input(struct call *call, struct slice data, bool close, struct err *err)
{
	struct command *c = call->state;

	if (!c->request.want_stdin || !c->keep_input)
		return err_set(err, EINVAL, "the command was started without an open stdin, or it is closed already");
	if (buf_put_slice(&c->later, data) != 0)
		return err_set(err, E2BIG,
			"at most %zu bytes of input wait for a command to read them: %zu do, and these are %zu", c->later.max,
			buf_len(&c->later), data.len);
	if (close)
		c->keep_input = false;
	feed(c);
	return 0;
}

int method_exec_take_size(struct call *call, uint16_t rows, uint16_t cols, struct err *err)
{
	struct command *c = call->state;

	if (!c->request.tty)
		return err_set(err, EINVAL, "the command has no terminal");
	c->request.rows = rows;
	c->request.cols = cols;
	if (c->op != NULL)
		c->backend->ops->resize(c->op, rows, cols);
	return 0;
}
