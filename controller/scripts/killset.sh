# Kills the processes of commands, with builtins only: at the pids limit no process could be started for it.
# A process belongs to a command when its environment has the command's mark, or when its session or its RLIMIT_MSGQUEUE
# is the command's: the limit stays with what has shed environment, session and parent.
# wanted MARK, wanted_session SID and wanted_limit N say whether one is meant; the latter two set mark. Set: killed, survivors (processes)
# and commands, how many marks they had.
killed=0 survivors=0 commands=0
scan() {
	local d p e line
	found= marks=
	for d in /proc/[0-9]*; do
		p=${d#/proc/}
		[ "$p" = $$ ] || [ "$p" = "$BASHPID" ] && continue
		{ read -r line <"$d/stat"; } 2>/dev/null || continue
		line=${line##*) }
		set -- $line
		[ "$1" = Z ] || [ "$1" = X ] && continue
		mark=
		if ! wanted_session "$4"; then
			e=()
			{ mapfile -d '' -t e <"$d/environ"; } 2>/dev/null
			for line in "${e[@]}"; do
				case $line in CAPYBARA_EXEC=*) wanted "${line#*=}" && mark=${line#*=} && break ;; esac
			done
			[ -n "$mark" ] || by_limit "$d"
		fi
		[ -n "$mark" ] && own "$d" || continue
		found="$found $p" marks="$marks $mark"
	done
}
# Sets line to the line of a file that begins with a word.
find_line() {
	local e
	{ mapfile -t e <"$1"; } 2>/dev/null
	for line in "${e[@]}"; do
		case $line in "$2"*) return 0 ;; esac
	done
	return 1
}
by_limit() {
	local line
	find_line "$1/limits" 'Max msgqueue size ' || return
	set -- $line
	wanted_limit "$4"
}
# Session and limit can be read of anybody's process; only those of this user can be killed.
own() {
	local line
	find_line "$1/status" Uid: || return
	set -- $line
	[ "$3" = $EUID ]
}
# Until two scans in a row find nothing: what forks faster than one scan is caught by the next.
kill_set() {
	local empty=0 round=0 p seen=' ' seen_marks=' '
	while [ $empty -lt 2 ] && [ $round -lt 60 ]; do
		scan
		round=$((round + 1))
		if [ -z "$found" ]; then
			empty=$((empty + 1))
			continue
		fi
		empty=0
		for p in $found; do
			case $seen in *" $p "*) ;; *) seen="$seen$p "; killed=$((killed + 1)) ;; esac
		done
		for p in $marks; do
			case $seen_marks in *" $p "*) ;; *) seen_marks="$seen_marks$p "; commands=$((commands + 1)) ;; esac
		done
		kill -KILL $found 2>/dev/null
	done
	set -- $found
	survivors=$#
}
