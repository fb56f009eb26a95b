# Kills commands: bash -c THIS capybara-kill NONCE [TAG|TAG/ID...]; without any all of them.
nonce=$1
shift
tags=("$@")
printf '%s' "$nonce" >&2
meant() {
	local t
	[ ${#tags[@]} -eq 0 ] && return 0
	for t in "${tags[@]}"; do
		[ "$1" = "$t" ] || [ "${1%%/*}" = "$t" ] && return 0
	done
	return 1
}
declare -A sessions limits
for f in /tmp/.capybara-exec-*; do
	# Only our own word is taken: another's could name the session of what keeps the sandbox alive, and so could a link
	# to a file of ours, as root's /proc/1/stat is. What was opened is looked at, since the name may be led elsewhere.
	sid= mark= limit=
	[ -f "$f" ] && [ ! -L "$f" ] || continue
	{ [ -O /dev/fd/0 ] && [ -f /dev/fd/0 ] && read -r sid mark limit; } 2>/dev/null <"$f"
	case $sid in "" | 0 | 1 | *[!0-9]*) continue ;; esac
	case $mark in ?*/?*) ;; *) continue ;; esac
	meant "$mark" || continue
	sessions[$sid]=$mark
	[ -n "$limit" ] && limits[$limit]=$mark
done
wanted() { meant "$1"; }
wanted_session() { mark=${sessions[$1]}; [ -n "$mark" ]; }
# All of them: a limit as commands get it, and not the one that the sandbox itself was started with.
while read -r _ name _ own _; do
	[ "$name" = msgqueue ] && break
done 2>/dev/null </proc/1/limits
wanted_limit() {
	case $1 in "" | *[!0-9]*) return 1 ;; esac
	mark=${limits[$1]}
	[ -z "$mark" ] && [ ${#tags[@]} -eq 0 ] && [ "$1" != "$own" ] && [ "$1" -ge 419200 ] && [ "$1" -lt 819200 ] && mark=_/$1
	[ -n "$mark" ]
}
kill_set
printf '%sE 0 %s %s %s\n' "$nonce" "$killed" "$survivors" "$commands" >&2
