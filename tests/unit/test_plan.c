/* Plans as data: order, bodies and undo. A.lifecycle.1, A.lifecycle.2, A.lifecycle.3, A.isolation.2, A.egress.2 */
#include "controller/plan.h"

#include "controller/document.h"
#include "controller/mem.h"
#include "tests/unit/unit.h"

static struct spec spec;
static struct config config;

static void make(const char *params)
{
	struct json_doc *doc = json_doc_new();
	enum json_fault fault;
	size_t offset;
	struct err err = ERR_INIT;

	config_init(&config);
	config.allow_open_egress = true;
	const struct json_node *root = json_parse(doc, slice_str(params), JSON_STRICT, &fault, &offset);
	if (root == NULL || spec_from_params(&spec, root, &config, SPEC_TEST_OPTIONS, &err) != 0)
		CU_FAIL_FATAL("the test's own parameters are wrong");
	json_doc_free(doc);
}

static void unmake(void)
{
	spec_release(&spec);
	config_release(&config);
}

/* "stage:METHOD path;" of each step. */
static void describe(const struct plan *p, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < p->nsteps && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%u:%s %s;", p->steps[i].stage, p->steps[i].method, p->steps[i].path);
}

static void test_create(void)
{
	static const struct {
		const char *params;
		unsigned api;
		const char *steps;
	} cases[] = {
		{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"none\"}}", 41,
			"0:DELETE /containers/cap-a?force=1;0:DELETE /containers/cap-a-egress?force=1;1:DELETE /networks/cap-a-net;"
			"1:DELETE /volumes/cap-a-workspace;1:DELETE /volumes/cap-a-skills;2:POST /volumes/create;2:POST /volumes/create;"
			"3:POST /containers/create?name=cap-a;4:POST /containers/cap-a/start;" },
		{ "{\"name\":\"cap-a\",\"limits\":{\"egress\":\"open\"}}", 41,
			"0:DELETE /containers/cap-a?force=1;0:DELETE /containers/cap-a-egress?force=1;1:DELETE /networks/cap-a-net;"
			"1:DELETE /volumes/cap-a-workspace;1:DELETE /volumes/cap-a-skills;2:POST /networks/create;2:POST /volumes/create;"
			"2:POST /volumes/create;3:POST /containers/create?name=cap-a;4:POST /containers/cap-a/start;" },
		{ "{\"name\":\"cap-a\"}", 43,
			"0:DELETE /containers/cap-a?force=1;0:DELETE /containers/cap-a-egress?force=1;1:DELETE /networks/cap-a-net;"
			"1:DELETE /volumes/cap-a-workspace;1:DELETE /volumes/cap-a-skills;2:POST /networks/create;2:POST /networks/create;"
			"2:POST /volumes/create;2:POST /volumes/create;3:POST /containers/create?name=cap-a-egress;"
			"4:POST /networks/capybara-sandbox/connect;3:POST /containers/create?name=cap-a;"
			"5:POST /containers/cap-a-egress/start;5:POST /containers/cap-a/start;" },
		{ "{\"name\":\"cap-a\"}", 44,
			"0:DELETE /containers/cap-a?force=1;0:DELETE /containers/cap-a-egress?force=1;1:DELETE /networks/cap-a-net;"
			"1:DELETE /volumes/cap-a-workspace;1:DELETE /volumes/cap-a-skills;2:POST /networks/create;2:POST /networks/create;"
			"2:POST /volumes/create;2:POST /volumes/create;3:POST /containers/create?name=cap-a-egress;"
			"3:POST /containers/create?name=cap-a;4:POST /containers/cap-a-egress/start;4:POST /containers/cap-a/start;" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct plan p;
		char text[2048];

		make(cases[i].params);
		plan_create(&p, &spec, &config, cases[i].api);
		describe(&p, text, sizeof(text));
		UNIT_CHECK(strcmp(text, cases[i].steps) == 0, "case %zu: %s", i, text);
		for (unsigned k = 0; k < p.nsteps; k++) {
			const struct step *s = &p.steps[k];
			bool makes = s->expect == EXPECT_CREATED;

			UNIT_CHECK(makes == (s->undo != NULL && s->undo_gone != NULL), "case %zu, %s", i, step_name(s->id));
		}
		plan_release(&p);
		unmake();
	}
}

static void has(const char *body, const char *part, const char *what)
{
	UNIT_CHECK(strstr(body, part) != NULL, "%s: no %s in %s", what, part, body);
}

static void test_documents(void)
{
	static const char *const hardening[] = { "\"CapDrop\":[\"ALL\"]", "\"SecurityOpt\":[\"no-new-privileges\"]",
		"\"ReadonlyRootfs\":true", "\"IpcMode\":\"private\"", "\"Init\":true", "\"RestartPolicy\":{\"Name\":\"no\"}",
		"\"dev.capybara.sandbox\":\"1\"", "\"dev.capybara.sandbox.name\":\"cap-a\"" };

	make("{\"name\":\"cap-a\",\"limits\":{\"memoryMb\":100,\"diskMb\":20,\"allowHosts\":[\"a.example\"],"
		"\"tcpTargets\":[\"db.example:5432\",\"9000=db.example:1\",\"9001=mail.example:25\"]},"
		"\"testOptions\":{\"egressTestHosts\":{\"a.example\":[\"10.0.0.1\",\"10.0.0.2\"],\"b.example\":[\"::1\"]}}}");
	auto_free char *sandbox = document_sandbox(&spec, &config);
	auto_free char *egress = document_egress(&spec, &config, 41);
	auto_free char *egress44 = document_egress(&spec, &config, 44);
	auto_free char *network = document_network(&spec, 41);
	auto_free char *network48 = document_network(&spec, 48);
	auto_free char *shared = document_shared_network(&config);
	for (size_t i = 0; i < ARRAY_SIZE(hardening); i++) {
		has(sandbox, hardening[i], "sandbox");
		has(egress, hardening[i], "egress");
	}
	has(sandbox, "\"User\":\"0:0\"", "sandbox");
	has(sandbox, "\"PidsLimit\":1024", "sandbox");
	has(sandbox, "\"Memory\":104857600,\"MemorySwap\":104857600", "sandbox");
	has(sandbox, "\"Tmpfs\":{\"/tmp\":\"rw,exec,nosuid,nodev,size=20971520\"}", "sandbox");
	has(sandbox, "\"Dns\":[\"127.0.0.1\"]", "sandbox");
	has(sandbox, "\"NetworkMode\":\"cap-a-net\"", "sandbox");
	has(sandbox, "\"EndpointsConfig\":{\"cap-a-net\":{}}", "sandbox");
	has(sandbox, "tcp-targets\":\"5432=db.example:5432 9000=db.example:1 9001=mail.example:25\"", "sandbox");
	has(sandbox, "\"HTTPS_PROXY=http://cap-a-egress:3128\"", "sandbox");
	has(sandbox, "{\"Type\":\"volume\",\"Source\":\"cap-a-skills\",\"Target\":\"/skills\",\"ReadOnly\":true}", "sandbox");
	has(egress, "\"PidsLimit\":64", "egress");
	has(egress, "\"Memory\":67108864", "egress");
	has(egress, "\"User\":\"65534:65534\"", "egress");
	has(egress, "\"ALLOW_HOSTS=a.example\"", "egress");
	has(egress, "\"CAPYBARA_EGRESS_TEST_HOSTS=a.example=10.0.0.1,10.0.0.2 b.example=::1\"", "egress");
	has(egress, "\"TCP_TARGETS=5432=db.example:5432 9000=db.example:1 9001=mail.example:25\"", "egress");
	has(egress, "\"EndpointsConfig\":{\"cap-a-net\":{\"Aliases\":[\"db.example\",\"mail.example\"]}}", "egress");
	has(egress44, "{\"cap-a-net\":{\"Aliases\":[\"db.example\",\"mail.example\"]},\"capybara-sandbox\":{}}", "egress 1.44");
	has(network, "\"Internal\":true", "network");
	has(network, "\"com.docker.network.bridge.inhibit_ipv4\":\"true\"", "network");
	CU_ASSERT(strstr(network, "gateway_mode") == NULL);
	has(network48, "\"com.docker.network.bridge.gateway_mode_ipv4\":\"isolated\"", "network 1.48");
	has(shared, "\"com.docker.network.bridge.enable_icc\":\"false\"", "shared");
	unmake();
}

/* The proxy is asked for by a name that resolvers take, whatever the sandbox is called. */
static void test_proxy_name(void)
{
	static const struct {
		const char *name;
		const char *host;
	} cases[] = {
		{ "cap-a.b_C", "cap-a.b_C-egress" },
		{ "cap-4567890123456789012345678901234567890123456789012345", "cap-4567890123456789012345678901234567890123456789012345-egress" },
		{ "cap-45678901234567890123456789012345678901234567890123456", "egress-proxy" },
		{ "cap-a.", "egress-proxy" },
		{ "cap-a..b", "egress-proxy" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *params =
			mem_printf("{\"name\":\"%s\",\"limits\":{\"tcpTargets\":[\"db.example:5432\"]}}", cases[i].name);
		auto_free char *variable = mem_printf("\"HTTPS_PROXY=http://%s:3128\"", cases[i].host);
		bool own = strcmp(cases[i].host, "egress-proxy") != 0;

		make(params);
		auto_free char *sandbox = document_sandbox(&spec, &config);
		auto_free char *egress = document_egress(&spec, &config, 41);
		has(sandbox, variable, cases[i].name);
		has(egress, own ? "\"Aliases\":[\"db.example\"]" : "\"Aliases\":[\"egress-proxy\",\"db.example\"]", cases[i].name);
		unmake();
	}
}

static void test_runsc(void)
{
	make("{\"name\":\"cap-a\"}");
	spec.runtime = RUNTIME_RUNSC;
	auto_free char *sandbox = document_sandbox(&spec, &config);
	auto_free char *egress = document_egress(&spec, &config, 41);
	has(sandbox, "\"Runtime\":\"runsc\"", "sandbox");
	has(sandbox, "\"PidsLimit\":4096", "sandbox");
	has(sandbox, "\"Ulimits\":[{\"Name\":\"nproc\",\"Soft\":1024,\"Hard\":1024}]", "sandbox");
	has(egress, "\"Runtime\":\"runc\"", "egress");
	unmake();
}

static void test_volume_driver(void)
{
	make("{\"name\":\"cap-a\",\"limits\":{\"diskMb\":20}}");
	auto_free char *local = document_volume(&spec, &config, "workspace");
	config.volume_driver = mem_strdup("sized");
	auto_free char *workspace = document_volume(&spec, &config, "workspace");
	auto_free char *skills = document_volume(&spec, &config, "skills");
	CU_ASSERT(strstr(local, "Driver") == NULL);
	has(workspace, "\"Driver\":\"sized\",\"DriverOpts\":{\"size\":\"20M\"}", "workspace");
	CU_ASSERT(strstr(skills, "Driver") == NULL);
	unmake();
}

/* What resume does with each thing that can be missing. */
static void test_resume(void)
{
	static const struct {
		const char *what;
		enum container_state sandbox, egress;
		const char *network, *shared; /* as they are now */
		const char *held; /* the sandbox's network id */
		const char *steps;
	} cases[] = {
		{ "running, whole", CONTAINER_RUNNING, CONTAINER_RUNNING, "n1", "s1", "n1", "" },
		{ "stopped, whole", CONTAINER_EXITED, CONTAINER_EXITED, "n1", "s1", "n1",
			"0:POST /containers/cap-a-egress/start;1:POST /containers/cap-a/start;" },
		{ "paused", CONTAINER_PAUSED, CONTAINER_PAUSED, "n1", "s1", "n1",
			"0:POST /containers/cap-a-egress/unpause;1:POST /containers/cap-a/unpause;" },
		{ "no proxy", CONTAINER_EXITED, CONTAINER_ABSENT, "n1", "s1", "n1",
			"0:POST /containers/create?name=cap-a-egress;1:POST /networks/capybara-sandbox/connect;"
			"2:POST /containers/cap-a-egress/start;3:POST /containers/cap-a/start;" },
		{ "a proxy that is no good", CONTAINER_EXITED, CONTAINER_DEAD, "n1", "s1", "n1",
			"0:DELETE /containers/cap-a-egress?force=1;1:POST /containers/create?name=cap-a-egress;"
			"2:POST /networks/capybara-sandbox/connect;3:POST /containers/cap-a-egress/start;4:POST /containers/cap-a/start;" },
		{ "a proxy in the making", CONTAINER_EXITED, CONTAINER_CREATED, "n1", "s1", "n1",
			"0:POST /networks/capybara-sandbox/connect;1:POST /containers/cap-a-egress/start;2:POST /containers/cap-a/start;" },
		{ "no shared network", CONTAINER_EXITED, CONTAINER_ABSENT, "n1", "", "n1",
			"0:POST /networks/create;1:POST /containers/create?name=cap-a-egress;"
			"2:POST /networks/capybara-sandbox/connect;3:POST /containers/cap-a-egress/start;4:POST /containers/cap-a/start;" },
		{ "no network", CONTAINER_EXITED, CONTAINER_ABSENT, "", "s1", "n1",
			"0:POST /networks/create;1:POST /networks/cap-a-net/disconnect;2:POST /networks/cap-a-net/connect;"
			"3:POST /containers/create?name=cap-a-egress;4:POST /networks/capybara-sandbox/connect;"
			"5:POST /containers/cap-a-egress/start;6:POST /containers/cap-a/start;" },
		{ "another network", CONTAINER_EXITED, CONTAINER_EXITED, "n2", "s1", "n1",
			"0:POST /networks/cap-a-net/disconnect;1:POST /networks/cap-a-net/connect;"
			"2:DELETE /containers/cap-a-egress?force=1;3:POST /containers/create?name=cap-a-egress;"
			"4:POST /networks/capybara-sandbox/connect;5:POST /containers/cap-a-egress/start;6:POST /containers/cap-a/start;" },
	};

	make("{\"name\":\"cap-a\"}");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inventory now = { .sandbox = { .state = cases[i].sandbox }, .egress = { .state = cases[i].egress } };
		struct err err = ERR_INIT;
		struct plan p;
		char text[2048];

		snprintf(now.network, sizeof(now.network), "%s", cases[i].network);
		snprintf(now.shared_network, sizeof(now.shared_network), "%s", cases[i].shared);
		snprintf(now.sandbox.internal_network, sizeof(now.sandbox.internal_network), "%s", cases[i].held);
		snprintf(now.egress.internal_network, sizeof(now.egress.internal_network), "n1");
		snprintf(now.egress.shared_network, sizeof(now.egress.shared_network), "s1");
		UNIT_CHECK(plan_resume(&p, &spec, &config, 41, &now, &err) == 0, "%s: %s", cases[i].what, err.text);
		describe(&p, text, sizeof(text));
		UNIT_CHECK(strcmp(text, cases[i].steps) == 0, "%s: %s", cases[i].what, text);
		plan_release(&p);
	}
	static const enum container_state hopeless[] = { CONTAINER_ABSENT, CONTAINER_DEAD, CONTAINER_REMOVING };
	for (size_t i = 0; i < ARRAY_SIZE(hopeless); i++) {
		struct inventory now = { .sandbox = { .state = hopeless[i] } };
		struct err err = ERR_INIT;
		struct plan p;

		UNIT_CHECK(plan_resume(&p, &spec, &config, 41, &now, &err) != 0, "state %d", hopeless[i]);
		plan_release(&p);
	}
	unmake();
}

static void test_suspend(void)
{
	struct inventory now = { .sandbox = { .state = CONTAINER_PAUSED }, .egress = { .state = CONTAINER_RUNNING } };
	struct plan p;
	char text[512];

	plan_suspend(&p, "cap-a", &now);
	describe(&p, text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "0:POST /containers/cap-a/unpause;1:POST /containers/cap-a/stop?t=2;"
		"1:POST /containers/cap-a-egress/stop?t=2;");
	plan_release(&p);
}

static const struct unit_test tests[] = {
	{ "create", test_create },
	{ "documents", test_documents },
	{ "proxy-name", test_proxy_name },
	{ "runsc", test_runsc },
	{ "volume-driver", test_volume_driver },
	{ "resume", test_resume },
	{ "suspend", test_suspend },
};

UNIT_MAIN("plan", tests)
