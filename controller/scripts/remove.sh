# bash -c THIS capybara-remove NONCE PATH RECURSIVE
error=$(find "$path" -maxdepth 0 2>&1 >/dev/null) || fail "$error"
if [ -d "$path" ] && [ ! -L "$path" ]; then
	if [ "$3" = 1 ]; then
		error=$(rm -rf -- "$path" 2>&1) || fail "$error"
	else
		error=$(rmdir -- "$path" 2>&1) || fail "$error"
	fi
else
	error=$(rm -f -- "$path" 2>&1) || fail "$error"
fi
done_ok
