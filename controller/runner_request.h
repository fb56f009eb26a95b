/* Requests to the runner as the bytes of one frame. [pure] */
#ifndef CONTROLLER_RUNNER_REQUEST_H
#define CONTROLLER_RUNNER_REQUEST_H

#include "controller/exec_backend.h"
#include "libgate/frame.h"

/* One frame, malloc'ed and the caller's, *len bytes; NULL with err when it is too long for the protocol. */
char *runner_put_start(uint32_t channel, const struct exec_request *rq, size_t *len, struct err *err) MUSTCHECK;
char *runner_put_file(uint32_t channel, const struct file_request *rq, size_t *len, struct err *err) MUSTCHECK;
char *runner_put_kill(uint32_t channel, const struct slice *tags, unsigned ntags, size_t *len,
	struct err *err) MUSTCHECK;

/* What the runner's EXIT and DONE say; texts are borrowed from the frame, terminated in text[]. */
#define RUNNER_TEXT_MAX 600
void runner_get_exit(const struct frame *f, char text[RUNNER_TEXT_MAX], struct exec_outcome *out);
void runner_get_done(const struct frame *f, char text[RUNNER_TEXT_MAX], struct file_result *out);
void runner_get_info(const struct frame *f, struct file_info *out);

#endif
