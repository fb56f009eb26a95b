#!/bin/sh
# Make ./configure from a git checkout.
set -eu
cd "$(dirname "$0")"
mkdir -p build-aux m4
exec autoreconf --install --force --warnings=all,no-obsolete
