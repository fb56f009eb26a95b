/* How much one process takes on: clients by memory and descriptors, names by the minute, the pool of the streams. */
#include "egressd/room.h"

#include "egressd/pace.h"
#include "egressd/stream.h"
#include "tests/unit/unit.h"

#define MIB (UINT64_C(1) << 20)

static void test_clients(void)
{
	static const struct {
		uint64_t descriptors, memory;
		int64_t configured;
		unsigned clients;
	} rows[] = {
		{ 1u << 20, 64 * MIB, 0, 2000 }, /* what the container is given */
		{ 1u << 20, 128 * MIB, 0, 4000 },
		{ 1u << 20, 1, 0, 1 },
		{ 1u << 20, 0, 0, 250000 }, /* no limit of memory */
		{ 1024, 0, 0, 464 },
		{ 1024, 64 * MIB, 0, 464 }, /* descriptors are fewer */
		{ 96, 0, 0, 1 },
		{ 98, 0, 0, 1 },
		{ 100, 0, 0, 2 },
		{ 0, 0, 0, 1 },
		{ 1u << 20, 64 * MIB, 5000, 5000 }, /* the operator knows better */
		{ 1u << 20, 64 * MIB, 1, 1 },
		{ 1024, 64 * MIB, 5000, 464 }, /* but not what cannot be */
		{ UINT64_MAX, UINT64_MAX, 0, 250000 },
		{ UINT64_MAX, 0, INT64_MAX, 250000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct room room = { rows[i].descriptors, rows[i].memory };
		unsigned n = room_for_clients(&room, rows[i].configured);
		UNIT_CHECK(n == rows[i].clients, "row %zu: %u", i, n);
	}
}

static void test_what_this_process_has(void)
{
	struct room room = { 0, 0 };

	room_read(&room);
	CU_ASSERT(room.descriptors > 0);
	CU_ASSERT(room_for_clients(&room, 0) >= 1);
}

static void test_pace(void)
{
	struct pace p = { 0, 0 };
	int64_t now = 1000000;

	for (int i = 0; i < 3; i++)
		CU_ASSERT(pace_take(&p, 3, now));
	CU_ASSERT(!pace_take(&p, 3, now));
	CU_ASSERT(!pace_take(&p, 3, now + 19999));
	CU_ASSERT(pace_take(&p, 3, now + 20000)); /* one in twenty seconds */
	CU_ASSERT(!pace_take(&p, 3, now + 20000));
	now += 3600000; /* a long pause gives no more than a minute's worth */
	for (int i = 0; i < 3; i++)
		CU_ASSERT(pace_take(&p, 3, now));
	CU_ASSERT(!pace_take(&p, 3, now));
	CU_ASSERT(pace_take(&p, 0, now)); /* no limit */
}

static void test_pace_over_time(void)
{
	struct pace p = { 0, 0 };
	unsigned taken = 0;

	for (int64_t ms = 1; ms <= 600000; ms += 7) /* ten minutes of asking all the time */
		taken += pace_take(&p, 120, ms);
	CU_ASSERT(taken == 120 + 1199 || taken == 120 + 1200);
	struct pace low = { 0, 0 };
	CU_ASSERT(pace_take(&low, PACE_MOST, 1));
	CU_ASSERT(pace_take(&low, 1, 2) && !pace_take(&low, 1, 3)); /* a reload lowered it */
}

static void test_pool(void)
{
	struct stream_pool pool = { 0, 100 };
	size_t one = 0, two = 0;

	stream_pool_charge(&pool, &one, 60);
	CU_ASSERT(!stream_pool_spent(&pool));
	stream_pool_charge(&pool, &two, 40);
	CU_ASSERT(stream_pool_spent(&pool) && pool.used == 100);
	stream_pool_charge(&pool, &two, 39);
	CU_ASSERT(!stream_pool_spent(&pool) && pool.used == 99);
	stream_pool_charge(&pool, &one, 0);
	stream_pool_charge(&pool, &one, 0);
	stream_pool_charge(&pool, &two, 0);
	CU_ASSERT(pool.used == 0);
}

static const struct unit_test tests[] = {
	{ "clients", test_clients },
	{ "what_this_process_has", test_what_this_process_has },
	{ "pace", test_pace },
	{ "pace_over_time", test_pace_over_time },
	{ "pool", test_pool },
};

UNIT_MAIN("room", tests)
