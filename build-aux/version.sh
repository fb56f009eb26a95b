#!/bin/sh
# Print the version of this tree: the first heading of NEWS, so that it stands in one place.
sed -n 's/^sandbox-docker \([0-9][^ ]*\).*/\1/p' "$(dirname "$0")/../NEWS" | head -n 1 | tr -d '\n'
