#!/bin/bash
# dockerproxy as a system service: conf/systemd's unit, user and configuration, in a Debian tree that systemd boots in
# namespaces of its own, before the real engine's socket.
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2317,SC2153
. "$(dirname "$0")/lib.sh"

suite=trixie
root=$scratch/root
name=cap-systemd-$$
service=dockerproxy.service
socket=${DOCKER_HOST#unix://}
group=$(stat -c %g "$socket")
cgroup=$scratch/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/sandbox-systemd-$$
booted=
init=
remove_cgroup()
{
	[ ! -d "$cgroup" ] || find "$cgroup" -depth -type d -exec rmdir {} +
}

cleanup()
{
	docker rm -f "$name" >/dev/null 2>&1
	# The holder's death ends every process of the namespaces, and the last one's end their mounts.
	[ -z "$booted" ] || kill -KILL "$booted" 2>/dev/null
	[ -z "$booted" ] || { wait "$booted"; } 2>/dev/null
	chgrp "$group" "$socket"
	wait_for 10 remove_cgroup || echo "# $cgroup could not be removed"
	umount "$scratch/cgroup"
	rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT

# The proxy as its image holds it needs nothing of the tree; the rest is what conf/systemd says.
equip()
{
	local tree program place
	tree=$("$top/tests/engine/tree" "$suite" systemd) && program=$("$top/image/build" --program dockerproxy/dockerproxy) || return 1
	place=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$build/conf/systemd/$service")
	cp -a --reflink=auto "$tree" "$root" &&
		install -D "$program" "$root$place" &&
		install -D -m 644 "$build/conf/systemd/$service" "$root/etc/systemd/system/$service" &&
		install -D -m 644 "$top/conf/systemd/dockerproxy.sysusers.conf" "$root/usr/lib/sysusers.d/dockerproxy.conf" &&
		install -D -m 644 "$top/conf/systemd/dockerproxy.conf.json" "$root/etc/dockerproxy/dockerproxy.conf.json" &&
		printf '%s\n' 'u client' 'm client dockerproxy' 'u stranger' >"$root/usr/lib/sysusers.d/test.conf" &&
		touch "$root/engine.sock"
}

# What a container manager gives systemd: a cgroup, API file systems, and nothing of the machine's.
# shellcheck disable=SC2016 # the inner shell's variables
boot='
	set -e
	mount --make-rprivate /
	mount --bind "$1" "$1"
	mount -t proc proc "$1/proc"
	mount -t sysfs sysfs "$1/sys"
	mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
	mount -t tmpfs -o mode=755 tmpfs "$1/run"
	mount -t tmpfs -o mode=755 tmpfs "$1/dev"
	mkdir "$1/dev/pts" "$1/dev/shm"
	for d in null zero full random urandom tty; do
		touch "$1/dev/$d"
		mount --bind "/dev/$d" "$1/dev/$d"
	done
	mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
	ln -s pts/ptmx "$1/dev/ptmx"
	mount --bind "$2" "$1/engine.sock"
	cd "$1"
	mkdir -p old
	pivot_root . old
	umount -l /old
	exec env -i container=test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --log-target=console --log-level=warning
'

# Runs a command in the booted system.
inside()
{
	nsenter --target "$init" --mount --pid --net --ipc --uts --cgroup --root --wd -- env -i PATH=/usr/sbin:/usr/bin "$@"
}

up()
{
	init=$(pgrep -P "$booted" | head -n 1) && [ -n "$init" ] && inside systemctl is-system-running --wait | grep -E 'running|degraded'
}

as()
{
	inside setpriv --reuid "$1" --regid "$1" --init-groups "${@:2}"
}

ask()
{
	as client curl -s --unix-socket /run/dockerproxy/docker.sock "$@"
}

state()
{
	inside systemctl show -P "$1" $service
}

# "NAME VALUE" lines of /proc/PID/status for the master and its workers
status_of_all()
{
	# shellcheck disable=SC2016
	inside sh -c 'for p in $1 $(cat /proc/$1/task/$1/children); do cat /proc/$p/status; done' sh "$(state MainPID)"
}

worker()
{
	# shellcheck disable=SC2016
	inside sh -c 'cat /proc/$1/task/$1/children' sh "$(state MainPID)" | xargs
}

another_worker()
{
	[ -n "$(worker)" ] && [ "$(worker)" != "$1" ]
}

refused_reload()
{
	inside journalctl --no-pager -u "$service" | grep 'reload refused'
}

another_main()
{
	[ "$(state MainPID)" != 0 ] && [ "$(state MainPID)" != "$1" ] && [ "$(state ActiveState)" = active ]
}

ok "the service is installed in a Debian $suite tree" equip
mkdir "$scratch/cgroup"
mount -t cgroup2 cgroup2 "$scratch/cgroup"
mkdir "$cgroup"
# shellcheck disable=SC2016
sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$cgroup" \
	unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child sh -c "$boot" sh "$root" "$socket" \
	>"$scratch/console" 2>&1 </dev/null &
booted=$!
ok "it boots" wait_for 60 up || cat "$scratch/console"
# In a system of its own the engine's socket would be in this group from the start.
chgrp "$(inside getent group docker | cut -d: -f3)" "$socket"
chmod 660 "$socket"
inside ln -s /engine.sock /run/docker.sock

ok "the unit has no fault" inside systemd-analyze verify --man=no /etc/systemd/system/$service
ok "it starts, and says when it is ready" inside systemctl start $service
like "its status names the policy" '^configuration 1, policy sha256:[0-9a-f]{64}$' "$(state StatusText)"
is "master and worker are the service's user" "$(inside id -u dockerproxy)" "$(status_of_all | awk '/^Uid:/ { print $2 }' | uniq)"
is "hold no capability, nor may they gain one" "0000000000000000 1 0000000000000000 1" \
	"$(status_of_all | awk '/^(CapBnd|NoNewPrivs):/ { print $2 }' | xargs)"
is "and have a system call filter" "2 2" "$(status_of_all | awk '/^Seccomp:/ { print $2 }' | xargs)"
like "nothing of the confinement is missing" '"missing":""' \
	"$(inside curl -s --unix-socket /run/dockerproxy/admin.sock http://d/healthz)"
is "a member of the group is served" OK "$(ask http://d/_ping)"
is "another user cannot connect" 7 "$(as stranger curl -s --unix-socket /run/dockerproxy/docker.sock http://d/_ping; echo $?)"
is "a sandbox is created" 201 "$(ask -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' \
	-d '{"Image":"'"$IMAGE"'","Cmd":["true"],"User":"1000:1000","HostConfig":{"CapDrop":["ALL"],
	"SecurityOpt":["no-new-privileges"],"ReadonlyRootfs":true,"NetworkMode":"none","PidsLimit":100,"Memory":67108864},
	"Labels":{"dev.capybara.sandbox":"1"}}' "http://d/v1.41/containers/create?name=$name")"
