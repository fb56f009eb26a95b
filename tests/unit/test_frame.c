/* The framed protocol: every type and attribute there and back, each fault, and streams split at every byte. */
#include "libgate/frame.h"

#include "tests/unit/unit.h"

static const enum frame_type all_types[] = {
#define ROW(sym, value, id, sender, op, data, max) FRAME_##sym,
#include "libgate/frame_type.def"
#undef ROW
};

static const struct {
	enum frame_sender sender;
	bool op;
	bool data;
	size_t max;
} type_rows[] = {
#define ROW(sym, value, id, sender, op, data, max) { sender, op, data, max },
#include "libgate/frame_type.def"
#undef ROW
};

#define IS_NUM 0
#define IS_BYTES 1
#define IS_NAME 2
static const struct {
	enum frame_attr attr;
	int kind;
	bool repeats;
	size_t max;
} attr_rows[] = {
#define NUM IS_NUM
#define BYTES IS_BYTES
#define NAME IS_NAME
#define ROW(sym, value, id, kind, repeats, max) { FRAME_ATTR_##sym, kind, repeats, max },
#include "libgate/frame_attr.def"
#undef ROW
#undef NUM
#undef BYTES
#undef NAME
};

static char space[FRAME_HEAD + FRAME_REQUEST_MAX + 64];

static enum frame_result read_one(enum frame_sender from, struct slice s, struct frame *f, enum frame_fault *fault)
{
	size_t used = 0;
	enum frame_result r = frame_read(from, s.p, s.len, f, &used, fault);

	if (r == FRAME_WHOLE)
		CU_ASSERT_EQUAL(used, s.len);
	return r;
}

static void test_attributes_there_and_back(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(attr_rows); i++) {
		struct frame_writer w;
		struct frame f;
		enum frame_fault fault;
		size_t at = 0;
		unsigned n = 0;
		struct slice v;

		frame_writer_init(&w, space, sizeof(space));
		frame_begin(&w, FRAME_START, 7);
		for (int k = 0; k < (attr_rows[i].repeats ? 3 : 1); k++) {
			if (attr_rows[i].kind == IS_NUM)
				frame_put_num(&w, attr_rows[i].attr, 0xfedcba9876543210U);
			else
				frame_put_bytes(&w, attr_rows[i].attr, slice_str("v\xff\n"));
		}
		CU_ASSERT_TRUE_FATAL(frame_end(&w));
		CU_ASSERT_EQUAL_FATAL(read_one(FRAME_CONTROLLER, slice_make(space, w.len), &f, &fault), FRAME_WHOLE);
		CU_ASSERT_EQUAL(f.type, FRAME_START);
		CU_ASSERT_EQUAL(f.channel, 7);
		if (attr_rows[i].kind == IS_NUM)
			CU_ASSERT_EQUAL(frame_num_or(&f, attr_rows[i].attr, 0), 0xfedcba9876543210U);
		while (frame_each(&f, attr_rows[i].attr, &at, &v))
			n++;
		CU_ASSERT_EQUAL(n, attr_rows[i].repeats ? 3U : 1U);
		if (attr_rows[i].kind != IS_NUM)
			CU_ASSERT_TRUE(slice_is(frame_bytes(&f, attr_rows[i].attr), "v\xff\n"));
	}
}

static void test_types_hold_their_rules(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(all_types); i++) {
		char head[FRAME_HEAD];
		struct frame f;
		enum frame_fault fault = FRAME_OK;
		enum frame_sender right = type_rows[i].sender & FRAME_CONTROLLER ? FRAME_CONTROLLER : FRAME_RUNNER;
		uint32_t channel = type_rows[i].op ? 1 : 0;

		frame_put_head(head, all_types[i], channel, 0);
		CU_ASSERT_EQUAL(read_one(right, slice_make(head, sizeof(head)), &f, &fault), FRAME_WHOLE);
		CU_ASSERT_EQUAL(f.type, all_types[i]);
		if (type_rows[i].sender != FRAME_BOTH) {
			CU_ASSERT_EQUAL(read_one(FRAME_BOTH ^ right, slice_make(head, sizeof(head)), &f, &fault), FRAME_BAD);
			CU_ASSERT_EQUAL(fault, FRAME_FAULT_SENDER);
		}
		frame_put_head(head, all_types[i], 1 - channel, 0);
		CU_ASSERT_EQUAL(read_one(right, slice_make(head, sizeof(head)), &f, &fault), FRAME_BAD);
		CU_ASSERT_EQUAL(fault, FRAME_FAULT_CHANNEL);
		frame_put_head(head, all_types[i], channel, type_rows[i].max + 1);
		CU_ASSERT_EQUAL(read_one(right, slice_make(head, sizeof(head)), &f, &fault), FRAME_BAD);
		CU_ASSERT_EQUAL(fault, FRAME_FAULT_LENGTH);
		CU_ASSERT_STRING_NOT_EQUAL(frame_type_id(all_types[i]), "?");
	}
}

