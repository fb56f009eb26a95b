#!/usr/bin/env python3
"""Lifecycle, names and isolation of sandboxes, on a real engine through dockerproxy.

Arguments choose some runtimes and modes, SUITE=whole all of them: 20-controller-lifecycle.t runc/engine runsc/runner
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-lc{os.getpid()}"
NONE = {"egress": "none", "memoryMb": 256, "maxCommandSeconds": 60}


def test_create():
    with client() as c:
        r = c.call("create", name=N, limits={"memoryMb": 256, "cpu": 0.5, "diskMb": 40, "allowHosts": ["a.example"]},
                   labels={"dev.capybara.run": "x"})
        equal("A.lifecycle.1", "create answers with the name as handle", (r["id"], r["state"]), (N, "running"))
        check("A.config.3", "diskMb without a volume driver is said not to be a limit", "workspace" in r.get("note", ""), r)
        i = inspect(N)
        h = i["HostConfig"]
        equal("A.names.1", "labels", {k: i["Config"]["Labels"].get(k) for k in (
            "dev.capybara.sandbox", "dev.capybara.sandbox.name", "dev.capybara.sandbox.allow-hosts", "dev.capybara.run")},
            {"dev.capybara.sandbox": "1", "dev.capybara.sandbox.name": N, "dev.capybara.sandbox.allow-hosts": "a.example",
             "dev.capybara.run": "x"})
        equal("A.names.1", "its parts", sorted(leftovers(N)), [f"container {N}", f"container {N}-egress", f"network {N}-net",
              f"volume {N}-skills", f"volume {N}-workspace"])
        equal("A.isolation.2", "no capability, no new privileges, read-only root, init, private IPC",
              (h["CapDrop"], h["SecurityOpt"], h["ReadonlyRootfs"], h["Init"], h["IpcMode"], h["Privileged"]),
              (["ALL"], ["no-new-privileges"], True, True, "private", False))
        # gVisor's own threads count among the pids: there a limit inside bounds what the sandbox starts.
        pids, ulimits = (4096, [{"Name": "nproc", "Hard": 1024, "Soft": 1024}]) if runtime_now() == "runsc" else (1024, None)
        equal("A.isolation.2", "limits", (h["Memory"], h["MemorySwap"], h["NanoCpus"], h["PidsLimit"], h["Ulimits"] or None),
              (256 << 20, 256 << 20, 500000000, pids, ulimits))
        equal("A.isolation.4", "runtime", h["Runtime"], runtime_now())
        equal("A.isolation.3", "/tmp: at most the disk, executable, nosuid, nodev", h["Tmpfs"],
              {"/tmp": f"rw,exec,nosuid,nodev,size={40 << 20}"})
        e = inspect(N + "-egress")["HostConfig"]
        equal("A.isolation.2", "the egress proxy is hardened, with limits of its own",
              (e["CapDrop"], e["SecurityOpt"], e["ReadonlyRootfs"], e["Memory"], e["PidsLimit"], e["RestartPolicy"]["Name"]),
              (["ALL"], ["no-new-privileges"], True, 64 << 20, 64, "no"))
        # What is in it goes when another one is made under the name.
        c.call("writeFile", id=N, path="/workspace/old", data="x")
        old = inspect(N)["Id"]
        c.call("create", name=N, limits=NONE)
        check("A.lifecycle.1", "create removes an old instance first", inspect(N)["Id"] != old)
        equal("A.lifecycle.1", "and what it held", c.call("stat", id=N, path="/workspace/old")["exists"], False)
        equal("A.lifecycle.1", "and the proxy and network that the new one does not have", len(leftovers(N)), 3)
        equal("A.egress.1", "none is no network", inspect(N)["HostConfig"]["NetworkMode"], "none")
        c.call("destroy", id=N)
        equal("A.lifecycle.7", "destroy leaves nothing", leftovers(N), [])
        equal("A.lifecycle.7", "destroy of what is not there succeeds", c.call("destroy", id=N)["state"], "gone")
        equal("A.lifecycle.7", "destroyByName likewise", c.call("destroyByName", name=N)["state"], "gone")


def test_isolation():
    with client() as c:
        c.call("create", name=N, limits=NONE)
        x = lambda line, **k: c.call("exec", id=N, command=line, **k)  # noqa: E731
        equal("A.isolation.1", "commands run as 1000:1000 in /workspace", x("id -u; id -g; pwd; echo $HOME")["stdout"],
              "1000\n1000\n/workspace\n/workspace\n")
        # It ends its own runner, too: then how it ended is not known.
        check("B.8", "a command that kills everything ends, or is told as unknown",
              kind_of(lambda: x("kill 1; kill -9 1; kill -9 -1")) in (None, "unknownOutcome"))
        equal("A.isolation.1", "what a command kills does not stop the sandbox", x("echo alive")["stdout"], "alive\n")
        equal("A.isolation.2", "root in the sandbox has no capability",
              x("grep -h CapEff /proc/self/status", user="root")["stdout"].split()[-1], "0000000000000000")
        r = x("touch /x; touch /skills/x; ls /opt/capybara; echo hi >/tmp/y && echo '#!/bin/sh\necho ran' >/tmp/z && "
              "chmod +x /tmp/z && /tmp/z")
        # gVisor looks at the directory's permissions first.
        refused = "Permission denied" if runtime_now() == "runsc" else "Read-only"
        check("A.isolation.2", "the root is read-only", f"/x': {refused}" in r["stderr"], r)
        check("A.isolation.3", "/skills is read-only", f"/skills/x': {refused}" in r["stderr"], r)
        check("A.isolation.3", "/opt/capybara is root's alone", any(f"'/opt/capybara': {why}" in r["stderr"] for why in (
            "Permission denied", *(["Invalid argument"] if runtime_now() == "runsc" else []))), r)
        check("A.isolation.3", "/tmp can be run from", r["stdout"] == "ran\n", r)
        # By prctl(PR_GET_NO_NEW_PRIVS): gVisor's /proc does not tell.
        number = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
        equal("A.isolation.2", "no new privileges", x(f"perl -e 'print syscall({number}, 39, 0, 0, 0, 0)'")["stdout"], "1")
        c.call("destroy", id=N)


def test_suspend_resume():
    with client() as c:
        c.call("create", name=N, limits={**NONE, "egress": "allowlist", "allowHosts": ["a.example"]})
        c.call("exec", id=N, command="echo keep >/workspace/f; echo lose >/tmp/g")
        for i in range(2):
            equal("A.lifecycle.2", "suspend", c.call("suspend", id=N)["state"], "suspended")
            equal("A.lifecycle.2", "stops sandbox and proxy", (inspect(N)["State"]["Status"],
                  inspect(N + "-egress")["State"]["Status"]), ("exited", "exited"))
            equal("A.lifecycle.2", "suspend again", c.call("suspend", id=N)["state"], "suspended")
            equal("A.lifecycle.3", "resume", c.call("resume", id=N)["state"], "running")
            r = c.call("exec", id=N, command="cat /workspace/f; ls /tmp")
            equal("A.lifecycle.2", f"files stay, /tmp ends, round {i}", r["stdout"], "keep\n")
            equal("A.lifecycle.3", "the proxy runs", inspect(N + "-egress")["State"]["Status"], "running")
        docker("pause", N)
        equal("A.lifecycle.3", "list says paused",
              [s["state"] for s in c.call("list")["sandboxes"] if s["name"] == N], ["paused"])
        c.call("resume", id=N)
        equal("A.lifecycle.3", "resume unpauses", inspect(N)["State"]["Status"], "running")
        docker("rm", "-f", N + "-egress")
        c.call("resume", id=N)
        equal("A.lifecycle.3", "resume of a running one makes a missing proxy anew",
              inspect(N + "-egress")["Config"]["Env"][1], "ALLOW_HOSTS=a.example")
        c.call("suspend", id=N)
        docker("rm", "-f", N + "-egress")
        docker("network", "rm", N + "-net")
        c.call("resume", id=N)
        equal("A.lifecycle.3", "resume makes a removed network and proxy anew", len(leftovers(N)), 5)
        r = c.call("exec", id=N, command=f"getent hosts {N}-egress; cat /workspace/f")
        check("A.lifecycle.3", "and the sandbox is on it", r["stdout"].endswith("keep\n") and r["exitCode"] == 0 and
              f"{N}-egress" in r["stdout"], r)
        docker("rm", "-f", N)
        for method in ("resume", "suspend", "stat", "exec", "killAll", "inspect"):
            more = {"stat": {"path": "/"}, "exec": {"command": "x"}}.get(method, {})
            equal("A.lifecycle.3", f"{method} of a container that is gone", kind_of(lambda: c.call(method, id=N, **more)),
                  "gone")
        c.call("destroy", id=N)
        equal("A.lifecycle.7", "destroy removes what is left of it", leftovers(N), [])


def test_auto_start():
    with client() as c:
        c.call("create", name=N, limits=NONE)
        calls = {
            "exec": lambda: c.call("exec", id=N, command="echo up")["stdout"] == "up\n",
            "writeFile": lambda: c.call("writeFile", id=N, path="/workspace/a", data="1")["size"] == 1,
            "readFile": lambda: c.call("readFile", id=N, path="/workspace/a")["data"] == "1",
            "stat": lambda: c.call("stat", id=N, path="/workspace/a")["size"] == 1,
            "killAll": lambda: "killed" in c.call("killAll", id=N),
        }
        for name, call in calls.items():
            docker("stop", "-t", "0", N)
            check("A.lifecycle.4", f"{name} starts a stopped sandbox", call())
            docker("pause", N)
            check("A.lifecycle.4", f"{name} unpauses a paused one", call())
        docker("stop", "-t", "0", N)
        ids = [c.start("exec", id=N, command=f"echo {i}") for i in range(6)]
        equal("A.lifecycle.6", "six at once start it once", [c.wait(i)["stdout"] for i in ids], [f"{i}\n" for i in range(6)])
        c.call("destroy", id=N)


def test_two_controllers():
    with client() as a, client() as b:
        a.call("create", name=N, limits={**NONE, "egress": "allowlist"})
        equal("A.tests.1", "another controller works on it by its name alone",
              b.call("exec", id=N, command="echo b", timeoutMs=5000)["stdout"], "b\n")
        a.call("suspend", id=N)
        docker("rm", "-f", N + "-egress")
        both = [(c, c.start("resume", id=N)) for c in (a, b)]
        equal("A.lifecycle.6", "resumed by two at once", [c.wait(i)["state"] for c, i in both], ["running", "running"])
        running = a.start("exec", id=N, command="sleep 60", tag="one")
        wait_for(lambda: "sleep 60" in processes(N))
        equal("A.lifecycle.5", "one kills the other's commands", b.call("killTagged", id=N, tags=["one"])["killed"], 1)
        equal("A.lifecycle.5", "which learns it", (a.wait(running)["signal"]), "SIGKILL")
        both = [(c, c.start("destroy", id=N)) for c in (a, b)]
        equal("A.lifecycle.7", "destroyed by two at once", [c.wait(i)["state"] for c, i in both], ["gone", "gone"])
        equal("A.lifecycle.7", "nothing is left", leftovers(N), [])


def test_reconcile():
    with client() as c:
        docker("volume", "create", "--label", "dev.capybara.sandbox=1", "--label", f"dev.capybara.sandbox.name={N}",
               f"{N}-workspace")
        action = lambda **k: [s["action"] for s in c.call("reconcile", id=N, **k)["sandboxes"]]  # noqa: E731
        equal("C.8", "young parts are left alone", action(), ["wait"])
        equal("C.8", "dryRun only says", action(dryRun=True, minAgeSeconds=0), ["remove"])
        equal("C.8", "parts without a sandbox are removed", action(minAgeSeconds=0), ["remove"])
        equal("C.8", "and are gone", leftovers(N), [])
        c.call("create", name=N, limits={**NONE, "egress": "allowlist"})
        equal("C.8", "a whole one is left alone", action(minAgeSeconds=0), ["none"])
        docker("rm", "-f", N + "-egress")
        equal("C.8", "one that lacks its proxy is mended", action(minAgeSeconds=0), ["repair"])
        equal("C.8", "and is whole", action(minAgeSeconds=0), ["none"])
        c.call("destroy", id=N)


def test_open():
    with client() as c:
        try:
            c.call("create", name=N, limits={"egress": "open"})
            check("A.egress.1", "open is refused", False)
        except RpcError as e:
            check("A.egress.1", "open is refused and names the key", e.kind == "denied" and
                  'extensionConfig."sandbox-docker".allowOpenEgress' in str(e), e)
        equal("A.egress.1", "and nothing was made", leftovers(N), [])
    with client(extra=["--allow-open-egress"]) as c:
        c.call("create", name=N, limits={**NONE, "egress": "open"})
        i = inspect(N)
        equal("A.egress.1", "open is the shared network", list(i["NetworkSettings"]["Networks"]), ["capybara-sandbox"])
        options = json.loads(docker("network", "inspect", "capybara-sandbox"))[0]["Options"]
        equal("A.config.4", "which keeps its containers apart", options.get("com.docker.network.bridge.enable_icc"), "false")
        c.call("destroy", id=N)


def test_deployment():
    """The deployment's configuration, given as a kernel gives it, and what a sandbox keeps of its creation."""
    good = {"endpoint": PROXY, "image": IMAGE, "egressProxyImage": EGRESS_IMAGE, "runtime": runtime_now(), "execMode": "engine"}

    def deployed(section, *words):
        env = {**os.environ, "CAPYBARA_EXTENSION_CONFIG": json.dumps({"sandbox-docker": section})}
        return subprocess.run([CONTROLLER, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    r = deployed({**good, "colour": "red"}, "ls")
    check("A.config.1", "an unknown key is an error that names it", r.returncode == 2 and '"colour"' in r.stderr, r)
    r = deployed({k: v for k, v in good.items() if k != "endpoint"}, "ls")
    check("A.config.1", "without an endpoint nothing works", r.returncode == 2 and "endpoint" in r.stderr, r)
    r = deployed(good, "create", N, "--egress", "none", "--memory", "128", "--max-command-seconds", "2")
    equal("A.config.2", "the environment configures it", (r.returncode, inspect(N)["HostConfig"]["Runtime"]), (0, runtime_now()))
    equal("A.config.7", "what create says of egress is what holds", inspect(N)["HostConfig"]["NetworkMode"], "none")
    with client() as c:
        r = c.call("exec", id=N, command="sleep 60", timeoutMs=60000)
        equal("A.config.6", "maxCommandSeconds bounds each command's own limit", (r["timedOut"], r["durationMs"] < 60000),
              (True, True))
        c.call("suspend", id=N)
        c.call("resume", id=N)
        equal("A.lifecycle.10", "limits stay those of creation", inspect(N)["HostConfig"]["Memory"], 128 << 20)
        c.call("create", name=N, limits=NONE)
        equal("A.lifecycle.10", "and another creation has its own", inspect(N)["HostConfig"]["Memory"], NONE["memoryMb"] << 20)
        c.call("destroy", id=N)


def test_command_line():
    equal("C.12", "create", verb("create", N, "--egress", "none", "--memory", "128")[0], 0)
    equal("C.12", "exec passes output, input and exit code",
          verb("exec", N, "--", "sh", "-c", "cat; echo err >&2; exit 7", stdin=b"in\0\xff"), (7, b"in\0\xff", b"err\n"))
    equal("C.12", "a signal is 128 and its number", verb("exec", N, "-c", "kill -9 $$")[0], 137)
    equal("C.12", "write and read", (verb("write", N, "/workspace/a", stdin=b"\0\1\2")[0], verb("read", N, "/workspace/a")[1]),
          (0, b"\0\1\2"))
    equal("C.12", "a fault of ours is 255", verb("exec", N + "x", "--", "true")[0], 255)
    equal("C.12", "gone is 3", verb("stat", N + "x", "/")[0], 3)
    equal("C.12", "usage is 2", verb("stat", N)[0], 2)
    equal("C.12", "failed is 1", verb("read", N, "/nope")[0], 1)
    equal("C.12", "--json prints the result", json.loads(verb("exec", "--json", N, "--", "echo", "x")[1])["stdout"], "x\n")
    equal("C.12", "doctor finds nothing", verb("doctor")[0], 0)
    equal("C.12", "destroy", verb("destroy", N)[0], 0)


run_in(["runc/engine"], test_create, test_isolation, test_suspend_resume, test_two_controllers)
run_in(["runc/engine", "runc/runner"], test_auto_start)
run(test_reconcile, test_open, test_deployment, test_command_line)
done()
