#!/bin/bash
# The egress proxy's image: what it holds, what it may do, and that it fits the memory that it is given.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

container=egress-image-test
origin=egress-image-origin
# Echoes until the end of what it reads; perl is what the small image has.
docker run -d --name "$origin" "$IMAGE" perl -MIO::Socket::INET -e '
	my $s = IO::Socket::INET->new(Listen => 5, LocalPort => 7777, ReuseAddr => 1) or die;
	while (my $c = $s->accept) { while (sysread $c, my $d, 262144) { print $c $d } close $c }' >/dev/null
origin_address=$(docker inspect --format '{{.NetworkSettings.IPAddress}}' "$origin")
start()
{
	docker run -d --name "$container" --memory 64m --read-only --cap-drop ALL --security-opt no-new-privileges --network "$1" \
		-e ADMIN=127.0.0.1:9128 -e ALLOW_HOSTS="pin.test:80 echo.test:7777" \
		-e CAPYBARA_EGRESS_TEST_HOSTS="pin.test=127.0.0.1 echo.test=$origin_address" "${@:2}" "$EGRESS_IMAGE"
}
trap 'docker rm -f "$container" "$origin" >/dev/null 2>&1; rm -rf "$scratch"' EXIT
status_of()
{
	docker run --rm --network none --pid "container:$container" "$IMAGE" cat /proc/1/status
}
field()
{
	awk -v name="$1:" '$1 == name { print $2 }' "$scratch/status"
}
healthy()
{
	docker exec "$container" /egressd --probe
}
# A neighbour in its network namespace alone: the admin listener is on loopback.
health()
{
	docker run --rm --network "container:$container" "$IMAGE" bash -c "exec 3<>/dev/tcp/127.0.0.1/9128 &&
		printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3 && cat <&3" | tail -n 1
}
# 32 MiB through a tunnel to the echo and back at the same time; what comes back is what was sent.
moves_much()
{
	docker run --rm "$IMAGE" bash -c 'size=$((32 << 20)) want=$(seq 9999999 | head -c $size | sha256sum)
		exec 3<>/dev/tcp/$1/3128 && printf "CONNECT echo.test:7777 HTTP/1.1\r\n\r\n" >&3 || exit
		read -r line <&3 && [[ $line == "HTTP/1.1 200 "* ]] && read -r line <&3 || exit
		seq 9999999 | head -c $size >&3 & got=$(head -c $size <&3 | sha256sum)
		[ "$got" = "$want" ] || { echo "got $got, sent $want"; exit 1; }' - \
		"$(docker inspect --format '{{.NetworkSettings.IPAddress}}' "$container")"
}
says()
{
	docker logs "$container" 2>&1 | grep -qF -- "$1"
}

docker create --name "$container" "$EGRESS_IMAGE" >/dev/null
is "one file of ours and nothing else" egressd \
	"$(docker export "$container" | tar t | grep -vE '/$|^(\.dockerenv|dev/console|etc/(hostname|hosts|mtab|resolv.conf))$')"
docker rm "$container" >/dev/null
size=$(docker image inspect --format '{{.Size}}' "$EGRESS_IMAGE")
is "it has at most 3 MiB" yes "$([ "$size" -le $((3 * 1024 * 1024)) ] && echo yes || echo "$size")"
is "it does not run as root" 65534:65534 "$(docker image inspect --format '{{.Config.User}}' "$EGRESS_IMAGE")"

ok "it starts on a read-only root without a capability" start bridge
ok "and answers its probe" wait_for 20 healthy
ok "64 MiB are 2,000 clients" wait_for 5 says "at most 2000 clients"
status_of >"$scratch/status"
is "uid" 65534 "$(field Uid)"
is "capabilities" 0000000000000000 "$(field CapEff)"
is "no new privileges" 1 "$(field NoNewPrivs)"
is "a system call filter" 2 "$(field Seccomp)"
is "the root cannot be written to" true "$(docker inspect --format '{{.HostConfig.ReadonlyRootfs}}' "$container")"
confinement=$(health | jq -c .confinement)
like "it gave up further privileges and most system calls itself" '"noNewPrivs":true,"seccomp":true' "$confinement"
if [ "$(jq .landlock <<<"$confinement")" -gt 0 ]; then
	is "and every file" '""' "$(jq -c .missing <<<"$confinement")"
else
	skip "and every file" "the kernel or the engine's filter has no Landlock: $(jq -r .missing <<<"$confinement")"
fi
is "at most 3 MiB are resident" yes "$([ "$(field VmRSS)" -le 3072 ] && echo yes || field VmRSS)"
address=$(docker inspect --format '{{.NetworkSettings.IPAddress}}' "$container")
like "a neighbour is refused with the reason" "host-not-allowed" \
	"$(docker run --rm "$IMAGE" bash -c "exec 3<>/dev/tcp/$address/3128 &&
		printf 'CONNECT evil.test:443 HTTP/1.1\r\n\r\n' >&3 && cat <&3")"
ok "32 MiB each way arrive as they were sent" moves_much
like "the decision is in the container's log" '"reason":"host-not-allowed"' "$(docker logs "$container" 2>&1)"
ok "it stops when it is told to" docker stop -t 10 "$container"
is "in order" 0 "$(docker inspect --format '{{.State.ExitCode}}' "$container")"
docker rm "$container" >/dev/null

if [ "$HAVE_RUNSC" = yes ]; then
	ok "it starts under runsc" start bridge --runtime runsc
	ok "and answers its probe there" wait_for 60 healthy
	ok "32 MiB each way arrive as they were sent there" moves_much
	ok "and are counted" wait_for 20 says '"bytesIn":33554432,"bytesOut":33554432'
	docker rm -f "$container" >/dev/null
else
	skip "under runsc" "the engine does not have the runtime"
fi
done_testing
