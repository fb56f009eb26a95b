#!/bin/bash
# dockerproxy where others deploy it: in a container FROM scratch before the engine that runs it, as conf/compose.yaml does,
# and before an engine that is reached by TCP with TLS.
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2317,SC2153
. "$(dirname "$0")/lib.sh"

container=deployed-$$
name=cap-deployed-$$
image=capybara-dockerproxy:test
safe=(--cap-drop ALL --security-opt no-new-privileges --read-only --pids-limit 100 --memory 64m --network none
	--label dev.capybara.sandbox=1)
remote=$scratch/remote
proxy=
cleanup()
{
	[ -z "$proxy" ] || kill "$proxy"
	docker rm -f "$container" "$name" >/dev/null 2>&1
	[ ! -d "$remote" ] || "$engine" remove "$remote"
	rm -rf "$scratch" "$ENGINE_DIR/deployed.json"
}
trap cleanup EXIT

# --- in a container

# The port is published on the loopback of the engine's own network namespace.
contained()
{
	"$engine" exec "$ENGINE_DIR" docker -H tcp://127.0.0.1:2375 "$@"
}

# The lines of compose.yaml that give or take rights, as options of `docker run`.
rights()
{
	sed -n '/^  dockerproxy:/,/^  [a-z]/p' "$top/conf/compose.yaml" | sed -nE \
		-e 's/^    read_only: true/--read-only/p' -e 's/^    pids_limit: /--pids-limit=/p' -e 's/^    mem_limit: /--memory=/p' \
		-e 's/^    security_opt: \["(.*)"\]/--security-opt=\1/p' -e 's/^    cap_drop: \[(.*)\]/--cap-drop=\1/p' \
		-e '/^    cap_add: /{s/.*\[(.*)\]/\1/;s/, */\n/g;s/^/--cap-add=/;s/\n/&--cap-add=/g;p}'
}

# "UID CAPABILITIES SECCOMP" of each process in the container
processes()
{
	docker run --rm --network none --user 1000:1000 --pid "container:$container" "$IMAGE" bash -c 'cat /proc/[0-9]*/status' |
		awk '$1 == "Uid:" { uid = $2 " " $3 " " $4 } $1 == "CapEff:" { caps = $2 } $1 == "Seccomp:" { print uid, caps, $2 }' |
		grep -v "^1000 " | sort
}

ok "its image is made" "$top/image/build" dockerproxy --tag "$image"
docker create --name "$container" "$image" >/dev/null
is "it holds the program, and the names of two users" "dockerproxy etc/group etc/passwd" \
	"$(docker export "$container" | tar t | grep -vE '/$|^(\.dockerenv|dev/console|etc/(hostname|hosts|mtab|resolv.conf))$' |
		sort | xargs)"
docker rm "$container" >/dev/null
mapfile -t rights < <(rights)
is "compose.yaml says eight things of its rights" 8 "${#rights[@]}"
# Where the engine sees it, too, when it has a tree of its own.
cp "$top/conf/compose-dockerproxy.json" "$ENGINE_DIR/deployed.json"
ok "it starts with the rights of compose.yaml" docker run -d --name "$container" "${rights[@]}" -p 127.0.0.1:2375:2375 \
	-v "$ENGINE_DIR/deployed.json:/etc/dockerproxy.json:ro" -v "${DOCKER_HOST#unix://}:/var/run/docker.sock" \
	"$image" run --config /etc/dockerproxy.json
ok "and answers" wait_for 20 contained version
is "its master holds three rights, its worker is nobody and holds none; both have a system call filter" \
	"0 0 0 00000000000000e0 2 65534 65534 65534 0000000000000000 2" "$(processes | xargs)"
ok "a sandbox is created" contained create --name "$name" "${safe[@]}" "$IMAGE" sleep 300
ok "and started" contained start "$name"
is "a command runs in it" hello "$(echo hello | contained exec -i --user 1000:1000 "$name" cat)"
fails "a privileged one is refused" "HostConfig.Privileged" contained create --name "$name-p" "${safe[@]}" --privileged "$IMAGE" true
like "the decision is in the container's log" '"reason":"hostconfig-privileged"' "$(docker logs "$container" 2>&1)"
ok "it stops when it is told to" docker stop -t 20 "$container"
is "in order" 0 "$(docker inspect --format '{{.State.ExitCode}}' "$container")"

# --- before an engine by TCP, with certificates on both sides

through()
{
	DOCKER_HOST=unix://$scratch/remote.sock docker "$@"
}

# configure CLIENT NAME
configure()
{
	cat >"$scratch/remote.json" <<-JSON
		{
			"listen": [{"unix": "$scratch/remote.sock", "mode": "0600"}],
			"upstream": {
				"tcp": "127.0.0.1:2376",
				"tls": {"ca": "$remote/etc/ca.pem", "name": "$2", "cert": "$remote/etc/$1.pem", "key": "$remote/etc/$1.key"}
			},
			"workers": 1,
			"audit": {"path": "$scratch/remote.log"}
		}
	JSON
}

# serve CLIENT NAME: the proxy, in the engine's network namespace
serve()
{
	configure "$@"
	"$engine" exec "$remote" "$build/dockerproxy/dockerproxy" --config "$scratch/remote.json" >>"$scratch/remote.out" 2>&1 &
	proxy=$!
	wait_for 20 test -S "$scratch/remote.sock"
}

quit()
{
	kill "$proxy"
	wait "$proxy"
	proxy=
}

mkdir -p "$remote/etc"
certificates "$remote/etc"
export ENGINE_OPTIONS="-H tcp://127.0.0.1:2376 --tlsverify --tlscacert /etc/docker/ca.pem --tlscert /etc/docker/server.pem
	--tlskey /etc/docker/server.key"
ok "an engine listens by TCP with TLS" "$engine" start "$remote"
unset ENGINE_OPTIONS
docker save "$IMAGE" | docker -H "unix://$("$engine" socket "$remote")" load >/dev/null
ok "dockerproxy starts before it" serve client localhost
ok "and answers" wait_for 20 through version
ok "a container is created by TLS" through create --name "$name" "${safe[@]}" "$IMAGE" sleep 300
ok "and started" through start "$name"
is "a megabyte goes through a tunnel and back" "$(head -c 1000000 /dev/zero | sha256sum)" \
	"$(head -c 1000000 /dev/zero | through exec -i --user 1000:1000 "$name" cat | sha256sum)"
fails "a privileged one is refused" "HostConfig.Privileged" through create --name "$name-p" "${safe[@]}" --privileged "$IMAGE" true
ok "it is removed" through rm -f "$name"
quit
ok "another starts as a client that the engine does not know" serve nobody localhost
fails "which the engine does not serve" "dockerproxy" through container inspect "$name"
quit
ok "another starts that expects an engine of another name" serve client engine.example
fails "and does not speak to this one" "dockerproxy" through container inspect "$name"
quit
done_testing
