#!/bin/sh
# dockerproxy explain and print-policy on the command line: exit codes, options, and where messages go.
set -u
proxy=${BUILD_DIR:-.}/dockerproxy/dockerproxy
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# expect CODE NAME COMMAND...: runs it and compares the exit code.
expect() {
	want=$1 name=$2
	shift 2
	"$@" >"$work/out" 2>"$work/err" </dev/null
	code=$?
	if [ "$code" -eq "$want" ]; then
		echo "ok - $name"
	else
		echo "not ok - $name: exit $code, wanted $want"
		cat "$work/out" "$work/err"
		failed=1
	fi
}

# holds FILE TEXT NAME: the file of the last command holds the text.
holds() {
	if grep -qF -- "$2" "$work/$1"; then
		echo "ok - $3"
	else
		echo "not ok - $3: no $2 in"
		cat "$work/$1"
		failed=1
	fi
}

printf '{"Cmd":["id"]}' >"$work/body"
printf '{"apiVersions":{"min":"1.41","max":"1.51","default":"1.41"},\n  "endpoints":[{"id":"x"}]}' >"$work/bad.json"
printf '// all\n{"apiVersions":{"min":"1.41","max":"1.51","default":"1.44"},"endpoints":[{"id":"i","method":"GET","path":"/info"}]}' \
	>"$work/info.json"

expect 0 'an allowed request' "$proxy" explain GET /_ping
holds out '"decision": "allow"' 'says allow'
expect 1 'a denied request' "$proxy" explain GET /v1.41/info
holds out '"reason": "endpoint-unknown"' 'says why'
expect 0 'a body from a file' "$proxy" explain --body "$work/body" --header 'Content-Type: application/json' \
	POST /v1.41/containers/cap-x/exec
expect 0 'options behind the arguments' "$proxy" explain POST /v1.41/containers/cap-x/exec --body "$work/body" \
	--header 'Content-Type: application/json'
"$proxy" explain --body - --header 'Content-Type: application/json' POST /v1.41/containers/cap-x/exec <"$work/body" \
	>"$work/out" 2>"$work/err" || { echo "not ok - a body from standard input"; failed=1; }
holds out '"body": "{\"Cmd\":[\"id\"]}"' 'the canonical body'
expect 1 'a body without a type' "$proxy" explain --body "$work/body" POST /v1.41/containers/cap-x/exec
holds out '"at": "header.Content-Type"' 'names the field'
expect 0 'an id' "$proxy" explain GET "/containers/$(printf '%064d' 0)/json"
holds out '"owner": "the engine must say' 'says what is left to ask'
expect 0 'a policy of its own' "$proxy" explain --policy "$work/info.json" GET /info
holds out '"target": "/v1.44/info"' 'goes out as its default version'

# what a hostile client sends is refused, not a usage error
expect 1 'a method that is no token' "$proxy" explain -- 'G T' /_ping
expect 1 'an empty method' "$proxy" explain -- '' /_ping
expect 1 'a method that looks like an option' "$proxy" explain -- --x /_ping
expect 1 'a target with a space' "$proxy" explain GET '/_ping HTTP/1.1'
expect 1 'a target with a line feed' "$proxy" explain GET '/_ping
X: y'
expect 1 'an empty target' "$proxy" explain GET ''
expect 1 'a header without a colon' "$proxy" explain --header 'x' GET /_ping
expect 1 'a header with a line feed' "$proxy" explain --header 'X: a
Y: b' GET /_ping
expect 1 'two hosts' "$proxy" explain --header 'Host: a' --header 'Host: b' GET /_ping
expect 1 'a body that is no JSON' "$proxy" explain --body /dev/null --header 'Content-Type: application/json' \
	POST /v1.41/containers/cap-x/exec
dd if=/dev/zero of="$work/large" bs=1M count=0 seek=40 2>/dev/null
expect 1 'a body larger than any that is read' "$proxy" explain --body "$work/large" \
	--header 'Content-Type: application/json' POST /v1.41/containers/cap-x/exec
holds out '"reason": "body-too-large"' 'is refused for that'

# cannot say
expect 2 'no arguments' "$proxy" explain
holds err 'usage:' 'prints the usage'
expect 2 'one argument' "$proxy" explain GET
expect 2 'three arguments' "$proxy" explain GET /_ping x
expect 2 'an unknown option' "$proxy" explain --nope GET /_ping
expect 2 'a policy that is not there' "$proxy" explain --policy "$work/none.json" GET /_ping
expect 2 'a policy with a fault' "$proxy" explain --policy "$work/bad.json" GET /_ping
holds err "$work/bad.json:2:16: /endpoints/0:" 'says where'
expect 2 'a body that is not there' "$proxy" explain --body "$work/none" POST /_ping
expect 2 'an unknown command' "$proxy" nonsense

# print-policy
expect 0 'the built-in policy' "$proxy" print-policy
cp "$work/out" "$work/printed.json"
expect 0 'what was printed loads' "$proxy" print-policy --policy "$work/printed.json"
if cmp -s "$work/out" "$work/printed.json"; then echo "ok - and prints the same"; else echo "not ok - it differs"; failed=1; fi
expect 2 'print-policy with a fault' "$proxy" print-policy --policy "$work/bad.json"
expect 2 'print-policy with an argument' "$proxy" print-policy x
exit $failed
