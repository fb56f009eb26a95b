#!/usr/bin/env python3
"""The engine is killed and started again under sandboxes and commands, in both modes.

Arguments choose some: 26-controller-restart.t runc/engine runsc/runner
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403
from faulty import Faulty  # noqa: E402

N = f"cap-rs{os.getpid()}"


def engine(verb):
    subprocess.run([ENGINE, verb, ENGINE_DIR], check=True, capture_output=True, timeout=120)


def test_restart():
    with client() as c:
        c.call("create", name=N, limits={"egress": "allowlist", "memoryMb": 128})
        c.call("exec", id=N, command="echo keep >/workspace/f")
        i = c.start("exec", id=N, command="echo up; sleep 300; echo late >/workspace/late", stream=True)
        c.wait_note(lambda m: m["params"].get("requestId") == i)
        engine("kill")
        answer = c.answer(i)
        lost = answer.get("error", {}).get("data", {}).get("execId")
        equal("B.8", "a command whose engine is killed: unknown", answer.get("error", {}).get("data", {}).get("kind"),
              "unknownOutcome")
        equal("A.lifecycle.4", "no engine: unavailable, not gone",
              kind_of(lambda: c.call("stat", id=N, path="/workspace/f")), "unavailable")
        engine("start")
        wait_for(lambda: kind_of(lambda: c.call("list")) is None, 60)
        equal("B.8", "reconcile tells what is left", [s["state"] for s in c.call("reconcile", id=N)["sandboxes"]], ["suspended"])
        told = c.call("reconcile", id=N, outcomes=True, commands=[lost])["sandboxes"][0].get("commands")
        equal("B.8", "and settles the command: it ended with the engine, by nobody knows what",
              [(t["execId"], t["state"], t["exitCode"]) for t in told], [(lost, "lost", None)])
        r = c.call("exec", id=N, command="cat /workspace/f; ls /workspace/late")
        equal("A.lifecycle.4", "after the restart it is started again, with its files", (r["stdout"], r["exitCode"]), ("keep\n", 2))
        equal("A.lifecycle.4", "and its proxy", inspect(N + "-egress")["State"]["Status"], "running")
        c.call("destroy", id=N)
        equal("A.lifecycle.7", "nothing is left", leftovers(N), [])


def test_replaced():
    """Where this engine is of another release than the machine's own, that one takes its place under a running controller."""
    if not os.path.exists(os.path.join(ENGINE_DIR, "tree")):
        skip("C.13", "an engine of another release in its place", "there is one release here; make check-engines has more")
        return
    scratch = tempfile.mkdtemp()
    other = os.path.join(scratch, "engine")
    run_engine = lambda verb: subprocess.run([ENGINE, verb, other], check=True, capture_output=True, timeout=120)  # noqa: E731
    run_engine("start")
    socket = os.path.join(other, "run", "docker.sock")
    version = lambda s: docker("-H", "unix://" + s, "version", "--format", "{{.Server.APIVersion}}")  # noqa: E731
    limits = {"egress": "allowlist", "memoryMb": 128}
    try:
        save = subprocess.Popen(["docker", "save", IMAGE, EGRESS_IMAGE], stdout=subprocess.PIPE)
        subprocess.run(["docker", "-H", "unix://" + socket, "load"], stdin=save.stdout, check=True, capture_output=True)
        check("C.13", "two engines, of two releases", version(socket) != version(os.environ["DOCKER_HOST"].removeprefix("unix://")))
        with Faulty(PROXY.removeprefix("unix://"), scratch + "/f.sock") as f:
            with client(endpoint="unix://" + f.path) as c:
                c.call("create", name=N, limits=limits)
                f.upstream = socket
                f.cut()
                equal("C.13", "an engine of another release in its place: it has no sandbox", kind_of(lambda: c.call("inspect", id=N)), "gone")
                c.call("create", name=N, limits=limits)
                equal("C.13", "a sandbox is made there", c.call("exec", id=N, command="echo there")["stdout"], "there\n")
                c.call("suspend", id=N)
                equal("C.13", "and resumed", c.call("resume", id=N)["state"], "running")
                c.call("destroy", id=N)
                f.upstream = PROXY.removeprefix("unix://")
                f.cut()
                equal("C.13", "the first one again: its sandbox is there", c.call("exec", id=N, command="echo here")["stdout"], "here\n")
                c.call("destroy", id=N)
    finally:
        run_engine("remove")
    os.rmdir(scratch)
    equal("A.lifecycle.7", "nothing is left", leftovers(N), [])


run_in(["runc/engine", "runc/runner"], test_restart)
run(test_replaced)
done()
