#!/bin/sh
# Each way of failing in tests/engine/failure-modes.tsv is named by the test that it points to.
set -u
engine=${srcdir:-.}/tests/engine
count=0
failed=0
tab=$(printf '\t')
while IFS=$tab read -r way script words; do
	case $way in '#'* | '') continue ;; esac
	count=$((count + 1))
	if grep -qF -- "$words" "$engine/$script"; then
		echo "ok $count - $way"
	else
		echo "not ok $count - $way: \"$words\" is not in $script"
		failed=1
	fi
done <"$engine/failure-modes.tsv"
echo "1..$count"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
