#!/bin/sh
# dockerproxy --check: what a configuration file or the environment gets wrong is said with its place, and nothing that was
# asked for is left out in silence.
set -u
proxy=${BUILD_DIR:-.}/dockerproxy/dockerproxy
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# says CODE TEXT NAME COMMAND...: it ends so, and its output or message holds the text.
says() {
	want=$1 text=$2 name=$3
	shift 3
	"$@" >"$work/out" 2>&1 </dev/null
	code=$?
	if [ "$code" -eq "$want" ] && grep -qF -- "$text" "$work/out"; then
		echo "ok - $name"
	else
		echo "not ok - $name: exit $code, wanted $want and \"$text\""
		cat "$work/out"
		failed=1
	fi
}

# conf TEXT: the file to be checked.
conf() {
	printf '%b' "$1" >"$work/c"
}

conf '{"listen": [{"unix": "/run/a"}, {"tcp": "127.0.0.1:2375"}], "upstream": {"unix": "/run/e"}, "workers": 2}'
says 0 'ok, 2 listeners' 'a good one' "$proxy" --config "$work/c" --check

# where: the member of a list's entry, not the list
conf '{\n"listen": [{"unix": "/run/a"},\n   {"unix": "/run/b", "allowUid": [0]}\n]}'
says 1 'c:3:35: listen: listen: unknown key "allowUid"' 'an unknown key of a listener' "$proxy" --config "$work/c" --check
conf '{\n"listen": [{"unix": "/run/a"},\n   {"unix": "/run/b",\n    "mode": 660}\n]}'
says 1 'c:4:13: listen: listen.mode: must be a string of octal' 'a wrong type' "$proxy" --config "$work/c" --check
conf '{\n"listen": [{"unix": "/run/a"},\n   {"unix": "/run/b", "allowCidrs": ["10.0.0.0/8"]}\n]}'
says 1 'c:3:4: listen: allowCidrs and tls need a tcp listener' 'a member in the wrong place' "$proxy" --config "$work/c" --check
conf '{"upstream": {"unix": "/run/e",\n "socket": "x"}}'
says 1 'c:2:12: upstream: upstream: unknown key "socket"' 'an unknown key of the engine' "$proxy" --config "$work/c" --check

# an address that no bind could take
conf '{"listen": [{"unix": "/run/a"},\n {"tcp": "127.0.0.1:99999"}]}'
says 1 'c:2:2: listen: "127.0.0.1:99999" is no numeric ADDRESS:PORT' 'a port that is none' "$proxy" --config "$work/c" --check
conf '{"admin": {"tcp": "127.0.0.1"}}'
says 1 'c:1:11: admin: "127.0.0.1" is no numeric ADDRESS:PORT' 'an admin listener without port' "$proxy" --config "$work/c" --check
says 1 'DOCKERPROXY_LISTEN: "localhost:2375" is no numeric' 'a name in the environment' \
	env DOCKERPROXY_LISTEN=tcp:localhost:2375 "$proxy" --check

# TLS that names no files is no TLS: plain, and nobody would know
conf '{"listen": [{"tcp": "127.0.0.1:2375",\n "tls": {}}]}'
says 1 'c:2:9: listen: listen.tls: needs both cert and key' 'TLS of nothing' "$proxy" --config "$work/c" --check
conf '{"listen": [{"tcp": "127.0.0.1:2375", "tls": {"clientCa": "/ca"}}]}'
says 1 'listen.tls: needs both cert and key' 'TLS with an authority alone' "$proxy" --config "$work/c" --check
conf '{"upstream": {"tcp": "192.0.2.1:2376",\n "tls": {}}}'
says 1 'c:2:9: upstream: upstream.tls: needs "ca"' 'TLS of nothing to the engine' "$proxy" --config "$work/c" --check
conf '{"upstream": {"tcp": "192.0.2.1:2376", "tls": {"key": "/k"}}}'
says 1 'upstream.tls: needs "ca"' 'TLS to the engine with a key alone' "$proxy" --config "$work/c" --check
conf '{"upstream": {"tcp": "192.0.2.1:2376", "tls": {"ca": "/ca", "key": "/k"}}}'
says 1 'upstream.tls: has cert and key together' 'a key without its certificate' "$proxy" --config "$work/c" --check

says 1 'DOCKERPROXY_LISTEN: must name at least one listener' 'a variable that is empty' \
	env DOCKERPROXY_LISTEN= "$proxy" --check
says 0 'ok, 2 listeners' 'listeners by the environment' \
	env DOCKERPROXY_LISTEN=unix:/run/a,tcp:127.0.0.1:2375 "$proxy" --check

exit "$failed"
