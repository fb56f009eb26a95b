# bash -c THIS capybara-write NONCE PATH ID MODE APPEND EXCLUSIVE PARENTS; MODE may be empty, the others are 0 or 1.
#
# stdin: "D N" and N bytes, any number of times, then "E". Without the E nothing is changed: a writer that went away must
# not leave half a file.
id=$3 mode=$4 append=$5 exclusive=$6 parents=$7
exec 4>&2 2>/dev/null
if [ -L "$path" ]; then
	path=$(readlink -f -- "$path"; printf x)
	path=${path%$'\n'x}
	[ -n "$path" ] || { exec 2>&4; fail 'Too many levels of symbolic links'; }
fi
exec 2>&4
want_regular "$path"
[ "$exclusive" = 1 ] && [ -e "$path" ] && fail 'File exists'
dir=${path%/*}
if [ "$parents" = 1 ]; then
	error=$(mkdir -p -- "${dir:-/}" 2>&1) || fail "$error"
fi
new=$dir/.capybara-write-$id
error=$( { : >"$new"; } 2>&1) || fail "$error"
trap 'rm -f -- "$new"' EXIT
if [ -z "$mode" ]; then
	mode=$(find "$path" -maxdepth 0 -printf %m 2>/dev/null)
fi
error=$(chmod -- "${mode:-644}" "$new" 2>&1) || fail "$error"
{ exec 9>"$new"; } 2>/dev/null || fail 'Permission denied'
whole=
while IFS= read -r line; do
	case $line in
	'D '*) error=$(head -c "${line#D }" 2>&1 >&9) || fail "$error" ;;
	E) whole=1; break ;;
	esac
done
[ -n "$whole" ] || fail 'Connection reset by peer'
exec 9>&-
error=$(sync -- "$new" 2>&1) || fail "$error"
if [ "$append" = 1 ]; then
	size=$(find "$path" -maxdepth 0 -printf %s 2>/dev/null)
	if ! error=$( { cat -- "$new" >>"$path" && sync -- "$path"; } 2>&1); then
		truncate -s "${size:-0}" -- "$path" 2>/dev/null
		fail "$error"
	fi
elif [ "$exclusive" = 1 ]; then
	error=$(ln -T -- "$new" "$path" 2>&1) || fail "$error"
else
	error=$(mv -fT -- "$new" "$path" 2>&1) || fail "$error"
fi
sync -- "${dir:-/}" 2>/dev/null
info "$path"
done_ok
