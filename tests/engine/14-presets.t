#!/bin/bash
# The presets of conf/policies with the unmodified docker command line: what each is for works, what it must not do is refused.
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2317
. "$(dirname "$0")/lib.sh"

name=cap-pre-$$
presets="sandbox-cli read-only traefik portainer watchtower ci-runner"
safe=(--cap-drop ALL --security-opt no-new-privileges --read-only --pids-limit 100 --memory 64m --network none
	--label dev.capybara.sandbox=1)
master=
# Whatever ends the test early must not leave anything behind.
trap 'docker rm -f "$name" "$name-2" "$name-old" >/dev/null 2>&1; [ -z "$master" ] || kill "$master"; rm -rf "$scratch"' EXIT

# as PRESET ARGUMENT...: the command line behind that preset's socket
as()
{
	local preset=$1
	shift
	DOCKER_HOST=unix://$scratch/$preset.sock docker "$@"
}

start()
{
	local listen="" preset
	for preset in $presets; do
		listen+="${listen:+,}{\"unix\": \"$scratch/$preset.sock\", \"policy\": \"$top/conf/policies/$preset.json\"}"
	done
	cat >"$scratch/conf.json" <<-JSON
		{"listen": [$listen], "upstream": {"unix": "${DOCKER_HOST#unix://}"}, "workers": 1, "audit": {"path": "$scratch/audit"}}
	JSON
	"$build/dockerproxy/dockerproxy" --config "$scratch/conf.json" >"$scratch/log" 2>&1 &
	master=$!
	wait_for 30 as read-only version
}

# A terminal of 33 lines and 111 columns that becomes one of 44 and 122 once the command has said READY. The command line
# does not hear of a change before it listens for the signal, which may be after READY: it is told again and again.
on_terminal()
{
	python3 - "$@" <<-'PYTHON'
		import fcntl, os, pty, select, signal, struct, sys, termios
		size = lambda fd, lines, columns: fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
		pid, fd = pty.fork()
		if pid == 0:
		    size(0, 33, 111)
		    os.execvp(sys.argv[1], sys.argv[1:])
		seen, grown = b"", False
		while True:
		    if not select.select([fd], [], [], 0.5)[0]:
		        os.kill(pid, signal.SIGWINCH)
		        continue
		    try:
		        more = os.read(fd, 65536)
		    except OSError:
		        break
		    if not more:
		        break
		    seen += more
		    if b"READY" in seen and not grown:
		        size(fd, 44, 122)
		        grown = True
		sys.stdout.write(seen.decode("utf-8", "replace"))
		sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	PYTHON
}

