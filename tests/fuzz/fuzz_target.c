/*
 * Request targets. Input: the target.
 * Properties: every part lies within the target or the scratch space; a parsed target, written anew from its parts, is
 * accepted and has the same parts.
 */
#include "tests/fuzz/fuzz.h"

#include "libgate/buf.h"
#include "libgate/target.h"
#include "libgate/utf8.h"

static bool within(struct slice part, struct slice whole)
{
	return part.p >= whole.p && part.p + part.len <= whole.p + whole.len;
}

static void write_anew(const struct target *t, struct buf *b)
{
	if (t->nsegments == 0)
		FUZZ_CHECK(buf_putc(b, '/') == 0);
	for (unsigned i = 0; i < t->nsegments; i++)
		FUZZ_CHECK(buf_putc(b, '/') == 0 && buf_put_slice(b, t->segments[i]) == 0);
	for (unsigned i = 0; i < t->nparams; i++) {
		FUZZ_CHECK(buf_putc(b, i == 0 ? '?' : '&') == 0 && target_put_query_value(b, t->params[i].name) == 0);
		FUZZ_CHECK(buf_putc(b, '=') == 0 && target_put_query_value(b, t->params[i].value) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct target t, again;
	struct slice raw = slice_make((const char *)data, size);
	struct slice scratch = slice_make(t.scratch, sizeof(t.scratch));
	struct buf b;

	enum target_fault f = target_parse(&t, raw);
	FUZZ_CHECK(f < TARGET_FAULT_COUNT);
	if (f != TARGET_OK)
		return 0;
	FUZZ_CHECK(within(t.path, raw));
	for (unsigned i = 0; i < t.nsegments; i++) {
		struct slice out;

		FUZZ_CHECK(within(t.segments[i], raw) && t.segments[i].len > 0);
		if (target_decode(&t, t.segments[i], "/:@", &out))
			FUZZ_CHECK(within(out, raw) || within(out, scratch));
	}
	for (unsigned i = 0; i < t.nparams; i++) {
		FUZZ_CHECK(within(t.params[i].name, raw) || within(t.params[i].name, scratch));
		FUZZ_CHECK(within(t.params[i].value, raw) || within(t.params[i].value, scratch));
		FUZZ_CHECK(utf8_valid(t.params[i].value) && memchr(t.params[i].value.p, 0, t.params[i].value.len) == NULL);
	}
	buf_init(&b, 4 * TARGET_MAX);
	write_anew(&t, &b);
	f = target_parse(&again, buf_slice(&b));
	/* Escapes may lengthen it past the limit. */
	FUZZ_CHECK(f == TARGET_OK || f == TARGET_FAULT_SIZE);
	if (f == TARGET_OK) {
		FUZZ_CHECK(again.nsegments == t.nsegments && again.nparams == t.nparams);
		for (unsigned i = 0; i < t.nparams; i++) {
			FUZZ_CHECK(slice_eq(again.params[i].name, t.params[i].name));
			FUZZ_CHECK(slice_eq(again.params[i].value, t.params[i].value));
		}
	}
	buf_release(&b);
	return 0;
}
