/* Asks for the three listings by label, one after the other. */
#include "controller/remains_ask.h"

#include "controller/mem.h"

#define FILTER "?filters=%7B%22label%22%3A%5B%22" LABEL_SANDBOX "%3D1%22%5D%7D"

static const struct {
	const char *kind;
	const char *path;
} listings[] = {
	{ "containers", "/containers/json" FILTER "&all=1" },
	{ "volumes", "/volumes" FILTER },
	{ "networks", "/networks" FILTER },
};

struct ask {
	struct engine *engine;
	int64_t timeout_ms;
	unsigned next; /* of listings */
	struct remains_list list;
	remains_cb cb;
	void *arg;
};

static void ask_next(struct ask *a);

static void over(struct ask *a, const struct err *err)
{
	if (err != NULL)
		remains_release(&a->list);
	a->cb(&a->list, err, a->arg);
	remains_release(&a->list);
	free(a);
}

static void on_listing(const struct engine_reply *reply, void *arg)
{
	struct ask *a = arg;
	struct err err = ERR_INIT;

	if (reply->status != 200) {
		over(a, &reply->err);
		return;
	}
	if (remains_add(&a->list, listings[a->next].kind, reply->json, &err) != 0) {
		over(a, &err);
		return;
	}
	if (++a->next < ARRAY_SIZE(listings))
		ask_next(a);
	else
		over(a, NULL);
}

static void ask_next(struct ask *a)
{
	engine_call(a->engine, "GET", listings[a->next].path, NULL, a->timeout_ms, on_listing, a);
}

void remains_ask(struct engine *e, int64_t timeout_ms, remains_cb cb, void *arg)
{
	struct ask *a = mem_zalloc(sizeof(*a));

	a->engine = e;
	a->timeout_ms = timeout_ms;
	TAILQ_INIT(&a->list);
	a->cb = cb;
	a->arg = arg;
	ask_next(a);
}