run_sandbox_cli()
{
	local p=sandbox-cli out
	is "$p: run --rm" hello "$(as $p run --rm --name "$name" "${safe[@]}" "$IMAGE" echo hello)"
	is "$p: run --rm -i takes input and its end" 6 "$(echo hello | as $p run --rm -i --name "$name" "${safe[@]}" "$IMAGE" wc -c)"
	as $p run --rm --name "$name" "${safe[@]}" "$IMAGE" sh -c 'exit 7'
	is "$p: run hands on the exit code" 7 $?
	# shellcheck disable=SC2016 # for the container's shell
	out=$(DOCKER_HOST=unix://$scratch/$p.sock on_terminal docker run --rm -it --name "$name" "${safe[@]}" "$IMAGE" sh -c \
		'tty; i=0; until [ "$(stty size)" = "33 111" ]; do sleep 0.1; done; stty size; echo READY
		until [ "$(stty size)" = "44 122" ]; do sleep 0.1; done; stty size; exit 5')
	is "$p: run --rm -it hands on the exit code" 5 $?
	like "$p: run --rm -it has a terminal" /dev/ "$out"
	like "$p: of the size of the client's" "33 111" "$out"
	like "$p: and follows it" "44 122" "$out"
	ok "$p: run -d" as $p run -d --name "$name" "${safe[@]}" "$IMAGE" sh -c 'echo said; read x; exit 3'
	is "$p: wait tells the exit code" 3 "$(as $p wait "$name")"
	is "$p: logs" said "$(as $p logs "$name")"
	ok "$p: rm" as $p rm "$name"
	ok "$p: create -i" as $p create -i --name "$name" "${safe[@]}" "$IMAGE" cat
	is "$p: start -ai" word "$(echo word | as $p start -ai "$name")"
	ok "$p: rm -f" as $p rm -f "$name"
	fails "$p: pull: the registry's absence is the engine's word" "dial tcp" as $p pull busybox:1
	like "$p: and the pull was allowed" '"endpoint":"image.pull".*"decision":"allow"' "$(grep image.pull "$scratch/audit" | tail -n 1)"
	for query in 'fromSrc=-&repo=x' 'fromImage=a&tag=1&repo=x' 'fromImage=a&tag=1&fromSrc=http://h/' 'fromImage=a'; do
		is "$p: no pull by $query" 403 "$(raw $p POST "/v1.41/images/create?$query")"
	done
	fails "$p: run without the sandbox's walls" "dockerproxy" as $p run --rm --name "$name" "$IMAGE" true
	fails "$p: run --privileged" "HostConfig.Privileged" as $p run --rm --name "$name" "${safe[@]}" --privileged "$IMAGE" true
	fails "$p: logs of another's container" "dockerproxy" as $p logs kernel
	fails "$p: attach by another's id" "owner-not-allowed" as $p attach "$foreign"
}

# The status of a request without a body.
raw()
{
	curl -s -o /dev/null -w '%{http_code}' --unix-socket "$scratch/$1.sock" -X "$2" "http://d$3"
}

run_read_only()
{
	local p=read-only
	like "$p: ps" "$foreign_name" "$(as $p ps -a --format '{{.Names}}')"
	ok "$p: info" as $p info
	is "$p: inspect" "/$foreign_name" "$(as $p inspect --format '{{.Name}}' "$foreign_name")"
	is "$p: inspect by a part of the id" "/$foreign_name" "$(as $p inspect --format '{{.Name}}' "${foreign:0:12}")"
	ok "$p: images" as $p images
	ok "$p: logs" as $p logs "$foreign_name"
	ok "$p: top" as $p top "$foreign_name"
	ok "$p: system df" as $p system df
	ok "$p: network ls" as $p network ls
	ok "$p: volume ls" as $p volume ls
	fails "$p: no stop" "dockerproxy" as $p stop "$foreign_name"
	fails "$p: no rm" "dockerproxy" as $p rm -f "$foreign_name"
	fails "$p: no exec" "dockerproxy" as $p exec "$foreign_name" true
	fails "$p: no run" "dockerproxy" as $p run --rm "$IMAGE" true
	fails "$p: no cp" "dockerproxy" as $p cp "$foreign_name:/etc/passwd" "$scratch/copy"
	fails "$p: no volume create" "dockerproxy" as $p volume create "$name"
	fails "$p: no pull" "dockerproxy" as $p pull busybox:1
	fails "$p: no prune" "dockerproxy" as $p container prune -f
}

run_traefik()
{
	local p=traefik
	ok "$p: version" as $p version
	like "$p: ps" "$foreign_name" "$(as $p ps --format '{{.Names}}')"
	is "$p: inspect" "/$foreign_name" "$(as $p inspect --format '{{.Name}}' "$foreign")"
	ok "$p: events of the past" as $p events --since 1 --until 2 --filter type=container
	fails "$p: no logs" "dockerproxy" as $p logs "$foreign_name"
	fails "$p: no stop" "dockerproxy" as $p stop "$foreign_name"
	fails "$p: no run" "dockerproxy" as $p run --rm "$IMAGE" true
}

# What those have in common that make containers.
run_maker()
{
	local p=$1
	ok "$p: create" as "$p" create --name "$name" --memory 64m "$IMAGE" sleep 300
	ok "$p: start" as "$p" start "$name"
	ok "$p: inspect" as "$p" inspect "$name"
	ok "$p: image inspect" as "$p" image inspect "$IMAGE"
	ok "$p: stop" as "$p" stop -t 1 "$name"
	fails "$p: no privileged container" "Privileged" as "$p" create --name "$name-2" --privileged "$IMAGE"
	fails "$p: no bind of the host's root" "dockerproxy" as "$p" create --name "$name-2" -v /:/host "$IMAGE"
	fails "$p: no host's processes" "PidMode" as "$p" create --name "$name-2" --pid host "$IMAGE"
	fails "$p: no host's network" "NetworkMode" as "$p" create --name "$name-2" --network host "$IMAGE"
	fails "$p: no device" "Devices" as "$p" create --name "$name-2" --device /dev/null "$IMAGE"
	fails "$p: pull of a tag gets as far as the registry" "dial tcp" as "$p" pull busybox:1
	fails "$p: no copy into a container" "dockerproxy" as "$p" cp "$scratch/conf.json" "$name:/x"
}

run_watchtower()
{
	run_maker watchtower
	ok "watchtower: rename" as watchtower rename "$name" "$name-old"
	ok "watchtower: rm" as watchtower rm -f "$name-old"
	ok "watchtower: exec, for the hooks of a container" as watchtower exec "$foreign_name" true
	fails "watchtower: no privileged exec" "Privileged" as watchtower exec --privileged "$foreign_name" true
}

run_portainer()
{
	run_maker portainer
	ok "portainer: update" as portainer update --memory 80m --memory-swap 80m "$name"
	ok "portainer: start" as portainer start "$name"
	is "portainer: exec" word "$(as portainer exec "$name" echo word)"
	ok "portainer: logs" as portainer logs "$name"
	ok "portainer: stats" as portainer stats --no-stream "$name"
	ok "portainer: rm" as portainer rm -f "$name"
	ok "portainer: network create" as portainer network create "$name-n"
	ok "portainer: network rm" as portainer network rm "$name-n"
	ok "portainer: volume create" as portainer volume create "$name-v"
	ok "portainer: volume rm" as portainer volume rm "$name-v"
}

run_ci_runner()
{
	run_maker ci-runner
	ok "ci-runner: rm" as ci-runner rm -f "$name"
	is "ci-runner: run" word "$(as ci-runner run --rm --name "$name" "$IMAGE" echo word)"
	is "ci-runner: run -i" word "$(echo word | as ci-runner run --rm -i --name "$name" "$IMAGE" cat)"
	fails "ci-runner: no build" "dockerproxy" env DOCKER_BUILDKIT=0 DOCKER_HOST="unix://$scratch/ci-runner.sock" docker build -q - </dev/null
}

foreign_name=other-$$
foreign=$(docker run -d --name "$foreign_name" "$IMAGE" sleep 600)
ok "the proxy serves every preset" start
run_sandbox_cli
run_read_only
run_traefik
run_watchtower
run_portainer
run_ci_runner
docker rm -f "$foreign_name" >/dev/null
done_testing