static void test_faults(void)
{
	static const struct {
		const char *name;
		struct slice payload;
		enum frame_fault fault;
	} cases[] = {
		{ "attribute 0", SLICE_LIT("\0\0\0\0\0"), FRAME_FAULT_ATTR },
		{ "attribute 255", SLICE_LIT("\xff\0\0\0\0"), FRAME_FAULT_ATTR },
		{ "head of an attribute cut", SLICE_LIT("\x07\0\0\0"), FRAME_FAULT_ATTR_SHORT },
		{ "value cut", SLICE_LIT("\x07\0\0\0\x02x"), FRAME_FAULT_ATTR_SHORT },
		{ "length beyond any", SLICE_LIT("\x07\xff\xff\xff\xff"), FRAME_FAULT_ATTR_LENGTH },
		{ "number of seven bytes", SLICE_LIT("\x12\0\0\0\x07" "1234567"), FRAME_FAULT_ATTR_LENGTH },
		{ "number of no bytes", SLICE_LIT("\x12\0\0\0\0"), FRAME_FAULT_ATTR_LENGTH },
		{ "name with NUL", SLICE_LIT("\x09\0\0\0\x03" "a\0b"), FRAME_FAULT_ATTR_NUL },
		{ "name of no bytes", SLICE_LIT("\x09\0\0\0\0"), FRAME_FAULT_ATTR_NUL },
		{ "cwd twice", SLICE_LIT("\x09\0\0\0\x01/\x09\0\0\0\x01/"), FRAME_FAULT_ATTR_TWICE },
		{ "empty argument, twice, is fine", SLICE_LIT("\x08\0\0\0\0\x08\0\0\0\0"), FRAME_OK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char wire[64];
		struct frame f;
		enum frame_fault fault = FRAME_OK;
		enum frame_result r;

		frame_put_head(wire, FRAME_START, 1, cases[i].payload.len);
		memcpy(wire + FRAME_HEAD, cases[i].payload.p, cases[i].payload.len);
		r = read_one(FRAME_CONTROLLER, slice_make(wire, FRAME_HEAD + cases[i].payload.len), &f, &fault);
		if (fault != cases[i].fault || (r == FRAME_WHOLE) != (cases[i].fault == FRAME_OK))
			fprintf(stderr, "case %s: %s\n", cases[i].name, frame_fault_id(fault));
		CU_ASSERT_EQUAL(fault, cases[i].fault);
		CU_ASSERT_EQUAL(r, cases[i].fault == FRAME_OK ? FRAME_WHOLE : FRAME_BAD);
	}
}

static void test_unknown_types(void)
{
	for (unsigned t = 0; t < 256; t++) {
		char head[FRAME_HEAD];
		struct frame f;
		enum frame_fault fault = FRAME_OK;
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(all_types); i++)
			known |= (unsigned)all_types[i] == t;
		if (known)
			continue;
		frame_put_head(head, (enum frame_type)t, 1, 0);
		CU_ASSERT_EQUAL(read_one(FRAME_CONTROLLER, slice_make(head, sizeof(head)), &f, &fault), FRAME_BAD);
		CU_ASSERT_EQUAL(fault, FRAME_FAULT_TYPE);
	}
}

