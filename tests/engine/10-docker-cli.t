#!/bin/bash
# The unmodified docker command line through the sandbox policy: each release of it that this machine has.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

name=cap-cli-$$
label=(--label dev.capybara.sandbox=1)
# What the policy asks of every container.
safe=(--cap-drop all --security-opt no-new-privileges --read-only --pids-limit 100 --memory 64m --network none "${label[@]}")

client()
{
	DOCKER_HOST=$PROXY "$cli" "$@"
}

# Runs a command on a terminal of its own; docker -t wants one.
on_terminal()
{
	script -qec "DOCKER_HOST=$PROXY $cli $*" /dev/null </dev/null
}

the_last_decision()
{
	grep '"event":"decision"' "$PROXY_LOG" | tail -n 1
}

lifecycle()
{
	ok "$1 create" client create -i --name "$name" "${safe[@]}" "$IMAGE" sleep 300
	ok "$1 start" client start "$name"
	is "$1 exec" "1000 1000" "$(client exec --user 1000:1000 "$name" sh -c 'echo "$(id -u) $(id -g)"')"
	is "$1 exec -i passes input and its end" hello "$(echo hello | client exec -i --user 1000:1000 "$name" cat)"
	is "$1 exec keeps output and errors apart" err "$(client exec --user 1000:1000 "$name" sh -c 'echo out; echo err >&2' 2>&1 >/dev/null)"
	like "$1 exec -it has a terminal" /dev/pts/ "$(on_terminal exec -it --user 1000:1000 "$name" tty)"
	client exec --user 1000:1000 "$name" sh -c 'exit 7'
	is "$1 exec hands on the exit code" 7 $?
	is "$1 a megabyte through exec arrives whole" "$(head -c 1000000 /dev/zero | sha256sum)" \
		"$(client exec --user 1000:1000 "$name" head -c 1000000 /dev/zero | sha256sum)"
	ok "$1 exec -d" client exec -d --user 1000:1000 "$name" true
	is "$1 inspect" running "$(client inspect --format '{{.State.Status}}' "$name")"
	like "$1 inspect by full id" "^/$name\$" "$(client inspect --format '{{.Name}}' "$(client inspect --format '{{.Id}}' "$name")")"
	ok "$1 restart" client restart -t 1 "$name"
	ok "$1 kill" client kill "$name"
	ok "$1 start again" client start "$name"
	ok "$1 stop" client stop -t 1 "$name"
	ok "$1 rm" client rm "$name"
	fails "$1 inspect of nothing" "No such container" client container inspect "$name"
}

# Most of what the policy takes at a create, at once.
options()
{
	local form='{{.Config.Hostname}} {{.Config.StopTimeout}} {{(index .HostConfig.Ulimits 1).Hard}} {{.HostConfig.OomScoreAdj}}'
	local many=(-it --init --entrypoint sh -e A=b -e 'BASH_FUNC_x%%=() { :; }' -w /tmp --user 1000:1000 --hostname box --expose 80
		--stop-signal SIGTERM --stop-timeout 5 --tmpfs '/t:size=16m,mode=1777' --mount "type=volume,src=$name-v,dst=/w,readonly"
		--mount 'type=tmpfs,dst=/m,tmpfs-size=16m' --shm-size 16m --ulimit nofile=64:128 --ulimit stack=67108864 --cpus 0.5
		--cpu-shares 512 --memory-swap 64m --oom-score-adj 500 --restart on-failure:3 --log-opt max-size=10m --ipc private
		--health-cmd true --health-interval 5s --label dev.capybara.x=y)

	ok "$1 create with most options" client create --name "$name" "${safe[@]}" "${many[@]}" "$IMAGE" -c 'exit 0'
	is "$1 and the engine has them" "box 5 67108864 500" "$(docker inspect --format "$form" "$name")"
	ok "$1 rm of it" client rm "$name"
	ok "$1 volume rm of its volume" client volume rm "$name-v"
}

# Clients that remember ids, as compose does, join and leave networks by them.
networks()
{
	local id foreign

	ok "$1 create on a network" client create --name "$name" "${safe[@]/#none/$name-n}" "$IMAGE" sleep 300
	id=$(client inspect --format '{{.Id}}' "$name")
	ok "$1 network disconnect by full id" client network disconnect "$name-n" "$id"
	ok "$1 network connect by full id" client network connect "$name-n" "$id"
	foreign=$(docker create --name "foreign-$$" "$IMAGE" true)
	fails "$1 network connect of a foreign id" "owner-not-allowed" client network connect "$name-n" "$foreign"
	docker rm "foreign-$$" >/dev/null
	ok "$1 rm of the container" client rm "$name"
}

objects()
{
	ok "$1 volume create" client volume create "${label[@]}" "$name-v"
	ok "$1 volume inspect" client volume inspect "$name-v"
	ok "$1 volume rm" client volume rm "$name-v"
	ok "$1 network create" client network create --internal "${label[@]}" "$name-n"
	ok "$1 network inspect" client network inspect "$name-n"
	networks "$1"
	ok "$1 network rm" client network rm "$name-n"
	ok "$1 image inspect" client image inspect "$IMAGE"
	ok "$1 ps with the label" client ps -a --filter label=dev.capybara.sandbox=1
}

refusals()
{
	fails "$1 ps of everything" "filters" client ps -a
	fails "$1 create --privileged" "HostConfig.Privileged" client create --name "$name" "${safe[@]}" --privileged "$IMAGE"
	like "$1 and the log has the reason" '"decision":"deny".*"at":"/HostConfig/Privileged"' "$(the_last_decision)"
	fails "$1 create -v /:/host" "Binds" client create --name "$name" "${safe[@]}" -v /:/host "$IMAGE"
	fails "$1 create --pid host" "HostConfig.PidMode" client create --name "$name" "${safe[@]}" --pid host "$IMAGE"
	fails "$1 create of another name" "name" client create --name kernel "${safe[@]}" "$IMAGE"
	fails "$1 system df" "endpoint-unknown" client system df
}

tested=0
for cli in /usr/local/bin/docker /usr/bin/docker; do
	[ -x "$cli" ] || continue
	version=$("$cli" --version | sed -n 's/^Docker version \([0-9.]*\).*/\1/p')
	lifecycle "$version"
	options "$version"
	objects "$version"
	refusals "$version"
	tested=$((tested + 1))
done
ok "a docker command line was there to test" test "$tested" -gt 0
done_testing
