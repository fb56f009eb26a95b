# bash -c THIS capybara-stat NONCE PATH FOLLOW; stdout: attributes and the link's target, ended by NUL.
exec 4>&1
[ "$3" = 1 ] && how=-H || how=-P
error=$(find $how "$path" -maxdepth 0 -printf "$attributes %l\\0" 2>&1 >&4) || fail "$error"
done_ok
