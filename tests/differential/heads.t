#!/bin/sh
# Differential test with Go's net/http, which is what the engine reads requests with: heads.t [COUNT [SEED]]
# COUNT accepted requests, made from the wire cases and others by changing them, must mean the same to both.
set -u
src=$(cd "$(dirname "$0")" && pwd)
build=${BUILD_DIR:-.}/tests/differential
command -v go >/dev/null || {
	echo "skipped: no go (package golang-go)"
	exit 77
}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cp "$src/heads.go" "$work/main.go"
(cd "$work" && GOFLAGS=-mod=mod GO111MODULE=off GOCACHE="$work/cache" CGO_ENABLED=0 go build -o engine main.go) || exit 1
python3 - "$work/seeds" "$src/../cases/wire-own.json" "$src/../cases/wire-combined.json" <<'PYTHON' || exit 1
import json, sys
with open(sys.argv[1], "wb") as out:
    for name in sys.argv[2:]:
        with open(name, encoding="utf-8") as f:
            raws = [case["raw"] for case in json.load(f) if "raw" in case]
        for raw in raws:
            pieces = [raw] if isinstance(raw, str) else [p if isinstance(p, str) else p[0] * p[1] for p in raw]
            text = "".join(pieces).encode("latin-1")[:8192]
            out.write(len(text).to_bytes(4, "big") + text)
PYTHON
mkfifo "$work/heads"
"$build/heads" "${1:-10000}" "${2:-1}" "$work/seeds" >"$work/heads" &
"$work/engine" <"$work/heads"
result=$?
wait $! || result=1
exit $result
