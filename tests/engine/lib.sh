# Shell part of the engine tests: sourced by tests/engine/NN-name.t, which tests/engine/run starts. Prints TAP.
#
# Given by the runner:
#   ENGINE_DIR  directory of the running engine, for "$engine" exec|kill|start ... "$ENGINE_DIR"
#   DOCKER_HOST the engine's own socket: for looking behind the proxy's back, never what is under test
#   PROXY       unix:///... of dockerproxy in front of it, with the sandbox policy built in
#   PROXY_LOG   dockerproxy's audit log
#   IMAGE       the small sandbox image, EGRESS_IMAGE the egress proxy's
#   HAVE_RUNSC  "yes" when the engine has the runtime
# shellcheck shell=bash

top=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
# shellcheck disable=SC2034 # for the tests
engine=$top/tests/engine/engine
build=${BUILD_DIR:-$top}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-test.XXXXXX")
test_count=0
test_failed=0
trap 'rm -rf "$scratch"' EXIT

# The controller against the proxy; a test that wants another configuration gives --endpoint and the like itself.
controller()
{
	"$build/controller/controller" "$@"
}

# What docker itself, unmodified, does through the proxy.
proxied()
{
	DOCKER_HOST=$PROXY docker "$@"
}

result()
{
	test_count=$((test_count + 1))
	echo "$1 $test_count - $2"
	[ "$1" = ok ] || test_failed=$((test_failed + 1))
}

# ok NAME COMMAND...: passes when COMMAND exits with 0; its output is shown when it does not.
ok()
{
	local name=$1
	shift
	if "$@" >"$scratch/out" 2>&1; then
		result ok "$name"
	else
		local status=$?
		result "not ok" "$name"
		printf '# exit status %s of: %s\n' "$status" "$*"
		sed 's/^/# /' "$scratch/out"
	fi
}

# fails NAME TEXT COMMAND...: passes when COMMAND fails and says TEXT.
fails()
{
	local name=$1 text=$2
	shift 2
	if "$@" >"$scratch/out" 2>&1; then
		result "not ok" "$name"
		printf '# succeeded, and should not: %s\n' "$*"
	elif ! grep -qF -- "$text" "$scratch/out"; then
		result "not ok" "$name"
		printf '# failed without saying "%s": %s\n' "$text" "$*"
		sed 's/^/# /' "$scratch/out"
	else
		result ok "$name"
	fi
}

# is NAME EXPECTED ACTUAL
is()
{
	if [ "$2" = "$3" ]; then
		result ok "$1"
	else
		result "not ok" "$1"
		printf '%s\n' "expected: $2" "     got: $3" | sed 's/^/# /'
	fi
}

# like NAME EXTENDED_REGEX ACTUAL
like()
{
	if grep -qE -- "$2" <<<"$3"; then
		result ok "$1"
	else
		result "not ok" "$1"
		printf '%s\n' "expected: /$2/" "     got: $3" | sed 's/^/# /'
	fi
}

# skip NAME REASON: counted and shown, never silent.
skip()
{
	test_count=$((test_count + 1))
	echo "ok $test_count - $1 # SKIP $2"
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds.
wait_for()
{
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

# certificates DIR: an authority, a server (localhost), a client, and a client of nobody's: NAME.pem and NAME.key.
certificates()
{
	(
		cd "$1" || exit 1
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem
		printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >ext
		for who in server client; do
			openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$who" -keyout $who.key -out $who.csr
			openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $who.pem
		done
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=nobody -keyout nobody.key \
			-out nobody.pem
	) >"$scratch/openssl" 2>&1
}

# The last line of a test: the plan, and the exit status.
done_testing()
{
	echo "1..$test_count"
	[ "$test_failed" = 0 ]
	exit
}
