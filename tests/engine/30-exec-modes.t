#!/usr/bin/env python3
# How commands and files fail, and what is then said of them: by the runner and by engine execs, under each runtime.
# Proves: A.exec, A.Lifecycle.4 5 6 8 9, A.Isolation.1, C.12 C.12a; each case names the way of failing that it is about.
#
#   tests/engine/run tests/engine/30-exec-modes.t
#
# The runner, under runc and where there is runsc under that; with SUITE=whole the engine mode too; PAIRS="runc/engine" picks.
import base64
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Controller, Failure  # noqa: E402

count = failed = 0
where = ""


def result(good, name, detail=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {where}: {name}", flush=True)
    if not good:
        print("# " + str(detail).replace("\n", "\n# "), flush=True)


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {where}: {name} # SKIP {why}", flush=True)


def failure(f):
    try:
        return None, f()
    except Failure as e:
        return e, None


class Sandbox:
    def __init__(self, runtime, mode, **limits):
        self.runtime, self.mode = runtime, mode
        self.args = ["--endpoint", os.environ["PROXY"], "--image", os.environ["IMAGE"], "--runtime", runtime,
                     "--exec-mode", mode]
        self.name = f"cap-t{os.getpid()}-{runtime}-{mode}-{len(limits)}"
        self.c = Controller(*self.args)
        self.c.call("create", name=self.name, limits={"egress": "none", "cpu": 1, "memoryMb": 512, **limits})

    def send(self, command, **more):
        return self.c.send("exec", id=self.name, command=command, **more)

    def run(self, command, **more):
        return self.send(command, **more).wait()

    def sleepers(self, seconds):
        return int(self.run(f"pgrep -cfx '(/bin/)?sleep {seconds}'")["stdout"])

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def write(self, path, data, **more):
        return self.c.call("writeFile", id=self.name, path=path, data=data, **more)

    def close(self):
        self.c.call("destroy", id=self.name)
        self.c.close()


# Children that ignore signals, change session, change it twice and lose their parents.
def tree(seconds):
    return (f"trap '' TERM HUP INT; sleep {seconds} & setsid sh -c 'setsid sleep {seconds} & sleep {seconds} & wait' & "
            f"(setsid sh -c 'setsid -f sleep {seconds}' &); ")


def ends(s):
    r = s.run("echo out; echo err >&2; exit 5")
    result((r["exitCode"], r["signal"], r["stdout"], r["stderr"]) == (5, None, "out\n", "err\n"), "exit code and streams", r)
    r = s.run("exit 137")
    result(r["exitCode"] == 137 and not r["timedOut"] and not r["aborted"] and not r["oomKilled"], "exit 137 is an exit", r)
    r = s.run("kill -KILL $$")
    result((r["signal"] == "SIGKILL" or s.mode == "engine" and r["exitCode"] == 137) and not r["timedOut"] and
           not r["aborted"] and not r["oomKilled"], "its own SIGKILL is none of ours", r)
    r = s.run("echo part; exec sleep 1000", timeoutMs=6000)  # time enough for a busy machine to come to the echo
    result(r["timedOut"] and r["stdout"] == "part\n" and not r["oomKilled"], "a limit of time is told, output is kept", r)
    r = s.run("echo OCI runtime exec failed; exit 126")
    result(r["exitCode"] == 126 and r["stdout"] == "OCI runtime exec failed\n", "what a command prints is no failed start", r)
    e, r = failure(lambda: s.c.call("exec", id=s.name, argv=["/no/such/program"]))
    result(e is not None or r["exitCode"] == 127, "a program that is not there", r)
    e, r = failure(lambda: s.run("true", cwd="/no/such/directory"))
    result(e is not None or r["exitCode"] not in (0, None), "a directory that is not there", r)


def streams(s):
    first = s.send("sleep 3000 & echo hi")
    others = [s.send(f"echo {i}") for i in range(4)]
    outs = [o.wait()["stdout"] for o in others]
    result(first.wait()["stdout"] == "hi\n" and outs == [f"{i}\n" for i in range(4)],
           "a background child that holds stdout ends its command and stalls no other", outs)
    result(s.sleepers(3000) == 1, "and lives on")
    r = s.run("cat; printf '\\377\\0'", stdin=base64.b64encode(b"\x00\xfe").decode(), stdinEncoding="base64")
    result(r["encoding"] == "base64" and base64.b64decode(r["stdout"]) == b"\x00\xfe\xff\x00", "binary in and out", r)
    r = s.run("read x; echo got:$x")
    result(r["stdout"] == "got:\n", "no stdin is an empty stdin", r)
    r = s.run("yes é | head -c 3000001; echo end >&2", maxOutputBytes=1001)
    result(len(r["stdout"].encode()) in (1000, 1001) and r["stdoutTruncated"] and not r["stderrTruncated"] and
           r["stderr"] == "end\n", "output is cut at a whole character", r["stderr"])
    r = s.run("head -c 8000000 /dev/zero | tr '\\0' x", maxOutputBytes=10000000)
    result(len(r["stdout"]) == 8000000, "8 MB of output", len(r["stdout"]))


def kills(s):
    c = s.send(tree(3100) + "wait", timeoutMs=3000)
    r = c.wait()
    result(r["timedOut"] and s.sleepers(3100) == 0, "a limit of time leaves no process of the tree", r)
    red = s.send(tree(3200) + "echo r; wait", tag="red")
    blue = s.send(tree(3201) + "echo r; wait", tag="blue")
    result(s.until(lambda: s.sleepers(3200) == 4 and s.sleepers(3201) == 4), "two trees run")
    k = s.c.call("killTagged", id=s.name, tags=["red"])
    r = red.wait()
    result(k["killed"] >= 1 and s.sleepers(3200) == 0 and s.sleepers(3201) == 4 and not blue.done(),
           "killTagged kills one tree and no other", k)
    result(r["exitCode"] in (None, 137) and not r["timedOut"], "and its command says so", r)
    k = s.c.call("killAll", id=s.name)
    blue.wait()
    result(s.sleepers(3201) == 0 and s.sleepers(3000) == 0, "killAll leaves none", k)
    p = s.send("sleep 3300")
    s.until(lambda: s.sleepers(3300) == 1)
    s.c.notify("$/cancelRequest", id=p.id)
    e, r = failure(p.wait)
    result((r or {}).get("aborted") or e.kind == "aborted", "a cancelled request", (e, r))
    result(s.sleepers(3300) == 0, "leaves no process")
    if s.mode == "runner":
        s.run("env -i /usr/bin/setsid -f /usr/bin/setsid -f /bin/sleep 3400; sleep 1000", timeoutMs=1500)
        if s.runtime == "runc":
            result(s.sleepers(3400) == 0, "also what has shed its environment, its session and its parent")
        s.c.call("killAll", id=s.name)
        result(s.sleepers(3400) == 0, "killAll reaches what has shed everything")
    # The runner is the sandbox user's process too: it goes, and the outcome with it.
    e, r = failure(lambda: s.run("kill -9 -1; kill 1; true"))
    result(e is None or e.kind == "unknownOutcome", "kill -9 -1 by a command is never success by guess", (e, r))
    result(s.run("echo still")["stdout"] == "still\n", "kill -9 -1 and kill 1 do not stop the sandbox")


def files(s):
    big = base64.b64encode(os.urandom(700000)).decode()
    s.write("/workspace/a/b", big, encoding="base64", makeParents=True, mode=0o640)
    r = s.c.call("readFile", id=s.name, path="/workspace/a/b", encoding="base64")
    result(r["data"] == big and r["size"] == 700000 and not r["truncated"], "a file there and back")
    r = s.c.call("stat", id=s.name, path="/workspace/a/b")
    result(r["type"] == "file" and r["size"] == 700000 and r["uid"] == 1000 and r["mode"] == 0o640, "stat", r)
    s.write("/workspace/a/b", "short")
    s.write("/workspace/a/b", "+more", append=True)
    r = s.c.call("readFile", id=s.name, path="/workspace/a/b", offset=2, limit=5)
    result(r["data"] == "ort+m" and r["truncated"], "overwrite, append, offset and limit", r)
    s.run("cd /workspace; mkfifo fifo; ln -s nowhere dangling; touch \"$(printf 'n\\nl')\" \"$(printf '\\377')\"")
    e, r = failure(lambda: s.c.call("readFile", id=s.name, path="/workspace/fifo"))
    result(e is not None, "a fifo is refused and does not hang", r)
    e, r = failure(lambda: s.c.call("readFile", id=s.name, path="/dev/zero"))
    result(e is not None, "an endless device is refused", r)
    e, r = failure(lambda: s.c.call("readFile", id=s.name, path="/workspace"))
    result(e is not None, "a directory is no file", r)
    e, r = failure(lambda: s.write("/etc/capybara", "x"))
    result(e is not None and e.kind == "denied", "writes are the sandbox user's", (e and e.kind, r))
    r = s.c.call("stat", id=s.name, path="/workspace/dangling")
    result(r["type"] == "symlink" and r["target"] == "nowhere", "stat does not follow unasked", r)
    r = s.c.call("stat", id=s.name, path="/workspace/missing")
    result(r["exists"] is False, "stat of nothing", r)
    p = base64.b64encode(b"/workspace/\xff").decode()
    r = s.c.call("stat", id=s.name, pathBase64=p)
    result(r["exists"] and r["type"] == "file", "a name that is not UTF-8", r)
    r = s.c.call("listFiles", id=s.name, path="/workspace")
    names = [e.get("name", "") for e in r["entries"]]
    result(len(names) - (".capybara-outcomes" in names) == 5, "a list of awkward names", r)
    s.c.call("removeFile", id=s.name, pathBase64=p)
    result(s.c.call("stat", id=s.name, pathBase64=p)["exists"] is False, "removed")


def exhausted(s):
    """No process can be started any more, and everything is killed all the same."""
    if s.runtime == "runsc":
        skip("processes exhausted", "the sandbox's own process limit bounds the guest")
        return
    if s.mode == "engine":
        skip("processes exhausted", "no kill can start there: the restart that helps is 21-controller-exec's case")
        return
    bomb = s.send("f() { f | f & }; exec 2>/dev/null; f; sleep 3500", tag="bomb", timeoutMs=120000)

    def full():
        e, r = failure(lambda: s.run("true", timeoutMs=5000))
        return e is not None or r["exitCode"] != 0
    result(s.until(full), "a fork bomb reaches the limit")
    k = s.c.call("killTagged", id=s.name, tags=["bomb"])
    failure(bomb.wait)
    e, r = failure(lambda: s.run("echo free"))
    result(r is not None and r["stdout"] == "free\n", "it is killed and the sandbox serves again", (k, e))
    result(not k.get("sandboxRestarted") and not k.get("survivors"), "without a restart", k)


def crashes(s):
    if s.mode == "runner":
        p = s.send("echo before; sleep 3600", stream=True)
        s.until(lambda: s.c.output.get(p.id))
        s.run("setsid sh -c 'sleep 0.3; pgrep -x sandbox-runner | xargs kill -9' >/dev/null 2>&1 &")
        e, r = failure(p.wait)
        result(e is not None and e.kind == "unknownOutcome", "a killed runner: unknown, never success", (e and e.kind, r))
        result(s.run("echo again")["stdout"] == "again\n", "the next command gets another one")
        k = s.c.call("killAll", id=s.name)
        result(s.sleepers(3600) == 0, "which kills what the first one left", k)
    p = s.send("sleep 3700")
    s.until(lambda: s.sleepers(3700) == 1)
    subprocess.run(["docker", "kill", s.name], check=True, stdout=subprocess.DEVNULL)
    e, r = failure(p.wait)
    result(e is not None and e.kind in ("unknownOutcome", "gone"), "a sandbox that is killed: unknown", (e and e.kind, r))
    result(s.run("echo up")["stdout"] == "up\n", "the next command starts it again")
    subprocess.run(["docker", "pause", s.name], check=True, stdout=subprocess.DEVNULL)
    p = s.send("echo thawed")
    result(p.wait()["stdout"] == "thawed\n", "a paused sandbox is recovered")
    # The controller dies; the command's own limit holds, and nothing is left.
    other = Controller(*s.args)
    other.send("exec", id=s.name, command=tree(3800) + "wait", timeoutMs=4000)
    s.until(lambda: s.sleepers(3800) == 4)
    other.kill()
    result(s.until(lambda: s.sleepers(3800) == 0), "a controller that is killed leaves a command that its limit ends")


def memory(runtime, mode):
    s = Sandbox(runtime, mode, memoryMb=96)
    try:
        e, r = failure(lambda: s.run("tail /dev/zero", timeoutMs=60000))
        if runtime == "runc":
            result(r is not None and r["oomKilled"] and not r["timedOut"], "killed for lack of memory", (e, r))
        else:
            result(e is not None or r["exitCode"] != 0, "lack of memory is no success", (e, r))
        result(s.run("echo alive")["stdout"] == "alive\n", "and the next command runs")
    finally:
        s.close()


def main():
    global where
    runtimes = ["runc", "runsc"] if os.environ.get("HAVE_RUNSC") == "yes" else ["runc"]
    modes = ["runner", "engine"] if os.environ.get("SUITE") == "whole" else ["runner"]
    default = " ".join(f"{runtime}/{mode}" for mode in modes for runtime in runtimes)
    for pair in os.environ.get("PAIRS", default).split():
        where = pair
        runtime, mode = pair.split("/")
        if runtime not in runtimes:
            skip("this pair", "this engine has no such runtime")
            continue
        s = Sandbox(runtime, mode)
        for part in (ends, streams, kills, files, exhausted, crashes):
            try:
                part(s)
            except (Failure, TimeoutError, KeyError, ValueError) as e:
                result(False, f"{part.__name__} goes through", f"{type(e).__name__}: {e} {getattr(e, 'data', '')}")
        s.close()
        memory(runtime, mode)
    print(f"1..{count}")
    sys.exit(1 if failed else 0)


main()