like "a privileged one is refused" 'HostConfig.Privileged must not be true' "$(ask -H 'Content-Type: application/json' \
	-d '{"Image":"x","HostConfig":{"Privileged":true}}' "http://d/v1.41/containers/create?name=$name-p")"
like "the decision is in the log" '"reason":"hostconfig-privileged"' "$(inside cat /var/log/dockerproxy/audit.log)"

first=$(worker)
ok "it reloads" inside systemctl reload $service
ok "then another worker serves" wait_for 20 another_worker "$first"
first=$(worker)
inside sh -c "kill -KILL $first"
ok "a worker that was killed is replaced" wait_for 20 another_worker "$first"
is "which serves" OK "$(ask http://d/_ping)"
inside sh -c 'echo "{" >/etc/dockerproxy/dockerproxy.conf.json'
inside systemctl reload $service
wait_for 20 refused_reload
like "a configuration with a fault is refused, and the journal says where" 'dockerproxy.conf.json:2:1: ' \
	"$(inside journalctl --no-pager -u $service)"
is "the old one stays" OK "$(ask http://d/_ping)"
install -m 644 "$top/conf/systemd/dockerproxy.conf.json" "$root/etc/dockerproxy/dockerproxy.conf.json"
first=$(state MainPID)
inside sh -c "kill -KILL $first"
ok "a master that was killed is started again" wait_for 20 another_main "$first"
is "and serves" OK "$(ask http://d/_ping)"
ok "it stops" inside systemctl stop $service
is "in order" success "$(state Result)"
done_testing
