/* The counters of several workers as one Prometheus text. */
#include "dockerproxy/metrics.h"

#include "tests/unit/unit.h"

static char *render(struct metrics *m, struct buf *out)
{
	buf_init(out, 1 << 20);
	CU_ASSERT_EQUAL_FATAL(metrics_render(m, out), 0);
	CU_ASSERT_EQUAL_FATAL(buf_putc(out, '\0'), 0);
	return buf_head(out);
}

/* Each expected line stands there once. */
static void expect(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	UNIT_CHECK(at != NULL && strstr(at + 1, line) == NULL, "%s in\n%.900s", line, text);
}

static void test_sums(void)
{
	struct metrics *m = metrics_new(3);
	struct buf out;
	char *text;

	metrics_request(m, 0, "ping", METRICS_ALLOW, NULL, 90, 50);
	metrics_request(m, 2, "ping", METRICS_ALLOW, NULL, 700, 500);
	metrics_request(m, 2, NULL, METRICS_DENY, "http-bare-lf", 20, 0);
	metrics_request(m, 1, "exec.create", METRICS_WOULD_DENY, "body-privileged", 2000000, 0);
	metrics_counters(m, 0)->connections = 2;
	metrics_counters(m, 1)->connections = 3;
	metrics_set_policy(m, 7, "sha256:abc");
	text = render(m, &out);
	expect(text, "dockerproxy_requests_total{endpoint=\"ping\",decision=\"allow\",reason=\"\"} 2\n");
	expect(text, "dockerproxy_requests_total{endpoint=\"none\",decision=\"deny\",reason=\"http-bare-lf\"} 1\n");
	expect(text, "dockerproxy_requests_total{endpoint=\"exec.create\",decision=\"would_deny\",reason=\"body-privileged\"} 1\n");
	expect(text, "\ndockerproxy_connections_total 5\n");
	expect(text, "dockerproxy_request_duration_seconds_bucket{le=\"0.0001\"} 2\n");
	expect(text, "dockerproxy_request_duration_seconds_bucket{le=\"0.001\"} 3\n");
	expect(text, "dockerproxy_request_duration_seconds_bucket{le=\"+Inf\"} 4\n");
	expect(text, "dockerproxy_request_duration_seconds_count 4\n");
	expect(text, "dockerproxy_request_duration_seconds_sum 2.000810\n");
	expect(text, "dockerproxy_own_duration_seconds_bucket{le=\"0.00025\"} 3\n");
	expect(text, "dockerproxy_policy_info{digest=\"sha256:abc\"} 1\n");
	expect(text, "\ndockerproxy_policy_generation 7\n");
	buf_release(&out);
	metrics_free(m);
}

/* More kinds of outcomes than there is room for: nothing is lost, the rest counts as other. */
static void test_overflow(void)
{
	struct metrics *m = metrics_new(1);
	unsigned long long sum = 0;
	char reason[32];
	struct buf out;

	for (int i = 0; i < 2000; i++) {
		snprintf(reason, sizeof(reason), "reason-%d", i);
		metrics_request(m, 0, "ping", METRICS_DENY, reason, 1, 0);
	}
	for (char *p = render(m, &out); (p = strstr(p, "dockerproxy_requests_total{")) != NULL; p++)
		sum += strtoull(strstr(p, "} ") + 2, NULL, 10);
	UNIT_CHECK(sum == 2000, "%llu", sum);
	CU_ASSERT_PTR_NOT_NULL(strstr(buf_head(&out), "endpoint=\"other\""));
	buf_release(&out);
	metrics_free(m);
}

/* Labels are the ids that answers and the audit log carry, however long the path to the field is. */
static void test_long_ids(void)
{
	static const char *const reasons[] = {
		"networkingconfig-endpointsconfig-ipamconfig-ipv4address",
		"networkingconfig-endpointsconfig-ipamconfig-ipv6address",
	};
	static const char row[] = "row-of-some-policy-whose-id-is-as-long-as-an-id-of-a-row-can-be";
	struct metrics *m = metrics_new(2);
	char line[256];
	struct buf out;
	char *text;

	metrics_request(m, 0, row, METRICS_DENY, reasons[0], 1, 0);
	metrics_request(m, 1, row, METRICS_DENY, reasons[1], 1, 0);
	text = render(m, &out);
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		snprintf(line, sizeof(line), "{endpoint=\"%s\",decision=\"deny\",reason=\"%s\"} 1\n", row, reasons[i]);
		expect(text, line);
	}
	buf_release(&out);
	metrics_free(m);
}

/* A worker that was killed takes its connections with it; what it counted stays. */
static void test_lost(void)
{
	struct metrics *m = metrics_new(2);
	struct buf out;
	char *text;

	for (unsigned slot = 0; slot < 2; slot++) {
		metrics_counters(m, slot)->connections = 5;
		metrics_counters(m, slot)->connections_now = 3;
		metrics_counters(m, slot)->tunnels_now = 1;
	}
	metrics_lost(m, 1);
	text = render(m, &out);
	expect(text, "\ndockerproxy_connections_total 10\n");
	expect(text, "\ndockerproxy_connections 3\n");
	expect(text, "\ndockerproxy_tunnels 1\n");
	buf_release(&out);
	metrics_free(m);
}

static const struct unit_test tests[] = {
	{ "sums", test_sums },
	{ "overflow", test_overflow },
	{ "long ids", test_long_ids },
	{ "lost", test_lost },
};

UNIT_MAIN("metrics", tests)
