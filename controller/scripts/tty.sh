# Runs one command on the engine's terminal: bash -c THIS capybara-tty NONCE ID TAG LIMIT CWD NENV [NAME=VALUE...] ARG...
#
# The command is the terminal's own, so nothing stands between: it replaces this shell and the engine knows its exit code.
# The output begins with NONCE; a directory that cannot be entered is told by NONCE and a line.
nonce=$1 id=$2 tag=$3 limit=$4 cwd=$5 nenv=$6
shift 6
printf '%s' "$nonce"
if ! error=$(cd -- "$cwd" 2>&1); then
	printf '%sE %s\n' "$nonce" "$error"
	exit 126
fi
cd -- "$cwd"
env=("${@:1:$nenv}")
shift "$nenv"
own_limit=$((819199 - (RANDOM * 32768 + RANDOM) % 400000))
ulimit -q $own_limit 2>/dev/null
set -C
printf '%s %s/%s %s\n' $$ "$tag" "$id" $own_limit 2>/dev/null >"/tmp/.capybara-exec-$tag-$id"
exec env CAPYBARA_EXEC="$tag/$id" "${env[@]}" timeout --foreground -s KILL "$limit" "$@"
