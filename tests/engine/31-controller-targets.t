#!/usr/bin/env python3
"""Pinned TCP targets: a relay of its own to each, under the host's name, and no other way to it."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-tt{os.getpid()}"
LIMITS = {"memoryMb": 128}
PORT = 8097

# What stands for the targets, on the engine's side; a port of its own, since suites may run beside each other.
SERVER = f"""
import socket
server = socket.create_server(("0.0.0.0", {PORT}))
print("ready", flush=True)
while True:
    c, peer = server.accept()
    c.sendall(b"hello")
    c.close()
"""


class Server:
    def __enter__(self):
        self.process = subprocess.Popen([ENGINE, "exec", ENGINE_DIR, "python3", "-u", "-c", SERVER], stdout=subprocess.PIPE)
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def reached(c, host, port):
    """What the sandbox reads from there; "" when it reaches nothing. bash resolves, as every program there does."""
    line = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/{port} && head -c 5 <&3' 2>/dev/null"
    return c.call("exec", id=N, command=line, timeoutMs=20000)["stdout"]


def test_targets():
    gateway = subprocess.run([ENGINE, "gateway", ENGINE_DIR], capture_output=True, text=True).stdout.strip() or "10.201.0.1"
    test = {"egressTestHosts": {"db.example": [gateway]}}
    targets = [f"db.example:{PORT}", f"443=db.example:{PORT}"]
    with Server(), client() as c:
        c.call("create", name=N, limits={**LIMITS, "tcpTargets": targets}, testOptions=test)
        check("B.4", "a pinned target is reached under its own name", wait_for(lambda: reached(c, "db.example", PORT) == "hello"),
              docker("logs", N + "-egress"))
        equal("B.4", "and at a port of the relay's own", reached(c, "db.example", 443), "hello")
        equal("B.4", "at no other port", reached(c, "db.example", PORT + 1), "")
        equal("B.4", "nor at its address", reached(c, gateway, PORT), "")
        equal("B.4", "inspect names them", c.call("inspect", id=N)["tcpTargets"],
              [f"{PORT}=db.example:{PORT}", f"443=db.example:{PORT}"])
        docker("rm", "-f", N + "-egress")
        c.call("suspend", id=N)
        c.call("resume", id=N)
        check("B.4", "a proxy that was lost is made anew with them", wait_for(lambda: reached(c, "db.example", PORT) == "hello"),
              docker("logs", N + "-egress"))
        c.call("destroy", id=N)


def test_refusals():
    with client() as c:
        for target, part in (("db.example:53/udp", "UDP"), ("db.example:1-9", "range"), ("10.0.0.1:5432", "IP address"),
                             ("*.db.example:1", "host name"), ("db.example:3128", "listens on port 3128")):
            try:
                c.call("create", name=N, limits={**LIMITS, "tcpTargets": [target]})
                check("B.4", f"{target} is refused", False)
            except RpcError as e:
                check("B.4", f"{target} is refused in words", e.kind == "invalid" and part in str(e), e)
        equal("B.4", "and nothing was made", leftovers(N), [])


run_in(["runc/engine"], test_targets)
run(test_refusals)
done()
