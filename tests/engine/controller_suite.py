"""What the engine tests of the controller share: TAP, the controller as a client, and a look behind its back."""

import json
import os
import subprocess
import sys
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "clients", "python"))
from sandbox_rpc import Client, RpcError  # noqa: E402,F401

BUILD = os.environ.get("BUILD_DIR", TOP)
CONTROLLER = os.path.join(BUILD, "controller", "controller")
PROXY = os.environ.get("PROXY", "")
IMAGE = os.environ.get("IMAGE", "capybara-sandbox:latest")
EGRESS_IMAGE = os.environ.get("EGRESS_IMAGE", "capybara-sandbox-egress:latest")
HAVE_RUNSC = os.environ.get("HAVE_RUNSC") == "yes"
ENGINE = os.path.join(TOP, "tests", "engine", "engine")
ENGINE_DIR = os.environ.get("ENGINE_DIR", "")

WHOLE = os.environ.get("SUITE") == "whole"
ALL_PAIRS = ["runc/engine", "runc/runner"] + (["runsc/engine", "runsc/runner"] if HAVE_RUNSC else [])

_count = 0
_failed = 0
_pair = ("runc", "engine")  # runtime and mode of a client that names none
_where = ""


def check(points, name, good, detail=""):
    """One test line; points are the requirements that it shows."""
    global _count, _failed
    _count += 1
    print(f"{'ok' if good else 'not ok'} {_count} - {points}: {_where}{name}", flush=True)
    if not good:
        _failed += 1
        for line in str(detail).splitlines()[:20]:
            print(f"# {line[:300]}", flush=True)
    return good


def equal(points, name, got, want):
    return check(points, name, got == want, f"got:  {got!r}\nwant: {want!r}")


def skip(points, name, why):
    global _count
    _count += 1
    print(f"ok {_count} - {points}: {_where}{name} # SKIP {why}", flush=True)


def done():
    print(f"1..{_count}")
    sys.exit(1 if _failed else 0)


def run(*tests):
    """Runs each test; one that breaks is a failure, and the others run all the same."""
    for test in tests:
        try:
            test()
        except Exception:  # noqa: BLE001 - reported
            check(test.__name__, "runs to its end", False, traceback.format_exc())


def pairs(default):
    """The "runtime/mode" pairs to run in: the script's arguments, else PAIRS, else with SUITE=whole all, else the default."""
    chosen = sys.argv[1:] or os.environ.get("PAIRS", "").split() or (ALL_PAIRS if WHOLE else default)
    for pair in chosen:
        if pair not in ALL_PAIRS:
            skip("C.13", f"[{pair}]", "this engine has no such runtime")
    return [pair for pair in chosen if pair in ALL_PAIRS]


def run_in(default, *tests):
    """Runs each test once a pair; see pairs()."""
    global _pair, _where
    for pair in pairs(default):
        _pair, _where = tuple(pair.split("/")), f"[{pair}] "
        run(*tests)
    _pair, _where = ("runc", "engine"), ""


def runtime_now():
    return _pair[0]


def wait_for(test, seconds=30):
    """Waits until a condition holds, and says whether it did."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test():
            return True
        time.sleep(0.05)
    return False


def options(runtime=None, mode=None, endpoint=None, extra=()):
    return ["--endpoint", endpoint or PROXY, "--image", IMAGE, "--egress-proxy-image", EGRESS_IMAGE,
            "--runtime", runtime or _pair[0], "--exec-mode", mode or _pair[1], *extra]


def client(runtime=None, mode=None, endpoint=None, extra=()):
    stderr = None if os.environ.get("VERBOSE") else subprocess.DEVNULL
    return Client(CONTROLLER, [*options(runtime, mode, endpoint), "--test-options", *extra], stderr=stderr)


def verb(*words, stdin=None, runtime=None, mode=None):
    """The command line; (status, stdout, stderr) as bytes."""
    word, *rest = words
    p = subprocess.run([CONTROLLER, word, *options(runtime, mode), *rest], input=stdin,
                       stdin=subprocess.DEVNULL if stdin is None else None, capture_output=True, timeout=300)
    return p.returncode, p.stdout, p.stderr


def docker(*words, check_status=True):
    """The engine itself, behind the proxy's back."""
    p = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=120)
    if check_status and p.returncode != 0:
        raise RuntimeError(f"docker {' '.join(words)}: {p.stderr}")
    return p.stdout.strip()


def leftovers(name):
    """Every object of the engine that has the name or carries it as a label."""
    found = []
    for kind, form in (("container", "{{.Names}}"), ("volume", "{{.Name}}"), ("network", "{{.Name}}")):
        words = [kind, "ls", "--format", form] + (["-a"] if kind == "container" else [])
        for line in docker(*words).splitlines():
            if line == name or line.startswith(name + "-"):
                found.append(f"{kind} {line}")
    return found


def inspect(name):
    return json.loads(docker("inspect", name))[0]


def processes(name):
    """Argument lists of what runs in the sandbox, by the sandbox's own /proc (root without capability)."""
    script = 'for p in /proc/[0-9]*; do { tr "\\0" " " <$p/cmdline && echo; } 2>/dev/null; done; true'
    return docker("exec", "-u", "1000:1000", name, "bash", "-c", script)


def kind_of(call):
    """The kind of the error that a call ends with; None when it succeeds."""
    try:
        call()
    except RpcError as e:
        return e.kind
    return None
