/*
 * Microseconds of processor time that the verdict on a container create takes: head, strict JSON, policy, canonical request.
 *
 *     bench_verdict BODY [ROUNDS]
 *
 * BODY is a file with the body of the create. Prints the mean and the best of ten runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dockerproxy/verdict.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static enum decision judge(struct verdict *v, const struct policy *p, struct slice body)
{
	struct verdict_request req = {
		.method = SLICE_LIT("POST"),
		.target = SLICE_LIT("/v1.41/containers/create?name=cap-c1"),
		.content_type = SLICE_LIT("application/json"),
		.has_length = true,
		.length = body.len,
	};

	if (verdict_head(v, p, &req, 0) != DECISION_NEED_BODY)
		return DECISION_DENY;
	return verdict_body(v, p, body);
}

int main(int argc, char **argv)
{
	static char text[65536];
	struct err err = ERR_INIT;
	FILE *in = argc > 1 ? fopen(argv[1], "rb") : NULL;
	long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 20000;
	double best = 1e9, sum = 0;
	struct policy *p;
	struct verdict v;
	struct slice body;

	if (in == NULL || rounds < 1) {
		fprintf(stderr, "usage: bench_verdict BODY [ROUNDS]\n");
		return 2;
	}
	body = slice_make(text, fread(text, 1, sizeof(text), in));
	fclose(in);
	p = policy_builtin(&err);
	if (p == NULL) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	verdict_init(&v);
	for (int run = 0; run < 10; run++) {
		double start = now(), us;

		for (long i = 0; i < rounds; i++)
			if (judge(&v, p, body) != DECISION_ALLOW) {
				fprintf(stderr, "refused: %s\n", v.message);
				return 1;
			}
		us = (now() - start) / (double)rounds;
		best = us < best ? us : best;
		sum += us;
	}
	printf("%zu bytes in, %zu out: mean %.2f us, best %.2f us\n", body.len, buf_len(&v.body), sum / 10, best);
	verdict_release(&v);
	policy_free(p);
	return 0;
}
