#!/bin/bash
# The fixture itself: engines are private, survive a power cut with their data, and leave nothing.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

other=$scratch/other
groups_of()
{
	find /sys/fs/cgroup -maxdepth 2 -name "engine-$(printf %s "$1" | cksum | cut -d ' ' -f 1)" | grep -c .
}

before=$(docker info --format '{{.ID}}')
ok "a second engine starts beside the first" "$engine" start "$other"
ok "a start of a running engine finds it" "$engine" start "$other"
socket=$("$engine" socket "$other")
is "it is another engine" no \
	"$([ "$(docker -H "unix://$socket" info --format '{{.ID}}')" = "$before" ] && echo yes || echo no)"
ok "a volume is made" docker -H "unix://$socket" volume create kept
ok "it is killed" "$engine" kill "$other"
fails "and no longer answers" "Cannot connect" docker -H "unix://$socket" version
ok "it starts again" "$engine" start "$other"
is "with the same data" kept "$(docker -H "unix://$socket" volume ls -q)"
is "its bridge address is inside only" "$("$engine" gateway)/24" \
	"$("$engine" exec "$other" ip -o -4 addr show br0 | awk '{print $4}')"
like "the first engine is untouched" "^$before$" "$(docker info --format '{{.ID}}')"
ok "it is removed" "$engine" remove "$other"
is "no cgroup is left" 0 "$(groups_of "$other")"
is "no directory is left" no "$([ -e "$other" ] && echo yes || echo no)"

# In a chroot that is a mount, a container's root would not be that of its mount namespace: what is executed in it later
# would find itself outside, in the file system of the machine.
in_chroot()
{
	# shellcheck disable=SC2016 # expanded by that shell
	unshare --mount sh -ec 'mount --rbind / /mnt && exec chroot /mnt "$1" start "$2"' sh "$engine" "$other"
}
if unshare --mount true 2>/dev/null; then
	ok "an engine starts in a chroot" in_chroot
	docker save "$IMAGE" | docker -H "unix://$socket" load >/dev/null
	ok "and a container" docker -H "unix://$socket" run -d --name inside "$IMAGE"
	fails "what is executed in it later is inside" "No such file" \
		docker -H "unix://$socket" exec -w / inside ls -d "$scratch"
	ok "that engine is removed" "$engine" remove "$other"
else
	skip "an engine in a chroot" "these tests run in one that is no mount, which shows the same"
fi
done_testing
