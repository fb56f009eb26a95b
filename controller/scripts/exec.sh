# Runs one command: bash -c THIS capybara-exec NONCE ID TAG LIMIT CWD STDIN NENV [NAME=VALUE...] ARG...
#
# What one exec request cannot hold comes over the line: NENV is then -, and its first words are "C SIZE NENV COUNT" and
# SIZE bytes: COUNT words, each with its NUL, and a last one that is a dot.
# stdin is the controller's line: "D N" and N bytes of the command's input, "E" its end, "K" kill, "A" all received. Its
# end means that the controller is gone; the command then runs on until LIMIT.
# stderr begins with NONCE; stdout and stderr each end with a mark that starts with NONCE and, on stderr, says how the
# command ended. What background children write after that goes nowhere, and holds nobody up: the engine's pipes are
# open in this shell and in two relays only, and those end with the command.
nonce=$1 id=$2 tag=$3 limit=$4 cwd=$5 input=$6 nenv=$7
shift 7
control=/tmp/.capybara-exec-$tag-$id
sid=
wanted() { [ "$1" = "$tag/$id" ]; }
wanted_session() { [ -n "$sid" ] && [ "$1" = "$sid" ] && mark=$tag/$id; }
wanted_limit() { [ "$1" = "$own_limit" ] && mark=$tag/$id; }
# How often the kernel killed for lack of memory here; - where it does not say.
oom_count() {
	local k v
	oom=-
	for f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
		[ -r $f ] || continue
		while read -r k v; do
			[ "$k" = oom_kill ] && oom=$v
		done <$f
	done
}
exec 3<&0 4>&1 5>&2 </dev/null >/dev/null 2>&1
if [ "$nenv" = - ]; then
	read -r _ size nenv count <&3
	# By a file: from a pipe bash reads a byte a call, which takes gVisor minutes for a long command.
	file=$(mktemp -p /dev/shm)
	if [ -n "$file" ]; then
		head -c "$size" <&3 >"$file"
		mapfile -d '' -t words <"$file"
		rm -f "$file"
	else
		mapfile -d '' -t words < <(head -c "$size" <&3)
	fi
	[ ${#words[@]} -eq $((count + 1)) ] && [ "${words[count]}" = . ] || exit 126
	set -- "${words[@]:0:count}"
	unset words
fi
# Pipes without names; each end is opened anew so that it can be closed alone. A bash before 5.1 keeps the empty line in a
# file; then it takes a process to have a pipe.
new_pipe() {
	exec 9<<<''
	if [ -p /dev/fd/9 ]; then
		read -r _ <&9
	else
		exec 9<> <(:)
	fi
}
new_pipe; exec 10</dev/fd/9 11>/dev/fd/9 9>&-
new_pipe; exec 12</dev/fd/9 13>/dev/fd/9 9>&-
new_pipe; exec 6<>/dev/fd/9 9>&-
exec 7</dev/null
if [ "$input" = 1 ]; then
	new_pipe; exec 7</dev/fd/9 8>/dev/fd/9 9>&-
fi
cat <&10 >&4 3<&- 4>&- 5>&- 6>&- 7<&- 8>&- 10<&- 11>&- 12<&- 13>&- & relay_out=$!
cat <&12 >&5 3<&- 4>&- 5>&- 6>&- 7<&- 8>&- 10<&- 11>&- 12<&- 13>&- & relay_err=$!
disown -a
oom_count; before=$oom
# What the controller has not taken is kept on the volume, as image/runner/outcome.h says. Not by root: the directory is the
# sandbox user's, who could have root write or move a file to where that user may not.
record() {
	[ "$EUID" = 0 ] && return
	local file=/workspace/.capybara-outcomes state=exited number=$1 word=no
	[ "$2" -gt 0 ] && state=signaled number=$2
	[ -n "$kill" ] && state=killed
	[ "$3" = - ] && word=unknown
	[ "$number" = 9 ] || [ "$number" = 137 ] && [ "$3" != - ] && [ "$3" -gt 0 ] && word=yes
	{ [ -e "$file" ] || [ -L "$file" ]; } && { [ ! -f "$file" ] || [ -L "$file" ]; } && return
	[ -n "$(find "$file" -size +64k)" ] && mv -fT "$file" "$file.1"
	printf '1 %s %s %s %s %s %(%s)T\n' "$id" "$tag" "$state" "$number" "$word" -1 >>"$file" && sync "$file"
}
end() {
	printf '%s' "$nonce" >&11
	printf '%sE %s %s %s %s %s\n' "$nonce" "$@" >&13
	exec 11>&- 13>&-
}
printf '%s' "$nonce" >&5
if ! { cd -- "$cwd"; } 2>&6; then
	read -r line <&6
	end cwd 0 - 0 0
	exec 3<&0
	wait
	exit 126
fi
if [ "$nenv" -gt 0 ]; then
	set -- env -- "$@"
fi
# SIGCHLD interrupts wait in this mode, while the job still knows whether a signal ended it.
set -o posix
trap 'jobs -l >&6' CHLD
own_limit=$((819199 - (RANDOM * 32768 + RANDOM) % 400000))
{
	ulimit -q $own_limit 2>/dev/null
	export CAPYBARA_EXEC=$tag/$id
	exec setsid timeout -s KILL "$limit" "$@"
} \
	<&7 >&11 2>&13 3<&- 4>&- 5>&- 6>&- 7<&- 8>&- 10<&- 11>&- 12<&- 13>&- & sid=$!
exec 7<&-
set -C
printf '%s %s/%s %s\n' "$sid" "$tag" "$id" "$own_limit" >"$control"
set +C
# Words of the one that reads the controller's line, by the same pipe as those about jobs. Not by a file: as root it would
# follow a link that the sandbox user has put there.
heard= kill=
hear() {
	case $w in
	acked | gone) heard=$w ;;
	killing) kill=$w ;;
	killed) kill=$w killed=$p survivors=$s ;;
	esac
}
# The controller's line.
(
	trap - CHLD
	exec 11>&- 13>&-
	while IFS= read -r line <&3; do
		case $line in
		'D '*) head -c "${line#D }" <&3 | { cat >&8; cat; } >/dev/null 2>&1 3<&- 4>&- 5>&- 10<&- 12<&- ;;
		E) exec 8>&- ;;
		K)
			echo killing >&6
			kill_set
			echo killed "$killed" "$survivors" >&6
			;;
		A) echo acked >&6; exit 0 ;;
		esac
	done
	echo gone >&6
	# Nobody reads any more: what the command still writes must not block it.
	kill "$relay_out" "$relay_err"
	cat <&10 >/dev/null 3<&- 4>&- 5>&- 8>&- 10<&- 12<&- &
	cat <&12 >/dev/null 3<&- 4>&- 5>&- 8>&- 10<&- 12<&- &
	exec 8>&-
) & line_pid=$!
exec 3<&- 8>&-
state= rc=
while [ -z "$state" ]; do
	wait "$sid"; rc=$?
	while read -t 0 <&6 && read -r w p s _ <&6; do
		case $w in '['*) ;; *) hear; continue ;; esac
		[ "$p" = "$sid" ] || continue
		case $s in Running | Stopped*) ;; *) state=$s ;; esac
	done
	[ -z "$state" ] && [ $rc -eq 127 ] && state=lost
