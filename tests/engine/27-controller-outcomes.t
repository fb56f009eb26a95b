#!/usr/bin/env python3
"""Commands whose answer is lost are unknown first, and are settled by reconcile: in both modes.

Arguments choose some: 27-controller-outcomes.t runc/engine runsc/runner
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403
from faulty import Faulty  # noqa: E402

N = f"cap-oc{os.getpid()}"
WAIT = "echo up; until [ -e /workspace/go-%s ]; do sleep 0.1; done; %s"


class Suite:
    def __init__(self, pair):
        self.where = pair
        self.runtime, self.mode = pair.split("/")

    def is_(self, points, name, got, want):
        return equal(points, f"[{self.where}] {name}", got, want)

    def client(self, **more):
        return client(self.runtime, self.mode, **more)

    def told(self, c, **more):
        """What reconcile tells of commands, by their ids."""
        entry = c.call("reconcile", id=N, **more)["sandboxes"][0]
        return {t["execId"]: (t["state"], t["exitCode"], t["signal"]) for t in entry.get("commands", [])}

    def begin(self, c, mark, end):
        i = c.start("exec", id=N, command=WAIT % (mark, end), stream=True, tag=mark)
        c.wait_note(lambda m: m["params"].get("requestId") == i)
        return i

    def unknown(self, name, answer):
        data = answer.get("error", {}).get("data", {})
        self.is_("B.8", f"{name}: unknown first", (data.get("kind"), data.get("exitCode")), ("unknownOutcome", None))
        return data.get("execId")

    def settled(self, c, exec_id, mark, want, name):
        self.is_("B.8", f"{name}: it is told to run still", self.told(c).get(exec_id), ("running", None, None))
        c.call("writeFile", id=N, path=f"/workspace/go-{mark}", data="")
        wait_for(lambda: self.told(c).get(exec_id, ("running",))[0] != "running", 60)
        self.is_("B.8", f"{name}: and settled when it has ended", self.told(c).get(exec_id), want)

    def cut(self):
        scratch = tempfile.mkdtemp()
        with Faulty(PROXY.removeprefix("unix://"), scratch + "/f.sock") as f:
            with self.client(endpoint="unix://" + f.path) as c:
                for mark, end, want in (("code", "exit 7", ("exited", 7, None)),
                                        ("signal", "kill -TERM $$", ("signaled", None, "SIGTERM"))):
                    i = self.begin(c, mark, end)
                    f.cut()
                    self.settled(c, self.unknown(f"a stream that is cut, {mark}", c.answer(i)), mark, want, f"cut, {mark}")
        os.rmdir(scratch)

    def controller_killed(self):
        with self.client() as dead:
            self.begin(dead, "dead", "exit 9")
            dead.process.kill()
        with self.client() as c:
            entry = c.call("reconcile", id=N)["sandboxes"][0]["commands"]
            ids = [t["execId"] for t in entry if t.get("tag") == "dead"]
            self.is_("C.8", "another controller finds a dead one's command by its tag", len(ids), 1)
            self.settled(c, ids[0], "dead", ("exited", 9, None), "controller killed")

    def sandbox_killed(self):
        with self.client() as c:
            i = self.begin(c, "never", "exit 0")
            docker("kill", N)
            lost = self.unknown("a sandbox that is killed", c.answer(i))
            self.is_("B.8", "a sandbox that does not run is not started unasked", self.told(c), {})
            self.is_("B.8", "asked: what it cannot know is told as lost, never as an end",
                     self.told(c, outcomes=True, commands=[lost]), {lost: ("lost", None, None)})

    def runtime_crashed(self):
        """The sandbox's first process, under gVisor the sentry, dies as by a crash."""
        with self.client() as c:
            i = self.begin(c, "crash", "exit 0")
            engine = subprocess.run([ENGINE, "pid", ENGINE_DIR], capture_output=True, text=True, check=True).stdout.strip()
            subprocess.run(["nsenter", "--target", engine, "--pid", "kill", "-9", str(inspect(N)["State"]["Pid"])], check=True)
            lost = self.unknown("a runtime that crashes", c.answer(i))
            self.is_("A.lifecycle.4", "the next command starts it again", c.call("exec", id=N, command="echo up")["stdout"], "up\n")
            self.is_("B.8", "what ended with the crash is told as lost", self.told(c, commands=[lost]), {lost: ("lost", None, None)})

    def led_astray(self):
        """The outcomes lie in the sandbox user's directory: what root does there, it does where that user wants."""
        scratch = tempfile.mkdtemp()
        with Faulty(PROXY.removeprefix("unix://"), scratch + "/f.sock") as f:
            with self.client(endpoint="unix://" + f.path) as c:
                c.call("exec", id=N, command="cd /workspace; head -c 70000 /dev/zero >.capybara-outcomes; chmod 777 . .capybara-outcomes; "
                       "ln -sfT /opt/capybara/skills .capybara-outcomes.1")
                i = c.start("exec", id=N, command=WAIT % ("root", "true"), stream=True, user="root")
                c.wait_note(lambda m: m["params"].get("requestId") == i)
                f.cut()
                self.unknown("root's command, cut", c.answer(i))
                c.call("writeFile", id=N, path="/workspace/go-root", data="")
                wait_for(lambda: "capybara-exec" not in processes(N), 60)
                self.is_("A.isolation.3", "what the sandbox user lays out for root's outcome: nothing is moved to where it may not write",
                         c.call("listFiles", id=N, path="/skills")["entries"], [])
                c.call("exec", id=N, command="cd /workspace; chmod 755 .; rm -f .capybara-outcomes .capybara-outcomes.1")
        os.rmdir(scratch)

    def forged(self):
        with self.client() as c:
            lines = "1 a\x1b[2J t exited 0 no 1\n1 b t exited 0 no 1 x\n1 c t lost 0 no 1\nR ../d\n1 e _ exited 3 no 5\n" + "x" * 9000
            c.call("writeFile", id=N, path="/workspace/.capybara-outcomes", data=lines)
            told = self.told(c)
            self.is_("B.8", "of what the sandbox forges only what is well formed is told",
                     {k: v for k, v in told.items() if len(k) < 10}, {"e": ("exited", 3, None)})
            c.call("removeFile", id=N, path="/workspace/.capybara-outcomes")
            c.call("exec", id=N, command="mkfifo /workspace/.capybara-outcomes; ln -s /dev/zero /workspace/.capybara-outcomes.1")
            self.is_("B.8", "a fifo and an endless device in its place hold nobody up", self.told(c), {})
            c.call("exec", id=N, command="rm /workspace/.capybara-outcomes*")

    def run(self):
        with self.client() as c:
            c.call("create", name=N, limits={"egress": "none", "memoryMb": 256, "maxCommandSeconds": 120})
            try:
                for test in (self.cut, self.controller_killed, self.runtime_crashed, self.led_astray, self.forged, self.sandbox_killed):
                    try:
                        test()
                    except Exception as e:  # noqa: BLE001 - reported
                        check(test.__name__, f"[{self.where}] runs to its end", False, repr(e))
            finally:
                c.call("destroy", id=N)
                self.is_("A.lifecycle.7", "nothing is left", leftovers(N), [])


for pair in pairs(["runc/runner", "runc/engine"]):
    Suite(pair).run()
done()
