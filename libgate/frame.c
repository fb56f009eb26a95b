/* Reads and writes the frames between controller and runner. */
#include "libgate/frame.h"

enum attr_kind { NUM, BYTES, NAME };

struct type_row {
	const char *id;
	enum frame_sender sender;
	bool op;
	bool data;
	uint32_t max;
};

struct attr_row {
	bool known;
	enum attr_kind kind;
	bool repeats;
	uint32_t max;
};

static const struct type_row types[] = {
#define ROW(sym, value, id, sender, op, data, max) [value] = { id, sender, op, data, max },
#include "libgate/frame_type.def"
#undef ROW
};

static const struct attr_row attrs[] = {
#define ROW(sym, value, id, kind, repeats, max) [value] = { true, kind, repeats, max },
#include "libgate/frame_attr.def"
#undef ROW
};

static const struct {
	const char *id;
	const char *text;
} faults[FRAME_FAULT_COUNT] = {
	[FRAME_OK] = { "frame-ok", "no fault" },
#define ROW(sym, id, text) [FRAME_FAULT_##sym] = { id, text },
#include "libgate/frame_fault.def"
#undef ROW
};

#define ATTR_HEAD 5 /* id and length */

static uint32_t get32(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static uint64_t get64(const char *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static void put32(char *p, uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		p[i] = (char)(v & 0xff);
}

static const struct type_row *type_row(unsigned value)
{
	if (value >= ARRAY_SIZE(types) || types[value].id == NULL)
		return NULL;
	return &types[value];
}

static const struct attr_row *attr_row(unsigned value)
{
	if (value >= ARRAY_SIZE(attrs) || !attrs[value].known)
		return NULL;
	return &attrs[value];
}

const char *frame_type_id(enum frame_type t)
{
	const struct type_row *row = type_row(t);

	return row != NULL ? row->id : "?";
}

const char *frame_fault_id(enum frame_fault f)
{
	return f < FRAME_FAULT_COUNT ? faults[f].id : "?";
}

const char *frame_fault_text(enum frame_fault f)
{
	return f < FRAME_FAULT_COUNT ? faults[f].text : "?";
}

/* The attribute at p[0..len), which is not empty. Returns its bytes, 0 with *fault when it is malformed. */
static size_t attr_at(const char *p, size_t len, unsigned *id, struct slice *value, enum frame_fault *fault)
{
	const struct attr_row *row = attr_row((unsigned char)p[0]);
	uint32_t n;

	if (row == NULL) {
		*fault = FRAME_FAULT_ATTR;
		return 0;
	}
	if (len < ATTR_HEAD) {
		*fault = FRAME_FAULT_ATTR_SHORT;
		return 0;
	}
	n = get32(p + 1);
	if (n > row->max || (row->kind == NUM && n != 8)) {
		*fault = FRAME_FAULT_ATTR_LENGTH;
		return 0;
	}
	if (n > len - ATTR_HEAD) {
		*fault = FRAME_FAULT_ATTR_SHORT;
		return 0;
	}
	*id = (unsigned char)p[0];
	*value = slice_make(p + ATTR_HEAD, n);
	if (row->kind == NAME && (n == 0 || memchr(value->p, '\0', n) != NULL)) {
		*fault = FRAME_FAULT_ATTR_NUL;
		return 0;
	}
	return ATTR_HEAD + n;
}

static enum frame_fault attrs_check(struct slice payload)
{
	bool seen[ARRAY_SIZE(attrs)] = { false };
	enum frame_fault fault = FRAME_OK;
	struct slice value;
	unsigned id;

	for (size_t at = 0; at < payload.len;) {
		size_t n = attr_at(payload.p + at, payload.len - at, &id, &value, &fault);

		if (n == 0)
			return fault;
		if (seen[id] && !attrs[id].repeats)
			return FRAME_FAULT_ATTR_TWICE;
		seen[id] = true;
		at += n;
	}
	return FRAME_OK;
}

static enum frame_fault head_check(enum frame_sender from, const struct type_row *row, uint32_t channel,
	uint32_t length)
{
	if (row == NULL)
		return FRAME_FAULT_TYPE;
	if ((row->sender & from) == 0)
		return FRAME_FAULT_SENDER;
	if (row->op != (channel != 0))
		return FRAME_FAULT_CHANNEL;
	if (length > row->max)
		return FRAME_FAULT_LENGTH;
	return FRAME_OK;
}

enum frame_result frame_read(enum frame_sender from, const char *p, size_t len, struct frame *out, size_t *used,
	enum frame_fault *fault)
{
	const struct type_row *row;
	uint32_t length, channel;

	if (len < FRAME_HEAD) {
		*used = FRAME_HEAD;
		return FRAME_MORE;
	}
	length = get32(p) >> 8;
	row = type_row((unsigned char)p[3]);
	channel = get32(p + 4);
	*fault = head_check(from, row, channel, length);
	if (*fault != FRAME_OK)
		return FRAME_BAD;
	*used = FRAME_HEAD + (size_t)length;
	if (len < *used)
		return FRAME_MORE;
	out->type = (enum frame_type)(unsigned char)p[3];
	out->channel = channel;
	out->payload = slice_make(p + FRAME_HEAD, length);
	if (!row->data)
		*fault = attrs_check(out->payload);
	return *fault == FRAME_OK ? FRAME_WHOLE : FRAME_BAD;
}

bool frame_each(const struct frame *f, enum frame_attr attr, size_t *at, struct slice *value)
{
	enum frame_fault fault;
	unsigned id;

	while (*at < f->payload.len) {
		size_t n = attr_at(f->payload.p + *at, f->payload.len - *at, &id, value, &fault);

		if (n == 0)
			return false;
		*at += n;
		if (id == (unsigned)attr)
			return true;
	}
	return false;
}

struct slice frame_bytes(const struct frame *f, enum frame_attr attr)
{
	struct slice value;
	size_t at = 0;

	return frame_each(f, attr, &at, &value) ? value : slice_make(NULL, 0);
}

bool frame_num(const struct frame *f, enum frame_attr attr, uint64_t *out)
{
	struct slice value = frame_bytes(f, attr);

	if (value.p == NULL || value.len != 8)
		return false;
	*out = get64(value.p);
	return true;
}

uint64_t frame_num_or(const struct frame *f, enum frame_attr attr, uint64_t dflt)
{
	uint64_t v = dflt;

	return frame_num(f, attr, &v) ? v : dflt;
}

void frame_put_head(char *out, enum frame_type type, uint32_t channel, size_t length)
{
	put32(out, (uint32_t)length << 8 | ((uint32_t)type & 0xff));
	put32(out + 4, channel);
}

void frame_writer_init(struct frame_writer *w, char *p, size_t cap)
{
	*w = (struct frame_writer){ .p = p, .cap = cap };
}

/* Where n more bytes go, or NULL. */
static char *room(struct frame_writer *w, size_t n)
{
	char *at;

	if (w->full || n > w->cap - w->len) {
		w->full = true;
		return NULL;
	}
	at = w->p + w->len;
	w->len += n;
	return at;
}

void frame_begin(struct frame_writer *w, enum frame_type type, uint32_t channel)
{
	char *at;

	w->begun = w->len;
	w->full = false;
	at = room(w, FRAME_HEAD);
	if (at != NULL)
		frame_put_head(at, type, channel, 0);
}

static char *put_attr(struct frame_writer *w, enum frame_attr attr, size_t n)
{
	char *at = n <= attrs[attr].max ? room(w, ATTR_HEAD + n) : NULL;

	if (at == NULL) {
		w->full = true;
		return NULL;
	}
	at[0] = (char)attr;
	put32(at + 1, (uint32_t)n);
	return at + ATTR_HEAD;
}

void frame_put_num(struct frame_writer *w, enum frame_attr attr, uint64_t value)
{
	char *at = put_attr(w, attr, 8);

	if (at == NULL)
		return;
	put32(at, (uint32_t)(value >> 32));
	put32(at + 4, (uint32_t)value);
}

void frame_put_bytes(struct frame_writer *w, enum frame_attr attr, struct slice value)
{
	char *at = put_attr(w, attr, value.len);

	if (at != NULL && value.len > 0)
		memcpy(at, value.p, value.len);
}

bool frame_end(struct frame_writer *w)
{
	size_t length = w->len - w->begun;

	if (!w->full) {
		const struct type_row *row = type_row((unsigned char)w->p[w->begun + 3]);

		length -= FRAME_HEAD;
		if (row != NULL && length <= row->max) {
			put32(w->p + w->begun, (uint32_t)length << 8 | (unsigned char)w->p[w->begun + 3]);
			return true;
		}
	}
	w->len = w->begun;
	return false;
}