/* A stream of several frames, given in two pieces cut at every byte, reads as the same frames. */
static void test_split_at_every_byte(void)
{
	struct frame_writer w;
	enum { FRAMES = 4 };

	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_HELLO, 0);
	frame_put_num(&w, FRAME_ATTR_VERSION, FRAME_VERSION);
	CU_ASSERT_TRUE_FATAL(frame_end(&w));
	frame_begin(&w, FRAME_START, 1);
	frame_put_bytes(&w, FRAME_ATTR_ARG, slice_str("/bin/true"));
	frame_put_bytes(&w, FRAME_ATTR_ARG, slice_str(""));
	frame_put_num(&w, FRAME_ATTR_TIMEOUT_MS, 1000);
	CU_ASSERT_TRUE_FATAL(frame_end(&w));
	frame_begin(&w, FRAME_STDIN, 1);
	CU_ASSERT_TRUE_FATAL(frame_end(&w));
	frame_begin(&w, FRAME_KILL, 1);
	CU_ASSERT_TRUE_FATAL(frame_end(&w));

	for (size_t cut = 0; cut <= w.len; cut++) {
		size_t at = 0, avail = cut;
		unsigned n = 0;

		for (;;) {
			struct frame f;
			enum frame_fault fault;
			size_t used = 0;
			enum frame_result r = frame_read(FRAME_CONTROLLER, space + at, avail - at, &f, &used, &fault);

			CU_ASSERT_NOT_EQUAL_FATAL(r, FRAME_BAD);
			if (r == FRAME_WHOLE) {
				at += used;
				n++;
			} else if (avail == w.len) {
				break;
			} else {
				CU_ASSERT_TRUE(used > avail - at);
				avail = w.len;
			}
		}
		CU_ASSERT_EQUAL(n, FRAMES);
		CU_ASSERT_EQUAL(at, w.len);
	}
}

/* Whatever the room, a frame is there whole or not at all, and what was before it stays. */
static void test_writer_ceiling(void)
{
	for (size_t cap = 0; cap < 64; cap++) {
		struct frame_writer w;
		size_t before;

		frame_writer_init(&w, space, cap);
		frame_begin(&w, FRAME_PONG, 0);
		CU_ASSERT_EQUAL(frame_end(&w), cap >= FRAME_HEAD);
		before = w.len;
		frame_begin(&w, FRAME_ROOM, 3);
		frame_put_num(&w, FRAME_ATTR_BYTES, 1);
		CU_ASSERT_EQUAL(frame_end(&w), cap >= before + FRAME_HEAD + 13);
		CU_ASSERT_TRUE(w.len <= cap);
		if (cap < before + FRAME_HEAD + 13)
			CU_ASSERT_EQUAL(w.len, before);
	}
}

static void test_writer_refuses_what_the_reader_would(void)
{
	static char big[FRAME_ARG_MAX + 1];
	struct frame_writer w;

	memset(big, 'x', sizeof(big));
	frame_writer_init(&w, space, sizeof(space));
	frame_begin(&w, FRAME_START, 1);
	frame_put_bytes(&w, FRAME_ATTR_ARG, slice_make(big, sizeof(big)));
	CU_ASSERT_FALSE(frame_end(&w));
	CU_ASSERT_EQUAL(w.len, 0);
	frame_begin(&w, FRAME_ROOM, 1);
	for (int i = 0; i < 8; i++)
		frame_put_num(&w, FRAME_ATTR_BYTES, 1);
	CU_ASSERT_FALSE(frame_end(&w));
	frame_begin(&w, FRAME_START, 1);
	frame_put_bytes(&w, FRAME_ATTR_ARG, slice_make(big, FRAME_ARG_MAX));
	CU_ASSERT_TRUE(frame_end(&w));
}

static const struct unit_test tests[] = {
	{ "attributes there and back", test_attributes_there_and_back },
	{ "types hold their rules", test_types_hold_their_rules },
	{ "faults", test_faults },
	{ "unknown types", test_unknown_types },
	{ "split at every byte", test_split_at_every_byte },
	{ "writer ceiling", test_writer_ceiling },
	{ "writer refuses what the reader would", test_writer_refuses_what_the_reader_would },
};

UNIT_MAIN("frame", tests)
