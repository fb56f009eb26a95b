/* What a test of the runner does most: start one, run a command to its end, ask how that was. Each asserts. */
#ifndef TESTS_RUNNER_STEPS_H
#define TESTS_RUNNER_STEPS_H

#include "tests/runner/peer.h"
#include "tests/runner/room.h"
#include "tests/unit/unit.h"

#define WINDOW 262144 /* bytes of credit that the peer gives for each stream */

static inline bool ended(struct peer *p, uint32_t c, enum frame_end end, uint64_t status)
{
	return peer_num(p, c, FRAME_ATTR_END) == end && peer_num(p, c, FRAME_ATTR_STATUS) == status;
}

static inline bool exited(struct peer *p, uint32_t c, uint64_t status)
{
	return ended(p, c, FRAME_END_EXITED, status);
}

static inline struct peer *fresh(void)
{
	struct peer *p = peer_new(room_program);

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	peer_hello(p, WINDOW);
	return p;
}

static inline uint32_t run(struct peer *p, const char *line)
{
	uint32_t c = peer_start(p, &(struct peer_command){ .line = line });

	CU_ASSERT_TRUE(peer_wait(p, c));
	return c;
}

static inline uint32_t begin(struct peer *p, const struct peer_command *command)
{
	uint32_t c = peer_start(p, command);

	CU_ASSERT_TRUE(peer_wait_started(p, c));
	return c;
}

#endif
