# bash -c THIS capybara-list NONCE PATH LIMIT; stdout: attributes, name and target of each entry, each ended by NUL.
exec 4>&1
error=$(find -H "$path" -maxdepth 0 2>&1 >/dev/null) || fail "$error"
[ -d "$path" ] || fail 'Not a directory'
[ -r "$path" ] && [ -x "$path" ] || fail 'Permission denied'
error=$(find -H "$path" -mindepth 1 -maxdepth 1 -printf "$attributes\\0%f\\0%l\\0" 2>/dev/null |
	head -z -n $(($3 * 3)) 2>&1 >&4) || fail "$error"
done_ok
