# What the file scripts share. stderr begins with the nonce and ends with a mark: "E 0", or "E F" and the error's text.
# The path comes with \0ooo for what JSON cannot hold.
export LC_ALL=C
nonce=$1
printf -v path %b "$2"
printf '%s' "$nonce" >&2
done_ok() { printf '%sE 0\n' "$nonce" >&2; exit 0; }
fail() {
	local text=${1%%$'\n'*}
	printf '%sE F %s\n' "$nonce" "${text##*: }" >&2
	exit 0
}
attributes='%y %s %m %U %G %T@'
info() { printf '%sI %s\n' "$nonce" "$(find -H "$1" -maxdepth 0 -printf "$attributes" 2>/dev/null)" >&2; }
# A file that can be read or replaced: regular, or not there.
want_regular() {
	[ -d "$1" ] && fail 'Is a directory'
	[ -e "$1" ] && [ ! -f "$1" ] && fail 'Invalid argument'
}
