#!/bin/bash
# dockerproxy as its operator knows it: crash of a worker, reload good and bad, log rotation, stop, TLS, another user, and
# what the workers are allowed to do.
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2016,SC2317
. "$(dirname "$0")/lib.sh"

trap "" PIPE # an exec that broke no longer reads its input

name=cap-op-$$
box=$scratch/op
socket=$box/docker.sock
port=$((20000 + $$ % 10000))
safe=(--cap-drop ALL --security-opt no-new-privileges --read-only --pids-limit 100 --memory 64m --network none
	--label dev.capybara.sandbox=1)
master=
# Whatever ends the test early must not leave the proxy behind.
trap '[ -z "$master" ] || kill "$master"; rm -rf "$scratch"' EXIT
mkdir -m 755 "$box"
chmod 755 "$scratch"

own()
{
	DOCKER_HOST=unix://$socket docker "$@"
}

configure()
{
	cat >"$box/conf.json" <<-JSON
		{
			"listen": [
				{"unix": "$socket", "mode": "0666"},
				{"tcp": "127.0.0.1:$port", "tls": {"cert": "$box/server.pem", "key": "$box/server.key", "clientCa": "$box/ca.pem"}}
			],
			"upstream": {"unix": "${DOCKER_HOST#unix://}"},
			"admin": {"unix": "$box/admin.sock"},
			"workers": 2,
			"timeouts": {"drain": "20s"},
			"audit": {"path": "$box/audit.log"}${1:-}
		}
	JSON
}

start()
{
	"$build/dockerproxy/dockerproxy" --config "$box/conf.json" >>"$box/log" 2>&1 &
	master=$!
	wait_for 20 own version
}

workers()
{
	pgrep -P "$master" | sort
}

log_says()
{
	grep -qF -- "$1" "$box/log"
}

# An exec that says it runs, waits for a line, and says it is done: hold NUMBER, then release NUMBER.
hold()
{
	mkfifo "$box/in.$1"
	own exec -i --user 1000:1000 "$name" sh -c 'echo running; read -r line; echo "done $line"' \
		<"$box/in.$1" >"$box/out.$1" 2>&1 &
	eval "holder_$1=\$!"
	exec {fd}>"$box/in.$1"
	eval "input_$1=$fd"
	wait_for 20 grep -q running "$box/out.$1"
}

release()
{
	local fd pid
	eval "fd=\$input_$1 pid=\$holder_$1"
	# One whose worker was killed has no reader.
	{ echo bye >&"$fd"; } 2>/dev/null
	exec {fd}>&-
	wait "$pid" 2>/dev/null
	rm -f "$box/in.$1"
}

certificates "$box"
configure
start
ok "starts with two listeners" test -S "$socket"
ok "create" own create --name "$name" "${safe[@]}" "$IMAGE" sleep 600
ok "start" own start "$name"

# --- confinement, from outside
worker=$(workers | head -n 1)
status=$(cat "/proc/$worker/status")
like "a worker is nobody" '^Uid:	65534	65534	65534	65534$' "$status"
like "in no group of the engine's" '^Groups:	[[:space:]]*$' "$status"
like "without capabilities" '^CapEff:	0000000000000000$' "$status"
like "and without any to gain" '^CapBnd:	0000000000000000$' "$status"
like "no_new_privs is set" '^NoNewPrivs:	1$' "$status"
like "a seccomp filter is on" '^Seccomp:	2$' "$status"
is "it holds no descriptor of a file but the audit log and standard streams" "" \
	"$(find "/proc/$worker/fd" -lname '/*' -printf '%f %l\n' | grep -vE "^[012] |$box/audit.log" || true)"
