#!/usr/bin/env python3
"""The engine is killed and started again under sandboxes and commands."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

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


run(test_restart)
done()
