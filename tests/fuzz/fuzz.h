/*
 * A fuzz harness: one function over one input, which aborts when a property of the module does not hold.
 *
 * With --enable-fuzzer libFuzzer brings main(); otherwise replay.c does, and `make check` runs the corpus through it.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(): a property counts in every build. */
#define FUZZ_CHECK(cond) \
	((cond) ? (void)0 : (fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond), abort()))

#endif
