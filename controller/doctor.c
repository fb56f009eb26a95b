/* Writes a create that the policy lets through and the engine refuses. */
#include "controller/doctor.h"

#include "controller/document.h"
#include "controller/mem.h"
#include "controller/spec.h"

char *doctor_runtime_body(const struct config *c)
{
	struct spec s = {
		.name = mem_strdup("cap-doctor"),
		/* No registry holds a name under .invalid, and nothing is pulled by a create. */
		.image = mem_strdup("doctor.invalid/absent:none"),
		.runtime = c->runtime,
		.egress = EGRESS_NONE,
		.nano_cpus = 1000000000,
		.memory = 64 * 1024 * 1024,
		.max_command_seconds = 1,
		.allow_hosts = mem_strdup(""),
	};
	char *body = document_sandbox(&s, c);

	spec_release(&s);
	return body;
}
