# bash -c THIS capybara-read NONCE PATH OFFSET COUNT; COUNT 0 is all of it.
want_regular "$path"
error=$( { : <"$path"; } 2>&1) || fail "$error"
info "$path"
count=
[ "$4" = 0 ] || count=count=$4
dd if="$path" bs=262144 iflag=skip_bytes,count_bytes skip="$3" $count status=none 2>/dev/null || fail 'Input/output error'
done_ok
