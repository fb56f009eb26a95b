#!/bin/bash
# dockerode, the Node.js client, through the sandbox policy. It is fetched where NODE_PATH names no node_modules that holds
# it, and skipped where that is not possible.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

modules=${NODE_PATH:-$build/node_modules}
why=
if ! command -v node >/dev/null; then
	why="no node on this machine (package nodejs)"
elif ! [ -d "$modules/dockerode" ]; then
	why=$("$top/tests/clients/node/fetch" "$build")
	[ $? = 77 ] || why=
fi
if [ -n "$why" ]; then
	skip "dockerode" "$why"
else
	name=cap-node-$$
	ok "dockerode lives within the policy" node "$top/tests/engine/dockerode.js" "$modules" "${PROXY#unix://}" "$IMAGE" "$name"
	docker rm -f "$name" >/dev/null 2>&1
fi
done_testing
