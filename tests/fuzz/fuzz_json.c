/*
 * Strict JSON. Input: flags, then the document.
 * Properties: what is accepted is written as one document that is accepted again and written as the same bytes.
 */
#include "tests/fuzz/fuzz.h"

#include "libgate/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum json_fault fault;
	size_t offset;
	struct buf once, twice;

	if (size < 1)
		return 0;
	struct slice in = slice_make((const char *)data + 1, size - 1);
	struct json_doc *doc = json_doc_new();
	const struct json_node *root = json_parse(doc, in, (data[0] & 1) != 0 ? JSON_COMMENTS : JSON_STRICT, &fault, &offset);
	if (root == NULL) {
		unsigned line, column;

		FUZZ_CHECK(fault != JSON_OK && fault < JSON_FAULT_COUNT && offset <= in.len);
		json_position(in, offset, &line, &column);
		FUZZ_CHECK(line > 0 && column > 0);
		json_doc_free(doc);
		return 0;
	}
	buf_init(&once, 8 * size + 64);
	buf_init(&twice, 8 * size + 64);
	FUZZ_CHECK(json_put(&once, root) == 0);
	root = json_parse(doc, buf_slice(&once), JSON_STRICT, &fault, &offset);
	FUZZ_CHECK(root != NULL);
	FUZZ_CHECK(json_put(&twice, root) == 0);
	FUZZ_CHECK(slice_eq(buf_slice(&once), buf_slice(&twice)));
	buf_release(&once);
	buf_release(&twice);
	json_doc_free(doc);
	return 0;
}
