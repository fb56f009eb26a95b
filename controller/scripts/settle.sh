# Tells how commands ended whose answer was lost, and which still run: bash -c THIS
#
# Prints the records of image/runner/outcome.h, oldest first, and "R MARK" for each mark that a process carries.
for f in /workspace/.capybara-outcomes.1 /workspace/.capybara-outcomes; do
	[ -f "$f" ] && [ ! -L "$f" ] && tail -c 49152 "$f" 2>/dev/null
done
declare -A seen
for d in /proc/[0-9]*; do
	[ "${d#/proc/}" = $$ ] && continue
	e=() mark= tag=
	{ mapfile -d '' -t e <"$d/environ"; } 2>/dev/null
	for line in "${e[@]}"; do
		case $line in
		CAPYBARA_EXEC=*) mark=${line#*=} ;;
		CAPYBARA_TAG=*) tag=${line#*=}/ ;;
		esac
	done
	[ -n "$mark" ] && [ "$mark" != "$CAPYBARA_EXEC" ] && seen[$tag$mark]=1
done
for mark in "${!seen[@]}"; do
	printf 'R %s\n' "$mark"
done
exit 0
