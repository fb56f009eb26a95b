#!/bin/bash
# dockerode, the Node.js client, through the sandbox policy. DOCKERODE names a node_modules that holds it; without one it is
# installed for the test, and skipped where that is not possible.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

modules=${DOCKERODE:-$scratch/node_modules}
if ! command -v node >/dev/null; then
	skip "dockerode" "no node on this machine"
elif ! [ -d "$modules/dockerode" ] && ! npm install --prefix "$scratch" --ignore-scripts --no-audit --no-fund \
	dockerode@5.0.1 >/dev/null 2>&1; then
	skip "dockerode" "it cannot be installed from npm"
else
	name=cap-node-$$
	ok "dockerode lives within the policy" node "$top/tests/engine/dockerode.js" "$modules" "${PROXY#unix://}" "$IMAGE" "$name"
	docker rm -f "$name" >/dev/null 2>&1
fi
done_testing
