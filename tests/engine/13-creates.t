#!/bin/bash
# Generated creates that the policy allows, made on the engine: what inspect says of each holds what the policy promises.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

generate=$build/tests/differential/generate
if [ ! -x "$generate" ]; then
	skip "generated creates" "$generate is not built; make check builds it"
	done_testing # exits
fi

# The names that the generated bodies use.
docker tag "$IMAGE" capybara-sandbox:latest
docker tag "$IMAGE" a:latest
made=()
for network in cap-c1-net capybara-sandbox; do
	docker network create --internal "$network" >/dev/null 2>&1 && made+=("$network")
done
ok "${CREATES:-200} generated creates hold every invariant" python3 "$top/tests/engine/creates.py" \
	"$generate" "${DOCKER_HOST#unix://}" "${CREATES:-200}" 1
docker network rm "${made[@]}" >/dev/null 2>&1
docker volume rm cap-c1-workspace >/dev/null 2>&1
docker image rm a:latest >/dev/null 2>&1
done_testing
