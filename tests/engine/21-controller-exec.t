#!/usr/bin/env python3
"""Commands: how they end, their streams, and the ways in which that breaks. Both modes, both runtimes.

Arguments choose some: 21-controller-exec.t runc/engine runsc/runner
"""

import base64
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-ex{os.getpid()}"


class Suite:
    def __init__(self, runtime, mode):
        self.runtime, self.mode = runtime, mode
        self.where = f"{runtime}/{mode}"

    def x(self, line, **k):
        return self.c.call("exec", id=N, command=line, **k)

    def is_(self, points, name, got, want):
        return equal(points, f"[{self.where}] {name}", got, want)

    def yes(self, points, name, good, detail=""):
        return check(points, f"[{self.where}] {name}", good, detail)

    def run(self):
        with client(self.runtime, self.mode) as c:
            self.c = c
            try:
                c.call("create", name=N, limits={"egress": "none", "memoryMb": 256, "maxCommandSeconds": 120})
                for test in (self.ends, self.streams, self.input, self.environment, self.kills, self.background, self.limits,
                             self.terminal, self.many, self.stopped, self.silent, self.memory, self.pids):
                    try:
                        test()
                    except Exception as e:  # noqa: BLE001 - reported
                        self.yes(test.__name__, "runs to its end", False, repr(e))
            finally:
                c.call("destroy", id=N)
                self.is_("A.lifecycle.7", "nothing is left", leftovers(N), [])

    def ends(self):
        for line, want in (("exit 0", (0, None)), ("exit 7", (7, None)), ("exit 126", (126, None)), ("exit 137", (137, None)),
                           ("exit 255", (255, None)), ("kill -9 $$", (None, "SIGKILL")), ("kill -15 $$", (None, "SIGTERM")),
                           ("kill -13 $$", (None, "SIGPIPE")), ("kill -6 $$", (None, "SIGABRT"))):
            r = self.x(line)
            self.is_("A.lifecycle.8", f"{line}: exit code and signal", (r["exitCode"], r["signal"]), want)
            self.is_("A.lifecycle.8", f"{line}: nothing else is claimed", (r["timedOut"], r["aborted"], r["oomKilled"]),
                     (False, False, False))
        r = self.c.call("exec", id=N, argv=["printf", "%s|", "a b", "", "$HOME", "'\"", "é\n"])
        self.is_("C.12", "argv is passed as it is", r["stdout"], "a b||$HOME|'\"|é\n|")
        r = self.c.call("exec", id=N, argv=["/nope"])
        self.yes("A.lifecycle.8", "a program that is not there", r["exitCode"] in (126, 127), r)
        self.is_("A.lifecycle.8", "a directory that is not there",
                 kind_of(lambda: self.x("true", cwd="/nope")), "invalid")

    def streams(self):
        r = self.x("echo out; echo err >&2; printf '\\360\\237\\230\\200'")
        self.is_("C.12", "stdout and stderr", (r["stdout"], r["stderr"], r["encoding"]), ("out\n😀", "err\n", "utf8"))
        r = self.x("head -c 70000 /dev/zero | tr '\\0' '\\377'")
        self.is_("C.12", "binary output", (r["encoding"], base64.b64decode(r["stdout"])), ("base64", b"\xff" * 70000))
        for limit in (1000, 1001, 1002, 1003):
            r = self.x("for i in {1..600}; do printf €; done", maxOutputBytes=limit)
            self.is_("A.lifecycle.8", f"output cut at {limit} bytes is whole characters",
                     (r["stdout"] == "€" * (limit // 3), r["stdoutTruncated"], r["encoding"]), (True, True, "utf8"))
        n = 8 << 20
        i = self.c.start("exec", id=N, command=f"head -c {n} /dev/zero | tr '\\0' x; echo done >&2", stream=True)
        r = self.c.wait(i)
        out = self.c.output(i)
        self.is_("C.12", "streamed output is complete and in order",
                 (len(out["stdout"]), set(out["stdout"]), out["stderr"], r["exitCode"]), (n, {120}, b"done\n", 0))
        seqs = [m["params"]["seq"] for m in self.c.notes if m["params"].get("requestId") == i]
        self.is_("C.12", "numbered without a gap", seqs, list(range(len(seqs))))
        self.c.notes.clear()

    def input(self):
        self.is_("C.12", "no stdin without asking", self.x("cat; echo end")["stdout"], "end\n")
        self.is_("C.12", "stdin as text", self.x("cat", stdin="a\nb")["stdout"], "a\nb")
        data = bytes(range(256)) * 1000
        r = self.x("md5sum", stdin=base64.b64encode(data).decode(), stdinEncoding="base64")
        import hashlib
        self.is_("C.12", "stdin as base64", r["stdout"].split()[0], hashlib.md5(data).hexdigest())
        i = self.c.start("exec", id=N, command="while read x; do echo got $x; done; echo end", stream=True)
        self.c.call("execInput", requestId=i, data="one\n")
        self.c.wait_note(lambda m: m["params"].get("data") == "got one\n")
        self.c.call("execInput", requestId=i, data=base64.b64encode(b"two\n").decode(), encoding="base64", close=True)
        self.c.wait(i)
        self.is_("C.12", "streamed input and its end", self.c.output(i)["stdout"], b"got one\ngot two\nend\n")
        self.is_("C.12", "input to what does not run", kind_of(lambda: self.c.call("execInput", requestId=i, data="x")), "invalid")
        self.is_("C.12", "more input than is read ends with the command",
                 self.x("head -c 3", stdin="x" * 1000000)["stdout"], "xxx")

    def environment(self):
        r = self.x("echo $A; pwd; echo $PATH", env={"A": "x y=z\n", "B_": ""}, cwd="/tmp")
        self.yes("C.12", "environment and directory of one command", r["stdout"].startswith("x y=z\n/tmp\n/") or
                 r["stdout"].startswith("x y=z /tmp") or "x y=z" in r["stdout"] and "/tmp" in r["stdout"], r)
        line = "a='" + "é" * 60000 + "'; echo ${#a}"
        self.is_("C.12", "a line of 120 kB", self.x(line)["stdout"], "60000\n")
        r = self.c.call("exec", id=N, argv=["sh", "-c", "echo $# ${#A_0} ${#A_39}", "x", *["\n\x01" * 5000] * 40],
                        env={f"A_{i}": "v" * 5000 for i in range(40)})
        self.is_("C.12", "600 kB of arguments and environment", r["stdout"], "40 5000 5000\n")
        self.is_("C.12", "stdin behind such a line", self.x(line + "; cat", stdin="in")["stdout"], "60000\nin")
        self.is_("C.12", "an argument longer than Linux takes", kind_of(lambda: self.x(": " + "a" * 131072)), "limit")
        self.is_("C.12", "more than 1 MiB of them", kind_of(lambda: self.c.call(
            "exec", id=N, argv=["true", *["a" * 100000] * 11])), "limit")
        self.is_("C.12", "are not the next one's", self.x("echo ${A-none} $PWD")["stdout"], "none /workspace\n")

    def sleepers(self, number):
        return sum(re.fullmatch(f"(/bin/)?sleep {number} ?", line) is not None for line in processes(N).splitlines())

    def gone(self, mark):
        return wait_for(lambda: mark not in processes(N), 10)

    def kills(self):
        tree = "trap '' TERM INT HUP; sleep 501 & setsid sleep 502 & (setsid bash -c '(setsid sleep 503 &)' &) ; sleep 504; echo no"
        began = time.monotonic()
        r = self.x(tree, timeoutMs=1500)
        self.is_("A.lifecycle.8", "time-out", (r["timedOut"], r["aborted"], r["signal"], r["exitCode"]),
                 (True, False, "SIGKILL", None))
        self.yes("A.lifecycle.8", "soon after its time", time.monotonic() - began < 30)
        self.yes("A.lifecycle.8", "ends the whole tree, daemons too", self.gone("sleep 50"), processes(N))
        i = self.c.start("exec", id=N, command=f"echo up; {tree}", stream=True)
        self.c.wait_note(lambda m: m["params"].get("requestId") == i)
        self.c.notify("$/cancelRequest", id=i)
        r = self.c.wait(i)
        self.is_("A.lifecycle.8", "abort", (r["aborted"], r["timedOut"], r["signal"]), (True, False, "SIGKILL"))
        self.yes("A.lifecycle.8", "ends the whole tree, daemons too", self.gone("sleep 50"), processes(N))
        tags = {t: self.c.start("exec", id=N, command=f"echo up; sleep 60{n}", tag=t, stream=True)
                for n, t in enumerate(("a", "a-b", "c"))}
        for i in tags.values():
            self.c.wait_note(lambda m, i=i: m["params"].get("requestId") == i)
        self.is_("A.lifecycle.6", "killTagged of one tag", self.c.call("killTagged", id=N, tags=["a"])["killed"], 1)
        r = self.c.wait(tags["a"])
        self.is_("A.lifecycle.6", "is told as an abort", (r["signal"], r["aborted"]), ("SIGKILL", True))
        self.yes("A.lifecycle.6", "the others run on", "sleep 601" in processes(N) and "sleep 602" in processes(N))
        self.is_("A.lifecycle.5", "killAll", self.c.call("killAll", id=N)["killed"], 2)
        for t in ("a-b", "c"):
            self.is_("A.lifecycle.5", f"ended {t}", self.c.wait(tags[t])["signal"], "SIGKILL")
        root = self.c.start("exec", id=N, user="root", tag="r", command="trap '' TERM; setsid sleep 611 & (setsid setsid -f sleep 612); "
                            "env -i /usr/bin/setsid -f /bin/sleep 613; sleep 614")
        self.yes("A.lifecycle.5", "a tree of root's runs", wait_for(lambda: self.sleepers("61.") == 4, 20), processes(N))
        self.is_("A.lifecycle.6", "killTagged reaches root's", self.c.call("killTagged", id=N, tags=["r"])["killed"], 1)
        self.is_("A.lifecycle.6", "and its command says so", self.c.wait(root)["signal"], "SIGKILL")
        self.yes("A.lifecycle.6", "the whole tree, with what has shed session, parent and environment",
                 self.gone("sleep 61") or self.runtime == "runsc", processes(N))
        self.x("env -i /usr/bin/setsid -f /usr/bin/setsid -f /bin/sleep 621")
        self.c.call("killAll", id=N)
        self.yes("A.lifecycle.5", "killAll reaches what has shed everything", self.gone("sleep 621") or
                 self.where == "runsc/engine", processes(N))
        self.x("echo '1 x/y 819000' >/tmp/.capybara-exec-x-y")
        self.c.call("killAll", id=N)
        self.is_("A.isolation.1", "a forged control file does not have the sandbox's own processes killed",
                 inspect(N)["State"]["Status"], "running")
        started = inspect(N)["State"]["StartedAt"]
        self.x("ln -s /proc/1/stat /tmp/.capybara-exec-l-l")
        self.c.call("killAll", id=N)
        self.is_("A.isolation.1", "nor does one that leads to a file of root's",
                 (inspect(N)["State"]["Status"], inspect(N)["State"]["StartedAt"]), ("running", started))
        self.x("rm /tmp/.capybara-exec-*; cp /bin/sleep /tmp/sandbox-runner; cd /tmp; ./sandbox-runner 631 & "
               "setsid -f env -i /tmp/sandbox-runner 632; (exec -a /usr/libexec/sandbox-runner sleep 633) &")
        self.yes("A.lifecycle.5", "processes with the runner's name run", wait_for(lambda: all(
            f"sandbox-runner {n}" in processes(N) for n in (631, 632, 633))), processes(N))
        self.c.call("killAll", id=N)
        self.yes("A.lifecycle.5", "what bears the runner's name is killed like any other", self.gone("sandbox-runner 63") or
                 self.where == "runsc/engine", processes(N))
        self.is_("A.lifecycle.5", "killAll of nothing", self.c.call("killAll", id=N)["killed"], 0)
        self.c.notes.clear()

    def background(self):
        r = self.x("sleep 701 & echo started")
        self.is_("C.12a", "a background child that holds stdout does not hold its command up",
                 (r["stdout"], r["exitCode"]), ("started\n", 0))
        self.yes("C.12a", "and lives on", "sleep 701" in processes(N))
        self.is_("C.12a", "others run beside it", self.x("echo other")["stdout"], "other\n")
        self.x("(while echo x; do sleep 0.01; done; echo ended >/tmp/writer) & echo y")
        self.yes("C.12a", "one that writes on is not killed by that",
                 not wait_for(lambda: self.c.call("stat", id=N, path="/tmp/writer")["exists"], 1))
        thief = "(timeout 60 cat <&3 >/dev/null) & "
        r = self.x(f"exec 3</proc/self/fd/1; {thief * 5} sleep 0.5; echo hello; exit 3", timeoutMs=12000)
        self.is_("C.12a", "children that read its output back: how it ended is told, and no other command ends for it",
                 (r["exitCode"], r.get("sandboxRestarted", False)), (3, False))
        self.c.call("killAll", id=N)
        self.yes("A.lifecycle.5", "killAll ends what finished commands left behind", self.gone("sleep 701"), processes(N))

    def limits(self):
        r = self.x("sleep 300", timeoutMs=1)
        self.is_("A.lifecycle.8", "the shortest time-out", r["timedOut"], True)
        self.is_("A.lifecycle.8", "time-out 0 is refused", kind_of(lambda: self.x("true", timeoutMs=0)), "invalid")
        self.is_("A.lifecycle.8", "a tag that is none is refused", kind_of(lambda: self.x("true", tag="a/b")), "invalid")

    def terminal(self):
        if self.runtime == "runsc":
            skip("C.12", f"[{self.where}] terminal", "not on every gVisor release")
            return
        i = self.c.start("exec", id=N, tty=True, stream=True, rows=30, cols=100,
                         command="tty; stty size; read x; for n in {1..50}; do [ \"$(stty size)\" = '41 83' ] && break; "
                                 "sleep 0.1; done; stty size; echo got $x")
        self.c.wait_note(lambda m: "30 100" in m["params"].get("data", "") and m["params"]["requestId"] == i)
        self.c.call("execResize", requestId=i, rows=41, cols=83)
        self.c.call("execInput", requestId=i, data="abc\n")
        r = self.c.wait(i)
        out = self.c.output(i)["stdout"].decode()
        self.yes("C.12", "a terminal with its size", r["exitCode"] == 0 and "/dev/pts/" in out and "41 83" in out and
                 "got abc" in out, out)
        self.c.notes.clear()
        r = self.x("for n in {1..50}; do [ \"$(stty size)\" = '24 80' ] && break; sleep 0.1; done; stty size", tty=True)
        self.is_("C.12", "a terminal of a size that nobody gave", r["stdout"], "24 80\r\n")

    def many(self):
        """Without the runner they wait for each other's start, which gVisor takes minutes for; each has a long limit of its own."""
        name = N + "-many"
        self.c.call("create", name=name, limits={"egress": "none", "memoryMb": 512, "maxCommandSeconds": 900})
        ids = [self.c.start("exec", id=name, command=f"echo {i}; exit {i % 100}") for i in range(100)]
        got = [self.c.wait(i, 900) for i in ids]
        self.is_("A.lifecycle.6", "100 at once", [(r["stdout"], r["exitCode"]) for r in got],
                 [(f"{i}\n", i % 100) for i in range(100)])
        self.c.call("destroy", id=name)

    def stopped(self):
        i = self.c.start("exec", id=N, command="echo up; sleep 400", stream=True)
        self.c.wait_note(lambda m: m["params"].get("requestId") == i)
        docker("kill", N)
        e = self.c.answer(i)
        self.is_("B.8", "a sandbox that dies under a command: unknown, not a made-up end",
                 e.get("error", {}).get("data", {}).get("kind"), "unknownOutcome")
        self.is_("A.lifecycle.4", "the next command starts it again", self.x("echo up")["stdout"], "up\n")
        self.c.notes.clear()

    def silent(self):
        """The sandbox user can stop the runner as well as kill it: what waits for an answer gets one all the same."""
        if self.mode == "engine":
            return
        i = self.c.start("exec", id=N, command="echo up; sleep 901", timeoutMs=4000, stream=True)
        self.c.wait_note(lambda m: m["params"].get("requestId") == i)
        docker("exec", "-u", "1000:1000", N, "pkill", "-STOP", "-x", "sandbox-runner")
        r = self.c.wait(i)
        self.is_("A.lifecycle.6", "a runner that is stopped: the command's time-out is told, and that the sandbox was restarted",
                 (r["timedOut"], r["exitCode"], r.get("sandboxRestarted")), (True, None, True))
        self.is_("A.lifecycle.6", "and the next command runs", self.x("echo up")["stdout"], "up\n")
        self.yes("A.lifecycle.8", "without a trace of the one before", self.gone("sleep 901"), "")
        docker("exec", "-u", "1000:1000", N, "pkill", "-STOP", "-x", "sandbox-runner")
        for method, more in (("stat", {}), ("writeFile", {"data": "x"})):
            i = self.c.start(method, id=N, path="/workspace/held", **more)
            self.c.notify("$/cancelRequest", id=i)
            e = self.c.answer(i, 60)
            self.is_("C.12", f"{method} that a stopped runner holds up ends when it is cancelled",
                     e.get("error", {}).get("data", {}).get("kind"), "aborted")
        docker("exec", "-u", "1000:1000", N, "pkill", "-CONT", "-x", "sandbox-runner")
        self.is_("A.lifecycle.6", "and the runner serves on", self.x("echo up")["stdout"], "up\n")
        self.c.notes.clear()

    def memory(self):
        if self.runtime == "runsc":
            skip("A.lifecycle.8", f"[{self.where}] out of memory", "gVisor's limit ends the whole sandbox")
            return
        r = self.x("head -c 400m /dev/zero | tail >/dev/null; exit ${PIPESTATUS[1]}")
        self.is_("A.lifecycle.8", "out of memory is told", (r["oomKilled"], r["timedOut"], r["aborted"]), (True, False, False))
        self.is_("A.lifecycle.8", "an exit of 137 is not", self.x("exit 137")["oomKilled"], False)

    def pids(self):
        if self.runtime == "runsc":
            skip("A.lifecycle.8", f"[{self.where}] pids exhausted", "the sentry ends with it")
            return
        i = self.c.start("exec", id=N, command="echo up; for i in {1..1100}; do sleep 801 & done 2>/dev/null; wait; sleep 801",
                         timeoutMs=20000, tag="bomb", stream=True)
        self.c.wait_note(lambda m: m["params"].get("requestId") == i)
        # By its cgroup: nothing starts inside any more, and docker top wants a ps beside the engine.
        pids = lambda: docker("stats", "--no-stream", "--format", "{{.PIDs}}", N)  # noqa: E731
        wait_for(lambda: inspect(N)["State"]["Pid"] == 0 or int(pids()) > 1000, 15)
        self.c.notify("$/cancelRequest", id=i)
        r = self.c.wait(i, 180)
        self.yes("A.lifecycle.8", "a command at the pids limit is ended", r["aborted"] or r["timedOut"], r)
        self.is_("A.lifecycle.8", "and the sandbox is usable", self.x("echo up")["stdout"], "up\n")
        self.yes("A.lifecycle.8", "without a trace of it", self.gone("sleep 801"), "")


# runsc takes several times as long: it is run when asked for.
for pair in pairs(["runc/engine", "runc/runner"]):
    Suite(*pair.split("/")).run()
done()
