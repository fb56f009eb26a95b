#!/usr/bin/env python3
"""doctor: each state that it is there to find is found, graded, and said how to mend."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from email.utils import formatdate

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403
from faulty import Faulty  # noqa: E402

N = f"cap-dr{os.getpid()}"


def doctor(endpoint=None, extra=(), runtime="runc", mode="runner", inside=False):
    """The checks by name, and whether all is well."""
    words = [ENGINE, "exec", ENGINE_DIR] if inside else []
    p = subprocess.run([*words, CONTROLLER, "doctor", "--json", *options(runtime, mode, endpoint, extra)],
                       capture_output=True, text=True, timeout=300)
    r = json.loads(p.stdout)
    return {c["check"]: c for c in r["checks"]}, r["healthy"]


def found(name, checks, check_name, status, *words):
    c = checks.get(check_name, {})
    text = c.get("text", "")
    check("C.doctor", name, c.get("status") == status and all(w in text for w in words) and
          (status == "ok" or len(c.get("mend", "")) > 10), c or checks)


def answer(status, body, date=None, api="1.41"):
    body = json.dumps(body).encode()
    return (f"HTTP/1.1 {status} X\r\nApi-Version: {api}\r\nContent-Type: application/json\r\n"
            f"Date: {formatdate(time.time() if date is None else date, usegmt=True)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def test_well():
    checks, healthy = doctor()
    check("C.doctor", "a deployment that is well", healthy and all(c["status"] == "ok" for c in checks.values()), checks)
    check("C.doctor", "its policy is named by its digest, as this release's", re.search(r"this release's, sha256:[0-9a-f]{64}$", checks["policy"]["text"]), checks["policy"])
    equal("C.doctor", "is asked about", sorted(checks),
          sorted(["exposure", "endpoint", "api", "clock", "policy", "image", "runner", "egress image", "network", "runtime", "reach"]))


def test_configured():
    found("a policy that is not there", doctor("unix://" + os.environ["DOCKER_HOST"].removeprefix("unix://"))[0], "policy", "fail", "no policy")
    found("an image that is not there", doctor(extra=["--image", "nope.invalid/x:none"])[0], "image", "warn", "nope.invalid/x:none")
    found("an egress image that is not there", doctor(extra=["--egress-proxy-image", "nope.invalid/x:none"])[0], "egress image", "warn")
    found("a network that is not there yet", doctor(extra=["--network", f"cap-none{os.getpid()}"])[0], "network", "ok", "not there yet")
    found("open egress", doctor(extra=["--allow-open-egress"])[0], "open egress", "warn")
    checks, healthy = doctor("unix:///nowhere/docker.sock")
    found("no proxy", checks, "endpoint", "fail", "/nowhere/docker.sock")
    equal("C.doctor", "then nothing else is claimed", (sorted(checks), healthy), (["endpoint", "exposure"], False))
    equal("C.doctor", "and the exit status says so", verb("doctor", "--endpoint", "unix:///nowhere/docker.sock")[0], 1)


def test_answers():
    scratch = tempfile.mkdtemp()
    cases = [
        ("an engine's clock that is ahead", "GET", "/version$", answer(200, {"Version": "x"}, time.time() + 60), "clock", "warn", "ahead"),
        ("an engine's clock that is far behind", "GET", "/version$", answer(200, {"Version": "x"}, time.time() - 4000), "clock", "fail", "behind"),
        ("a network without isolation", "GET", "/networks/", answer(200, {"Options": {}}), "network", "fail", "reach each other"),
        ("a runtime that is not registered", "POST", "/containers/create", answer(400, {"message": "unknown or invalid runtime name: runsc"}),
         "runtime", "fail", "runsc"),
        ("an image without the runner", "GET", "/images/.*small", answer(200, {"Config": {"Labels": {}}}), "runner", "fail", "no command can run"),
        ("an image with another runner", "GET", "/images/.*small",
         answer(200, {"Config": {"Labels": {"dev.capybara.sandbox.runner": "999"}}}), "runner", "fail"),
        ("a version that lies", "GET", "/version$", answer(200, {"Version": "\x1b[2J"}), "endpoint", "ok"),
    ]
    with Faulty(PROXY.removeprefix("unix://"), scratch + "/f.sock") as f:
        for name, method, pattern, canned, check_name, status, *words in cases:
            f.arm(method, pattern, "answer", answer=canned)
            found(name, doctor("unix://" + f.path, runtime="runsc" if "runtime" in name else "runc")[0], check_name, status, *words)
            f.disarm()
        f.arm("HEAD", "/_ping", "answer", answer=answer(200, "", api="1.30").split(b"\r\n\r\n")[0] + b"\r\n\r\n")
        found("an engine that is too old", doctor("unix://" + f.path)[0], "endpoint", "fail", "1.30")
        f.disarm()
        refusal = answer(403, {"message": "m"}).replace(b"Api-Version", b"X-Dockerproxy-Policy: sha256:12\x1b\r\nX-Dockerproxy-Reason")
        f.arm("GET", "/info", "answer", answer=refusal)
        found("a policy other than this release's is named", doctor("unix://" + f.path)[0], "policy", "ok", "sha256:12?, not this")
        f.disarm()
        f.arm("GET", "/info", "answer", answer=answer(403, {"message": "m"}).replace(b"Api-Version", b"X-Dockerproxy-Reason"))
        found("a policy that is not named", doctor("unix://" + f.path)[0], "policy", "warn", "does not say which")
        f.disarm()
        # Somebody sits at a terminal.
        f.arm("GET", "/version$", "answer", answer=answer(200, {"Version": "\x1b[2Jx"}))
        p = subprocess.run([CONTROLLER, "doctor", *options(endpoint="unix://" + f.path)], capture_output=True, timeout=120)
        check("C.doctor", "an engine's words do not reach the terminal as escapes", b"\x1b" not in p.stdout + p.stderr, p.stdout)
        f.disarm()
    os.rmdir(scratch)


RELAY = """
import socket, sys, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 0)); s.listen(64); print(s.getsockname()[1], flush=True)
def copy(a, b):
    try:
        while d := a.recv(65536): b.sendall(d)
        b.shutdown(1)
    except OSError: pass
