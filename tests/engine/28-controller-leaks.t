#!/usr/bin/env python3
"""Many sandboxes made and removed, several at once and over one another, leave nothing: objects, processes, descriptors.

With SUITE=whole a hundred of them at a time; otherwise as many as show it.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-lk{os.getpid()}"
IDLE_RSS_KIB = 5 * 1024


def objects():
    """What there is in the engine, but for the shared network that the first sandbox makes."""
    return sorted(docker("ps", "-aq", "--no-trunc").split() + docker("volume", "ls", "-q").split() +
                  [n for n in docker("network", "ls", "--format", "{{.Name}}").split() if n != "capybara-sandbox"])


def shims():
    """Processes of this engine that hold a container."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        count += words[0].endswith(b"containerd-shim-runc-v2") and any(ENGINE_DIR.encode() in w for w in words)
    return count


def descriptors(c):
    return sorted(os.readlink(f"/proc/{c.process.pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{c.process.pid}/fd"))


def rss_anon_kib(c):
    with open(f"/proc/{c.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))


def sanitized():
    with open(CONTROLLER, "rb") as f:
        return b"__asan_init" in f.read()


def all_of(c, method, many, **params):
    """One request a name, all at once; the results, errors as their kind."""
    ids = [c.start(method, **{key: f(name) for key, f in params.items()}) for name in many]
    answers = [c.answer(i, 900) for i in ids]
    return [a["result"] if "result" in a else a["error"].get("data", {}).get("kind") for a in answers]


def limits(name):
    return {"memoryMb": 64, "egress": "allowlist" if name.endswith(("0", "5")) else "none"}


def test_cycles():
    """Made, used and removed; the next batch has the same names."""
    with client(mode="runner") as c:
        c.call("create", name=N, limits={"egress": "allowlist", "memoryMb": 64})  # makes the shared network
        c.call("destroy", id=N)
        before, shims_before, open_before = objects(), shims(), descriptors(c)
        many = [f"{N}-{i}" for i in range(10 if WHOLE else 3)]
        for turn in range(10 if WHOLE else 2):
            made = all_of(c, "create", many, name=str, limits=limits)
            ran = all_of(c, "exec", many, id=str, command=lambda _: "sleep 1000 & setsid sleep 1001 & echo up")
            gone = all_of(c, "destroy", many, id=str)
            equal("A.lifecycle.1", f"batch {turn}: made", [m["state"] if isinstance(m, dict) else m for m in made],
                  ["running"] * len(many))
            equal("C.12a", f"batch {turn}: run", [r["stdout"] if isinstance(r, dict) else r for r in ran], ["up\n"] * len(many))
            equal("A.lifecycle.7", f"batch {turn}: removed", [g["state"] if isinstance(g, dict) else g for g in gone],
                  ["gone"] * len(many))
        equal("B.9", "no container, network or volume is left", objects(), before)
        check("B.9", "no process that held one", wait_for(lambda: shims() == shims_before), f"{shims()} of {shims_before}")
        check("B.9", "no descriptor of the controller", wait_for(lambda: len(descriptors(c)) <= len(open_before)),
              f"{descriptors(c)}\n{open_before}")


def test_same_name():
    """Two controllers make and remove one name at once: whoever wins, one destroy leaves nothing."""
    before = objects()
    with client(mode="runner") as a, client(mode="runner") as b:
        for turn in range(5 if WHOLE else 2):
            ids = [(c, c.start("create", name=N, limits={"egress": "allowlist", "memoryMb": 64})) for c in (a, b)]
            answers = [c.answer(i, 300) for c, i in ids]
            kinds = [x["error"].get("data", {}).get("kind") for x in answers if "error" in x]
            check("A.lifecycle.6", f"turn {turn}: one name made twice at once is made, or told as a conflict",
                  all(k in ("conflict", "gone", "unavailable", "fenced") for k in kinds), answers)
            ids = [(c, c.start("destroy", id=N)) for c in (a, b, a, b)]
            answers = [c.answer(i, 300) for c, i in ids]
            if not all("result" in x for x in answers):  # one met another's removal half-way: it can be told, and repeated
                kinds = [x["error"].get("data", {}).get("kind") for x in answers if "error" in x]
                check("B.7", f"turn {turn}: a removal that met another one is told", all(k in ("conflict", "unavailable", "unknownOutcome")
                      for k in kinds), answers)
            equal("A.lifecycle.7", f"turn {turn}: a last removal", a.call("destroy", id=N)["state"], "gone")
            equal("B.7", f"turn {turn}: parallel removals leave nothing", leftovers(N), [])
    equal("B.9", "nothing at all is left", objects(), before)


def test_two_networks_of_one_name():
    """What two controllers can make an older engine hold; by name nothing can be done to either."""
    body = json.dumps({"Name": f"{N}-net", "Internal": True, "CheckDuplicate": False,
                       "Labels": {"dev.capybara.sandbox": "1", "dev.capybara.sandbox.name": N}})
    made = [subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket",
                            os.environ["DOCKER_HOST"].removeprefix("unix://"), "-H", "Content-Type: application/json",
                            "-d", body, "http://engine/networks/create"], capture_output=True, text=True).stdout
            for _ in range(2)]
    with client(mode="runner") as c:
        if made != ["201", "201"]:
            skip("B.7", "two networks of one name", f"this engine refuses the second ({made[1]})")
        else:
            equal("B.7", "two networks of one name: both are removed", (c.call("destroy", id=N)["state"], leftovers(N)),
                  ("gone", []))
        c.call("destroy", id=N)


def test_many_known():
    """The memory that idle sandboxes cost the controller."""
    n = 100 if WHOLE else 8
    many = [f"{N}-{i}" for i in range(n)]
    with client(mode="runner") as c:
        try:
            for at in range(0, n, 8):
                batch = many[at:at + 8]
                all_of(c, "create", batch, name=str, limits=lambda _: {"egress": "none", "memoryMb": 64})
                all_of(c, "exec", batch, id=str, command=lambda _: "true")
            states = [s["state"] for s in c.call("list")["sandboxes"] if s["name"] in many]
            equal("C.8", f"{n} sandboxes run", states, ["running"] * n)
            rss = rss_anon_kib(c)
            print(f"# RssAnon of the controller with {n} idle sandboxes: {rss} KiB")
            if sanitized():
                skip("C.12a", "memory of the controller", "a build with sanitizers has another")
            else:
                check("C.12a", f"the controller holds them in less than {IDLE_RSS_KIB} KiB", rss < IDLE_RSS_KIB, rss)
        finally:
            for at in range(0, n, 8):
                all_of(c, "destroy", many[at:at + 8], id=str)
    equal("B.9", "and all are removed", [x for x in objects() if N in x], [])


run(test_cycles, test_same_name, test_two_networks_of_one_name, test_many_known)
done()
