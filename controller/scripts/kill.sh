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
declare -A sessions
for f in /tmp/.capybara-exec-*; do
	[ -f "$f" ] && read -r sid mark 2>/dev/null <"$f" && [ -n "$mark" ] && meant "$mark" && sessions[$sid]=$mark
done
wanted() { meant "$1"; }
wanted_session() { mark=${sessions[$1]}; [ -n "$mark" ]; }
kill_set
printf '%sE 0 %s %s %s\n' "$nonce" "$killed" "$survivors" "$commands" >&2