while True:
    c, _ = s.accept()
    u = socket.socket(socket.AF_UNIX); u.connect(sys.argv[1])
    for x, y in ((c, u), (u, c)): threading.Thread(target=copy, args=(x, y), daemon=True).start()
"""


def test_reach():
    """A proxy that listens on the host's addresses: found from inside a sandbox."""
    relay = subprocess.Popen([ENGINE, "exec", ENGINE_DIR, sys.executable, "-c", RELAY, PROXY.removeprefix("unix://")],
                             stdout=subprocess.PIPE, text=True)
    try:
        endpoint = f"tcp://127.0.0.1:{int(relay.stdout.readline())}"
        found("no sandbox to ask", doctor(endpoint, inside=True)[0], "reach", "warn", "no sandbox runs")
        with client() as c:
            c.call("create", name=N, limits={"egress": "none", "memoryMb": 128})
        found("a sandbox without network", doctor(endpoint, inside=True)[0], "reach", "ok", N)
        with client(extra=["--allow-open-egress"]) as c:
            c.call("create", name=N, limits={"egress": "open", "memoryMb": 128})
        checks, healthy = doctor(endpoint, inside=True)
        found("a proxy within a sandbox's reach", checks, "reach", "fail", N, "commands the engine")
        equal("C.doctor", "is not well", healthy, False)
        found("an endpoint that is not local", doctor(endpoint.replace("127.0.0.1", "[::ffff:127.0.0.1]"), inside=True)[0], "exposure", "warn")
    finally:
        relay.kill()
        relay.wait()
        with client() as c:
            c.call("destroy", id=N)
    equal("A.lifecycle.7", "nothing is left", leftovers(N), [])


run(test_well, test_configured, test_answers, test_reach)
done()