done
signal=0
case $state in
Done) rc=0 ;;
Done\(*) rc=${state//[!0-9]/} ;;
lost) rc=126 ;;
*)
	# Interrupted, or not: SIGCHLD itself kills nobody, so 145 is never the command's own here.
	if [ $rc -eq 145 ]; then
		wait "$sid"; rc=$?
	fi
	signal=$((rc - 128))
	;;
esac
trap - CHLD
# The limit ended its own process group alone, and the controller, which ends the rest, may be gone.
if [ "$signal" -eq 9 ] && [ -z "$kill" ] && [ "$SECONDS" -ge "${limit%.*}" ]; then
	kill_set
fi
oom_count
[ "$oom" = - ] || oom=$((oom - before))
# A kill under way counts what it found; it cannot take long.
while [ "$kill" = killing ] && read -r -t 5 w p s _ <&6; do
	hear
done
end "$rc" "$signal" "$oom" "$killed" "$survivors"
while [ -z "$heard" ] && read -r -t 2 w p s _ <&6; do
	hear
done
[ "$heard" = acked ] || record "$rc" "$signal" "$oom"
wait "$line_pid"
# A relay that has not ended by itself serves a background child: let that one write on, to nowhere.
if kill "$relay_out"; then
	cat <&10 >/dev/null 4>&- 5>&- 10<&- 12<&- &
fi
if kill "$relay_err"; then
	cat <&12 >/dev/null 4>&- 5>&- 10<&- 12<&- &
fi
rm -f "$control"
exit "$rc"
