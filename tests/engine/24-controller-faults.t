#!/usr/bin/env python3
"""create failing at each of its requests leaves nothing; answers of proxies are not the engine's."""

import json
import os
import re
import socket
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403
from faulty import Faulty  # noqa: E402

N = f"cap-fi{os.getpid()}"
TIMEOUT = 12  # of one create: more than one takes on a busy machine
LIMITS = {"egress": "allowlist", "memoryMb": 128}

REQUESTS = [
    ("POST", r"/volumes/create"),
    ("POST", r"/networks/create"),
    ("POST", rf"/containers/create\?name={N}-egress$"),
    ("POST", r"/networks/capybara-sandbox/connect"),
    ("POST", rf"/containers/create\?name={N}$"),
    ("POST", rf"/containers/{N}-egress/start"),
    ("POST", rf"/containers/{N}/start"),
]


def test_create_faults():
    scratch = tempfile.mkdtemp()
    with Faulty(PROXY.removeprefix("unix://"), scratch + "/faulty.sock") as f:
        with client(endpoint="unix://" + f.path, extra=["--engine-timeout", str(TIMEOUT)]) as c:
            c.call("create", name=N, limits=LIMITS)
            c.call("destroy", id=N)
            modern = not any("/connect" in path for _, path in f.seen)
            for method, pattern in REQUESTS:
                if modern and "connect" in pattern:
                    skip("B.9", f"connect {pattern}", "both networks are in create from API 1.44 on")
                    continue
                for fault in ("refuse", "drop", "lose", "late"):
                    if fault == "late" and not pattern.startswith(("/volumes", "/networks/create", "/containers/create")):
                        continue  # what makes nothing can leave nothing
                    f.arm(method, pattern, fault, seconds=TIMEOUT + 1)
                    kind = kind_of(lambda: c.call("create", name=N, limits=LIMITS))
                    hits = f.hits
                    f.disarm()
                    name = f"{fault} {method} {pattern}"
                    check("A.lifecycle.1", f"{name}: create fails", kind in ("unavailable", "timeout") and hits == 1,
                          f"kind {kind}, hits {hits}")
                    check("B.9", f"{name}: nothing is left", wait_for(lambda: leftovers(N) == [], 5), leftovers(N))
            c.call("create", name=N, limits=LIMITS)
            equal("B.9", "the name can be used after all of it", c.call("exec", id=N, command="echo x")["stdout"], "x\n")
            f.arm("DELETE", rf"/containers/{N}\?force", "lose")
            c.call("destroy", id=N)
            equal("B.7", "a lost answer does not stop destroy", leftovers(N), [])
    os.rmdir(scratch)


def serve_once(path, answer):
    """An endpoint that answers the ping as an engine does and everything else with `answer`."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)

    def serve(conn):
        try:
            while data := conn.recv(65536):
                ping = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n"
                conn.sendall(ping if b" /_ping " in data else answer)
        except OSError:
            pass
        conn.close()

    def run():
        while True:
            try:
                conn, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return server


def test_proxy_answers():
    scratch = tempfile.mkdtemp()
    json_404 = b'{"message":"No such container: x"}'
    cases = {
        "a proxy's 404 page": b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found",
        "a proxy's 404 in JSON": b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                                 % (len(json_404), json_404),
        "a 502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "a 404 of the version header without JSON": b"HTTP/1.1 404 Not Found\r\nApi-Version: 1.41\r\nContent-Length: 3\r\n\r\nx y",
        "no HTTP": b"SSH-2.0-OpenSSH_9\r\n",
    }
    for i, (name, answer) in enumerate(cases.items()):
        path = f"{scratch}/{i}.sock"
        server = serve_once(path, answer)
        with client(endpoint="unix://" + path, extra=["--engine-timeout", "5"]) as c:
            for method, more in (("resume", {}), ("stat", {"path": "/"}), ("exec", {"command": "x"}), ("inspect", {})):
                kind = kind_of(lambda: c.call(method, id=N, **more))
                equal("C.1", f"{name} is not `gone`: {method}", kind, "unavailable")
        server.close()
        os.unlink(path)
    with client(endpoint=f"unix://{scratch}/none", extra=["--engine-timeout", "5"]) as c:
        equal("C.1", "no endpoint at all", kind_of(lambda: c.call("list")), "unavailable")
    genuine = b"HTTP/1.1 404 Not Found\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(json_404), json_404)
    server = serve_once(scratch + "/g.sock", genuine)
    with client(endpoint=f"unix://{scratch}/g.sock") as c:
        equal("C.1", "the engine's own 404 is", kind_of(lambda: c.call("inspect", id=N)), "gone")
    server.close()
    os.unlink(scratch + "/g.sock")
    os.rmdir(scratch)


class Replaced:
    """An endpoint that speaks one API version at a time, lists nothing, and refuses others as Docker does."""

    def __init__(self, path, minor):
        self.minor = minor
        self.minimum = 12
        self.asked = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(8)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def answer(self, line):
        status, body = "200 OK", b"[]"
        version = re.search(rb" /v1\.(\d+)/", line)
        if not version:
            body = b""
        else:
            asked = int(version.group(1))
            self.asked.append(asked)
            end = {True: f"new. Maximum supported API version is 1.{self.minor}",
                   False: f"old. Minimum supported API version is 1.{self.minimum}"}[asked > self.minor]
            if not self.minimum <= asked <= self.minor:
                status = "400 Bad Request"
                body = json.dumps({"message": f"client version 1.{asked} is too {end}"}).encode()
        return (f"HTTP/1.1 {status}\r\nApi-Version: 1.{self.minor}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def serve(self, conn):
        try:
            while data := conn.recv(65536):
                conn.sendall(self.answer(data.split(b"\r\n", 1)[0]))
        except OSError:
            pass
        conn.close()


def test_replaced_engine():
    scratch = tempfile.mkdtemp()
    path = scratch + "/engine.sock"
    engine = Replaced(path, 51)
    with client(endpoint="unix://" + path, extra=["--engine-timeout", "5"]) as c:
        c.call("list")
        equal("C.1", "the newest version of both is spoken", set(engine.asked), {51})
        for name, minor, minimum, wanted in (("an older release", 41, 12, 41), ("a newer one that has dropped the version", 54, 44, 51),
                                             ("an older one again", 45, 24, 45)):
            engine.minor, engine.minimum, engine.asked = minor, minimum, []
            equal("C.1", f"{name} in the engine's place: the call is answered", kind_of(lambda: c.call("list")), None)
            equal("C.1", f"{name} in the engine's place: asked once more, under its version", engine.asked[-1], wanted)
            engine.asked = []
            c.call("list")
            equal("C.1", f"{name} in the engine's place: and what follows at once so", set(engine.asked), {wanted})
        engine.minor, engine.asked = 40, []
        equal("C.1", "one that is too old for us is told, not asked again and again",
              (kind_of(lambda: c.call("list")), len(engine.asked) < 6), ("invalid", True))
    engine.server.close()
    os.unlink(path)
    os.rmdir(scratch)


run(test_proxy_answers, test_replaced_engine, test_create_faults)
done()