health=$(curl -s --unix-socket "$box/admin.sock" http://localhost/healthz)
like "healthz says what is confined" '"seccomp":true' "$health"

capabilities=$(sed -n 's/^CapPrm:	//p' "/proc/$master/status")
is "the master keeps of root's capabilities only what it needs" 0 $((0x$capabilities & ~0x10005eb))
like "and can gain nothing" '^NoNewPrivs:	1$' "$(cat "/proc/$master/status")"

# --- admin
like "readyz asks the engine" '"ready":true' "$(curl -s --unix-socket "$box/admin.sock" http://localhost/readyz)"
like "metrics count" '^dockerproxy_' "$(curl -s --unix-socket "$box/admin.sock" http://localhost/metrics)"
like "policy is shown" '"endpoints"' "$(curl -s --unix-socket "$box/admin.sock" http://localhost/policy)"

# --- TLS
tls()
{
	curl -sS --max-time 10 --cacert "$box/ca.pem" "$@" "https://localhost:$port/_ping"
}
is "a client of the authority is served" OK "$(tls --cert "$box/client.pem" --key "$box/client.key")"
ok "one without a certificate is not" bash -c "! curl -sS --max-time 10 --cacert '$box/ca.pem' https://localhost:$port/_ping"
ok "nor a stranger" bash -c "! curl -sS --max-time 10 --cacert '$box/ca.pem' --cert '$box/nobody.pem' \
	--key '$box/nobody.key' https://localhost:$port/_ping"
like "the audit log names the client" '"peer":"127.0.0.1:[0-9]+ CN=client"' "$(grep CN=client "$box/audit.log")"
is "docker over TLS, with a tunnel" "hello" "$(echo hello | docker --tlsverify --tlscacert "$box/ca.pem" \
	--tlscert "$box/client.pem" --tlskey "$box/client.key" -H "tcp://localhost:$port" exec -i --user 1000:1000 "$name" cat)"

# --- a worker is killed: what the other one carries goes on
mapfile -t pids < <(workers)
# While one is stopped, the other takes the client.
kill -STOP "${pids[1]}"
hold 1
kill -CONT "${pids[1]}"
kill -STOP "${pids[0]}"
hold 2
kill -CONT "${pids[0]}"
kill -9 "${pids[0]}"
replaced()
{
	[ "$(workers | wc -l)" = 2 ] && ! workers | grep -qx "${pids[0]}"
}
ok "a killed worker is replaced" wait_for 10 replaced
ok "and the log says so" wait_for 10 log_says "was ended by signal 9"
release 1
release 2
is "the exec of the other worker finished" "running done bye" "$(xargs <"$box/out.2")"
is "and only that of the killed one broke" "" "$(grep "done" "$box/out.1")"
ok "the proxy serves" own version

# --- reload
hold 50
old=$(workers)
"$build/dockerproxy/dockerproxy" print-policy |
	sed 's/"ping"/"ping-renamed"/' >"$box/policy.json"
configure ", \"policy\": \"$box/policy.json\""
kill -HUP "$master"
ok "a good reload takes over" wait_for 20 log_says "configuration 2 serves"
curl -s --unix-socket "$socket" http://localhost/_ping >/dev/null
ok "with the new policy" wait_for 10 grep -q '"endpoint":"ping-renamed"' "$box/audit.log"
release 50
is "the exec that ran meanwhile finished" "running done bye" "$(xargs <"$box/out.50")"
nobody_of_old()
{
	! workers | grep -qxF "$old"
}
ok "and then the old workers ended" wait_for 20 nobody_of_old
serving=$(workers)
configure ', "timeouts": {"haed": 1}'
kill -HUP "$master"
ok "a bad reload is refused with its place" wait_for 10 log_says "$box/conf.json:"
like "and says what it may have meant" 'conf.json:[0-9]+:[0-9]+: .*(repeated|did you mean)' \
	"$(grep 'reload refused' "$box/log")"
printf '{"endpoints": [{"id": 5}]}' >"$box/policy.json"
configure ", \"policy\": \"$box/policy.json\""
kill -HUP "$master"
ok "so is a bad policy" wait_for 10 log_says "$box/policy.json:1:"
is "the workers are the same" "$serving" "$(workers)"
ok "and serve" own version

# --- rotation
mv "$box/audit.log" "$box/audit.log.1"
kill -USR1 "$master"
ok "SIGUSR1 reopens the audit log" wait_for 10 test -e "$box/audit.log"
written()
{
	own version >/dev/null && [ -s "$box/audit.log" ]
}
ok "and workers write to the new one" wait_for 10 written

# --- stop
hold 51
kill -TERM "$master"
ok "stopping refuses new clients" wait_for 10 bash -c "! curl -s --max-time 5 --unix-socket '$socket' http://localhost/_ping"
release 51
is "what was under way finishes" "running done bye" "$(xargs <"$box/out.51")"
wait "$master"
is "and the program ends well" 0 $?
master=
ok "its sockets are gone" test ! -e "$socket"

# --- as another user, in the group of the engine's socket
configure
group=$(stat -c %g "${DOCKER_HOST#unix://}")
rm -f "$box/audit.log" "$box/log"
chmod 644 "$box/server.key"
mkdir -m 777 "$box/user"
sed -i "s|$box/docker.sock|$box/user/docker.sock|; s|$box/admin.sock|$box/user/admin.sock|; s|$box/audit.log|$box/user/audit.log|" \
	"$box/conf.json"
socket=$box/user/docker.sock
engine_mode=$(stat -c %a "${DOCKER_HOST#unix://}")
if [ "$group" = 0 ]; then
	group=4243
	chgrp $group "${DOCKER_HOST#unix://}"
fi
chmod 660 "${DOCKER_HOST#unix://}"
setpriv --reuid 4242 --regid 4242 --groups "$group" --bounding-set -all "$build/dockerproxy/dockerproxy" --config "$box/conf.json" \
	>"$box/log" 2>&1 &
master=$!
ok "runs as a user in the socket's group" wait_for 20 own version
like "whose workers are confined too" '^Seccomp:	2$' "$(cat "/proc/$(workers | head -n 1)/status")"
kill -TERM "$master"
wait "$master"
is "and stops" 0 $?
master=
chmod "$engine_mode" "${DOCKER_HOST#unix://}"

docker rm -fv "$name" >/dev/null
done_testing
